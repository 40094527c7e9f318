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
    """How often each of n questions is drawn in resamples of n, in blocks of rows. Same n and seed, same resamples."""
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
        """(resamples, n) → (resamples, distinct scores), lowest score first."""
        sums: Array = np.add.reduceat(values[:, self._order], self._starts, axis=1)
        return sums


def auroc_of(scores: Array, wrong: Array) -> Statistic:
    """P(a wrong answer's score is higher) + ½ P(equal), by midranks."""
    ties = Ties(scores)

    def statistic(counts: Array) -> Array:
        failures, all_answers = ties.sums(counts * wrong), ties.sums(counts)
        successes = all_answers - failures
        below = np.cumsum(successes, axis=1) - successes / 2  # right answers below each score, ties half
        pairs = failures.sum(axis=1) * successes.sum(axis=1)
        return ratio_of((failures * below).sum(axis=1), pairs)

    return statistic


def mean_kept(scores: Array, target: Array, places: range) -> Statistic:
    """The mean of the target among the k most certain answers, averaged over the k − 1 in `places`.

    Let c answers with sum S lie below a tie of g answers with mean m. In the mean over their orders the first c + j
    answers sum to S + j m, so the tie adds Σ_j (S + j m)/(c + j) = g m + (S − c m)(H_{c+g} − H_c), H harmonic numbers.
    """
    ties = Ties(scores)
    harmonic = np.r_[0.0, np.cumsum(1.0 / np.arange(1, len(target) + 1))]

    def statistic(counts: Array) -> Array:
        tied, sums = ties.sums(counts), ties.sums(counts * target)
        after = np.cumsum(tied, axis=1)
        means = sums / np.maximum(tied, 1)
        excess = np.cumsum(sums, axis=1) - sums - (after - tied) * means
        first, last = (np.clip(edge, places.start, places.stop).astype(np.int64) for edge in (after - tied, after))
        areas = (last - first) * means + excess * (harmonic[last] - harmonic[first])
        averages: Array = areas.sum(axis=1) / len(places)
        return averages

    return statistic


def ratio_of(part: Array, whole: Array) -> Array:
    """part / whole, NaN where there is no whole."""
    ratio = np.full(part.shape, math.nan)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio
