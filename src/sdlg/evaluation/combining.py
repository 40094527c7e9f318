"""A risk learned from several measures: fitted, and judged out of fold. A room of scikit-learn.

In: values of several measures (n, measures), which answers were wrong, and which sets of measures may be combined.
Out: a `FittedCalibration` with the same scores as one of a single measure.

The logit of the risk is linear in the standardised measures, by maximum likelihood with a prior on the weights. A
measure must never lower the risk as it grows less certain: one whose weight comes out so is left out. Where a measure
has no value it counts as its mean, plus a weight of its own for having none. Which set is combined, and how strong the
prior is, is chosen by the Brier score in an inner cross-validation, so the outer folds judge the choice as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunError
from ..risk.combination import Combination
from ..risk.maps import LogisticMap
from .calibration import (
    FITTERS,
    FittedCalibration,
    calibrate,
    check_classes,
    clipped,
    findings,
    out_of_fold,
    smallest_risk,
    splits_of,
)
from .choice import AUTO, Choice
from .rejection import Fold, keep_answers
from .reliability import OutOfFold, brier_score, judge_risks
from .resampling import Array, resample_counts
from .statistics import RESAMPLES, auroc, paired_difference

try:
    from sklearn.linear_model import LogisticRegression
except ImportError as error:
    raise RunError("calibrating needs scikit-learn: pip install 'sdlg[eval]'") from error

STRENGTHS = (0.01, 0.1, 1.0)  # scikit-learn's C: smaller pulls the weights more strongly to 0
BETTER_IN = 0.9  # of the paired resamples a combination must be better than the best single measure
FEWEST_UNDEFINED = 5  # answers without a value, from which having none may have a weight
Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures of the same answers: what they are called, and in which direction they are less certain."""

    names: tuple[str, ...]
    values: Array  # (n, measures); NaN is undefined
    directions: tuple[int, ...]  # 1 where higher is less certain, else −1


@dataclass(frozen=True, slots=True)
class CombinedModel:
    """Which measures, how they make a score, and how that makes a risk."""

    columns: Columns
    combination: Combination
    map: LogisticMap

    def to_score(self, values: Array) -> Array:
        """(n, all measures) → (n,)."""
        return self.combination(values[:, list(self.columns)])


# -- all of it --------------------------------------------------------------------------------------------------


def calibrate_several(
    measured: Measured, wrong: Array, choice: Choice, sets: Sequence[Columns], *, must_be_better: bool
) -> FittedCalibration:
    """The best combination; or, if it must be better and is not, the best single measure."""
    is_complete = np.isfinite(wrong) & ~np.isnan(measured.values).all(axis=1)
    dropped, values, verdict = int((~is_complete).sum()), measured.values[is_complete], wrong[is_complete]
    check_classes(verdict, choice.folds)
    kept = replace(measured, values=values)
    combined = _combined(kept, verdict, choice, sets)
    single = _best_single(kept, verdict, choice, sets)
    if single is None:
        return replace(combined, dropped=dropped)
    comparison = _compare(kept, verdict, combined, single, choice.seed)
    words = _in_words(comparison)
    if must_be_better and comparison["better_in"] < BETTER_IN:
        direction = measured.directions[single.column] > 0
        alone = calibrate(measured.values[:, single.column], wrong, higher_is_less_certain=direction, choice=choice)
        tried = len({k for columns in sets for k in columns})
        note = (
            f"{single.name} alone was taken, since no combination was shown to be better: {words}. It is the best of "
            f"{tried} on these very answers, so its own figures are a little too good"
        )
        return replace(alone, columns=(single.column,), comparison=comparison, notes=(note, *alone.notes))
    return replace(combined, dropped=dropped, comparison=comparison, notes=(words, *combined.notes))


def _combined(measured: Measured, wrong: Array, choice: Choice, sets: Sequence[Columns]) -> FittedCalibration:
    smallest, values = smallest_risk(len(wrong)), measured.values

    def fitted_on(rows: Any) -> CombinedModel:
        return choose_model(replace(measured, values=values[rows]), wrong[rows], sets, choice)

    models = [(others, held_out, fitted_on(others)) for others, held_out in splits_of(wrong, choice)]
    folds = tuple(Fold(others, held, clipped(model.map, smallest), model.to_score) for others, held, model in models)
    final = fitted_on(slice(None))
    risks = out_of_fold(values, wrong, folds)
    reliability = judge_risks(risks, choice.seed)
    keep = keep_answers(
        values, wrong, folds, clipped(final.map, smallest), choice.error_rate, higher_is_less_certain=True,
        to_score=final.to_score,
    )  # fmt: skip
    briers = {"logistic": brier_score(risks)}
    notes = (*_facts(measured, final), *findings(wrong, briers, "logistic", reliability, keep))
    return FittedCalibration(
        map=final.map, kind="logistic", smallest=smallest, n=len(wrong), n_wrong=int(wrong.sum()), dropped=0,
        out_of_fold=risks, reliability=reliability, brier_of_maps=briers,
        auroc=auroc(risks.risks, wrong, seed=choice.seed), keep=keep, notes=notes, combination=final.combination,
        columns=final.columns,
    )  # fmt: skip


# -- fitting ----------------------------------------------------------------------------------------------------


def choose_model(measured: Measured, wrong: Array, sets: Sequence[Columns], choice: Choice) -> CombinedModel:
    """The set and the strength with the lowest Brier score in a cross-validation of these answers alone."""
    splits = splits_of(wrong, replace(choice, folds=_inner_folds(wrong, choice.folds)))

    def score(columns: Columns, strength: float) -> float:
        errors = []
        for others, held_out in splits:
            model = fit_combination(replace(measured, values=measured.values[others]), wrong[others], columns, strength)
            risks = model.map(model.to_score(measured.values[held_out]))
            told = np.where(np.isnan(risks), wrong[others].mean(), risks)
            errors.append((told - wrong[held_out]) ** 2)
        return float(np.concatenate(errors).mean())

    pairs = [(columns, strength) for columns in sets for strength in STRENGTHS]
    columns, strength = min(pairs, key=lambda pair: score(*pair))
    return fit_combination(measured, wrong, columns, strength)


def _inner_folds(wrong: Array, folds: int) -> int:
    return max(2, min(folds, int(wrong.sum()), int((1 - wrong).sum())))


def fit_combination(measured: Measured, wrong: Array, columns: Columns, strength: float) -> CombinedModel:
    """Weights of the measures in these columns; one that would lower the risk as it grows less certain is left out."""
    values = measured.values[:, list(columns)]
    is_there = ~np.isnan(values)
    counts = is_there.sum(axis=0)
    means = np.where(is_there, values, 0.0).sum(axis=0) / np.maximum(counts, 1)
    deviations = np.where(is_there, values - means, 0.0)
    spreads = np.sqrt((deviations**2).sum(axis=0) / np.maximum(counts, 1))
    scales = np.where(spreads > 0, spreads, 1.0)
    signs = np.array([measured.directions[k] for k in columns])
    used = np.arange(len(columns))
    while True:
        weights, undefined, intercept = _fit_weights(signs * deviations / scales, ~is_there, wrong, used, strength)
        if len(used) == 1 or weights.min() > 0:
            break
        used = np.delete(used, weights.argmin())
    if weights.min() <= 0:  # nothing is left that says anything: the base rate
        share = float(wrong.mean())
        weights, intercept, slope = np.ones(len(used)), math.log(share / (1 - share)), 0.0
    else:
        slope = 1.0
    parts = (signs[used] * weights, means[used], scales[used], undefined)
    combination = Combination(*(tuple(float(number) for number in part) for part in parts))
    scores = combination(values[:, used])
    ends = np.nanmin(scores), np.nanmax(scores)
    return CombinedModel(tuple(columns[k] for k in used), combination, LogisticMap(intercept, slope, *map(float, ends)))


def _fit_weights(
    standardised: Array, is_undefined: NDArray[np.bool_], wrong: Array, used: NDArray[np.int64], strength: float
) -> tuple[Array, Array, float]:
    """Weights of the measures, of having no value, and the intercept. A weight for what hardly happens is 0."""
    lacks = is_undefined[:, used]
    often = np.flatnonzero(np.minimum(lacks.sum(axis=0), (~lacks).sum(axis=0)) >= FEWEST_UNDEFINED)
    inputs = np.hstack([standardised[:, used], lacks[:, often].astype(np.float64)])
    fitted = LogisticRegression(C=strength).fit(inputs, wrong)
    undefined = np.zeros(len(used))
    undefined[often] = fitted.coef_[0, len(used) :]
    return fitted.coef_[0, : len(used)], undefined, float(fitted.intercept_[0])


# -- the best single measure ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Single:
    """One measure, and what it says of answers that it was not fitted on."""

    column: int
    name: str
    out_of_fold: OutOfFold


def _best_single(measured: Measured, wrong: Array, choice: Choice, sets: Sequence[Columns]) -> _Single | None:
    """By the out-of-fold Brier score, chosen afterwards: that favours it, so a combination has it rather harder."""
    columns = sorted({k for columns in sets for k in columns})
    kinds = FITTERS if choice.map == AUTO else [choice.map]
    singles = [
        _Single(k, measured.names[k], risks)
        for k in columns
        for kind in kinds
        if (risks := _single_risks(measured, wrong, choice, k, kind)) is not None
    ]
    return min(singles, key=lambda single: brier_score(single.out_of_fold), default=None)


def _single_risks(measured: Measured, wrong: Array, choice: Choice, column: int, kind: str) -> OutOfFold | None:
    """The base rate where it has no value; None where it has too few to be fitted."""
    values, smallest = measured.values[:, column], smallest_risk(len(wrong))
    folds = []
    for others, held_out in splits_of(wrong, choice):
        usable = others[~np.isnan(values[others])]
        if len(np.unique(wrong[usable])) < 2:
            return None
        risk_map = FITTERS[kind](values[usable], wrong[usable], measured.directions[column] > 0)
        folds.append(Fold(others, held_out, clipped(risk_map, smallest)))
    return out_of_fold(values, wrong, tuple(folds))


def _compare(
    measured: Measured, wrong: Array, combined: FittedCalibration, single: _Single, seed: int
) -> dict[str, Any]:
    """Paired: how much lower the Brier score is, in how many resamples, and how much higher the AUROC."""
    gains = (single.out_of_fold.risks - wrong) ** 2 - (combined.out_of_fold.risks - wrong) ** 2
    means = np.concatenate([counts @ gains / len(wrong) for counts in resample_counts(len(wrong), RESAMPLES, seed)])
    low, high = np.quantile(means, (0.025, 0.975))
    own = measured.directions[single.column] * measured.values[:, single.column]
    difference = paired_difference(combined.out_of_fold.risks, own, wrong, seed=seed)
    return {
        "measures": [measured.names[k] for k in combined.columns],
        "single": single.name,
        "brier": brier_score(combined.out_of_fold),
        "brier_of_single": brier_score(single.out_of_fold),
        "gain": {"value": float(gains.mean()), "low": float(low), "high": float(high)},
        "better_in": float(np.mean(means > 0)),
        "auroc_difference": {"value": difference.value, "low": difference.low, "high": difference.high},
    }


# -- what must be said --------------------------------------------------------------------------------------------


def _in_words(comparison: dict[str, Any]) -> str:
    gain, auroc_gain = comparison["gain"], comparison["auroc_difference"]
    return (
        f"{' + '.join(comparison['measures'])} against {comparison['single']}, the best single measure, out of fold: "
        f"Brier score {comparison['brier']:.4f} against {comparison['brier_of_single']:.4f} (lower by "
        f"{gain['value']:+.4f}, {gain['low']:+.4f} to {gain['high']:+.4f}; better in {comparison['better_in']:.0%} of "
        f"resamples), AUROC {auroc_gain['value']:+.3f} ({auroc_gain['low']:+.3f} to {auroc_gain['high']:+.3f})"
    )


def _facts(measured: Measured, model: CombinedModel) -> list[str]:
    """Where values were missing."""
    lacks = {k: int(np.isnan(measured.values[:, k]).sum()) for k in model.columns}
    n = len(measured.values)
    return [
        f"{measured.names[k]} is undefined for {count} of {n} answers: it counts as its mean there, with a weight of "
        "its own for that where they are enough"
        for k, count in lacks.items()
        if count
    ]
