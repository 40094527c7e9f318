"""What every NLI model offers: verdicts on pairs of answers, and where an answer's meaning is sensitive.

An NLI model sees the raw question and answer, `question + " " + answer`, on both sides; never the context or prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..records import Cost

Array = NDArray[np.float64]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NliProbabilities:
    """Probabilities that the first text contradicts, is neutral to, or entails the second."""

    contradiction: float
    neutral: float
    entailment: float

    @property
    def entails(self) -> bool:
        """Entailment is the likeliest label."""
        return self.entailment > max(self.contradiction, self.neutral)

    @property
    def contradicts(self) -> bool:
        """Contradiction is the likeliest label."""
        return self.contradiction > max(self.entailment, self.neutral)


SAME_TEXT = NliProbabilities(0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Judged:
    """Pairs of texts, judged in their order, and what that cost."""

    probabilities: tuple[NliProbabilities, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class InputGradients:
    """Gradients of the loss towards "the answer contradicts itself", at the answer's NLI pieces."""

    spans: tuple[Span, ...]  # of each piece, in characters of the answer
    embeddings: Array  # (pieces, width): z
    premise_gradients: Array  # (pieces, width): ∂loss/∂z in the first copy
    cost: Cost = Cost(nli_gradients=1)  # noqa: RUF009 (frozen)


class NliModel(Protocol):
    """An NLI model. Threads may share it."""

    parameters: int | None  # None: not known

    @property
    def name(self) -> str:
        """What users call it."""

    def judge(self, question: str, pairs: Sequence[tuple[str, str]]) -> Judged:
        """Return whether the first answer entails the second, for each pair."""

    def input_gradients(self, question: str, answer: str) -> InputGradients:
        """Run one forward and one backward pass over (answer, answer)."""

    def embed(self, texts: Sequence[tuple[str, str]]) -> Array:
        """Return the mean input embedding of the pieces of `surface` in `before + surface`, one row for each.

        A row is 0 where the surface has no pieces.
        """
