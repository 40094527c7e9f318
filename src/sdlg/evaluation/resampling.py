"""Statistics of questions that are drawn several times: what a bootstrap needs, for all its resamples at once.

In: counts, how often each question was drawn, one row per resample. Out: one value per row, NaN where undefined.
Once each is the statistic itself. Nothing is sorted again for a resample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]  # counts (resamples, n) → (resamples,)

_BLOCK = 2_000_000  # counts held at once; 2,000 resamples of 1,000 questions are one block


def resample_counts(n: int, resamples: int, seed: int) -> Iterator[Array]:
    """Yield how often each of n questions is drawn in resamples of n, in blocks of rows; the same for the same seed."""
    random = np.random.default_rng(seed)
    rows = max(1, _BLOCK // max(1, n))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        cells = random.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(cells.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)


class Ties:
    """Questions in the order of their scores, those of equal score together."""

    def __init__(self, scores: Array) -> None:
        self._order = np.argsort(scores, kind="stable")
        ordered = scores[self._order]
        self._starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])

    def sums(self, values: Array) -> Array:
        """Sum over equal scores, (resamples, n) → (resamples, distinct scores), lowest score first."""
        sums: Array = np.add.reduceat(values[:, self._order], self._starts, axis=1)
        return sums


def auroc_of(scores: Array, wrong: Array) -> Statistic:
    """Return P(a wrong answer's score is higher) + ½ P(equal), by midranks."""
    ties = Ties(scores)

    def statistic(counts: Array) -> Array:
        failures, all_answers = ties.sums(counts * wrong), ties.sums(counts)
        successes = all_answers - failures
        below = np.cumsum(successes, axis=1) - successes / 2  # right answers below each score, ties half
        pairs = failures.sum(axis=1) * successes.sum(axis=1)
        values: Array = np.full(pairs.shape, math.nan)
        np.divide((failures * below).sum(axis=1), pairs, out=values, where=pairs > 0)
        return values

    return statistic


def error_of(scores: Array, wrong: Array, kept: int) -> Statistic:
    """Return the share of wrong answers among the `kept` most certain ones; of a tie at the edge, its mean."""
    ties = Ties(scores)

    def statistic(counts: Array) -> Array:
        tied, failures = ties.sums(counts), ties.sums(counts * wrong)
        before = np.cumsum(tied, axis=1) - tied
        taken = np.clip(kept - before, 0, tied)
        rates: Array = (failures / np.maximum(tied, 1) * taken).sum(axis=1) / kept
        return rates

    return statistic
