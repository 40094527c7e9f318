// Numbers as people read them. In: numbers, and parts of a result (sdlg.result/3). Out: text, or a number.

export const words = (name) => name.replaceAll("_", " ");
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
export const decimal = (value, digits = 2) => (isNumber(value) ? value.toFixed(digits).replace("-", "−") : "not known");
export const grouped = (value) => value.toLocaleString("en");
export const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/** As Python's :.0%: halves go to the even number. */
export function wholePercent(share) {
  const value = share * 100;
  return `${value % 1 === 0.5 ? 2 * Math.round(value / 2) : Math.round(value)}%`;
}

/** No finer than a few hundred answers tell, and never certain. */
export function riskPercent(risk) {
  return risk < 0.01 ? "<1%" : risk > 0.99 ? ">99%" : wholePercent(risk);
}

export function percent(share) {
  if (!isNumber(share)) return "not known";
  return share >= 0.001 ? `${(share * 100).toFixed(1)}%` : share > 0 ? "<0.1%" : "0%";
}

/** What is drawn of a meaning: its probability; the score's share where nothing was drawn. */
export const sharesOf = (cluster) => cluster.probability ?? cluster.score_share ?? 0;

export function interval(cluster) {
  if (!isNumber(cluster.low) || !isNumber(cluster.high)) return " score";
  return ` (${wholePercent(cluster.low)}–${wholePercent(cluster.high)})`;
}

/** A probability, also a tiny one, in words. */
export function oneIn(probability) {
  if (!isNumber(probability)) return "not known";
  if (probability >= 0.01) return percent(probability);
  if (probability < 1e-12) return "less than 1 in a trillion";
  const format = { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 2 };
  return `1 in ${(1 / probability).toLocaleString("en", format)}`;
}

/** What is written as a whole number, as one. */
export const wholeNumber = (text, otherwise) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : otherwise);

/** What ranks answers; results of before have it as their entropy. */
export const scoreOf = (result) => result.score?.value ?? entropyOf(result);

export const entropyOf = (result) => result.estimates.semantic_entropy?.value;
export const secondsOf = (cost) => Object.values(cost.seconds).reduce((sum, seconds) => sum + seconds, 0);

/** The ending's steps; a result of an earlier version, as a browser's history may hold it, has only their sum. */
const endingOf = (sequence) => sequence.ending_logprobs ?? [sequence.stop_logprob ?? []].flat();

export function likelihoodOf(sequence) {
  const steps = [...sequence.logprobs, ...endingOf(sequence)];
  if (!steps.length) return { probability: NaN, perplexity: NaN };
  const sum = steps.reduce((total, step) => total + step, 0);
  return { probability: Math.exp(sum), perplexity: Math.exp(-sum / steps.length) };
}
