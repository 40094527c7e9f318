"""What every view says about a result: the plain-language reading, word shades and cluster colours."""

from __future__ import annotations

from ..formats.results import Result

# Okabe and Ito's colours: distinct also to the colour-blind.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")


def cluster_colours(number: int) -> str:
    """A colour per cluster, repeated when they run out."""
    return _COLOURS[number % len(_COLOURS)]


def word_shades(result: Result) -> list[float]:
    """Each word's attribution as a share of the highest, 0 to 1."""
    values = [word.attribution or 0.0 for word in result.words]
    highest = max(values, default=0.0)
    return [value / highest if highest > 0 else 0.0 for value in values]


def reading(result: Result) -> str:
    """One sentence for people who do not think in nats. It describes the spread, not whether the answer is true."""
    meanings, share = len(result.clusters), result.clusters[0].probability
    if result.options.samples == 1:
        return "one sequence tells nothing of other meanings; ask for more samples"
    if len(result.samples) == 1:
        return "no likely alternative was found: the model sees one way to answer"
    if meanings == 1:
        return f"all {len(result.samples)} answers mean the same"
    largest = max(cluster.probability for cluster in result.clusters)
    if share < largest:
        return f"the answer's own meaning holds {share:.0%}; another meaning is likelier"
    if share >= 0.9:
        return f"{meanings} meanings, but {share:.0%} of the probability is on the answer's own"
    if share >= 0.6:
        return f"the model leans towards its answer ({share:.0%}), {meanings} meanings in all"
    return f"the model wavers between {meanings} meanings; its answer's own holds {share:.0%}"
