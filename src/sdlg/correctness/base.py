"""What every correctness metric offers: how right an answer is by one reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class Metric(Protocol):
    """A correctness metric. Implementations: `ExactMatch`, `Contains`, `Rouge`, `Bleurt`."""

    @property
    def name(self) -> str:
        """What users call it."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number per (answer, reference), higher is more right."""


@runtime_checkable
class QuestionMetric(Metric, Protocol):
    """A metric that also sees the question, and all references at once. Implementation: `SameAnswerMetric`."""

    def best(self, question: str, answer: str, references: Sequence[str]) -> float:
        """How right the answer is by the reference that suits it best."""
