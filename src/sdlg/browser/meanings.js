// The meanings of a result: one row and one bar for each cluster, and the badge that stands for it elsewhere.

import { clipped, faint, folded, make, shareOf, visible } from "./elements.js";
import { counted, interval, percent, sharesOf } from "./numbers.js";

const COLOURS = 8;
const DIFFERENCE =
  "percentages estimate how often the model would give this meaning if asked again (temperature 1), with 95 % " +
  "intervals; to rank answers by doubt, use the score (the paper's), which is no percentage";
const SCORE_ONLY = "nothing was drawn (draws = 0): shares are the paper's score, not how often the model would say so";

const SMALL_JUDGE = "a small network that is wrong about one pair of answers in eight: read the meanings yourself";

const explanation = (result) => (typeof result.clusters[0].low === "number" ? DIFFERENCE : SCORE_ONLY);

/** Who says which answers mean the same: the same words as sdlg/views/reading.py. */
const judgeLine = (result) =>
  `meanings are judged by ${visible(result.nli)}${result.nli === "nli-minilm" ? `, ${SMALL_JUDGE}` : ""}`;

export function meanings(result) {
  const ordered = [...result.clusters].sort((first, second) => sharesOf(second) - sharesOf(first));
  const list = make("ol", { class: "clusters" }, ...ordered.map((cluster) => clusterRow(result, cluster)));
  const about = [faint(explanation(result)), faint(judgeLine(result))];
  return make("section", {}, make("h3", {}, "Meanings"), ...about, list);
}

function clusterRow(result, cluster) {
  const drawn = (cluster.draws ?? []).map((place) => result.draws[place].text);
  const every = [...cluster.members.map((member) => result.samples[member].text), ...drawn];
  const texts = [...new Set(every)];
  const bar = make("span", { class: "mass", "aria-hidden": "true" }, make("span", {}));
  bar.style.setProperty("--share", sharesOf(cluster).toFixed(4));
  paint(bar, cluster.id);
  const head = make("div", { class: "mass-line" }, badge(cluster.id), bar, shareOf(percent(sharesOf(cluster)) + interval(cluster)));
  const row = make("li", {}, head, clipped(texts[0], "p"));
  const also = every.length - 1;
  if (cluster.members.includes(0)) row.append(faint("the answer's own meaning"));
  if (also > 0) row.append(otherMembers(texts.slice(1), also));
  return row;
}

function otherMembers(texts, also) {
  if (!texts.length) return make("p", { class: "faint" }, `${counted(also, "more answer")} with the same words`);
  const list = make("ul", { class: "members" }, ...texts.map((text) => clipped(text, "li")));
  return folded(`${counted(also, "more answer")} that ${also === 1 ? "means" : "mean"} the same`, list);
}

export function badge(cluster) {
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
