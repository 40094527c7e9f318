"""When two answers mean the same, by what an NLI model says of them in both directions.

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
    words = [same_answer.score_of_words(question, *pair) for pair in pairs]
    return _both_directions(
        pairs,
        judge,
        lambda k, forward: same_answer.can_be_same(words[k], forward),
        lambda k, forward, backward: same_answer.are_same(words[k], forward, backward),
    )


def strict(pairs: Pairs, judge: Probabilities) -> list[bool]:
    """Both directions entail."""
    return _each_direction(pairs, judge, lambda direction: direction.entails)


def not_contradiction(pairs: Pairs, judge: Probabilities) -> list[bool]:
    """Neither direction contradicts."""
    return _each_direction(pairs, judge, lambda direction: not direction.contradicts)


def _each_direction(pairs: Pairs, judge: Probabilities, agrees: Callable[[NliProbabilities], bool]) -> list[bool]:
    return _both_directions(
        pairs, judge, lambda _, forward: agrees(forward), lambda _, forward, backward: agrees(backward)
    )


def _both_directions(
    pairs: Pairs,
    judge: Probabilities,
    is_open: Callable[[int, NliProbabilities], bool],
    agree: Callable[[int, NliProbabilities, NliProbabilities], bool],
) -> list[bool]:
    """The second direction is only asked of pairs, by their place, that are still open after the first."""
    forward = judge(pairs)
    places = [k for k, verdict in enumerate(forward) if is_open(k, verdict)]
    backward = judge([(pairs[k][1], pairs[k][0]) for k in places])
    same = {k for k, verdict in zip(places, backward, strict=True) if agree(k, forward[k], verdict)}
    return [k in same for k in range(len(pairs))]


# Of a question and the name of the NLI model that judges.
EQUIVALENCES: Mapping[str, Callable[[str, str], Equivalence]] = {
    "answers": lambda question, nli: partial(answers, question, fitted_same_answer(nli)),
    "strict": lambda *_: strict,
    "not_contradiction": lambda *_: not_contradiction,
}
