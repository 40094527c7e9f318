"""When two answers mean the same, by what an NLI model says of them in both directions (method.md §5).

In: pairs of answers and a judge. Out: whether each pair is equivalent. `strict` asks that both directions entail,
`not_contradiction` that neither contradicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..nli.base import NliProbabilities
from .linkage import Pairs

Probabilities = Callable[[Pairs], Sequence[NliProbabilities]]  # of pairs of answers to one question
Equivalence = Callable[[Pairs, Probabilities], list[bool]]


def strict(pairs: Pairs, judge: Probabilities) -> list[bool]:
    """Both directions entail."""
    return _both_directions(pairs, judge, lambda direction: direction.entails)


def not_contradiction(pairs: Pairs, judge: Probabilities) -> list[bool]:
    """Neither direction contradicts."""
    return _both_directions(pairs, judge, lambda direction: not direction.contradicts)


def _both_directions(pairs: Pairs, judge: Probabilities, agrees: Callable[[NliProbabilities], bool]) -> list[bool]:
    """The second direction is only asked where the first one agreed."""
    same = [agrees(forward) for forward in judge(pairs)]
    agreeing = [k for k, yes in enumerate(same) if yes]
    backward = judge([(pairs[k][1], pairs[k][0]) for k in agreeing])
    for k, probabilities in zip(agreeing, backward, strict=True):
        same[k] = agrees(probabilities)
    return same


EQUIVALENCES: Mapping[str, Equivalence] = {"strict": strict, "not_contradiction": not_contradiction}
