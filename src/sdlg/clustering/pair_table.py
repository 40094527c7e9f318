"""What an NLI model says of every ordered pair of distinct answers: kept, so that they can be clustered anew.

In: a question, answers to it and a judge. Out: a `PairTable`, which is a judge itself, at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..nli.base import SAME_TEXT, Judged, NliProbabilities
from ..records import Cost
from .clusters import Judge, answer_key, distinct_answers

Array = NDArray[np.float64]
Matrix = tuple[tuple[float, ...], ...]
_DIGITS = 7  # that are kept; judging from the table is judging by these


@dataclass(frozen=True, slots=True)
class PairTable:
    """Distinct answers against each other. Row i, column j: of answer i to answer j."""

    distinct: tuple[int, ...]  # of each answer, its row
    entailment: Matrix
    contradiction: Matrix

    def judge_of(self, texts: Sequence[str]) -> Judge:
        """A judge of these answers that looks up what was said."""
        place = dict(zip(map(answer_key, texts), self.distinct, strict=True))

        def look_up(question: str, pairs: Sequence[tuple[str, str]]) -> Judged:
            places = [(place[answer_key(one)], place[answer_key(other)]) for one, other in pairs]
            return Judged(tuple(self._probabilities(i, j) for i, j in places), Cost())

        return look_up

    def _probabilities(self, i: int, j: int) -> NliProbabilities:
        entailment, contradiction = self.entailment[i][j], self.contradiction[i][j]
        return NliProbabilities(contradiction, max(1.0 - entailment - contradiction, 0.0), entailment)

    def of_answers(self, matrix: Matrix) -> Array:
        """The entailment or contradiction of all answers, equal ones included, (N, N)."""
        rows = np.ix_(self.distinct, self.distinct)
        return np.array(matrix, dtype=np.float64)[rows]


def judge_pairs(
    question: str, texts: Sequence[str], judge: Judge, cache: dict[tuple[str, str], NliProbabilities]
) -> PairTable:
    """Judge all ordered pairs that the cache does not hold yet."""
    spellings = distinct_answers(texts)
    keys, distinct = list(spellings), list(spellings.values())
    pairs = [(one, other) for one in distinct for other in distinct if one != other and (one, other) not in cache]
    cache.update(zip(pairs, judge(question, pairs).probabilities, strict=True))

    def matrix(label: str) -> Matrix:
        cells = [[cache.get((one, other), SAME_TEXT) for other in distinct] for one in distinct]
        return tuple(tuple(round(getattr(cell, label), _DIGITS) for cell in row) for row in cells)

    places = tuple(keys.index(answer_key(text)) for text in texts)
    return PairTable(places, matrix("entailment"), matrix("contradiction"))
