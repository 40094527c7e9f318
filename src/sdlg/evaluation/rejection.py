"""Which answers may be kept: the largest uncertainty up to which no more than a wanted share of answers is wrong.

In: values of a measure, which answers were wrong, maps from values to risks. Out: the threshold, and how many of the
answers that it was not chosen on it keeps, and how many of those are wrong.

threshold = the largest value such that the mean risk of the answers up to it is at most the wanted error rate

The mean risk by the map, not the plain share of wrong answers: that share is the luck of the draw among the first few
answers, and where it hardly changes the threshold jumps about. (Simulated with n = 300 and a wanted rate that no
threshold reaches: by shares a threshold is "found" in a half to two thirds of all runs, by a logistic map in 1 %.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..risk import RejectionRule
from .resampling import Array
from .statistics import wilson_interval

FEWEST_KEPT = 20  # of fewer answers an error rate means little
ToRisk = Callable[[Array], Array]  # scores → risks
ToScore = Callable[[Array], Array]  # values of one measure (n,) or of several (n, measures) → scores


def as_it_is(values: Array) -> Array:
    """The score of one measure: its value."""
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Answers that are held out, the others, and a score and a map that were fitted on the others."""

    others: NDArray[np.int64]
    held_out: NDArray[np.int64]
    to_risk: ToRisk
    to_score: ToScore = as_it_is


def keep_answers(
    values: Array, wrong: Array, folds: Sequence[Fold], to_risk: ToRisk, limit: float, *, higher_is_less_certain: bool,
    to_score: ToScore = as_it_is,
) -> RejectionRule:  # fmt: skip
    """The threshold chosen on all answers, and the counts under thresholds that did not know the answer's fold."""
    sign = 1.0 if higher_is_less_certain else -1.0
    is_kept = np.zeros(len(values), dtype=bool)
    for fold in folds:
        training_scores = fold.to_score(values[fold.others])
        threshold = choose_threshold(sign * training_scores, fold.to_risk(training_scores), limit)
        is_kept[fold.held_out] = sign * fold.to_score(values[fold.held_out]) <= threshold
    scores = to_score(values)
    threshold = choose_threshold(sign * scores, to_risk(scores), limit)
    count, failures = int(is_kept.sum()), int(wrong[is_kept].sum())
    low, high = wilson_interval(failures, count) if count else (None, None)
    rule = RejectionRule(limit, None, count, failures, len(values), low, high)
    reason = _why_none(rule, threshold, sign * scores, to_risk(scores))
    return replace(rule, reason=reason) if reason else replace(rule, threshold=sign * threshold)


def choose_threshold(uncertainty: Array, risks: Array, limit: float) -> float:
    """The largest value such that the mean risk of the answers up to it is at most the limit; NaN if there is none."""
    distinct, sizes, means = _up_to(uncertainty, risks)
    good = np.flatnonzero((means <= limit) & (sizes >= FEWEST_KEPT))
    return float(distinct[good[-1]]) if good.size else math.nan


def _up_to(uncertainty: Array, risks: Array) -> tuple[Array, Array, Array]:
    """For each distinct value: how many answers lie up to it, and their mean risk. An undefined one is never kept."""
    is_there = ~np.isnan(uncertainty)
    uncertainty, risks = uncertainty[is_there], risks[is_there]
    distinct, place = np.unique(uncertainty, return_inverse=True)
    sizes = np.cumsum(np.bincount(place)).astype(np.float64)
    return distinct, sizes, np.cumsum(np.bincount(place, weights=risks)) / sizes


def _why_none(rule: RejectionRule, threshold: float, uncertainty: Array, risks: Array) -> str:
    if rule.n < FEWEST_KEPT:
        return f"{rule.n} answers are too few to speak of an error rate; there must be {FEWEST_KEPT}"
    if math.isnan(threshold):
        _, sizes, means = _up_to(uncertainty, risks)
        first = int(np.flatnonzero(sizes >= FEWEST_KEPT)[0])
        return (
            f"no threshold reaches an error rate of {rule.wanted:.0%}: "
            f"even the {sizes[first]:.0f} most certain answers have a mean risk of {means[first]:.0%}"
        )
    if rule.kept < FEWEST_KEPT or (rule.low or 0.0) > rule.wanted:
        return (
            f"no threshold holds to an error rate of {rule.wanted:.0%} on answers that it was not chosen on: "
            f"it would keep {rule.kept} of {rule.n}, {rule.wrong} of them wrong"
        )
    return ""
