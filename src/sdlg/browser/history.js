// What was asked before, kept in this browser.

import { make, visible } from "./elements.js";
import { linkOf } from "./form.js";
import { settings } from "./settings.js";
import { at } from "./status.js";

const HISTORY = "sdlg.history";
const ENTRIES = 50;
const CHARACTERS = 3_000_000; // browsers give about five million

export function stored(storage, name) {
  try {
    return storage.getItem(name);
  } catch {
    return null; // a browser that keeps nothing
  }
}

/** Whatever else may lie there under our name is passed over. */
const isEntry = (entry) =>
  typeof entry?.link === "string" && entry.link.startsWith("#") && typeof entry.question === "string"
  && Array.isArray(entry.result?.clusters) && Array.isArray(entry.result.samples);

function entries() {
  try {
    const list = JSON.parse(stored(localStorage, HISTORY) ?? "[]");
    return Array.isArray(list) ? list.filter(isEntry) : [];
  } catch {
    return [];
  }
}

/** Keep what fits; the oldest go first. */
export function keep(list) {
  const kept = list.slice(0, ENTRIES);
  for (;;) {
    const text = JSON.stringify(kept);
    try {
      if (text.length > CHARACTERS && kept.length) throw new RangeError("too much");
      localStorage.setItem(HISTORY, text);
      break;
    } catch {
      if (!kept.length) break;
      kept.pop();
    }
  }
  listHistory();
}

export function remember(asked, result) {
  const link = linkOf(asked);
  const entry = { link, question: asked.question, method: asked.method, when: Date.now(), result };
  if (JSON.stringify(entry).length > CHARACTERS) return;
  keep([entry, ...entries().filter((other) => other.link !== link)]);
}

/** Of the same models only: another server may stand at this address today. */
export const recall = (asked) => entries().find(({ link, result }) => link === linkOf(asked)
  && (!settings.model || (result.model === settings.model && result.nli === settings.nli)))?.result;

export function listHistory() {
  const list = entries();
  at("history").hidden = !list.length;
  at("history-list").replaceChildren(...list.map(historyRow));
}

function historyRow(entry) {
  const question = visible(entry.question.length > 140 ? `${entry.question.slice(0, 140)}…` : entry.question);
  const when = `${entry.method} · ${new Date(entry.when).toLocaleString()}`;
  const link = make("a", { href: entry.link, dir: "auto" }, question);
  const text = make("div", {}, link, make("span", { class: "faint" }, when));
  const button = make("button", { type: "button", class: "quiet", "aria-label": `Delete: ${question}` }, "Delete");
  button.addEventListener("click", () => {
    keep(entries().filter((other) => other.link !== entry.link));
    (at("history").hidden ? at("question") : at("forget")).focus();
  });
  return make("li", {}, text, button);
}
