// What the server offers: something to begin with, and its own word for it once that is there.

export const settings = {
  methods: ["sdlg", "multinomial"],
  presets: ["default"],
  defaults: { method: "sdlg", preset: "default", samples: 10, max_tokens: 64, seed: 0 },
  limits: {},
};
