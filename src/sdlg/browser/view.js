// A result (sdlg.result/1, with what sdlg/views/said.py says of it) as elements: what is asked first is on top, the
// rest is folded. No network, no storage. Used by the page and by the self-contained file.

import { clipped, copyButton, decimal, faint, folded, make, newId, percent, table, visible } from "./elements.js";

const COLOURS = 8;
const MEANINGS = 5; // shown before the rest is folded
const SHARED = 90; // characters of a shared beginning that a branch repeats
const LONG = 2000; // characters of an answer that gets a scroll box

const shareOf = (cluster) => cluster.probability ?? cluster.score_share;
const largestFirst = (clusters) => [...clusters].sort((first, second) => shareOf(second) - shareOf(first));

const withWords = (clusters, said) => clusters.map((cluster, place) => ({ ...cluster, said: said[place] }));

/** The same result, in which each meaning and each sentence has what is said of it. */
function spoken({ said, ...result }) {
  const sentences = result.sentences.map((one, place) => {
    const own = said.sentences[place];
    return { ...one, said: own, clusters: withWords(one.clusters, own.meanings) };
  });
  return { ...result, said, sentences, clusters: withWords(result.clusters, said.meanings) };
}

/** Put the whole view of a result into an element. */
export function showResult(place, stored) {
  const result = spoken(stored);
  const parts = result.sentences.length
    ? [longAnswer(result), verdict(result), firstToCheck(result)]
    : [answer(result), verdict(result), meanings(result)];
  place.replaceChildren(asked(result.question), ...parts, more(result));
  place.classList.add("view");
}

function asked({ text, context }) {
  const header = make("header", { class: "asked" }, make("h2", { dir: "auto" }, visible(text)));
  if (context) header.append(folded("Context", make("p", { class: "context", dir: "auto" }, visible(context))));
  return header;
}

const riskLine = ({ sentence, basis }) => make("p", {}, make("strong", {}, visible(sentence)), `, ${visible(basis)}`);

function verdict(result) {
  const section = make("section", { class: "verdict", "aria-label": "How sure" });
  section.append(make("p", { class: "reading" }, result.said.reading));
  if (result.risk) section.append(riskLine(result.risk));
  else section.append(faint("This is about what the model would say, not about what is true."));
  const { note } = result.said;
  if (note) section.append(make("p", { class: "note" }, `Note: ${note}.`));
  return section;
}

// -- the answer ------------------------------------------------------------------------------------------------------

/** The answer, its words shaded by how likely another meaning begins there. A word opens its candidates. */
function answer(result) {
  const section = make("section", { class: "answer", "aria-label": "Answer" });
  const text = make("p", { class: "text", dir: "auto" });
  section.append(text);
  if (result.answer.length > LONG) text.classList.add("long");
  const candidates = candidatesByWord(result);
  if (!result.answer) text.append(make("em", {}, "(an empty answer)"));
  if (["multinomial", "arithmetic"].includes(result.method)) section.append(faint("The first of the answers drawn."));
  if (!result.words.length && !candidates.size) text.append(visible(result.answer));
  if (!result.words.length && !candidates.size) return section;
  const panel = make("div", { class: "panel", id: newId("panel"), role: "group", tabindex: -1, hidden: true });
  fillWords(text, result, candidates, panel);
  const turns = result.words.some((word) => word.other_meaning !== null);
  const scale = turns ? "Shaded: another meaning is likely from there on; hatched: not explored." : "Shaded: much of the meaning hangs on the word.";
  section.append(faint(`${scale} Choose a word to see others for it.`), panel);
  return section;
}

function fillWords(text, result, candidates, panel) {
  const characters = Array.from(result.answer); // offsets count characters, not UTF-16 units
  const turns = result.words.some((word) => word.other_meaning !== null);
  const highest = turns ? Infinity : Math.max(0, ...result.words.map((word) => word.attribution ?? 0)) || 1;
  const buttons = result.words.map((word) => wordButton(word, highest, panel.id));
  let at = 0;
  for (const [number, word] of result.words.entries()) {
    text.append(visible(characters.slice(at, word.start).join("")), buttons[number]);
    at = word.end;
  }
  text.append(visible(characters.slice(at).join("")));
  if (candidates.has(buttons.length)) {
    buttons.push(make("button", { ...CLOSED, class: "word end", "aria-controls": panel.id }, "end"));
    text.append(" ", buttons.at(-1));
  }
  watchWords(text, buttons, panel, (number) => fillPanel(panel, result, number, candidates.get(number) ?? []));
}

const CLOSED = { type: "button", "aria-expanded": "false", tabindex: -1 };
const turnsOf = (word) => `${percent(word.other_meaning)} to another meaning from here, ${percent(word.unexplored)} unexplored`;

function wordButton(word, highest, controls) {
  const known = word.other_meaning !== null;
  const title = known ? turnsOf(word) : "";
  const button = make("button", { ...CLOSED, class: "word", title, "aria-controls": controls }, visible(word.text));
  button.style.setProperty("--shade", (known ? word.other_meaning : (word.attribution ?? 0) / highest).toFixed(3));
  button.style.setProperty("--unexplored", (word.unexplored ?? 0).toFixed(3));
  return button;
}

/** One stop for the Tab key; arrows move between words, Enter opens one, Escape closes it. */
function watchWords(text, buttons, panel, fill) {
  let current = 0;
  buttons[0].tabIndex = 0;
  const focus = (number) => {
    buttons[current].tabIndex = -1;
    current = Math.min(Math.max(number, 0), buttons.length - 1);
    buttons[current].tabIndex = 0;
    buttons[current].focus();
  };
  const close = () => {
    panel.hidden = true;
    for (const button of buttons) button.setAttribute("aria-expanded", "false");
  };
  const open = (number) => {
    const again = buttons[number].getAttribute("aria-expanded") === "true";
    close();
    focus(number);
    if (again) return;
    buttons[number].setAttribute("aria-expanded", "true");
    fill(number);
    panel.hidden = false;
    panel.scrollIntoView({ block: "nearest" });
  };
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  text.addEventListener("click", (event) => {
    const number = buttons.indexOf(event.target.closest("button"));
    if (number >= 0) open(number);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) return event.stopPropagation(), close();
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const mirrored = getComputedStyle(text).direction === "rtl" && /Left|Right/.test(event.key);
    focus(current + (mirrored ? -1 : 1) * steps[event.key]);
  });
  panel.addEventListener("keydown", (event) => event.key === "Escape" && (event.stopPropagation(), close(), focus(current)));
}

// -- a long answer ---------------------------------------------------------------------------------------------------

/** A sentence as a result of its own. */
const asResult = (result, sentence) => ({ ...result, ...sentence, answer: sentence.text, sentences: [] });

/** The answer, its sentences shaded by their doubt. A sentence opens its meanings and its words. */
function longAnswer(result) {
  const section = make("section", { class: "answer", "aria-label": "Answer" });
  const text = make("p", { class: "text sentences", dir: "auto" });
  const panel = make("div", { class: "panel", id: newId("panel"), role: "group", tabindex: -1, hidden: true });
  const characters = Array.from(result.answer);
  const measured = result.sentences.filter(({ clusters }) => clusters.length);
  const buttons = measured.map((one) => sentenceButton(one, panel.id));
  let at = 0;
  for (const one of result.sentences) {
    text.append(visible(characters.slice(at, one.start).join("")));
    const place = measured.indexOf(one);
    text.append(place >= 0 ? buttons[place] : make("span", { class: "unmeasured", title: one.said.note }, visible(one.text)));
    at = one.end;
  }
  text.append(visible(characters.slice(at).join("")));
  section.append(text, faint("Shaded: from here on the model might as well contradict the sentence. Dotted: too few draws to tell. Grey: not measured. Choose a sentence to see more."), panel);
  if (buttons.length) watchWords(text, buttons, panel, (number) => fillSentence(panel, result, measured[number]));
  return section;
}

function sentenceButton(one, controls) {
  const title = one.said.note || `${one.clusters[0].said.share} for its own meaning`;
  const characters = Array.from(one.text);
  const piece = (from, to) => visible(characters.slice(from, to).join(""));
  const measured = make("span", { class: "measured" }, piece(one.measured_from));
  const button = make("button", { ...CLOSED, class: "word sentence", title, "aria-controls": controls }, piece(0, one.measured_from), measured);
  button.append(make("span", { class: "unseen" }, ` (${title})`));
  if (one.said.is_open) button.classList.add("open");
  else button.style.setProperty("--shade", one.said.doubt.toFixed(3));
  return button;
}

function fillSentence(panel, result, one) {
  const own = asResult(result, one);
  const branches = own.samples.filter((sample) => sample.substitution);
  panel.setAttribute("aria-label", "The sentence");
  panel.replaceChildren(make("h3", { dir: "auto" }, visible(one.text)), make("p", {}, one.said.reading), meanings(own));
  if (one.said.elsewhere) panel.append(faint(one.said.elsewhere));
  if (one.risk) panel.append(riskLine(one.risk));
  panel.append(answer(own));
  if (branches.length) panel.append(folded(`Alternatives: where the sentence could have gone on differently (${branches.length})`, ...tree(own, branches)));
}

/** The shakiest sentences, and what the model would else have said. */
function firstToCheck(result) {
  const shaky = result.said.to_check.map((number) => result.sentences[number]);
  const section = make("section", { class: "to-check", "aria-label": "Sentences to check first" });
  const row = (one) => {
    const others = largestFirst(one.clusters).filter(({ id }) => id !== 0).slice(0, 3);
    const said = others.map((cluster) => make("li", { dir: "auto" }, `${percent(shareOf(cluster))} or: ${cluster.said.label}`, ...clipped(cluster.text)));
    return make("li", {}, make("strong", { dir: "auto" }, visible(one.text)), ` ${one.clusters[0].said.share}`, make("ul", {}, ...said));
  };
  const listed = (some) => make("ol", { class: "shaky" }, ...some.map(row));
  if (shaky.length) section.append(listed(shaky.slice(0, 3)));
  if (shaky.length > 3) section.append(folded(`${shaky.length - 3} more`, listed(shaky.slice(3))));
  const { semantic_entropy: greatest, mean_sentence_entropy: mean } = result.estimates;
  const headline = make("strong", {}, `Semantic entropy of a sentence: greatest ${decimal(greatest.value)}, mean ${decimal(mean.value)} nats`);
  section.append(make("p", { class: "headline" }, headline, make("span", { class: "faint" }, " higher is less certain")));
  return section;
}

// -- candidates ------------------------------------------------------------------------------------------------------

const sameChange = (first, second) => first?.position === second.position && first?.token_id === second.token_id;

/** Word number → its candidates by rank, tried ones included; the number after the last word stands for the end. */
function candidatesByWord(result) {
  const tried = result.samples.map((sample) => sample.substitution).filter(Boolean);
  const others = result.candidates.filter((one) => !tried.some((change) => sameChange(change, one)));
  const ranked = [...tried, ...others].sort((first, second) => first.rank - second.rank);
  return groupedByWord(result, ranked, (candidate) => candidate.position);
}

function groupedByWord(result, items, positionOf) {
  const starts = tokenStarts(result.samples[0].tokens);
  const groups = new Map();
  for (const item of items) {
    const start = starts[positionOf(item)]?.visible ?? Infinity;
    const word = result.words.findIndex(({ end }) => start < end);
    const number = word < 0 ? result.words.length : word;
    groups.set(number, [...(groups.get(number) ?? []), item]);
  }
  return groups;
}

/** Where each token begins, and where its visible part does, in characters. */
function tokenStarts(tokens) {
  let at = 0;
  return tokens.map((token) => {
    const begin = at;
    at += Array.from(token).length;
    return { begin, visible: begin + Math.max(Array.from(token).findIndex((character) => character.trim()), 0) };
  });
}

const COLUMNS = [
  ["Instead", "what would stand there; perhaps only the beginning of a word"],
  ["Probability", "of this token at this place"],
  ["Attribution", "how much of the meaning hangs on the original"],
  ["Substitution", "how far the replacement moves the meaning, −1 to 1"],
  ["Rank", "1 was tried first"],
  ["Became", "the answer that grew from it"],
];

function fillPanel(panel, result, number, candidates) {
  const word = result.words[number];
  const title = word ? `Instead of ‘${visible(word.text.slice(0, 60))}’` : "After the last word";
  panel.setAttribute("aria-label", title);
  panel.replaceChildren(make("h3", { dir: "auto" }, title));
  if (word && word.other_meaning !== null) panel.append(faint(`${turnsOf(word)}.`));
  const isGiven = word && word.start < (result.measured_from ?? 0);
  if (!candidates.length) return panel.append(make("p", {}, isGiven ? "What the sentence is about: given, not measured." : "No other word is likely here."));
  const rows = candidates.map((one) => {
    const sample = result.samples.find((other) => sameChange(other.substitution, one));
    const became = sample ? make("span", {}, badge(result, sample.cluster), " ", ...clipped(sample.generation.text)) : result.elsewhere ? "not tried, or it led to something else" : "not tried";
    const name = one.ends_answer ? "(the answer ends)" : visible(one.replacement.slice(0, 60));
    return [name, percent(one.importance), decimal(one.attribution, 3), decimal(one.substitution, 3), one.rank || "–", became];
  });
  panel.append(table(title, COLUMNS, rows));
}

// -- meanings --------------------------------------------------------------------------------------------------------

function meanings(result) {
  const rows = largestFirst(result.clusters).map((cluster, place) => [cluster, meaning(result, cluster, place)]);
  const first = rows.length > MEANINGS + 1 ? MEANINGS : rows.length;
  const shown = rows.filter(([cluster], place) => place < first || cluster.id === 0);
  const rest = rows.filter((row) => !shown.includes(row));
  const listed = (some) => make("ol", { class: "clusters" }, ...some.map(([, row]) => row));
  const section = make("section", { "aria-label": "Meanings" }, listed(shown));
  const together = percent(rest.reduce((sum, [cluster]) => sum + shareOf(cluster), 0));
  if (rest.length) section.append(folded(`${rest.length} more meanings, ${together} together`, listed(rest)));
  const headline = make("strong", {}, `Semantic entropy ${decimal(result.semantic_entropy)} nats`);
  section.append(make("p", { class: "headline" }, headline, make("span", { class: "faint" }, " the paper's score of doubt; higher is less certain")));
  return section;
}

/** One row; it opens to all the wordings. */
function meaning(result, cluster, place) {
  const bar = make("span", { class: `bar colour-${place % COLOURS}`, "aria-hidden": "true" }, make("span"));
  bar.style.setProperty("--share", shareOf(cluster).toFixed(4));
  const own = make("span", { class: "own" }, cluster.said.label);
  const text = make("bdi", {}, visible(cluster.text.slice(0, 300)) || make("em", {}, "(empty)"));
  const head = make("summary", {}, badge(result, cluster.id), make("span", { class: "meaning" }, own, text));
  head.append(bar, make("span", { class: "share" }, cluster.said.share));
  const wordings = cluster.texts.map((wording) => make("li", { dir: "auto" }, ...clipped(wording)));
  const drawn = result.draws.length ? ` and ${cluster.draws.length} of ${result.draws.length} draws` : "";
  const times = faint(`In ${cluster.members.length} of ${result.samples.length} sequences${drawn}:`);
  return make("li", {}, make("details", {}, head, times, make("ul", { class: "wordings" }, ...wordings)));
}

const letters = (place) => (place < 26 ? "" : letters(Math.floor(place / 26) - 1)) + String.fromCharCode(65 + (place % 26));

/** A letter and a colour for a meaning: A is the largest. */
function badge(result, id) {
  const place = largestFirst(result.clusters).findIndex((cluster) => cluster.id === id);
  const unseen = make("span", { class: "unseen" }, "meaning ");
  return make("span", { class: `badge colour-${place % COLOURS}` }, unseen, letters(place));
}

// -- what is folded --------------------------------------------------------------------------------------------------

function more(result) {
  const branches = result.samples.filter((sample) => sample.substitution);
  const section = make("section", { class: "more-of-it", "aria-label": "More" });
  if (branches.length) section.append(folded(`Alternatives: where the answer could have gone on differently (${branches.length})`, ...tree(result, branches)));
  const notes = result.notes.map((note) => make("li", {}, visible(note)));
  const lists = notes.length ? [make("ul", { class: "notes", "aria-label": "Notes" }, ...notes)] : [];
  const about = result.said.caveats.map((line) => faint(visible(line)));
  const copy = copyButton("Copy as JSON", () => JSON.stringify(result, (name, value) => (name === "said" ? undefined : value), 2));
  section.append(folded("Numbers and notes", ...lists, ...about, numbers(result), make("div", { class: "actions" }, copy)));
  return section;
}

function numbers(result) {
  const rows = Object.entries(result.estimates).map(([name, one]) => {
    const interval = typeof one.low === "number" ? ` (${decimal(one.low)} to ${decimal(one.high)})` : "";
    const about = name === "share_entropy" ? "nats, of the percentages" : one.unit;
    return [words(name), decimal(one.value) + interval, `${about}; higher is ${one.higher_is_less_certain ? "less" : "more"} certain`];
  });
  rows.push(...Object.entries(result.unavailable).map(([name, reason]) => [words(name), "–", visible(reason)]));
  if (result.coverage !== null) rows.push(["probability looked at", percent(result.coverage), "of all that the model could say"]);
  const { seconds, ...counts } = result.cost;
  const time = Object.values(seconds).reduce((sum, one) => sum + one, 0);
  const made = { model: result.model, method: result.method, preset: result.preset, seed: result.options.seed };
  for (const [name, value] of Object.entries(made)) rows.push([name, visible(String(value ?? "given answers")), ""]);
  for (const [name, value] of Object.entries(counts)) rows.push([words(name), value.toLocaleString("en"), ""]);
  rows.push(["time", `${decimal(time, 1)} s`, ""]);
  return table("Numbers", [["What"], ["Value"], ["Unit"]], rows);
}

const words = (name) => name.replaceAll("_", " ");

/** The answer cut at each changed word; under each piece, the branches that leave it there. */
function tree(result, branches) {
  const characters = Array.from(result.answer);
  const starts = tokenStarts(result.samples[0].tokens);
  const byWord = groupedByWord(result, branches, (sample) => sample.substitution.position);
  const stem = make("ol", { class: "tree", dir: "auto" }); // one direction, whatever a piece begins with
  const piece = (from, to) => visible(ending(characters.slice(from, to).join(""), 4 * SHARED));
  let at = 0;
  for (const number of [...byWord.keys()].sort((first, second) => first - second)) {
    const word = result.words[number] ?? { start: characters.length, end: characters.length };
    const text = make("p", { class: "stem" }, piece(at, word.start), make("strong", {}, piece(word.start, word.end) || "(end)"));
    const grown = byWord.get(number).sort((first, second) => second.substitution.importance - first.substitution.importance);
    stem.append(make("li", {}, text, make("ul", {}, ...grown.map((sample) => branch(result, word, starts, sample)))));
    at = word.end;
  }
  if (at < characters.length) stem.append(make("li", {}, make("p", { class: "stem" }, piece(at))));
  return [faint("The percentages say how likely the underlined word is at its place; they are no shares of meanings."), stem];
}

/** A branch: the beginning that it shares with the answer dimmed, the whole new word underlined. */
function branch(result, word, starts, sample) {
  const own = Array.from(sample.generation.text);
  const { position, importance, ends_answer: ends } = sample.substitution;
  const start = ends ? own.length : Math.min(starts[position]?.begin ?? Array.from(result.answer).length, own.length);
  const spaces = Math.max(own.slice(start).findIndex((character) => character.trim()), 0);
  const begin = word.start < start ? word.start : start + spaces; // a token in the middle of a word changes the word
  const length = own.slice(begin).findIndex((character) => !character.trim());
  const end = length < 0 ? own.length : begin + length;
  const shared = make("span", { class: "faint" }, visible(ending(own.slice(0, ends ? own.length : begin).join(""), SHARED)));
  const mark = make("mark", {}, ends ? " (end)" : visible(own.slice(begin, end).join("")));
  const rest = ends || end >= own.length ? [] : clipped(own.slice(end).join(""));
  return make("li", {}, badge(result, sample.cluster), make("span", { class: "share" }, percent(importance)), make("span", { dir: "auto" }, shared, mark, ...rest));
}

/** The end of a text, from a word's beginning. */
function ending(text, length) {
  const characters = Array.from(text);
  if (characters.length <= length) return text;
  const last = characters.slice(-length).join("");
  return `… ${last.slice(last.indexOf(" ") + 1)}`;
}
