"""From the measures of an answer to one number, the score: what a map turns into a risk.

score = Σ_k weight_k · (value_k − mean_k) / scale_k

A measure without a value adds `undefined_k` instead, which was fitted on answers that had none either. Where no measure
has a value, the score is NaN. One measure as it is, is the case of one weight of 1, a mean of 0 and a scale of 1.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Combination:
    """Plain coefficients, one for each measure."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    undefined: tuple[float, ...]  # what a measure adds that has no value

    def __post_init__(self) -> None:
        if not self.weights or len({len(part) for part in astuple(self)}) != 1:
            raise ValueError(f"{', '.join(str(len(part)) for part in astuple(self))} coefficients are no combination")
        if not any(self.weights):
            raise ValueError("all weights are 0")
        if min(self.scales) <= 0:
            raise ValueError("a scale must be above 0")

    @property
    def is_plain(self) -> bool:
        """Whether the score is the one measure itself."""
        return self == PLAIN

    def __call__(self, values: ArrayLike) -> Array:
        """The score of each answer, from its measures' values: (…, measures) → (…). NaN is undefined."""
        given = np.asarray(values, dtype=np.float64)
        is_there = ~np.isnan(given)
        added = np.asarray(self.weights) * ((given - np.asarray(self.means)) / np.asarray(self.scales))
        scores = np.where(is_there, added, np.asarray(self.undefined)).sum(axis=-1)
        return np.asarray(np.where(is_there.any(axis=-1), scores, np.nan), dtype=np.float64)


PLAIN = Combination((1.0,), (0.0,), (1.0,), (0.0,))
