"""Maps from an uncertainty to a risk.

isotonic  risk = straight lines between knots
logistic  risk = 1 / (1 + exp(−intercept − slope · uncertainty))

The uncertainty is the measure's value, or minus it where a higher value is more certain: a risk never falls with it.
Beyond the values that were seen, the risk is that of the last one seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

Array = NDArray[np.float64]
Number = Annotated[float, Field(ge=-1e300, le=1e300)]  # sums and products of a few of them stay finite
Count = Annotated[int, Field(ge=0, le=2**53)]  # floats tell whole numbers apart up to here


@dataclass(frozen=True, slots=True)
class IsotonicMap:
    """Straight lines between knots; level beyond the first and the last."""

    values: tuple[Number, ...]  # rising
    risks: tuple[Number, ...]  # never falling
    kind: Literal["isotonic"] = "isotonic"

    def __post_init__(self) -> None:
        if len(self.values) != len(self.risks) or not self.values:
            raise ValueError(f"{len(self.values)} values and {len(self.risks)} risks are not knots")
        if not (np.diff(self.values) > 0).all():
            raise ValueError("the knots' values must rise")
        if min(self.risks) < 0 or max(self.risks) > 1 or not (np.diff(self.risks) >= 0).all():
            raise ValueError("the knots' risks must be from 0 to 1 and never fall")

    def __call__(self, uncertainty: ArrayLike) -> Array:
        """Return the risk at each uncertainty."""
        return np.asarray(np.interp(np.asarray(uncertainty, dtype=np.float64), self.values, self.risks))


@dataclass(frozen=True, slots=True)
class LogisticMap:
    """A logistic curve over the values that were seen."""

    intercept: Number
    slope: Number
    low: Number  # lowest and highest uncertainty that it was fitted on
    high: Number
    kind: Literal["logistic"] = "logistic"

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"the lowest value seen, {self.low}, is above the highest, {self.high}")
        if self.slope < 0:
            raise ValueError(f"the slope is {self.slope}: a risk must not fall with the uncertainty")

    def __call__(self, uncertainty: ArrayLike) -> Array:
        """Return the risk at each uncertainty."""
        with np.errstate(over="ignore"):  # an infinite logit is a risk of 0 or 1
            logits = self.intercept + self.slope * np.clip(
                np.asarray(uncertainty, dtype=np.float64), self.low, self.high
            )
        return np.asarray(0.5 * (1.0 + np.tanh(logits / 2)), dtype=np.float64)  # never overflows


RiskMap = Annotated[IsotonicMap | LogisticMap, Field(discriminator="kind")]
