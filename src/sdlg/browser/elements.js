// Elements and text that any part may use. No text ever becomes markup: everything goes through textContent.

import { grouped } from "./numbers.js";

export const SHARED = 90; // characters of a shared beginning that a branch repeats
export const SHOWN = 400; // characters of a branch before it is folded

/** An element with attributes and children; text stays text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Control and direction-changing characters made visible, one for one: offsets stay right. */
export function visible(text) {
  return text
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421")
    .replace(/[\u0080-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

let lastId = 0; // ids on one page must differ, also with two results side by side
export const newId = (name) => `${name}-${++lastId}`;

export const faint = (text) => make("p", { class: "faint" }, text);
export const shareOf = (text) => make("span", { class: "share" }, text);

export function folded(summary, ...children) {
  return make("details", {}, make("summary", {}, summary), ...children);
}

export function clipped(text, name) {
  const place = make(name, { class: "sentence", dir: "auto" });
  if (!text) place.append(make("em", {}, "(empty)"));
  else if (text.length <= SHOWN + SHARED) place.append(visible(text));
  else place.append(...foldedText(text));
  return place;
}

/** A long text's beginning, and a button that shows the rest. */
export function foldedText(text) {
  const characters = Array.from(text);
  const rest = make("span", { hidden: true }, visible(characters.slice(SHOWN).join("")));
  const label = `… ${grouped(characters.length - SHOWN)} more characters`;
  const button = make("button", { type: "button", class: "more" }, label);
  button.addEventListener("click", () => {
    rest.hidden = false;
    button.remove();
  });
  return [visible(characters.slice(0, SHOWN).join("")), rest, button];
}

/** A word, usually; a model may have very long ones. */
export function short(text) {
  const characters = Array.from(text);
  return visible(characters.length <= 60 ? text : `${characters.slice(0, 60).join("")}…`);
}

/** The end of a text, from a word's beginning. */
export function ending(text, length) {
  const characters = Array.from(text);
  if (characters.length <= length) return text;
  const last = characters.slice(-length).join("");
  return `… ${last.slice(last.indexOf(" ") + 1)}`;
}

/** A table that scrolls by itself on a narrow screen. */
export function table(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)));
  const title = make("caption", { class: "unseen" }, caption);
  const body = make("table", {}, title, make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": caption }, body);
}

/** A button that copies a text and says so. */
export function copyButton(label, textOf) {
  const button = make("button", { class: "quiet", type: "button" }, label);
  button.addEventListener("click", async () => {
    const done = await copyText(textOf());
    button.textContent = done ? "Copied" : "Copying is not allowed here";
    setTimeout(() => (button.textContent = label), 2000);
  });
  return button;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text; // where the clipboard is not given to scripts, the old way may be
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
