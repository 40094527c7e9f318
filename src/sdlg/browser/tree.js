// The other answers: branches along the answer's line, or a list where each was drawn on its own.

import { groupedByWord, tokenStarts } from "./candidates.js";
import { clipped, ending, faint, foldedText, make, SHARED, shareOf, short, SHOWN, visible } from "./elements.js";
import { badge } from "./meanings.js";
import { likelihoodOf, oneIn, percent } from "./numbers.js";

export function alternatives(result) {
  const branches = result.samples.filter((sample) => sample.substitution);
  const grown = branches.length > 0 || result.method === "sdlg";
  const section = make("section", {});
  section.append(make("h3", {}, grown ? "Alternatives" : "Sampled answers"));
  if (grown && !branches.length) section.append(faint("No other answer was explored."));
  else if (grown) section.append(faint(TREE), tree(result, branches));
  else section.append(faint("Each was drawn on its own; none branches off another."), samplesList(result));
  return section;
}

const TREE =
  "The answer runs down the line; where a word was exchanged, another answer branches off, " +
  "with the new word's probability there.";

/** The answer cut at each changed word; under each piece, the branches that leave it there. */
function tree(result, branches) {
  const characters = Array.from(result.answer.text);
  const starts = tokenStarts(result.answer);
  const words = result.answer.words;
  const byWord = groupedByWord(result.answer, branches, (sample) => sample.substitution.position);
  const stem = make("ol", { class: "tree", dir: "auto" }); // one direction, whatever a piece begins with
  let at = 0;
  for (const number of [...byWord.keys()].sort((first, second) => first - second)) {
    const word = words[number] ?? { start: characters.length, end: characters.length };
    const before = characters.slice(at, word.start).join("");
    const grown = byWord.get(number).sort((first, second) => importance(second) - importance(first));
    const rows = grown.map((sample) => branch(characters, starts, sample));
    stem.append(stemPiece(before, characters.slice(word.start, word.end).join(""), rows));
    at = word.end;
  }
  stem.append(stemEnd(characters.slice(at).join(""), result));
  return stem;
}

const importance = (sample) => sample.substitution.importance;

function stemPiece(before, word, branches) {
  const text = make("p", { class: "stem" }, visible(ending(before, 4 * SHARED)));
  text.append(make("strong", {}, word ? visible(word) : "(end)"));
  return make("li", {}, text, make("ul", { class: "branches" }, ...branches));
}

function stemEnd(rest, result) {
  const text = make("p", { class: "stem" }, visible(ending(rest, 4 * SHARED)));
  const { probability } = likelihoodOf(result.answer);
  const own = make("p", { class: "label" }, badge(result.samples[0].cluster), " the answer", shareOf(oneIn(probability)));
  return make("li", { class: "tip" }, ...(rest.trim() ? [text] : []), own);
}

function branch(characters, starts, sample) {
  const change = sample.substitution;
  const label = make("p", { class: "label" }, badge(sample.cluster), " ");
  const arrow = [make("span", { "aria-hidden": "true" }, " → "), make("span", { class: "unseen" }, " becomes ")];
  const original = change.original ? `‘${short(change.original)}’` : "(end)";
  const becomes = change.ends_answer ? "(the answer ends)" : `‘${short(change.replacement)}’`;
  label.append(make("span", { class: "change" }, make("bdi", {}, original), ...arrow, make("bdi", {}, becomes)));
  label.append(shareOf(percent(change.importance)));
  return make("li", {}, label, branchText(characters, starts, sample));
}

/** The branch's text: the beginning that it shares with the answer dimmed, the new word marked. */
function branchText(characters, starts, sample) {
  const own = Array.from(sample.text);
  const { position, ends_answer: ends } = sample.substitution;
  const start = Math.min(ends ? own.length : (starts[position] ?? characters.length), own.length);
  const space = own.slice(start).findIndex((character) => character.trim());
  const begin = start + Math.max(space, 0);
  const after = own.slice(begin).findIndex((character) => !character.trim());
  const end = ends ? begin : after < 0 ? own.length : begin + after;
  const shared = make("span", { class: "shared" }, visible(ending(own.slice(0, begin).join(""), SHARED)));
  const text = make("p", { class: "branch-text" }, shared);
  text.append(ends ? make("mark", {}, "(end)") : make("mark", {}, visible(own.slice(begin, end).join(""))));
  const rest = own.slice(end).join("");
  if (rest.length <= SHOWN) text.append(visible(rest));
  else text.append(...foldedText(rest));
  return text;
}

function samplesList(result) {
  const rows = result.samples.map((sample) => {
    const share = shareOf(oneIn(likelihoodOf(sample).probability));
    const label = make("p", { class: "label" }, badge(sample.cluster), share);
    return make("li", {}, label, clipped(sample.text, "p"));
  });
  return make("ul", { class: "branches flat" }, ...rows);
}
