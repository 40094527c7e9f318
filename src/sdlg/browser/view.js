// A result (sdlg.result/3) as DOM. In: the parsed JSON. Out: elements. No network, no storage, and no text ever
// becomes markup: everything goes through textContent. Used by the page and by the self-contained file.

const LONG = 2000; // characters of an answer that gets a scroll box
const SHARED = 90; // characters of a shared beginning that a branch repeats
const SHOWN = 400; // characters of a branch before it is folded
const COLOURS = 8;

/** Put the whole view of a result into an element. */
export function showResult(place, result) {
  const parts = [asked(result), answer(result), verdict(result), meanings(result), alternatives(result)];
  place.replaceChildren(...parts, ...notes(result), details(result));
  place.classList.add("view");
}

/** One sentence for people who do not think in nats: the same words as sdlg/views/reading.py. */
export function reading(result) {
  const count = result.clusters.length;
  const share = result.clusters[0].probability;
  const own = wholePercent(share);
  if (result.options.samples === 1) return "one sequence tells nothing of other meanings; ask for more samples";
  if (result.samples.length === 1) return "no likely alternative was found: the model sees one way to answer";
  if (count === 1) return `all ${result.samples.length} answers mean the same`;
  if (share < Math.max(...result.clusters.map((cluster) => cluster.probability)))
    return `the answer's own meaning holds ${own}; another meaning is likelier`;
  if (share >= 0.9) return `${count} meanings, but ${own} of the probability is on the answer's own`;
  if (share >= 0.6) return `the model leans towards its answer (${own}), ${count} meanings in all`;
  return `the model wavers between ${count} meanings; its answer's own holds ${own}`;
}

/** The numbers that two results are compared by: [name, value] pairs. */
export function figures(result) {
  const likelihood = likelihoodOf(result.answer);
  const cost = result.cost;
  return [
    ["Semantic entropy", `${decimal(entropyOf(result))} nats`],
    ["Meanings", `${result.clusters.length} in ${counted(result.samples.length, "answer")}`],
    ["Different wordings", String(new Set(result.samples.map((sample) => sample.text)).size)],
    ["Answer's perplexity", decimal(likelihood.perplexity)],
    ["Coverage", percent(result.coverage)],
    ["Tokens through the model", grouped(cost.forward_tokens)],
    ["Time", `${decimal(secondsOf(cost), 1)} s`],
  ];
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

// -- the question and the answer --------------------------------------------------------------------------------

let made = 0; // ids on one page must differ, also with two results side by side
const newId = (name) => `${name}-${++made}`;

function asked(result) {
  const by = [result.model, METHODS[result.method] ?? result.method, `seed ${result.seed}`].join(" · ");
  const header = make("header", { class: "asked" }, make("h2", { dir: "auto" }, visible(result.question)));
  const context = make("p", { class: "context", dir: "auto" }, visible(result.context ?? ""));
  if (result.context) header.append(folded("Context", context));
  header.append(faint(visible(by)));
  return header;
}

export const METHODS = {
  sdlg: "SDLG",
  multinomial: "multinomial sampling",
  beam: "beam search",
  diverse_beam: "diverse beam search",
};

function answer(result) {
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
  section.append(legend(candidates.size > 0), panel);
  return section;
}

const drawn = (result) => result.method === "multinomial";

function fillWords(text, result, candidates, panel) {
  const characters = Array.from(result.answer.text); // offsets count characters, not UTF-16 units
  const words = result.answer.words;
  const highest = Math.max(0, ...words.map((word) => word.attribution ?? 0));
  const buttons = [];
  let at = 0;
  for (const [number, word] of words.entries()) {
    text.append(visible(characters.slice(at, word.start).join("")));
    const share = highest > 0 ? (word.attribution ?? 0) / highest : 0;
    const button = wordButton(word, share, candidates.get(number)?.length ?? 0, panel.id);
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

function wordButton(word, share, count, controls) {
  const ranked = count ? `, ${counted(count, "candidate")}` : "";
  const says = `${word.text}: ${wholePercent(share)} of the highest attribution${ranked}`;
  const state = { "aria-expanded": "false", "aria-controls": controls, tabindex: -1 };
  const button = make("button", { type: "button", class: "word", title: visible(says), ...state }, visible(word.text));
  button.style.setProperty("--share", share.toFixed(3));
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

function legend(some) {
  const scale = make("span", { class: "scale", "aria-hidden": "true" });
  const how = some ? "Choose a word to see what could stand in its place." : "";
  return make("p", { class: "faint legend" }, "less ", scale, ` more of the meaning hangs on the word. ${how}`);
}

// -- candidates of a word ---------------------------------------------------------------------------------------

/** Word number → its candidates, tried ones included; the number after the last word stands for the end. */
function candidatesByWord(result) {
  const tried = result.samples.filter((sample) => sample.substitution).map((sample) => sample.substitution);
  const all = new Map([...(result.candidates ?? []), ...tried].map((one) => [`${one.position} ${one.token_id}`, one]));
  const ranked = [...all.values()].sort((first, second) => first.rank - second.rank);
  return groupedByWord(result.answer, ranked, (candidate) => candidate.position);
}

/** Where each token's visible part begins, in characters. */
function tokenStarts(sequence) {
  let at = 0;
  return sequence.tokens.map((token) => {
    const characters = Array.from(token);
    const blank = characters.findIndex((character) => character.trim());
    const start = at + Math.max(blank, 0);
    at += characters.length;
    return start;
  });
}

function groupedByWord(answer, items, positionOf) {
  let word = 0;
  const wordOf = tokenStarts(answer).map((start) => {
    while (word < answer.words.length && start >= answer.words[word].end) word += 1;
    return word;
  });
  const found = new Map();
  for (const item of items) {
    const number = wordOf[positionOf(item)] ?? answer.words.length;
    if (!found.has(number)) found.set(number, []);
    found.get(number).push(item);
  }
  return found;
}

function fillPanel(panel, result, number, candidates, close) {
  const word = result.answer.words[number];
  const title = make("h4", { id: newId("word"), dir: "auto" }, word ? `‘${short(word.text)}’` : "The answer's end");
  const button = make("button", { type: "button", class: "quiet", "aria-label": "Close the candidates" }, "Close");
  button.addEventListener("click", close);
  panel.setAttribute("aria-labelledby", title.id);
  const told = word && word.attribution !== null;
  const hangs = told ? [faint(`attribution ${decimal(word.attribution, 3)}`)] : [];
  const body = candidates.length
    ? candidateTable(result, candidates, title.id)
    : make("p", {}, "No likely candidate was ranked for this word.");
  panel.replaceChildren(make("div", { class: "bar-of-title" }, title, button), ...hangs, body);
}

const CANDIDATE_COLUMNS = [
  ["Replacement", "what would stand there instead"],
  ["Probability", "of this very token"],
  ["Attribution", "how much of the meaning hangs on the original"],
  ["Substitution", "how far the replacement moves the meaning, −1 to 1"],
  ["Importance", "probability, with that of other spellings of the word"],
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

// -- the verdict ------------------------------------------------------------------------------------------------

function verdict(result) {
  const section = make("section", { class: "verdict" });
  const says = make("div", { class: "says" }, make("h3", {}, "Verdict"));
  says.append(make("p", { class: "reading" }, reading(result)));
  if (result.risk) {
    const sentence = make("strong", {}, visible(result.risk.sentence));
    says.append(make("p", { class: "risk" }, sentence, `, ${visible(result.risk.basis)}`));
  }
  says.append(faint("This describes how the model's probability is spread, not whether the answer is true."));
  section.append(says, numbers(result));
  return section;
}

function numbers(result) {
  const { probability, perplexity } = likelihoodOf(result.answer);
  const tiles = [
    ["Semantic entropy", decimal(entropyOf(result)), "nats; higher is less certain", "main"],
    ["Answer's perplexity", decimal(perplexity), `this very wording: ${oneIn(probability)}`],
    ["Coverage", percent(result.coverage), "of all probability was looked at"],
  ];
  const risk = result.risk?.probability;
  if (typeof risk === "number") tiles.unshift(["Risk", percent(risk), "of such answers are wrong", "main"]);
  const list = make("dl", { class: "numbers" });
  for (const [name, value, unit, kind] of tiles) {
    const values = [make("dd", { class: "value" }, value), make("dd", { class: "faint" }, unit)];
    list.append(make("div", { class: kind }, make("dt", {}, name), ...values));
  }
  return list;
}

const entropyOf = (result) => result.estimates.semantic_entropy?.value;
const secondsOf = (cost) => Object.values(cost.seconds).reduce((sum, seconds) => sum + seconds, 0);

function likelihoodOf(sequence) {
  const steps = [...sequence.logprobs, ...sequence.ending_logprobs];
  if (!steps.length) return { probability: NaN, perplexity: NaN };
  const sum = steps.reduce((total, step) => total + step, 0);
  return { probability: Math.exp(sum), perplexity: Math.exp(-sum / steps.length) };
}

// -- meanings ---------------------------------------------------------------------------------------------------

function meanings(result) {
  const ordered = [...result.clusters].sort((first, second) => second.probability - first.probability);
  const list = make("ol", { class: "clusters" }, ...ordered.map((cluster) => clusterRow(result, cluster)));
  return make("section", {}, make("h3", {}, "Meanings"), list);
}

function clusterRow(result, cluster) {
  const texts = [...new Set(cluster.members.map((member) => result.samples[member].text))];
  const bar = make("span", { class: "mass", "aria-hidden": "true" }, make("span", {}));
  bar.style.setProperty("--share", cluster.probability.toFixed(4));
  paint(bar, cluster.id);
  const head = make("div", { class: "mass-line" }, badge(cluster.id), bar, shareOf(percent(cluster.probability)));
  const row = make("li", {}, head, clipped(texts[0], "p"));
  const also = cluster.members.length - 1;
  if (cluster.members.includes(0)) row.append(faint("the answer's own meaning"));
  if (also > 0) row.append(otherMembers(texts.slice(1), also));
  return row;
}

function otherMembers(texts, also) {
  if (!texts.length) return make("p", { class: "faint" }, `${counted(also, "more answer")} with the same words`);
  const list = make("ul", { class: "members" }, ...texts.map((text) => clipped(text, "li")));
  return folded(`${counted(also, "more answer")} that ${also === 1 ? "means" : "mean"} the same`, list);
}

function badge(cluster) {
  const mark = make("span", { class: "badge" }, make("span", { class: "unseen" }, "meaning "), letters(cluster));
  return paint(mark, cluster);
}

function paint(element, cluster) {
  element.classList.add(`cluster-${cluster % COLOURS}`);
  if (cluster >= COLOURS) element.classList.add("again"); // the colours have run out: the same ones, hollow
  return element;
}

function letters(number) {
  const last = String.fromCharCode(65 + (number % 26));
  return number < 26 ? last : letters(Math.floor(number / 26) - 1) + last;
}

// -- the tree ---------------------------------------------------------------------------------------------------

function alternatives(result) {
  const branches = result.samples.filter((sample) => sample.substitution);
  const grown = branches.length > 0 || result.method === "sdlg";
  const section = make("section", {});
  section.append(make("h3", {}, grown ? "Alternatives" : "Sampled answers"));
  if (grown && !branches.length) section.append(faint("No other answer was explored."));
  else if (grown) section.append(faint(TREE), tree(result, branches));
  else section.append(faint("Each was drawn on its own; there is no trunk."), samplesList(result));
  return section;
}

const TREE =
  "The answer runs down the trunk; where a word was exchanged, another answer branches off, " +
  "with the new word's probability there.";

/** The answer cut at each changed word; under each piece, the branches that leave it there. */
function tree(result, branches) {
  const characters = Array.from(result.answer.text);
  const starts = tokenStarts(result.answer);
  const words = result.answer.words;
  const byWord = groupedByWord(result.answer, branches, (sample) => sample.substitution.position);
  const trunk = make("ol", { class: "tree", dir: "auto" }); // one direction, whatever a piece begins with
  let at = 0;
  for (const number of [...byWord.keys()].sort((first, second) => first - second)) {
    const word = words[number] ?? { start: characters.length, end: characters.length };
    const before = characters.slice(at, word.start).join("");
    const grown = byWord.get(number).sort((first, second) => importance(second) - importance(first));
    const rows = grown.map((sample) => branch(characters, starts, sample));
    trunk.append(trunkPiece(before, characters.slice(word.start, word.end).join(""), rows));
    at = word.end;
  }
  trunk.append(trunkEnd(characters.slice(at).join(""), result));
  return trunk;
}

const importance = (sample) => sample.substitution.importance;

function trunkPiece(before, word, branches) {
  const text = make("p", { class: "trunk" }, visible(ending(before, 4 * SHARED)));
  text.append(make("strong", {}, word ? visible(word) : "(end)"));
  return make("li", {}, text, make("ul", { class: "branches" }, ...branches));
}

function trunkEnd(rest, result) {
  const text = make("p", { class: "trunk" }, visible(ending(rest, 4 * SHARED)));
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

// -- the rest ---------------------------------------------------------------------------------------------------

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

/** A table that scrolls by itself on a narrow screen. */
export function table(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)));
  const title = make("caption", { class: "unseen" }, caption);
  const body = make("table", {}, title, make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": caption }, body);
}

const faint = (text) => make("p", { class: "faint" }, text);
const shareOf = (text) => make("span", { class: "share" }, text);

function folded(summary, ...children) {
  return make("details", {}, make("summary", {}, summary), ...children);
}

function clipped(text, name) {
  const place = make(name, { class: "sentence", dir: "auto" });
  if (!text) place.append(make("em", {}, "(empty)"));
  else if (text.length <= SHOWN + SHARED) place.append(visible(text));
  else place.append(...foldedText(text));
  return place;
}

/** A long text's beginning, and a button that shows the rest. */
function foldedText(text) {
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
function short(text) {
  const characters = Array.from(text);
  return visible(characters.length <= 60 ? text : `${characters.slice(0, 60).join("")}…`);
}

/** The end of a text, from a word's beginning. */
function ending(text, length) {
  const characters = Array.from(text);
  if (characters.length <= length) return text;
  const last = characters.slice(-length).join("");
  return `… ${last.slice(last.indexOf(" ") + 1)}`;
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

// -- numbers in words -------------------------------------------------------------------------------------------

const words = (name) => name.replaceAll("_", " ");
const known = (value) => typeof value === "number" && Number.isFinite(value);
const decimal = (value, digits = 2) => (known(value) ? value.toFixed(digits).replace("-", "−") : "not known");
const grouped = (value) => value.toLocaleString("en");
const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/** As Python's :.0%: halves go to the even number. */
function wholePercent(share) {
  const value = share * 100;
  return `${value % 1 === 0.5 ? 2 * Math.round(value / 2) : Math.round(value)}%`;
}

function percent(share) {
  if (!known(share)) return "not known";
  return share >= 0.001 ? `${(share * 100).toFixed(1)}%` : share > 0 ? "<0.1%" : "0%";
}

/** A probability, also a tiny one, in words. */
function oneIn(probability) {
  if (!known(probability)) return "not known";
  if (probability >= 0.01) return percent(probability);
  if (probability < 1e-12) return "less than 1 in a trillion";
  const format = { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 2 };
  return `1 in ${(1 / probability).toLocaleString("en", format)}`;
}
