"""How well a score tells wrong answers from right ones.

In: one score per question (higher is less certain), and whether its answer is wrong. NaN is unknown: such questions
are dropped and counted, never imputed. Out: figures with bootstrap intervals, or the reason why there is none.

AUROC = P(a wrong answer's score is higher than a right one's) + ½ P(they are equal)

Among equal scores every order is as likely as any other, and curves are the expected ones: the order of the questions
never matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .resampling import Array, Statistic, Ties, auroc_of, error_of, resample_counts

RESAMPLES = 2000
_MOST_BINS, _FEWEST_PER_BIN = 10, 20


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95 % interval (percentiles of a bootstrap over questions), and what it is from.

    Undefined is NaN, with the reason in words. A resample in which the statistic is undefined (all its answers are
    wrong, say) is left out of the interval and counted.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0  # questions it is from
    dropped: int = 0  # questions without a score or a verdict
    excluded: int = 0  # resamples in which it is undefined
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Points from left to right."""

    x: Array
    y: Array


# -- figures ----------------------------------------------------------------------------------------------------


def auroc(scores: ArrayLike, wrong: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Figure:
    """Return how often a wrong answer has the higher score than a right one. Without resamples, no interval."""
    cases = _judged_cases(wrong, scores)
    return _figure(auroc_of(cases.scores[0], cases.wrong), cases, _one_class(cases, "AUROC"), resamples, seed)


def paired_difference(
    scores_a: ArrayLike, scores_b: ArrayLike, wrong: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> Figure:
    """Return AUROC(a) − AUROC(b) on the questions that have both scores, both from the same resamples."""
    cases = _judged_cases(wrong, scores_a, scores_b)
    first, second = (auroc_of(scores, cases.wrong) for scores in cases.scores)
    reason = _one_class(cases, "a difference of AUROCs")
    return _figure(lambda counts: first(counts) - second(counts), cases, reason, resamples, seed)


def error_at_coverage(
    scores: ArrayLike, wrong: ArrayLike, coverage: float, *, resamples: int = RESAMPLES, seed: int = 0
) -> Figure:
    """Return the error rate among the answers given, where this share of them is given: the most certain ones."""
    cases = _judged_cases(wrong, scores)
    return _figure(_error_of(cases, 0, coverage), cases, _empty(cases), resamples, seed)


def paired_error_difference(
    scores_a: ArrayLike, scores_b: ArrayLike, wrong: ArrayLike, coverage: float, *, resamples: int = RESAMPLES,
    seed: int = 0,
) -> Figure:  # fmt: skip
    """Return the error rate by a − that by b at one coverage, on the questions that have both. Below 0, a is better."""
    cases = _judged_cases(wrong, scores_a, scores_b)
    first, second = (_error_of(cases, k, coverage) for k in (0, 1))
    return _figure(lambda counts: first(counts) - second(counts), cases, _empty(cases), resamples, seed)


def _error_of(cases: _Cases, place: int, coverage: float) -> Statistic:
    if not 0 < coverage <= 1:
        raise ValueError(f"a coverage is above 0 and at most 1, not {coverage}")
    return error_of(cases.scores[place], cases.wrong, max(1, round(coverage * cases.n)))


def risk_coverage(scores: ArrayLike, wrong: ArrayLike) -> Curve:
    """Return the share of answers kept, most certain first → the error rate among them."""
    cases = _judged_cases(wrong, scores)
    sizes = np.arange(1, cases.n + 1, dtype=np.float64)
    if cases.n == 0:
        return Curve(sizes, sizes)
    ties, once = Ties(cases.scores[0]), np.ones((1, cases.n))
    tied = ties.sums(once)[0]
    spread = np.repeat(ties.sums(once * cases.wrong)[0] / tied, tied.astype(np.int64))  # the mean of its equals
    return Curve(sizes / cases.n, np.cumsum(spread) / sizes)


# -- probabilities against what happened --------------------------------------------------------------------------


def calibration_error(risks: ArrayLike, wrong: ArrayLike) -> Figure:
    """Return ECE = Σ_b (n_b / n) |mean risk − share of wrong answers| over bins of equal mass. Without an interval.

    Of few answers it is above 0 even for perfect risks.
    """
    cases = _judged_cases(wrong, risks)
    if reason := _empty(cases):
        return Figure(math.nan, dropped=cases.dropped, reason=reason)
    known = cases.scores[0]
    error = calibration_errors(known, cases.wrong[None, :], bin_labels(known))[0]
    return Figure(float(error), n=cases.n, dropped=cases.dropped)


def number_of_bins(n: int) -> int:
    """Return ten, or so few that each holds twenty answers; two at least."""
    return max(2, min(_MOST_BINS, n // _FEWEST_PER_BIN))


def bin_labels(risks: Array) -> NDArray[np.int64]:
    """Return the bin of each answer, by its midrank: equal risks stay together, so bins are as equal as ties allow."""
    _, place, counts = np.unique(risks, return_inverse=True, return_counts=True)
    midranks = (np.cumsum(counts) - counts / 2)[place]  # between 0 and n
    labels: NDArray[np.int64] = np.floor(midranks / len(risks) * number_of_bins(len(risks))).astype(np.int64)
    return labels


def calibration_errors(risks: Array, wrong: Array, labels: NDArray[np.int64]) -> Array:
    """Return the ECE of each row of verdicts (simulations, n)."""
    members = (labels[:, None] == np.unique(labels)).astype(np.float64)  # (n, bins)
    errors: Array = np.abs((risks - wrong) @ members).sum(axis=1) / len(risks)
    return errors


# -- complete cases and the bootstrap ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Cases:
    """The questions of which everything is known."""

    scores: tuple[Array, ...]
    wrong: Array  # 1 for wrong answers, 0 for right ones
    dropped: int

    @property
    def n(self) -> int:
        return len(self.wrong)


def _judged_cases(wrong: ArrayLike, *scores: ArrayLike) -> _Cases:
    columns = [np.asarray(column, dtype=np.float64) for column in (wrong, *scores)]
    if any(column.ndim != 1 or column.shape != columns[0].shape for column in columns):
        raise ValueError(f"one number per question is needed, not shapes {[column.shape for column in columns]}")
    there = ~np.isnan(columns).any(axis=0)
    verdicts, *own = (column[there] for column in columns)
    if not np.isin(verdicts, (0.0, 1.0)).all():
        raise ValueError("an answer is wrong (true, 1), right (false, 0) or not judged (NaN)")
    return _Cases(tuple(own), verdicts, int((~there).sum()))


def _empty(cases: _Cases) -> str:
    return "" if cases.n else f"no question has both a score and a verdict ({cases.dropped} were dropped)"


def _one_class(cases: _Cases, what: str) -> str:
    classes = {cases.n: "wrong", 0: "right"}
    if cases.n == 0 or cases.wrong.sum() not in classes:
        return _empty(cases)
    return f"all {cases.n} answers are {classes[int(cases.wrong.sum())]}: {what} needs both wrong and right ones"


def _figure(statistic: Statistic, cases: _Cases, reason: str, resamples: int, seed: int) -> Figure:
    known: dict[str, Any] = {"n": cases.n, "dropped": cases.dropped, "reason": reason}
    if reason:
        return Figure(math.nan, **known)
    once = np.ones((1, cases.n))
    values = np.concatenate([statistic(c) for c in chain([once], resample_counts(cases.n, resamples, seed))])
    usable = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(usable, (0.025, 0.975)) if usable.size else (math.nan, math.nan)
    return Figure(float(values[0]), float(low), float(high), excluded=resamples - usable.size, **known)
