// The answer, its words shaded by how likely the model turns to another meaning there, or, as a second layer, by how
// much of the meaning hangs on them. A word opens its candidates.

import { candidatesByWord, fillPanel } from "./candidates.js";
import { make, newId, visible } from "./elements.js";
import { counted, percent, wholePercent } from "./numbers.js";

const LONG = 2000; // characters of an answer that gets a scroll box

export function answer(result) {
  const title = drawn(result) ? "Answer, the first one drawn" : "Answer";
  const section = make("section", { class: "answer" }, make("h3", {}, title));
  if (!result.answer.text) {
    section.append(make("p", { class: "text empty" }, "(an empty answer)"));
    return section;
  }
  const candidates = candidatesByWord(result);
  const words = result.answer.words;
  const clickable = words.some((word) => word.attribution !== null) || candidates.size > 0;
  const text = make("p", { class: "text", dir: "auto" });
  if (result.answer.text.length > LONG) text.classList.add("long");
  section.append(text);
  if (!clickable) {
    text.textContent = visible(result.answer.text);
    return section;
  }
  const panel = make("div", { class: "panel", id: newId("panel"), role: "group", tabindex: -1, hidden: true });
  fillWords(text, result, candidates, panel);
  section.append(legend(result, text, candidates.size > 0), panel);
  return section;
}

const drawn = (result) => ["multinomial", "arithmetic"].includes(result.method);
const known = (value) => typeof value === "number";
const wavers = (result) => result.answer.words.some((word) => known(word.wavering));

function fillWords(text, result, candidates, panel) {
  const characters = Array.from(result.answer.text); // offsets count characters, not UTF-16 units
  const words = result.answer.words;
  const highest = Math.max(0, ...words.map((word) => word.attribution ?? 0));
  const buttons = [];
  let at = 0;
  for (const [number, word] of words.entries()) {
    text.append(visible(characters.slice(at, word.start).join("")));
    const share = highest > 0 ? (word.attribution ?? 0) / highest : 0;
    const button = wordButton(word, share, wavers(result), candidates.get(number)?.length ?? 0, panel.id);
    buttons.push(button);
    text.append(button);
    at = word.end;
  }
  text.append(visible(characters.slice(at).join("")));
  if (candidates.has(words.length)) {
    const end = make("button", { type: "button", class: "word end", tabindex: -1, "aria-expanded": "false" }, "end");
    buttons.push(end);
    text.append(" ", end);
  }
  if (buttons.length) watchWords(text, buttons, panel, result, candidates);
}

function wordButton(word, share, wavering, count, controls) {
  const ranked = count ? `, ${counted(count, "candidate")}` : "";
  const turns = known(word.wavering)
    ? `${percent(word.wavering)} to another meaning, ${percent(word.not_looked_at)} not looked at, `
    : "";
  const says = `${word.text}: ${turns}${wholePercent(share)} of the highest attribution${ranked}`;
  const state = { "aria-expanded": "false", "aria-controls": controls, tabindex: -1 };
  const button = make("button", { type: "button", class: "word", title: visible(says), ...state }, visible(word.text));
  button.style.setProperty("--attribution", share.toFixed(3));
  button.style.setProperty("--wavering", (word.wavering ?? 0).toFixed(3));
  button.style.setProperty("--unseen", (word.not_looked_at ?? 0).toFixed(3));
  if (!wavering) button.classList.add("by-attribution");
  if (count) button.classList.add("has-candidates");
  return button;
}

function watchWords(text, buttons, panel, result, candidates) {
  let current = 0;
  buttons[0].tabIndex = 0; // one stop for the Tab key; arrows move inside
  const focus = (number) => {
    buttons[current].tabIndex = -1;
    current = Math.min(Math.max(number, 0), buttons.length - 1);
    buttons[current].tabIndex = 0;
    buttons[current].focus();
  };
  const close = () => {
    panel.hidden = true;
    for (const button of text.querySelectorAll("[aria-expanded=true]")) button.setAttribute("aria-expanded", "false");
  };
  const open = (number) => {
    const again = buttons[number].getAttribute("aria-expanded") === "true";
    close();
    focus(number);
    if (again) return;
    buttons[number].setAttribute("aria-expanded", "true");
    fillPanel(panel, result, number, candidates.get(number) ?? [], () => (close(), focus(number)));
    panel.hidden = false;
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest" });
  };
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  text.addEventListener("click", (event) => {
    const number = buttons.indexOf(event.target.closest("button"));
    if (number >= 0) open(number);
  });
  text.addEventListener("keydown", (event) => {
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const mirrored = getComputedStyle(text).direction === "rtl" && /Left|Right/.test(event.key);
    focus(current + (mirrored ? -1 : 1) * steps[event.key]);
  });
  for (const place of [text, panel])
    place.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || panel.hidden) return;
      close();
      focus(current);
    });
}

const LAYERS = {
  wavering: " more likely another meaning from this word on; hatched: alternatives not looked at. ",
  attribution: " more of the meaning hangs on the word. ",
};

function legend(result, text, some) {
  const scale = make("span", { class: "scale", "aria-hidden": "true" });
  const how = some ? "Choose a word to see what could stand in its place." : "";
  const both = wavers(result) && result.answer.words.some((word) => known(word.attribution));
  const says = make("span", {}, LAYERS[wavers(result) ? "wavering" : "attribution"]);
  const line = make("p", { class: "faint legend" }, "less ", scale, says, how);
  if (both) line.append(" ", layerButton(text, says));
  return line;
}

/** Switches between the two layers of shades. */
function layerButton(text, says) {
  const button = make("button", { type: "button", class: "more layer", "aria-pressed": "false" }, "Shade by attribution");
  button.addEventListener("click", () => {
    const attribution = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(attribution));
    says.textContent = LAYERS[attribution ? "attribution" : "wavering"];
    for (const word of text.querySelectorAll(".word")) word.classList.toggle("by-attribution", attribution);
  });
  return button;
}
