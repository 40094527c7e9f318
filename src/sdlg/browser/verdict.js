// What a result says in words and numbers: the same as sdlg/views/reading.py and sdlg/result.py. No elements.

const NOT_DRAWN = " (draws=0: how often is not known)";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
export const shareOf = (cluster) => cluster.probability ?? cluster.score_share;
export const decimal = (value, digits = 2) => (isNumber(value) ? value.toFixed(digits).replace("-", "−") : "not known");

/** As Python rounds: halves go to the even number. */
function whole(share) {
  const value = 100 * share;
  return value % 1 === 0.5 ? 2 * Math.round(value / 2) : Math.round(value);
}

/** What rounds to 0 % or 100 % and is not is said to be below 1 % or above 99 %. */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<1%";
  return share >= 0.995 && share < 1 ? ">99%" : `${whole(share)}%`;
}

export function shareText(cluster) {
  if (!isNumber(cluster.low) || !isNumber(cluster.high)) return `${percent(shareOf(cluster))} of the score`;
  return `${percent(cluster.probability)} (${whole(cluster.low)}–${whole(cluster.high)}%)`;
}

/** Whether percentages are how often the model would say so: of the answer, or of the first sentence that was measured. */
function isDrawn({ clusters, sentences = [] }) {
  const measured = sentences.find((one) => one.clusters.length) ?? { clusters };
  return measured.clusters[0].probability !== null;
}

/** The sentence that sums up, from the interval of the answer's share. */
export function reading(result) {
  if (result.sentences?.length) return readingOfSentences(result);
  const own = result.clusters[0];
  if (!isNumber(own.low) || !isNumber(own.high)) return readingWithoutDraws(result);
  if (own.low >= 0.9) return "the model is sure: it would say this at least nine times in ten";
  if (own.high <= 0.1) return "the model would say something else at least nine times in ten";
  const rival = largestFirst(result.clusters.slice(1))[0];
  if (rival && isNumber(rival.low) && rival.low > own.high)
    return `another meaning is likelier: ${percent(shareOf(rival))}; this answer: ${shareText(own)}`;
  if (own.high < 0.5) return `the model would more often say something else; this answer: ${shareText(own)}`;
  if (own.low > 0.5) return `the model leans towards this answer: ${shareText(own)}`;
  const between = `${whole(own.low)}–${whole(own.high)}%`;
  return `cannot tell yet how sure it is: ${between}; more ${result.draws.length || result.method === "sdlg" ? "draws" : "samples"} may tell`;
}

function readingOfSentences(result) {
  const { sentences } = result;
  const measured = sentences.filter(({ clusters }) => clusters.length).length;
  const shaky = toCheck(sentences).filter((one) => !isOpen(one)).length;
  const unclear = sentences.filter(isOpen).length;
  if (!measured) return "no sentence claims anything that could be measured";
  const unsaid = unclear ? `; cannot tell yet of ${unclear}` : isDrawn(result) ? "" : NOT_DRAWN;
  if (!shaky) return `of ${measured} measured sentences the model would contradict none more than one time in three${unsaid}`;
  return `check ${shaky} of ${measured} measured sentences first: here the model might as well contradict itself${unsaid}`;
}

/** The share of what contradicts a sentence; 0 if it was not measured. */
export const doubtOf = ({ clusters }) => (clusters.length ? 1 - shareOf(clusters[0]) : 0);

/** Whether too few draws were on a sentence's matter: the interval of its share is wider than two thirds. */
export const isOpen = ({ clusters: [own] }) => own !== undefined && isNumber(own.low) && isNumber(own.high) && own.high - own.low > 2 / 3;

/** The sentences that the model would contradict more than one time in three, the shakiest first; the unclear ones last. */
export const toCheck = (sentences) =>
  sentences.filter((one) => doubtOf(one) > 1 / 3).sort((first, second) => isOpen(first) - isOpen(second) || doubtOf(second) - doubtOf(first));

/** What stands beside a sentence's meanings where the model would go on to something else. */
export const elsewhereNote = (elsewhere) => {
  const of = elsewhere.probability === null ? "the score found here" : "all that it would say here";
  return `${percent(shareOf(elsewhere))} of ${of} goes on to something else`;
};

/** The share of a sentence's own meaning. */
export const sentenceShare = (one) => (isOpen(one) ? "?" : one.clusters.length ? percent(shareOf(one.clusters[0])) : "–");

/** Why a sentence has no share; empty: it has one. */
export const sentenceNote = (one) =>
  isOpen(one) ? "too few draws on this matter" :
  ({ lead: "claims nothing", code: "code is not measured", cut: "cut: raise max_tokens", beyond: "not measured: raise most_sentences" })[one.kind] ?? "";

function readingWithoutDraws({ model, options, samples, clusters }) {
  const unknown = model === null ? "" : NOT_DRAWN;
  if (samples.length === 1 && model !== null && options.samples > 1) return `no likely alternative was found${unknown}`;
  if (samples.length === 1) return "one answer says nothing of other meanings";
  if (clusters.length === 1) return `all ${samples.length} answers mean the same${unknown}`;
  const highest = Math.max(...clusters.map((cluster) => cluster.score_share));
  const whose = clusters[0].score_share >= highest ? "this answer's" : "another one";
  return `${clusters.length} meanings, ${whose} scores highest${unknown}`;
}

/** What stands before a meaning's text. */
export function meaningLabel({ id, kind }) {
  const declines = kind === "declines";
  if (id === 0) return declines ? "this answer declines: " : "this answer: ";
  return declines ? "declines: " : "";
}

export const largestFirst = (clusters) => [...clusters].sort((first, second) => shareOf(second) - shareOf(first));

/** What nobody who reads only the top may miss; empty: nothing. */
export function shortNote({ model, samples, options, coverage, sentences }) {
  if (model === null) return "";
  const { stop_reason: stopped, logprobs, ending_logprobs: ending } = samples[0].generation;
  const cut = logprobs.length || options.max_tokens;
  const parts = stopped === "length" ? [`the answer was cut at ${cut} tokens (raise max_tokens)`] : [];
  if (!sentences?.length && samples.length > 1 && samples.length < options.samples && (coverage ?? 0) < 0.9)
    parts.push(`${samples.length} of ${options.samples} sequences: no others are likely`);
  if (!logprobs.length && !ending.length) parts.push("no log-probabilities: answers were only counted");
  return parts.join("; ");
}

/** What the percentages are, and who says which answers mean the same. */
export function caveats(result) {
  const shares = !isDrawn(result)
    ? "nothing was drawn (draws=0): shares are of the paper's score, not how often the model would say so"
    : "percentages: how often the model would give this meaning if asked again at temperature 1, with 95% intervals; " +
      "they are not chances that the answer is true";
  const small = ", a small network that is wrong about one pair of answers in eight: read the meanings yourself";
  const judge = `meanings are judged by ${result.nli}${result.nli === "nli-minilm" ? small : ""}`;
  return [shares, result.nli === null ? "meanings were given" : judge];
}
