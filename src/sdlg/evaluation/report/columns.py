"""Which sampler and which measure stand behind a column, and how a column looks on every chart.

In: a run. Out: columns; one that the run cannot fill says why. Where a run has several settings of a sampler
(temperatures, penalties), a column takes the one that is best on the first half of the questions, by the mean AUROC
over all thresholds, and is said to be tuned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...measures.headline import headline_measure
from ...options import PRESETS
from ..results import PAPER_COLUMNS, stored_name
from .tables import Number, undefined
from .views import RunView, Target

OUR_COLUMNS: Mapping[str, tuple[str, str]] = {
    "SDLG, default estimate": ("sdlg", headline_measure("sdlg", PRESETS["default"].estimation)),
    "SDLG, branch mass": ("sdlg", "semantic_entropy_branch_mass"),
    "SDLG, frequency": ("sdlg", "semantic_entropy_frequency"),
    "SDLG, number of clusters": ("sdlg", "number_of_clusters"),
    "MS, frequency": ("multinomial", "semantic_entropy_frequency"),
    "MS, Chao–Shen": ("multinomial", "Chao-Shen"),
    "MS, number of clusters": ("multinomial", "number_of_clusters"),
}
SDLG, MULTINOMIAL, SAR = "SE*_SDLG", "SE*_MS", "SAR"
# label → (colour, stroke): the colour is the sampler's, dotted is the improper estimator, dashed has no clusters
LOOKS: Mapping[str, tuple[str, str]] = {
    "LN-PE": ("grey", "dashed"),
    "PE": ("orange", "dashed"),
    "SAR": ("purple", "dashed"),
    "SE_MS": ("vermillion", "dotted"),
    "SE*_MS": ("vermillion", "solid"),
    "SE*_DBS": ("green", "solid"),
    "SE*_SDLG": ("blue", "solid"),
}
_FAMILY_COLOURS = {
    "sdlg": "blue", "multinomial": "vermillion", "arithmetic": "orange", "diverse_beam": "green", "steered": "purple",
}  # fmt: skip
FAMILY_NAMES = {"sdlg": "SDLG", "multinomial": "multinomial", "diverse_beam": "diverse beam"}
WEIGHTS = ("attribution_weight", "substitution_weight", "importance_weight")


@dataclass(frozen=True, slots=True)
class Column:
    """A sampler and a measure, or the reason why this run has none."""

    label: str
    method: str = ""
    measure: str = ""
    reason: str = ""
    is_tuned: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the run has it."""
        return not self.reason

    @property
    def measured(self) -> tuple[str, str]:
        """Method and measure."""
        return self.method, self.measure

    @property
    def colour(self) -> str:
        """Of its sampler."""
        return LOOKS[self.label][0] if self.label in LOOKS else _FAMILY_COLOURS.get(family_of(self.method), "grey")

    @property
    def stroke(self) -> str:
        """Solid for proper estimators of semantic entropy."""
        return LOOKS[self.label][1] if self.label in LOOKS else "dashed"

    def auroc(self, view: RunView, target: Target, n: int | None = None, resamples: int = 0) -> Number:
        """AUROC with the first n samples (all, if not said), or why there is none."""
        if not self.is_there:
            return undefined(self.reason)
        return view.auroc(self.method, self.measure, target, n, resamples=resamples)


# -- methods ----------------------------------------------------------------------------------------------------


def family_of(method: str) -> str:
    """The sampler's name without its settings."""
    return method.split(":")[0]


def settings_of(method: str) -> dict[str, str]:
    """ "multinomial:temperature=0.5" → {"temperature": "0.5"}."""
    return {name: value for name, _, value in (setting.partition("=") for setting in method.split(":")[1:])}


def is_ablation(method: str) -> bool:
    """Whether it is SDLG with other weights of the three scores."""
    return any(name in settings_of(method) for name in WEIGHTS)


def methods_of(view: RunView, family: str) -> tuple[str, ...]:
    """The run's methods of a family, ablations aside."""
    return tuple(method for method in view.run.methods_of(family) if not is_ablation(method))


def is_measured(view: RunView, method: str, measure: str) -> bool:
    """Whether the run has this measure of a method, under whatever name."""
    return stored_name(measure) in view.measures(method)


def paper_name(method: str, measure: str) -> str:
    """What the paper calls this measure of this sampler; nothing where it does not have it."""
    names = (label for label, source in PAPER_COLUMNS.items() if (family_of(method), measure) == _stored(source))
    return next(names, "")


def _stored(source: tuple[str, str]) -> tuple[str, str]:
    return source[0], stored_name(source[1])


# -- columns ----------------------------------------------------------------------------------------------------


def paper_columns(view: RunView) -> tuple[Column, ...]:
    """The paper's seven."""
    return tuple(column_of(view, label, *source) for label, source in PAPER_COLUMNS.items())


def our_columns(view: RunView) -> tuple[Column, ...]:
    """Further ones that the paper does not have."""
    return tuple(column_of(view, label, *source) for label, source in OUR_COLUMNS.items())


def named_column(view: RunView, label: str) -> Column:
    """One of the paper's seven."""
    return column_of(view, label, *PAPER_COLUMNS[label])


def column_of(view: RunView, label: str, family: str, measure: str) -> Column:
    """The column, with the setting that was best on the first half if there are several."""
    methods = methods_of(view, family)
    if not methods:
        return Column(label, reason=f"the run has no {FAMILY_NAMES.get(family, family)} samples")
    settings = [method for method in methods if is_measured(view, method, measure)]
    if not settings:
        return Column(label, reason=f"the run has no measure {measure} of {methods[0]}")
    best = max(settings, key=lambda method: _finite(tuning_score(view, method, measure)))  # the first of equals
    return Column(label, best, measure, is_tuned=len(settings) > 1)


def tuning_score(view: RunView, method: str, measure: str) -> float:
    """Mean AUROC over the thresholds on the first half: what settings are chosen by."""
    return mean_over_thresholds(view, method, measure, half="first")


def mean_over_thresholds(view: RunView, method: str, measure: str, *, half: str = "all") -> float:
    """Mean AUROC over all thresholds at which it is defined; NaN where it is at none."""
    targets = (Target(view.target.metric, threshold) for threshold in view.run.thresholds)
    aurocs = [view.auroc(method, measure, target, half=half).value for target in targets]
    defined = [value for value in aurocs if math.isfinite(value)]
    return float(np.mean(defined)) if defined else math.nan


def _finite(value: float) -> float:
    return value if math.isfinite(value) else -math.inf
