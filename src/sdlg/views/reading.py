"""What every view says about a result in words, and how it shades and colours.

The sentence about an answer follows from the interval of its share, not from the number in its middle: shares that
cannot be told apart get the same words.
"""

from __future__ import annotations

from ..options import DEFAULT_METHOD, NLI_MINILM
from ..records import Cluster, Sentence
from ..result import Result, percent, share_text

# Okabe and Ito's colours: distinct also to the colour-blind.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")

_CANNOT_TELL = "cannot tell yet"
_NOT_DRAWN = " (draws=0: how often is not known)"
_SHAKY = 1 / 3
_MUCH = 1 / 2  # of what would be said in a sentence's place
_NOT_MEASURED = {
    "claim": "",
    "lead": "claims nothing",
    "code": "code is not measured",
    "cut": "cut: raise max_tokens",
    "beyond": "not measured: raise most_sentences",
}
_NEARLY_ALL = 0.9  # of all probability: who has looked at so much needs no further sequences
SHARES = (
    "percentages: how often the model would give this meaning if asked again at temperature 1, with 95% intervals; "
    "they are not chances that the answer is true"
)
SENTENCE_SHARES = (
    "percentages: of what the model would say at temperature 1 from here on about the same matter, how much says the "
    "same, with 95% intervals; they are not chances that the sentence is true"
)
SCORES = "nothing was drawn (draws=0): shares are of the paper's score, not how often the model would say so"
# On answers that people judged it is wrong about 8 % (TriviaQA) to 16 % (Natural Questions) of the pairs.
SMALL_JUDGE = "a small network that is wrong about one pair of answers in eight: read the meanings yourself"


def reading(result: Result) -> str:
    """Return one sentence that sums up how the model's probability is spread. It does not say what is true."""
    if result.sentences:
        return _reading_of_sentences(result)
    own = result.clusters[0]
    if own.low is None or own.high is None:
        return _reading_without_draws(result)
    if own.low >= 0.9:
        return "the model is sure: it would say this at least nine times in ten"
    if own.high <= 0.1:
        return "the model would say something else at least nine times in ten"
    rival = max(result.clusters[1:], key=_share, default=None)
    if rival is not None and rival.low is not None and rival.low > own.high:
        return f"another meaning is likelier: {percent(rival.share)}; this answer: {share_text(own)}"
    if own.high < 0.5:
        return f"the model would more often say something else; this answer: {share_text(own)}"
    if own.low > 0.5:
        return f"the model leans towards this answer: {share_text(own)}"
    between = f"{round(100 * own.low)}–{round(100 * own.high)}%"
    return f"{_CANNOT_TELL} how sure it is: {between}; more {_weighed_by(result)} may tell"


def _reading_of_sentences(result: Result) -> str:
    measured = sum(bool(one.clusters) for one in result.sentences)
    shaky = sum(not one.is_open for one in to_check(result))
    unclear = sum(one.is_open for one in result.sentences)
    if not measured:
        return "no sentence claims anything that could be measured"
    unsaid = (
        f"; {_CANNOT_TELL} of {unclear}" if unclear else _NOT_DRAWN if _first_of(result).probability is None else ""
    )
    if not shaky:
        return f"of {measured} measured sentences the model would contradict none more than one time in three{unsaid}"
    where = "here the model might as well contradict itself"
    return f"check {shaky} of {measured} measured sentences first: {where}{unsaid}"


def to_check(result: Result) -> list[Sentence]:
    """Return the sentences that the model would contradict more than one time in three, the shakiest first.

    Those of which too little was drawn to tell come last.
    """
    shaky = [one for one in result.sentences if one.doubt > _SHAKY]
    return sorted(shaky, key=lambda one: (one.is_open, -one.doubt))


def reading_of_sentence(one: Sentence) -> str:
    """Return how sure the model is of a sentence that was measured."""
    own = one.clusters[0]
    if own.probability is None:
        return f"{share_text(own)} says the same{_NOT_DRAWN}"
    told = f"on this matter {share_text(own)} of what the model would say is the same"
    return f"{_CANNOT_TELL}: {told}" if one.is_open else told


def elsewhere_note(one: Sentence) -> str:
    """Return how much of what the model would say in a sentence's place goes on to something else; empty: nothing."""
    if one.elsewhere is None:
        return ""
    of = "the score found here" if one.elsewhere.probability is None else "all that it would say here"
    return f"{percent(one.elsewhere.share)} of {of} goes on to something else"


def sentence_note(one: Sentence) -> str:
    """Return what must be known of a sentence beside its share, in a few words; empty: nothing."""
    if one.is_open:
        return "too few draws on this matter"
    if one.elsewhere is not None and one.elsewhere.share > _MUCH:
        return f"{percent(one.elsewhere.share)} would go on to something else"
    return _NOT_MEASURED[one.kind]


def setting_that_may_tell(result: Result) -> str:
    """Return the setting to try where too little was drawn to tell how sure the model is; empty: nothing to try."""
    if any(one.is_open for one in result.sentences):
        return f"draws={4 * result.options.draws}"
    if result.sentences or not reading(result).startswith(_CANNOT_TELL):
        return ""
    more = _weighed_by(result)
    return f"{more}={4 * getattr(result.options, more)}"


def _weighed_by(result: Result) -> str:
    """Return the option that says how many answers weigh the meanings, also where no draw was on the matter."""
    return "draws" if result.draws or result.method == DEFAULT_METHOD else "samples"


def _first_of(result: Result) -> Cluster:
    """Return the meaning of the answer, or of the first sentence that was measured."""
    return next((one.clusters[0] for one in result.sentences if one.clusters), result.clusters[0])


def _reading_without_draws(result: Result) -> str:
    """Return what was found; how often the model would say so is not known."""
    unknown = "" if result.model is None else _NOT_DRAWN
    count = len(result.samples)
    if count == 1:
        looked = result.model is not None and result.options.samples > 1
        return f"no likely alternative was found{unknown}" if looked else "one answer says nothing of other meanings"
    if len(result.clusters) == 1:
        return f"all {count} answers mean the same{unknown}"
    first = result.clusters[0].score_share >= max(cluster.score_share for cluster in result.clusters)
    whose = "this answer's" if first else "another one"
    return f"{len(result.clusters)} meanings, {whose} scores highest{unknown}"


def _share(cluster: Cluster) -> float:
    return cluster.share


def short_note(result: Result) -> str:
    """Return what nobody who reads only a few lines may miss, in one line; empty: nothing."""
    parts = []
    if result.model is not None and result.answer.stop_reason == "length":
        tokens = len(result.answer.logprobs) or result.options.max_tokens
        parts.append(f"the answer was cut at {tokens} tokens (raise max_tokens)")
    asked, found = result.options.samples, len(result.samples)
    if (
        result.model is not None
        and not result.sentences
        and 1 < found < asked
        and (result.coverage or 0.0) < _NEARLY_ALL
    ):
        parts.append(f"{found} of {asked} sequences: no others are likely")
    if result.model is not None and not result.answer.decision_logprobs:
        parts.append("no log-probabilities: answers were only counted")
    return "; ".join(parts)


def entropy_text(result: Result) -> str:
    """Return the headline number with its unit. It is undefined where a likelihood is."""
    value = result.semantic_entropy
    return "semantic entropy not known" if value != value else f"semantic entropy {value:.2f} nats"


def risk_percent(probability: float) -> str:
    """Return a risk no finer than a few hundred judged answers can tell."""
    return "<1%" if probability < 0.01 else ">99%" if probability > 0.99 else f"{probability:.0%}"


def explanation(result: Result) -> str:
    """Return what the percentages are."""
    if _first_of(result).probability is None:
        return SCORES
    return SENTENCE_SHARES if result.sentences else SHARES


def judge_line(result: Result) -> str:
    """Return who says which answers mean the same, and what kind of model that is."""
    if result.nli is None:
        return "meanings were given"
    return f"meanings are judged by {result.nli}" + (f", {SMALL_JUDGE}" if result.nli == NLI_MINILM else "")


def meaning_label(cluster: Cluster) -> str:
    """Return what stands before a meaning's text: whether it is the answer's own, and whether it declines."""
    own, declines = cluster.id == 0, cluster.kind == "declines"
    return (
        "this answer declines: " if own and declines else "this answer: " if own else "declines: " if declines else ""
    )


def cluster_colour(number: int) -> str:
    """Return a colour per cluster, repeated when they run out."""
    return _COLOURS[number % len(_COLOURS)]


def word_shades(result: Result) -> list[float]:
    """Return how likely the model turns to another meaning at each word, 0 to 1.

    Where that is not known, return the words' attributions as shares of the highest.
    """
    if any(word.other_meaning is not None for word in result.words):
        return [word.other_meaning or 0.0 for word in result.words]
    values = [word.attribution or 0.0 for word in result.words]
    highest = max(values, default=0.0)
    return [value / highest if highest > 0 else 0.0 for value in values]
