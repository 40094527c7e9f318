// What could stand in a word's place: a word's candidates, and the table of them.

import { faint, make, newId, short } from "./elements.js";
import { badge } from "./meanings.js";
import { decimal, percent } from "./numbers.js";

/** Word number → its candidates, tried ones included; the number after the last word stands for the end. */
export function candidatesByWord(result) {
  const tried = result.samples.filter((sample) => sample.substitution).map((sample) => sample.substitution);
  const all = new Map([...(result.candidates ?? []), ...tried].map((one) => [`${one.position} ${one.token_id}`, one]));
  const ranked = [...all.values()].sort((first, second) => first.rank - second.rank);
  return groupedByWord(result.answer, ranked, (candidate) => candidate.position);
}

/** Where each token's visible part begins, in characters. */
export function tokenStarts(sequence) {
  let at = 0;
  return sequence.tokens.map((token) => {
    const characters = Array.from(token);
    const blank = characters.findIndex((character) => character.trim());
    const start = at + Math.max(blank, 0);
    at += characters.length;
    return start;
  });
}

export function groupedByWord(answer, items, positionOf) {
  let word = 0;
  const wordOf = tokenStarts(answer).map((start) => {
    while (word < answer.words.length && start >= answer.words[word].end) word += 1;
    return word;
  });
  const groups = new Map();
  for (const item of items) {
    const number = wordOf[positionOf(item)] ?? answer.words.length;
    if (!groups.has(number)) groups.set(number, []);
    groups.get(number).push(item);
  }
  return groups;
}

export function fillPanel(panel, result, number, candidates, close) {
  const word = result.answer.words[number];
  const title = make("h4", { id: newId("word"), dir: "auto" }, word ? `‘${short(word.text)}’` : "The answer's end");
  const button = make("button", { type: "button", class: "quiet", "aria-label": "Close the candidates" }, "Close");
  button.addEventListener("click", close);
  panel.setAttribute("aria-labelledby", title.id);
  const isScored = word && word.attribution !== null;
  const hangs = isScored ? [faint(`attribution ${decimal(word.attribution, 3)}`)] : [];
  if (word && typeof word.wavering === "number") {
    const turns = `${percent(word.wavering)} to another meaning from here, ${percent(word.not_looked_at)} not looked at`;
    hangs.unshift(faint(turns));
  }
  const body = candidates.length
    ? [candidateTable(result, candidates, title.id), faint(`Ranked by ${rankingScores(result)}.`)]
    : [make("p", {}, "No likely candidate was ranked for this word.")];
  panel.replaceChildren(make("div", { class: "bar-of-title" }, title, button), ...hangs, ...body);
}

/** Those of the three scores that have a weight; of a one-word answer perhaps importance alone. */
function rankingScores(result) {
  const { scoring } = result.options;
  if (scoring.one_word === "importance" && result.answer.words.length === 1) return "importance";
  const used = ["attribution", "substitution", "importance"].filter((name) => scoring[`${name}_weight`] > 0);
  return used.join(", ").replace(/, (?=[^,]*$)/, " and ");
}

const CANDIDATE_COLUMNS = [
  ["Replacement", "what would stand there instead"],
  ["Probability", "of this very token"],
  ["Attribution", "how much of the meaning hangs on the original"],
  ["Substitution", "how far the replacement moves the meaning, −1 to 1"],
  ["Importance", "probability; with --merging same_word, that of other spellings, too"],
  ["Rank", "1 was tried first"],
  ["Tried", "whether a branch was grown from it"],
];

function candidateTable(result, candidates, title) {
  const heads = CANDIDATE_COLUMNS.map(([name, why]) => make("th", { scope: "col", title: why }, name));
  const rows = candidates.map((one) => {
    const sample = result.samples.find((other) => sameChange(other.substitution, one));
    const cells = [percent(Math.exp(one.logprob)), decimal(one.attribution, 3), decimal(one.substitution, 3)];
    cells.push(percent(one.importance), one.rank || "–");
    const tried = sample ? make("td", {}, badge(sample.cluster), " tried") : make("td", { class: "faint" }, "not tried");
    const name = make("th", { scope: "row", dir: "auto" }, replacementOf(one));
    return make("tr", {}, name, ...cells.map((cell) => make("td", {}, String(cell))), tried);
  });
  const table = make("table", { class: "candidates", "aria-labelledby": title });
  table.append(make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
  return make("div", { class: "wide", tabindex: 0, role: "group", "aria-labelledby": title }, table);
}

const sameChange = (first, second) => first && first.position === second.position && first.token_id === second.token_id;
const replacementOf = (change) => (change.ends_answer ? "(the answer ends)" : short(change.replacement));
