// What is going on: a line of text, a clock and the buttons that go with them.

const PATIENCE = 15; // seconds without news before we say that it is slow

export const at = (id) => document.getElementById(id);
export const say = (text) => (at("status").textContent = text);

export function busy(is) {
  at("stop").hidden = !is;
  at("submit").textContent = is ? "Ask anew" : "Ask";
  at("result").setAttribute("aria-busy", is);
  if (is) at("compare").hidden = true;
  if (is) at("share").replaceChildren();
}

export function startClock() {
  const begun = performance.now();
  let last = begun;
  delete at("clock").dataset.count;
  const tick = () => {
    const now = performance.now();
    const count = at("clock").dataset.count;
    at("clock").textContent = `${Math.round((now - begun) / 1000)} s${count ? ` · ${count}` : ""}`;
    if (now - last < PATIENCE * 1000) return;
    say("Still waiting. The server may be busy with other questions.");
    last = now;
  };
  const timer = setInterval(tick, 1000);
  return { news: () => (last = performance.now()), stop: () => (clearInterval(timer), (at("clock").textContent = "")) };
}
