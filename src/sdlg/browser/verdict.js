// What a result says of the model's certainty: one sentence and a few numbers.

import { faint, make, visible } from "./elements.js";
import { counted, decimal, entropyOf, grouped, likelihoodOf, oneIn, percent, scoreOf } from "./numbers.js";
import { riskPercent, secondsOf, sharesOf, wholePercent } from "./numbers.js";

/** One sentence for people who do not think in nats: the same words as sdlg/views/reading.py. */
export function reading(result) {
  const own = result.clusters[0];
  if (typeof own.low !== "number" || typeof own.high !== "number") return scoreReading(result);
  const between = `between ${wholePercent(own.low)} and ${wholePercent(own.high)}`;
  if (own.high <= 0.1)
    return `the model would say something else at least nine times in ten; its answer's meaning holds ${between}`;
  if (own.low >= 0.9) return `the model would say this nine times in ten or more (${between})`;
  const rival = result.clusters.slice(1).reduce(likelier, null);
  if (rival && rival.low > own.high) return `another meaning is likelier; the answer's own holds ${between}`;
  if (own.high < 0.5) return `the model would more often say something else; its answer's meaning holds ${between}`;
  if (own.low > 0.5) return `the model leans towards its answer, which holds ${between}`;
  return `too few draws to tell whether the model leans towards its answer: its meaning holds ${between}`;
}

const likelier = (best, cluster) => (best && sharesOf(best) >= sharesOf(cluster) ? best : cluster);

function scoreReading(result) {
  const count = result.clusters.length;
  if (result.options.samples === 1) return "one sequence tells nothing of other meanings; ask for more samples";
  if (result.samples.length === 1) return "no likely alternative was found: the model sees one way to answer";
  if (count === 1) return `all ${result.samples.length} answers mean the same`;
  const shares = result.clusters.map((cluster) => cluster.score_share ?? cluster.probability ?? 0);
  const whose = shares[0] >= Math.max(...shares) ? "the answer's own" : "another one";
  return `${count} meanings were found; ${whose} scores highest`;
}

/** The numbers that two results are compared by: [name, value] pairs. */
export function figures(result) {
  const likelihood = likelihoodOf(result.answer);
  const cost = result.cost;
  return [
    ["Semantic entropy", `${decimal(entropyOf(result))} nats`],
    ["Score", decimal(scoreOf(result))],
    ["Meanings", `${result.clusters.length} in ${counted(result.samples.length, "answer")}`],
    ["Different wordings", String(new Set(result.samples.map((sample) => sample.text)).size)],
    ["Answer's perplexity", decimal(likelihood.perplexity)],
    ["Coverage", percent(result.coverage)],
    ["Tokens through the model", grouped(cost.forward_tokens)],
    ["Time", `${decimal(secondsOf(cost), 1)} s`],
  ];
}

export function verdict(result) {
  const section = make("section", { class: "verdict" });
  const says = make("div", { class: "says" }, make("h3", {}, "Verdict"));
  says.append(make("p", { class: "reading" }, reading(result)));
  if (result.risk) {
    const sentence = make("strong", {}, visible(result.risk.sentence));
    says.append(make("p", { class: "risk" }, sentence, `, ${visible(result.risk.basis)}`));
  }
  const spread = "describes how the model's probability is spread, not whether the answer is true";
  const isRisky = typeof result.risk?.probability === "number";
  says.append(faint(isRisky ? `Only the risk is about right or wrong; the first sentence ${spread}.` : `This ${spread}.`));
  section.append(says, numbers(result));
  return section;
}

function range(result) {
  const { low, high } = result.estimates.semantic_entropy ?? {};
  return typeof low === "number" && typeof high === "number" ? `, ${decimal(low)} to ${decimal(high)}, of the percentages` : "; higher is less certain";
}

function numbers(result) {
  const { probability, perplexity } = likelihoodOf(result.answer);
  const tiles = [
    ["Semantic entropy", decimal(entropyOf(result)), `nats${range(result)}`, "main"],
    ["Score", decimal(scoreOf(result)), "to rank answers by; higher is less certain"],
    ["Answer's perplexity", decimal(perplexity), `this very wording: ${oneIn(probability)}`],
    ["Coverage", percent(result.coverage), "of all probability was looked at"],
  ];
  const risk = result.risk?.probability;
  if (typeof risk === "number") tiles.unshift(["Risk", riskPercent(risk), "of such answers are wrong", "main"]);
  const list = make("dl", { class: "numbers" });
  for (const [name, value, unit, kind] of tiles) {
    const values = [make("dd", { class: "value" }, value), make("dd", { class: "faint" }, unit)];
    list.append(make("div", { class: kind }, make("dt", {}, name), ...values));
  }
  return list;
}
