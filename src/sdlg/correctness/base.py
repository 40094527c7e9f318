"""What every correctness metric offers: how right an answer is by one reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Metric(Protocol):
    """A correctness metric. Implementations: `ExactMatch`, `Rouge`, `Bleurt`."""

    @property
    def name(self) -> str:
        """What users call it."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number per (answer, reference), higher is more right."""
