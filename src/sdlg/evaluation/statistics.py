"""How well a score tells wrong answers from right ones.

In: one score per question (higher is less certain), and whether its answer is wrong, or how good it is. NaN is
unknown: such questions are dropped and counted, never imputed. Out: figures with bootstrap intervals, or the reason
why there is none.

AUROC = P(a wrong answer's score is higher than a right one's) + ½ P(they are equal)
PRR   = (A(score) − A(random)) / (A(oracle) − A(random)),  A = mean over k of the quality of the k most certain answers
AURC  = mean over k of the error rate among the k most certain answers

Among equal scores every order is as likely as any other, and curves are the expected ones: the order of the questions
never matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .resampling import Array, Statistic, Ties, auroc_of, mean_kept, ratio_of, resample_counts

RESAMPLES = 2000
_NO_DIFFERENCE = 1e-12


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95 % interval (percentiles of a bootstrap over questions), and what it is from.

    Undefined is NaN, with the reason in words. A resample in which the statistic is undefined (all its answers are
    wrong, say) is left out of the interval and counted. Drawing another in its place would give the same distribution
    and hide how few there are of a class.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0  # questions it is from
    n_wrong: int | None = None  # None: answers were judged by degrees, not as wrong or right
    dropped: int = 0  # questions without a score or a verdict
    excluded: int = 0  # resamples in which it is undefined
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Difference(Figure):
    """The first's figure − the second's, on the same questions and the same resamples."""

    share_not_above: float = math.nan  # of the resamples in which the difference is 0 or less


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Points from left to right."""

    x: Array
    y: Array


# -- figures ----------------------------------------------------------------------------------------------------


def auroc(scores: ArrayLike, wrong: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Figure:
    """How often a wrong answer has the higher score than a right one. Without resamples, without an interval."""
    cases = _cases_with_verdicts(wrong, scores)
    return _figure(auroc_of(cases.scores[0], cases.target), cases, _one_class(cases, "AUROC"), resamples, seed)


def paired_difference(
    scores_a: ArrayLike, scores_b: ArrayLike, wrong: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """AUROC(a) − AUROC(b) on the questions that have both scores."""
    cases = _cases_with_verdicts(wrong, scores_a, scores_b)
    first, second = (auroc_of(scores, cases.target) for scores in cases.scores)
    return _difference(first, second, cases, _one_class(cases, "a difference of AUROCs"), resamples, seed)


def error_at_coverage(
    scores: ArrayLike, wrong: ArrayLike, coverage: float, *, resamples: int = RESAMPLES, seed: int = 0
) -> Figure:
    """The error rate among the answers that are given, where this share of them is: the most certain ones."""
    cases = _cases_with_verdicts(wrong, scores)
    return _figure(_error_of(cases, 0, coverage), cases, _empty(cases), resamples, seed)


def paired_error_difference(
    scores_a: ArrayLike, scores_b: ArrayLike, wrong: ArrayLike, coverage: float, *, resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:  # fmt: skip
    """Error rate by a − error rate by b at the same coverage, on the questions that have both: below 0 a is better."""
    cases = _cases_with_verdicts(wrong, scores_a, scores_b)
    first, second = (_error_of(cases, k, coverage) for k in (0, 1))
    return _difference(first, second, cases, _empty(cases), resamples, seed)


def _error_of(cases: _CompleteCases, place: int, coverage: float) -> Statistic:
    if not 0 < coverage <= 1:
        raise ValueError(f"a coverage is above 0 and at most 1, not {coverage}")
    kept = max(1, round(coverage * cases.n))
    return mean_kept(cases.scores[place], cases.target, range(kept - 1, kept))


def prediction_rejection_ratio(
    scores: ArrayLike,
    quality: ArrayLike,
    *,
    max_rejection: float = 1.0,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Figure:
    """PRR as in LM-Polygraph: 1 for the oracle's order of rejection, 0 for a random one, negative for a harmful one.

    `quality` is higher for better answers: 1 and 0 for right and wrong, or a metric's score. `max_rejection` is the
    share of answers that may be rejected, 1 or (in their later papers) 0.5. There a random order is simulated and ties
    fall as the sort has them; here both are expectations, exactly.
    """
    cases = _complete_cases(quality, scores)
    places = _kept_range(cases.n, max_rejection)
    reason = _no_spread(cases) or ("" if places.stop > places.start else "no answer may be rejected")
    scored, oracle = (mean_kept(order, cases.target, places) for order in (cases.scores[0], -cases.target))

    def ratio(counts: Array) -> Array:
        random = counts @ cases.target / cases.n
        possible = oracle(counts) - random
        return ratio_of(scored(counts) - random, np.where(possible > _NO_DIFFERENCE, possible, 0.0))

    return _figure(ratio, cases, reason, resamples, seed)


def area_under_risk_coverage(
    scores: ArrayLike, wrong: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> Figure:
    """AURC: the error rate among the k most certain answers, averaged over k. Lower is better."""
    cases = _cases_with_verdicts(wrong, scores)
    return _figure(mean_kept(cases.scores[0], cases.target, range(cases.n)), cases, _empty(cases), resamples, seed)


# -- curves -----------------------------------------------------------------------------------------------------


def accuracy_rejection(scores: ArrayLike, quality: ArrayLike) -> Curve:
    """Share of rejected answers, most uncertain first → mean quality of those kept. Begins with all of them."""
    coverages, means = _kept_means(_complete_cases(quality, scores))
    return Curve(1.0 - coverages[::-1], means[::-1])


def risk_coverage(scores: ArrayLike, wrong: ArrayLike) -> Curve:
    """Share of answers kept, most certain first → error rate among them."""
    return Curve(*_kept_means(_cases_with_verdicts(wrong, scores)))


def _kept_means(cases: _CompleteCases) -> tuple[Array, Array]:
    sizes = np.arange(1, cases.n + 1, dtype=np.float64)
    if cases.n == 0:
        return sizes, sizes
    ties = Ties(cases.scores[0])
    once = np.ones((1, cases.n))
    tied = ties.sums(once)[0]
    spread = np.repeat(ties.sums(once * cases.target)[0] / tied, tied.astype(np.int64))  # the mean of its equals
    return sizes / cases.n, np.cumsum(spread) / sizes


# -- intervals of shares ----------------------------------------------------------------------------------------


def wilson_interval(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; all of [0, 1] where nothing was counted."""
    if n == 0:
        return 0.0, 1.0
    z, share = 1.959963984540054, count / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


# -- complete cases ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _CompleteCases:
    """The questions of which everything is known."""

    scores: tuple[Array, ...]
    target: Array  # 1 for wrong answers, or the quality
    dropped: int
    binary: bool = False

    @property
    def n(self) -> int:
        return len(self.target)

    @property
    def n_wrong(self) -> int | None:
        return int(self.target.sum()) if self.binary else None


def _complete_cases(target: ArrayLike, *scores: ArrayLike) -> _CompleteCases:
    columns = [np.asarray(column, dtype=np.float64) for column in (target, *scores)]
    if any(column.ndim != 1 or column.shape != columns[0].shape for column in columns):
        raise ValueError(f"one number per question is needed, not shapes {[column.shape for column in columns]}")
    there = ~np.isnan(columns).any(axis=0)
    aim, *own = (column[there] for column in columns)
    return _CompleteCases(tuple(own), aim, int((~there).sum()))


def _cases_with_verdicts(wrong: ArrayLike, *scores: ArrayLike) -> _CompleteCases:
    cases = _complete_cases(wrong, *scores)
    if not np.isin(cases.target, (0.0, 1.0)).all():
        raise ValueError("an answer is wrong (true, 1), right (false, 0) or not judged (NaN)")
    return _CompleteCases(cases.scores, cases.target, cases.dropped, binary=True)


def _empty(cases: _CompleteCases) -> str:
    return "" if cases.n else f"no question has both a score and a verdict ({cases.dropped} were dropped)"


def _one_class(cases: _CompleteCases, what: str) -> str:
    classes = {cases.n: "wrong", 0: "right"}
    if cases.n == 0 or cases.n_wrong not in classes:
        return _empty(cases)
    return f"all {cases.n} answers are {classes[cases.n_wrong]}: {what} needs both wrong and right ones"


def _no_spread(cases: _CompleteCases) -> str:
    if cases.n == 0 or np.ptp(cases.target) > _NO_DIFFERENCE:
        return _empty(cases)
    return f"all {cases.n} answers are equally good: no order of rejection is better than another"


def _kept_range(n: int, max_rejection: float) -> range:
    if not 0 < max_rejection <= 1:
        raise ValueError(f"max_rejection must be above 0 and at most 1, not {max_rejection}")
    return range(n - int(max_rejection * n), n)


# -- the bootstrap ----------------------------------------------------------------------------------------------


def _figure(statistic: Statistic, cases: _CompleteCases, reason: str, resamples: int, seed: int) -> Figure:
    return Figure(**_summary(_resampled(statistic, cases, reason, resamples, seed), cases, reason))


def _difference(
    first: Statistic, second: Statistic, cases: _CompleteCases, reason: str, resamples: int, seed: int
) -> Difference:
    differences = _resampled(lambda counts: first(counts) - second(counts), cases, reason, resamples, seed)
    usable = differences[1:][np.isfinite(differences[1:])]
    share = float(np.mean(usable <= 0)) if usable.size else math.nan
    return Difference(**_summary(differences, cases, reason), share_not_above=share)


def _resampled(statistic: Statistic, cases: _CompleteCases, reason: str, resamples: int, seed: int) -> Array:
    """The figure itself, then its value in each resample; only NaN where there is a reason why it is undefined."""
    if reason:
        return np.array([math.nan])
    once = np.ones((1, cases.n))
    return np.concatenate([statistic(counts) for counts in chain([once], resample_counts(cases.n, resamples, seed))])


def _summary(values: Array, cases: _CompleteCases, reason: str) -> dict[str, Any]:
    resamples = values[1:]
    usable = resamples[np.isfinite(resamples)]
    low, high = np.quantile(usable, (0.025, 0.975)) if usable.size else (math.nan, math.nan)
    return {
        "value": float(values[0]), "low": float(low), "high": float(high), "n": cases.n, "n_wrong": cases.n_wrong,
        "dropped": cases.dropped, "excluded": int(resamples.size - usable.size), "reason": reason,
    }  # fmt: skip
