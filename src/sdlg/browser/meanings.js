// The meanings of a result: one row and one bar for each cluster, and the badge that stands for it elsewhere.

import { clipped, faint, folded, make, shareOf } from "./elements.js";
import { counted, percent } from "./numbers.js";

const COLOURS = 8;

export function meanings(result) {
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
