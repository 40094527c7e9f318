"""From a measure to the probability that the answer is wrong: fitted, and cross-validated. A room of scikit-learn.

In: values of a measure and which answers were wrong. Out: a `Calibration`, all of whose scores are out of fold: each
answer is judged by a map that was fitted without it. The map itself is fitted on all answers.

isotonic  the non-decreasing function of the uncertainty with the least squared error
logistic  logit of the risk linear in the value, by maximum likelihood with a weak prior on the standardised slope,
          which keeps it finite where the value parts wrong from right. A slope of the wrong sign becomes 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BadOption, RunError
from ..risk import RejectionRule
from ..risk.combination import PLAIN, Combination
from ..risk.maps import IsotonicMap, LogisticMap, RiskMap
from .choice import AUTO, Choice
from .rejection import Fold, ToRisk, keep_answers
from .reliability import OutOfFold, Reliability, brier_score, judge_risks, number_of_bins
from .resampling import Array
from .statistics import Figure, auroc

try:
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
except ImportError as error:
    raise RunError("calibrating needs scikit-learn: pip install 'sdlg[eval]'") from error

FEW_ANSWERS, FEW_OF_A_CLASS = 200, 30


@dataclass(frozen=True, slots=True, eq=False)
class FittedCalibration:
    """A map and how good it is."""

    map: RiskMap
    kind: str
    smallest: float  # risks are kept between this and 1 − this
    n: int
    n_wrong: int
    dropped: int  # answers without a value or a verdict
    out_of_fold: OutOfFold
    reliability: Reliability
    brier_of_maps: Mapping[str, float]  # of every map that was tried, out of fold
    auroc: Figure  # of the measure itself: nothing is fitted for it
    keep: RejectionRule
    notes: tuple[str, ...]
    combination: Combination = PLAIN
    columns: tuple[int, ...] = (0,)  # the measures it is made of, of those that were given
    comparison: Mapping[str, Any] = field(default_factory=dict)  # with the best single measure, where there are several


def calibrate(
    values: ArrayLike, wrong: ArrayLike, *, higher_is_less_certain: bool = True, choice: Choice | None = None
) -> FittedCalibration:
    """Fit and judge. NaN is unknown, in values as in verdicts."""
    choice = choice or Choice()
    both = np.array([values, wrong], dtype=np.float64)
    is_complete = np.isfinite(both).all(axis=0)
    value, verdict = both[:, is_complete]
    check_classes(verdict, choice.folds)
    smallest = smallest_risk(len(verdict))
    fits = {
        kind: _fit(kind, value, verdict, choice, smallest, higher_is_less_certain)
        for kind in (FITTERS if choice.map == AUTO else [choice.map])
    }
    briers = {kind: brier_score(fit.out_of_fold) for kind, fit in fits.items()}
    best = min(briers, key=lambda kind: briers[kind])
    chosen = fits[best]
    reliability = judge_risks(chosen.out_of_fold, choice.seed)
    keep = keep_answers(
        value, verdict, chosen.folds, clipped(chosen.map, smallest), choice.error_rate,
        higher_is_less_certain=higher_is_less_certain,
    )  # fmt: skip
    return FittedCalibration(
        map=chosen.map,
        kind=best,
        smallest=smallest,
        n=len(verdict),
        n_wrong=int(verdict.sum()),
        dropped=int((~is_complete).sum()),
        out_of_fold=chosen.out_of_fold,
        reliability=reliability,
        brier_of_maps=briers,
        auroc=auroc(value if higher_is_less_certain else -value, verdict, seed=choice.seed),
        keep=keep,
        notes=tuple(findings(verdict, briers, best, reliability, keep)),
    )


# -- maps -------------------------------------------------------------------------------------------------------


def fit_isotonic(values: Array, wrong: Array, higher_is_less_certain: bool) -> IsotonicMap:
    """Knots of the isotonic regression."""
    fitted = IsotonicRegression(increasing=higher_is_less_certain, out_of_bounds="clip").fit(values, wrong)
    return IsotonicMap(tuple(fitted.X_thresholds_.tolist()), tuple(fitted.y_thresholds_.tolist()))


def fit_logistic(values: Array, wrong: Array, higher_is_less_certain: bool) -> LogisticMap:
    """Coefficients of the logistic regression, for the value as it is."""
    middle, scale = float(values.mean()), float(values.std()) or 1.0
    fitted = LogisticRegression(C=1.0).fit((values[:, None] - middle) / scale, wrong)
    slope = float(fitted.coef_[0, 0]) / scale
    ends = (float(values.min()), float(values.max()))
    if slope > 0 if higher_is_less_certain else slope < 0:
        return LogisticMap(float(fitted.intercept_[0]) - slope * middle, slope, *ends)
    share = float(wrong.mean())
    return LogisticMap(math.log(share / (1 - share)), 0.0, *ends)


FITTERS: Mapping[str, Callable[[Array, Array, bool], RiskMap]] = {"isotonic": fit_isotonic, "logistic": fit_logistic}


# -- folds ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """A kind of map, fitted on all answers and on all but each fold."""

    map: RiskMap
    folds: tuple[Fold, ...]
    out_of_fold: OutOfFold


def _fit(kind: str, values: Array, wrong: Array, choice: Choice, smallest: float, higher_is_less_certain: bool) -> _Fit:
    def fitted_on(rows: Any) -> RiskMap:
        return FITTERS[kind](values[rows], wrong[rows], higher_is_less_certain)

    folds = tuple(
        Fold(others, held_out, clipped(fitted_on(others), smallest)) for others, held_out in splits_of(wrong, choice)
    )
    return _Fit(fitted_on(slice(None)), folds, out_of_fold(values, wrong, folds))


def splits_of(wrong: Array, choice: Choice) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(the others, those held out) of each fold: the same for the same verdicts, whatever is fitted."""
    folds = StratifiedKFold(choice.folds, shuffle=True, random_state=choice.seed)
    return list(folds.split(np.zeros(len(wrong)), wrong))


def smallest_risk(n: int) -> float:
    """No risk is finer than the bins in which it is checked: the rule of succession."""
    return 1 / (n // number_of_bins(n) + 2)


def clipped(risk_map: RiskMap, smallest: float) -> ToRisk:
    """The map, no finer than it can be checked."""
    return lambda values: np.clip(risk_map(values), smallest, 1 - smallest)


def out_of_fold(values: Array, wrong: Array, folds: tuple[Fold, ...]) -> OutOfFold:
    """What each fold's map says of the answers that it did not know; where it says nothing, the base rate."""
    risks, base_rates = np.empty(len(values)), np.empty(len(values))
    for fold in folds:
        base_rates[fold.held_out] = wrong[fold.others].mean()
        told = fold.to_risk(fold.to_score(values[fold.held_out]))
        risks[fold.held_out] = np.where(np.isnan(told), base_rates[fold.held_out], told)
    return OutOfFold(risks, base_rates, wrong)


def check_classes(wrong: Array, folds: int) -> None:
    """Every fold must hold an answer of either class."""
    n = len(wrong)
    for name, count, way in (("wrong", int(wrong.sum()), "higher"), ("right", int((1 - wrong).sum()), "lower")):
        if count < folds:
            fewer = f"--folds {count}, " if count >= 2 else ""
            raise BadOption(
                f"{count} of {n} answers are {name}, but {folds} folds need at least {folds}; "
                f"try {fewer}a {way} --threshold, another --metric, or a run of more questions"
            )


# -- what must be said --------------------------------------------------------------------------------------------


def findings(
    wrong: Array, briers: Mapping[str, float], best: str, reliability: Reliability, keep: RejectionRule
) -> Iterator[str]:
    """What a reader of the calibration must know."""
    n, (fewest, name) = len(wrong), min((int(wrong.sum()), "wrong"), (int((1 - wrong).sum()), "right"))
    if len(briers) > 1:
        tried = ", ".join(f"{kind} {brier:.4f}" for kind, brier in briers.items())
        yield f"the {best} map was chosen for its out-of-fold Brier score ({tried})"
    if n < FEW_ANSWERS or fewest < FEW_OF_A_CLASS:
        yield f"this rests on {n} answers, only {fewest} of them {name}: take the risks as rough"
    if reliability.skill.low <= 0:
        yield "the map is not shown to be better than the base rate alone: its skill may be 0"
    if keep.threshold is not None and keep.error_rate > keep.wanted + 0.01:
        yield (
            f"of the answers kept out of fold {keep.error_rate:.0%} were wrong, not {keep.wanted:.0%}: "
            "ask for a lower rate to be safe"
        )
