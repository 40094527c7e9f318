"""What an NLI model says of ordered pairs of distinct answers: kept, so that they can be clustered anew.

In: a question, answers to it and a judge. Out: a `PairMemory`, a judge that asks each pair once, and of it a
`PairTable` to be stored, which tells a later memory what was said.
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
Matrix = tuple[tuple[float | None, ...], ...]  # None: was not asked
_DIGITS = 7  # that are kept; judging from the table is judging by these


@dataclass(frozen=True, slots=True)
class PairTable:
    """Distinct answers against each other. Row i, column j: of answer i to answer j."""

    distinct: tuple[int, ...]  # of each answer, its row
    entailment: Matrix
    contradiction: Matrix

    def remembered_in(self, memory: PairMemory, texts: Sequence[str]) -> None:
        """Tell the memory what was said of these answers."""
        spellings = list(distinct_answers(texts).values())
        for i, one in enumerate(spellings):
            for j, other in enumerate(spellings):
                entailment, contradiction = self.entailment[i][j], self.contradiction[i][j]
                if entailment is not None and contradiction is not None:
                    memory.known[one, other] = _kept(NliProbabilities(contradiction, 0.0, entailment))

    def asked(self, n: int) -> int:
        """How many ordered pairs of the first n answers were asked."""
        rows = set(self.distinct[:n])
        return sum(i != j and self.entailment[i][j] is not None for i in rows for j in rows)

    def of_answers(self, matrix: Matrix) -> Array | None:
        """The entailment or contradiction of all answers, equal ones included, (N, N); None if a pair was not asked."""
        if any(cell is None for row in matrix for cell in row):
            return None
        rows = np.ix_(self.distinct, self.distinct)
        return np.array(matrix, dtype=np.float64)[rows]


class PairMemory:
    """A judge that asks each ordered pair of answers to one question once."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.known: dict[tuple[str, str], NliProbabilities] = {}

    def judge(self, question: str, pairs: Sequence[tuple[str, str]]) -> Judged:
        """Asked of the NLI model where it is not known yet."""
        new = list(dict.fromkeys(pair for pair in pairs if pair not in self.known))
        judged = self._judge(question, new) if new else Judged((), Cost())
        self.known.update(zip(new, map(_kept, judged.probabilities), strict=True))
        return Judged(tuple(self.known[pair] for pair in pairs), judged.cost)

    def judge_all(self, question: str, texts: Sequence[str]) -> None:
        """Every ordered pair of distinct answers, in one batch."""
        distinct = distinct_answers(texts).values()
        self.judge(question, [(one, other) for one in distinct for other in distinct if one != other])

    def table(self, texts: Sequence[str]) -> PairTable:
        """What is known of these answers."""
        spellings = distinct_answers(texts)
        keys, distinct = list(spellings), list(spellings.values())

        def cell(one: str, other: str, label: str) -> float | None:
            said = SAME_TEXT if one == other else self.known.get((one, other))
            return None if said is None else float(getattr(said, label))

        def matrix(label: str) -> Matrix:
            return tuple(tuple(cell(one, other, label) for other in distinct) for one in distinct)

        places = tuple(keys.index(answer_key(text)) for text in texts)
        return PairTable(places, matrix("entailment"), matrix("contradiction"))


def _kept(said: NliProbabilities) -> NliProbabilities:
    """As the table keeps it."""
    entailment, contradiction = round(said.entailment, _DIGITS), round(said.contradiction, _DIGITS)
    return NliProbabilities(contradiction, max(1.0 - entailment - contradiction, 0.0), entailment)
