"""From an uncertainty to the probability that the answer is wrong: fitted, and cross-validated. Uses scikit-learn.

In: an uncertainty for each answer and which answers were wrong. Out: a `RiskFit`, all of whose scores are out of fold:
each answer is judged by a map that was fitted without it. The map itself is fitted on all answers.

isotonic  the non-decreasing function with the least squared error
logistic  logit of the risk linear in the uncertainty, by maximum likelihood with a weak prior on the standardised slope
          (finite where the uncertainty separates wrong from right); a negative slope becomes 0

Brier = mean (risk − wrong)²        skill = 1 − Brier / Brier of the base rate
ECE   = Σ_b (n_b / n) |mean risk − share of wrong answers|, over bins of equal mass

The keep rule is learn-then-test. Thresholds on a grid that was fixed before are tested in their order, from the most
certain answers on: each must refuse "more than the wanted share is wrong" by the exact binomial test, and the first
that does not ends its chain. Chains begin where 1, 2 and 4 times as many answers are kept as could prove anything, at a
third of the error each. So the promise fails in at most 1 − confidence of all runs, whatever the measure is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..calibration import Bin, Interval, IsotonicMap, KeepRule, LogisticMap, OutOfFold, exact_percent
from ..errors import BadOption, RunError
from ..measures.shares import wilson
from .calibrating import Choice
from .resampling import Array, resample_counts
from .statistics import RESAMPLES, auroc, bin_labels, calibration_errors, number_of_bins

try:
    from scipy.stats import binom
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
except ImportError as error:
    raise RunError("calibrating needs scikit-learn: pip install 'sdlg[eval]'") from error

FEW_ANSWERS, FEW_OF_A_CLASS = 200, 30
_CHAINS = (1, 2, 4)
_STEPS = np.linspace(-1.0, 1.0, 801)[1:-1]
# Thresholds that are fixed before any answer is seen: dense around 0, from −399 to 399.
_GRID: Array = _STEPS / (1 - np.abs(_STEPS))
_SIMULATIONS = 200


@dataclass(frozen=True, slots=True, eq=False)
class RiskFit:
    """A map and how good it is."""

    map: IsotonicMap | LogisticMap
    smallest: float  # risks are kept between this and 1 − this
    n: int
    n_wrong: int
    risks: Array  # of each answer, out of fold
    out_of_fold: OutOfFold
    keep: KeepRule
    notes: tuple[str, ...]


def fit_risk(uncertainty: ArrayLike, wrong: ArrayLike, choice: Choice, owners: ArrayLike | None = None) -> RiskFit:
    """Fit and judge. Answers whose uncertainty or verdict is NaN are left out.

    `owners`: what belongs together, as a number for each; a fold holds all of it, or none.
    """
    both = np.array([uncertainty, wrong, np.arange(np.size(wrong)) if owners is None else owners], dtype=np.float64)
    values, verdicts, groups = both[:, np.isfinite(both).all(axis=0)]
    _check_classes(verdicts, groups, choice.folds)
    folds = list(_folds(verdicts, groups, choice))
    smallest = 1 / (len(verdicts) // number_of_bins(len(verdicts)) + 2)
    fits = {kind: _cross_fit(FITTERS[kind], values, verdicts, folds, smallest) for kind in choice.maps}
    briers = {kind: float(np.mean((fit.risks - verdicts) ** 2)) for kind, fit in fits.items()}
    best = min(briers, key=lambda kind: briers[kind])
    keep = keep_answers(values, verdicts, choice.error_rate, choice.confidence)
    judged = judge_risks(values, verdicts, fits[best], choice, briers)
    return RiskFit(
        map=fits[best].map,
        smallest=smallest,
        n=len(verdicts),
        n_wrong=int(verdicts.sum()),
        risks=fits[best].risks,
        out_of_fold=judged,
        keep=keep,
        notes=tuple(_findings(verdicts, best, judged)),
    )


# -- maps -------------------------------------------------------------------------------------------------------


def fit_isotonic(values: Array, wrong: Array) -> IsotonicMap:
    """Return the knots of the isotonic regression."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(values, wrong)
    return IsotonicMap(tuple(fitted.X_thresholds_.tolist()), tuple(fitted.y_thresholds_.tolist()))


def fit_logistic(values: Array, wrong: Array) -> LogisticMap:
    """Return the coefficients of the logistic regression, for the value as it is."""
    middle, scale = float(values.mean()), float(values.std()) or 1.0
    fitted = LogisticRegression(C=1.0).fit((values[:, None] - middle) / scale, wrong)
    slope = float(fitted.coef_[0, 0]) / scale
    ends = (float(values.min()), float(values.max()))
    if slope > 0:
        return LogisticMap(float(fitted.intercept_[0]) - slope * middle, slope, *ends)
    share = float(wrong.mean())
    return LogisticMap(math.log(share / (1 - share)), 0.0, *ends)


Fitter = Callable[[Array, Array], IsotonicMap | LogisticMap]
FITTERS: Mapping[str, Fitter] = {"isotonic": fit_isotonic, "logistic": fit_logistic}


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """A map fitted on all answers, and the risks by maps fitted on all but each fold."""

    map: IsotonicMap | LogisticMap
    risks: Array  # out of fold
    base_rates: Array  # out of fold


Split = tuple[NDArray[np.int64], NDArray[np.int64]]  # the others, and those that are held out


def _folds(wrong: Array, groups: Array, choice: Choice) -> Iterator[Split]:
    drawn: dict[str, Any] = {"shuffle": True, "random_state": choice.seed}
    if len(np.unique(groups)) == len(groups):
        yield from StratifiedKFold(choice.folds, **drawn).split(wrong, wrong)
    else:
        yield from StratifiedGroupKFold(choice.folds, **drawn).split(wrong, wrong, groups)


def _cross_fit(fitter: Fitter, values: Array, wrong: Array, splits: Sequence[Split], smallest: float) -> CrossFit:
    risks, base_rates = np.empty(len(values)), np.empty(len(values))
    for others, held_out in splits:
        told = fitter(values[others], wrong[others])(values[held_out])
        risks[held_out], base_rates[held_out] = np.clip(told, smallest, 1 - smallest), wrong[others].mean()
    return CrossFit(fitter(values, wrong), risks, base_rates)


def _check_classes(wrong: Array, groups: Array, folds: int) -> None:
    """Raise unless every fold can hold an answer of either class, or with a part of it."""
    every = len(np.unique(groups))
    verb = "are" if every == len(groups) else "have a part that is"
    for name, label, way in (("wrong", 1.0, "higher"), ("right", 0.0, "lower")):
        count = len(np.unique(groups[wrong == label]))
        if count < folds:
            fewer = f"--folds {count}, " if count >= 2 else ""
            raise BadOption(
                f"{count} of {every} answers {verb} {name}, but {folds} folds need at least {folds}; "
                f"try {fewer}a {way} --threshold, another --metric, or a run of more questions"
            )


# -- scores -----------------------------------------------------------------------------------------------------


def judge_risks(
    values: Array, wrong: Array, fit: CrossFit, choice: Choice, brier_of_maps: Mapping[str, float]
) -> OutOfFold:
    """Return every score of the out-of-fold risks, and the AUROC of the uncertainty itself."""
    risks, labels, figure = fit.risks, bin_labels(fit.risks), auroc(values, wrong, seed=choice.seed)
    errors, base_errors = (risks - wrong) ** 2, (fit.base_rates - wrong) ** 2
    return OutOfFold(
        folds=choice.folds,
        seed=choice.seed,
        brier=float(errors.mean()),
        brier_of_base_rate=float(base_errors.mean()),
        skill=_skill(errors, base_errors, choice.seed),
        ece=float(calibration_errors(risks, wrong[None, :], labels)[0]),
        ece_if_perfect=_ece_if_perfect(risks, labels, choice.seed),
        bins=tuple(_bin(risks[labels == label], wrong[labels == label]) for label in np.unique(labels)),
        brier_of_maps=brier_of_maps,
        auroc=Interval(figure.value, figure.low, figure.high),
    )


def _bin(risks: Array, wrong: Array) -> Bin:
    count, n = int(wrong.sum()), len(wrong)
    return Bin(float(risks.min()), float(risks.max()), float(risks.mean()), count, n, *wilson(count, n))


def _skill(errors: Array, base_errors: Array, seed: int) -> Interval:
    resamples = resample_counts(len(errors), RESAMPLES, seed)
    skills = np.concatenate([1 - counts @ errors / (counts @ base_errors) for counts in resamples])
    low, high = np.quantile(skills, (0.025, 0.975))
    return Interval(float(1 - errors.sum() / base_errors.sum()), float(low), float(high))


def _ece_if_perfect(risks: Array, labels: NDArray[np.int64], seed: int) -> float:
    outcomes = np.random.default_rng(seed).random((_SIMULATIONS, len(risks))) < risks
    return float(calibration_errors(risks, outcomes.astype(np.float64), labels).mean())


# -- keeping answers --------------------------------------------------------------------------------------------


def keep_answers(values: Array, wrong: Array, wanted: float, confidence: float) -> KeepRule:
    """Return the largest threshold up to which at most the wanted share is wrong, with that confidence."""
    error = (1 - confidence) / len(_CHAINS)
    fewest = math.ceil(math.log(error) / math.log(1 - wanted))  # if all are right
    kept = (values[None, :] <= _GRID[:, None]).sum(axis=1)
    failures = ((values[None, :] <= _GRID[:, None]) * wrong).sum(axis=1)
    passes = binom.cdf(failures, kept, wanted) <= error
    best = -1
    for times in _CHAINS:
        chain = np.flatnonzero(kept >= times * fewest)
        if chain.size and passes[chain[0]]:
            ends = np.flatnonzero(~passes[chain])
            best = max(best, int(chain[ends[0] - 1] if ends.size else chain[-1]))
    if best < 0:
        return KeepRule(wanted, confidence, None, 0, 0, len(values), _why_none(values, wrong, wanted, fewest))
    return KeepRule(wanted, confidence, float(_GRID[best]), int(kept[best]), int(failures[best]), len(values))


def _why_none(values: Array, wrong: Array, wanted: float, fewest: int) -> str:
    rate = f"an error rate of {exact_percent(wanted)}"
    if len(values) < fewest:
        return f"{len(values)} answers are too few to show {rate}; at least {fewest} are needed"
    first = np.argsort(values, kind="stable")[:fewest]
    return (
        f"no threshold can be shown to keep to {rate}: "
        f"of the {fewest} most certain answers {wrong[first].sum():.0f} are wrong"
    )


def _findings(wrong: Array, best: str, judged: OutOfFold) -> Iterator[str]:
    """Return what a reader of the calibration must know."""
    n, (fewest, name) = len(wrong), min((int(wrong.sum()), "wrong"), (int((1 - wrong).sum()), "right"))
    if len(judged.brier_of_maps) > 1:
        tried = ", ".join(f"{kind} {brier:.4f}" for kind, brier in judged.brier_of_maps.items())
        yield f"the {best} map was chosen for its out-of-fold Brier score ({tried})"
    if n < FEW_ANSWERS or fewest < FEW_OF_A_CLASS:
        yield f"this rests on {n} answers, only {fewest} of them {name}: take the risks as rough"
    if judged.skill.low <= 0:
        yield "the map is not shown to be better than the base rate alone: its skill may be 0"
