"""What every view says about a result: the plain-language reading, word shades and cluster colours.

A sentence follows from the interval, not from the number in its middle: the words are the same for all numbers that
cannot be told apart. browser/verdict.js says the same.
"""

from __future__ import annotations

from ..formats.results import Result
from ..options import NLI_MINILM
from ..records import Cluster

# Okabe and Ito's colours: distinct also to the colour-blind.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")

DIFFERENCE = (
    "percentages estimate how often the model would give this meaning if asked again (temperature 1), with 95 % "
    "intervals; to rank answers by doubt, use the score (the paper's), which is no percentage"
)
# On answers that people judged it is wrong about 8 % (TriviaQA) to 16 % (Natural Questions) of the pairs.
SMALL_JUDGE = "a small network that is wrong about one pair of answers in eight: read the meanings yourself"
SCORE_ONLY = "nothing was drawn (draws = 0): shares are the paper's score, not how often the model would say so"


def cluster_colours(number: int) -> str:
    """A colour per cluster, repeated when they run out."""
    return _COLOURS[number % len(_COLOURS)]


def word_shades(result: Result) -> list[float]:
    """How much each word wavers, 0 to 1; where that is not known, its attribution as a share of the highest."""
    if any(word.wavering is not None for word in result.words):
        return [word.wavering or 0.0 for word in result.words]
    return attribution_shades(result)


def attribution_shades(result: Result) -> list[float]:
    """Each word's attribution as a share of the highest, 0 to 1."""
    values = [word.attribution or 0.0 for word in result.words]
    highest = max(values, default=0.0)
    return [value / highest if highest > 0 else 0.0 for value in values]


def explanation(result: Result) -> str:
    """One line on what the percentages are."""
    return SCORE_ONLY if result.clusters[0].probability is None else DIFFERENCE


def judge_line(result: Result) -> str:
    """Who says which answers mean the same, and what kind of model that is."""
    kind = f", {SMALL_JUDGE}" if result.nli == NLI_MINILM else ""
    return f"meanings are judged by {result.nli}{kind}"


def reading(result: Result) -> str:
    """One sentence for people who do not think in nats. It describes the spread, not whether the answer is true."""
    own = result.clusters[0]
    if own.probability is None or own.low is None or own.high is None:
        return _score_reading(result)
    between = f"between {own.low:.0%} and {own.high:.0%}"
    if own.high <= 0.1:
        return f"the model would say something else at least nine times in ten; its answer's meaning holds {between}"
    if own.low >= 0.9:
        return f"the model would say this nine times in ten or more ({between})"
    rival = max((other for other in result.clusters[1:]), key=lambda other: other.share, default=None)
    if rival is not None and rival.low is not None and rival.low > own.high:
        return f"another meaning is likelier; the answer's own holds {between}"
    if own.high < 0.5:
        return f"the model would more often say something else; its answer's meaning holds {between}"
    if own.low > 0.5:
        return f"the model leans towards its answer, which holds {between}"
    return f"too few draws to tell whether the model leans towards its answer: its meaning holds {between}"


def _score_reading(result: Result) -> str:
    """Without draws nothing can be said of how often: only what was found."""
    if result.options.samples == 1:
        return "one sequence tells nothing of other meanings; ask for more samples"
    if len(result.samples) == 1:
        return "no likely alternative was found: the model sees one way to answer"
    if len(result.clusters) == 1:
        return f"all {len(result.samples)} answers mean the same"
    largest = max(result.clusters, key=_score)
    whose = "the answer's own" if largest.id == 0 else "another one"
    return f"{len(result.clusters)} meanings were found; {whose} scores highest"


def _score(cluster: Cluster) -> float:
    return cluster.score_share
