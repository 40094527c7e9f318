"""When two answers mean the same, by what an NLI model says of them in both directions (method.md §5).

In: pairs of answers and a judge. Out: whether each pair is equivalent. `answers` asks whether they answer the question
alike (`same_answer`), `strict` that both directions entail, `not_contradiction` that neither contradicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..nli.base import NliProbabilities
from .linkage import Pairs
from .same_answer import SameAnswer, fitted_same_answer

Probabilities = Callable[[Pairs], Sequence[NliProbabilities]]  # of pairs of answers to one question
Equivalence = Callable[[Pairs, Probabilities], list[bool]]


def answers(question: str, same_answer: SameAnswer, pairs: Pairs, judge: Probabilities) -> list[bool]:
    """They probably answer the question alike. The second direction is only asked where it can decide."""
    forward = judge(pairs)
    open_places = [k for k, pair in enumerate(pairs) if same_answer.can_be_same(question, *pair, forward[k])]
    backward = judge([(pairs[k][1], pairs[k][0]) for k in open_places])
    same = [False] * len(pairs)
    for k, verdict in zip(open_places, backward, strict=True):
        same[k] = same_answer.same(question, *pairs[k], forward[k], verdict)
    return same


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


# Of a question and the name of the NLI model that judges.
EQUIVALENCES: Mapping[str, Callable[[str, str], Equivalence]] = {
    "answers": lambda question, nli: partial(answers, question, fitted_same_answer(nli)),
    "strict": lambda *_: strict,
    "not_contradiction": lambda *_: not_contradiction,
}
