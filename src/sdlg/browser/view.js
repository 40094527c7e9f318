// A result (sdlg.result/3) as DOM. In: the parsed JSON. Out: elements. No network, no storage. Used by the page and by
// the self-contained file.

import { answer } from "./answer.js";
import { copyButton, faint, folded, make, table, visible } from "./elements.js";
import { meanings } from "./meanings.js";
import { decimal, grouped, secondsOf, words } from "./numbers.js";
import { alternatives } from "./tree.js";
import { verdict } from "./verdict.js";

/** Put the whole view of a result into an element. */
export function showResult(place, result) {
  const parts = [asked(result), answer(result), verdict(result), meanings(result), alternatives(result)];
  place.replaceChildren(...parts, ...notes(result), details(result));
  place.classList.add("view");
}

export const METHODS = {
  sdlg: "SDLG",
  multinomial: "multinomial sampling",
  arithmetic: "arithmetic sampling",
  steered: "diversity-steered sampling",
  beam: "beam search",
  diverse_beam: "diverse beam search",
};

function asked(result) {
  const by = [result.model, METHODS[result.method] ?? result.method, `seed ${result.seed}`].join(" · ");
  const header = make("header", { class: "asked" }, make("h2", { dir: "auto" }, visible(result.question)));
  const context = make("p", { class: "context", dir: "auto" }, visible(result.context ?? ""));
  if (result.context) header.append(folded("Context", context));
  header.append(faint(visible(by)));
  return header;
}

function notes(result) {
  if (!result.notes.length) return [];
  const rows = result.notes.map((note) => make("li", {}, visible(note)));
  return [make("ul", { class: "notes", "aria-label": "Notes" }, ...rows)];
}

function details(result) {
  const place = make("section", { class: "details" });
  const spent = `Cost: ${decimal(secondsOf(result.cost), 1)} s, ${grouped(result.cost.forward_tokens)} tokens`;
  place.append(folded("All estimates", estimates(result)), folded(spent, cost(result)));
  place.append(make("div", { class: "actions" }, copyButton("Copy as JSON", () => JSON.stringify(result, null, 2))));
  return place;
}

function estimates(result) {
  const rows = Object.entries(result.estimates).map(([name, one]) => {
    const options = Object.entries(one.options).map(([key, value]) => `${words(key)}: ${words(String(value))}`);
    const variant = options.length ? make("span", { class: "faint variant" }, options.join(", ")) : null;
    const title = make("th", { scope: "row" }, words(name), variant);
    const towards = one.higher_is_less_certain ? "higher is less certain" : "higher is more certain";
    const unit = make("td", { class: "faint" }, `${one.unit}; ${towards}`);
    return make("tr", {}, title, make("td", {}, decimal(one.value, 4)), unit);
  });
  return table("All estimates", ["Estimate", "Value", "Unit"], rows);
}

function cost(result) {
  const { seconds, ...counts } = result.cost;
  const rows = Object.entries(counts).map(([name, value]) => [words(name), grouped(value)]);
  rows.push(...Object.entries(seconds).map(([stage, value]) => [`time for ${words(stage)}`, `${decimal(value, 2)} s`]));
  const cells = rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)));
  return table("Cost", ["What", "How much"], cells);
}
