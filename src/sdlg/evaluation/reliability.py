"""How good risks are, judged on answers that the map was not fitted on.

In: out-of-fold risks and which answers were wrong. Out: scores and the reliability curve, each with its interval.

Brier = mean (risk − wrong)²        skill = 1 − Brier / Brier of the base rate
ECE   = Σ_b (n_b / n) |mean risk − share of wrong answers|, over bins of equal mass
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .resampling import Array, resample_counts
from .statistics import RESAMPLES, wilson_interval

MOST_BINS, FEWEST_PER_BIN = 10, 20
_SIMULATIONS = 200


@dataclass(frozen=True, slots=True, eq=False)
class OutOfFold:
    """What was said of each answer by a map, and by a base rate, that did not know it."""

    risks: Array
    base_rates: Array
    wrong: Array  # 1 or 0


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of about the same risk, and how many of them were wrong."""

    low: float  # the lowest and the highest risk in it
    high: float
    risk: float  # their mean
    wrong: int
    n: int
    share_low: float  # Wilson's 95 % interval of the share of wrong answers
    share_high: float

    @property
    def share(self) -> float:
        """Of wrong answers."""
        return self.wrong / self.n


@dataclass(frozen=True, slots=True)
class Skill:
    """The part of the base rate's Brier score that the map removes, with a bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """All scores. A perfectly calibrated map has an ECE, too: with finite bins, chance alone makes gaps."""

    brier: float
    brier_of_base_rate: float
    skill: Skill
    ece: float
    ece_if_perfect: float  # the mean over simulated answers that are wrong exactly as often as the risks say
    bins: tuple[Bin, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "bins": [asdict(bin) for bin in self.bins]}


def judge_risks(predictions: OutOfFold, seed: int) -> Reliability:
    """Every score of out-of-fold risks."""
    labels = bin_labels(predictions.risks)
    return Reliability(
        brier=brier_score(predictions),
        brier_of_base_rate=float(np.mean((predictions.base_rates - predictions.wrong) ** 2)),
        skill=_skill(predictions, seed),
        ece=float(_calibration_errors(predictions.risks, predictions.wrong[None, :], labels)[0]),
        ece_if_perfect=_ece_if_perfect(predictions.risks, labels, seed),
        bins=tuple(_bin(predictions, labels == label) for label in np.unique(labels)),
    )


def brier_score(predictions: OutOfFold) -> float:
    """The mean squared error of the risks."""
    return float(np.mean((predictions.risks - predictions.wrong) ** 2))


def number_of_bins(n: int) -> int:
    """Ten, or so few that each holds twenty answers; two at least."""
    return max(2, min(MOST_BINS, n // FEWEST_PER_BIN))


def bin_labels(risks: Array) -> NDArray[np.int64]:
    """The bin of each answer, by its midrank: equal risks are never parted, so bins are only as equal as ties allow."""
    _, place, counts = np.unique(risks, return_inverse=True, return_counts=True)
    midranks = (np.cumsum(counts) - counts / 2)[place]  # between 0 and n
    labels: NDArray[np.int64] = np.floor(midranks / len(risks) * number_of_bins(len(risks))).astype(np.int64)
    return labels


def _bin(predictions: OutOfFold, inside: NDArray[np.bool_]) -> Bin:
    risks, wrong, n = predictions.risks[inside], int(predictions.wrong[inside].sum()), int(inside.sum())
    return Bin(float(risks.min()), float(risks.max()), float(risks.mean()), wrong, n, *wilson_interval(wrong, n))


def _skill(predictions: OutOfFold, seed: int) -> Skill:
    errors = (predictions.risks - predictions.wrong) ** 2
    base_errors = (predictions.base_rates - predictions.wrong) ** 2
    skills = [1 - counts @ errors / (counts @ base_errors) for counts in resample_counts(len(errors), RESAMPLES, seed)]
    low, high = np.quantile(np.concatenate(skills), (0.025, 0.975))
    return Skill(float(1 - errors.sum() / base_errors.sum()), float(low), float(high))


def _calibration_errors(risks: Array, wrong: Array, labels: NDArray[np.int64]) -> Array:
    """Of each row of verdicts (simulations, n)."""
    members = (labels[:, None] == np.unique(labels)).astype(np.float64)  # (n, bins)
    errors: Array = np.abs((risks - wrong) @ members).sum(axis=1) / len(risks)
    return errors


def _ece_if_perfect(risks: Array, labels: NDArray[np.int64], seed: int) -> float:
    outcomes = np.random.default_rng(seed).random((_SIMULATIONS, len(risks))) < risks
    return float(_calibration_errors(risks, outcomes.astype(np.float64), labels).mean())
