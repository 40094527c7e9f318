"""Maps from a measure's value to a risk: what a calibration is made of.

isotonic  risk = straight lines between knots
logistic  risk = 1 / (1 + exp(−intercept − slope · value))

A value beyond those that were seen has the risk of the last one seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IsotonicMap:
    """Straight lines between knots; the ends go on level."""

    values: tuple[float, ...]  # rising
    risks: tuple[float, ...]  # never falling, or never rising

    def __post_init__(self) -> None:
        if len(self.values) != len(self.risks) or not self.values:
            raise ValueError(f"{len(self.values)} values and {len(self.risks)} risks are not knots")
        if not (np.diff(self.values) > 0).all():
            raise ValueError("the knots' values must rise")
        if min(self.risks) < 0 or max(self.risks) > 1:
            raise ValueError("a risk is between 0 and 1")

    def is_monotone(self, direction: int) -> bool:
        """Whether the risk only ever goes in this direction, 1 or −1."""
        return bool((direction * np.diff(self.risks) >= 0).all())

    def __call__(self, values: ArrayLike) -> Array:
        """The risk of each value."""
        return np.asarray(np.interp(np.asarray(values, dtype=np.float64), self.values, self.risks))


@dataclass(frozen=True, slots=True)
class LogisticMap:
    """A logistic curve over the values that were seen."""

    intercept: float
    slope: float
    low: float  # the lowest and the highest value that it was fitted on
    high: float

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"the lowest value seen, {self.low}, is above the highest, {self.high}")

    def is_monotone(self, direction: int) -> bool:
        """Whether the risk only ever goes in this direction, 1 or −1."""
        return direction * self.slope >= 0

    def __call__(self, values: ArrayLike) -> Array:
        """The risk of each value."""
        logits = self.intercept + self.slope * np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        return np.asarray(0.5 * (1.0 + np.tanh(logits / 2)), dtype=np.float64)  # this form never overflows


RiskMap = IsotonicMap | LogisticMap
MAPS: Mapping[str, type[RiskMap]] = {"isotonic": IsotonicMap, "logistic": LogisticMap}
