// What is asked: in the form, and in a link. A link holds the question and all its options.

import { make, visible } from "./elements.js";
import { wholeNumber } from "./numbers.js";
import { settings } from "./settings.js";
import { at } from "./status.js";

const NUMBERS = ["samples", "max_tokens", "seed"];

export function askedInForm() {
  const asked = { question: at("question").value.trim(), context: at("context").value.trim() };
  for (const name of ["method", "preset"]) asked[name] = at(name).value;
  for (const name of NUMBERS) asked[name] = Number(at(name).value);
  return asked;
}

export function fillForm(asked) {
  for (const [name, value] of Object.entries(asked)) {
    if (at(name).tagName === "SELECT" && ![...at(name).options].some((option) => option.value === value))
      at(name).append(make("option", { value }, value)); // the server says if it does not know it
    at(name).value = value;
  }
  if (asked.context) at("with-context").open = true;
}

/** The fragment that stands for a question and its options. */
export function linkOf({ question, context, ...options }, compared = false) {
  const fields = new URLSearchParams({ q: question });
  if (context) fields.set("context", context);
  for (const [name, value] of Object.entries(options)) fields.set(name, value);
  if (compared) fields.set("compare", "1");
  return `#${fields}`;
}

export function askedInLink(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const question = fields.get("q")?.trim();
  if (!question) return null;
  const asked = { question, context: fields.get("context") ?? "" };
  for (const name of ["method", "preset"]) asked[name] = fields.get(name) || settings.defaults[name];
  for (const name of NUMBERS) asked[name] = wholeNumber(fields.get(name), settings.defaults[name]);
  return { asked, compared: fields.has("compare") };
}

export function applySettings() {
  for (const [name, choices] of [["method", settings.methods], ["preset", settings.presets]])
    at(name).replaceChildren(...choices.map((choice) => make("option", { value: choice }, choice)));
  for (const [name, value] of Object.entries(settings.defaults)) if (at(name)) at(name).value = value;
  for (const name of ["samples", "max_tokens"]) if (settings.limits[name]) at(name).max = settings.limits[name];
  const about = [settings.model, `judged by ${settings.nli}`, ...(settings.calibrated ? ["calibrated"] : [])];
  if (settings.model) at("about").textContent = visible(about.join(" · "));
}
