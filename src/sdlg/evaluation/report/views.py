"""A run as the report's sections see it: scores with one direction, verdicts, AUROCs with intervals, two halves.

In: `RunResults`. Out: arrays with one entry per question, and `Number`s. Scores are higher for less certain answers,
whatever the measure's own direction.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UnknownName
from ...measures.base import Measure
from ...measures.table import find_measure
from .. import statistics
from ..defaults import HEADLINE_THRESHOLD, headline_metric
from ..results import RunResults
from .tables import Number

Array = NDArray[np.float64]
Rows = NDArray[np.bool_]
MethodMeasure = tuple[str, str]  # method, measure

METRIC_NAMES = {
    "same_answer": "same answer", "contains": "contains", "rouge_l": "ROUGE-L", "rouge_1": "ROUGE-1",
    "bleurt": "BLEURT", "exact_match": "exact match",
}  # fmt: skip
FEW = 20  # members of a class below which an AUROC says little


def metric_name(metric: str) -> str:
    """As people write it."""
    return METRIC_NAMES.get(metric, metric)


@dataclass(frozen=True, slots=True)
class Target:
    """What counts as a wrong answer: a metric below a threshold, with or without the stock references."""

    metric: str
    threshold: float
    stock: bool = True

    def __str__(self) -> str:
        return f"{metric_name(self.metric)} ≥ {self.threshold:g}{'' if self.stock else ', without stock references'}"


class RunView:
    """One run. Arrays and AUROCs are made once."""

    def __init__(self, run: RunResults, label: str, slug: str) -> None:
        self.run, self.label, self.slug = run, label, slug
        self._scores: dict[tuple[str, str, int], Array] = {}
        self._verdicts: dict[Target, Array] = {}
        self._aurocs: dict[tuple[object, ...], Number] = {}
        self._measures: dict[str, tuple[str, ...]] = {}

    # -- what there is --

    @property
    def size(self) -> int:
        """Questions that passed all stages."""
        return len(self.run.ids)

    @property
    def samples(self) -> int:
        """N."""
        return self.run.samples

    @cached_property
    def plan(self) -> Mapping[str, Any]:
        """What was asked for, by the names of its options."""
        plan: Mapping[str, Any] = self.run.config.get("plan") or {}
        return plan

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """By which every question was judged."""
        return self.run.metrics

    @cached_property
    def target(self) -> Target:
        """The metric that agrees best with people; ROUGE-L, the paper's, in runs that were not judged by it."""
        return Target(headline_metric(self.metrics), HEADLINE_THRESHOLD)

    def measures(self, method: str) -> tuple[str, ...]:
        """A method's measures that this installation knows: a plug-in's may be gone."""
        if method not in self._measures:
            self._measures[method] = tuple(name for name in self.run.measures(method) if is_known(name))
        return self._measures[method]

    # -- arrays --

    def scores(self, method: str, measure: str, n: int | None = None) -> Array:
        """One per question, higher for less certain answers; NaN where undefined."""
        key = (method, measure, self.samples if n is None else n)
        if key not in self._scores:
            values = self.run.values(*key)
            self._scores[key] = values if _measure(measure).higher_is_less_certain else -values
        return self._scores[key]

    def wrong(self, target: Target) -> Array:
        """1 for wrong answers, 0 for right ones, NaN where not judged."""
        if target not in self._verdicts:
            self._verdicts[target] = self.run.wrong(target.metric, target.threshold, stock=target.stock)
        return self._verdicts[target]

    @cached_property
    def first_half(self) -> Rows:
        """A fixed half of the questions, by their ids: the same for every run of the same data."""
        return np.array([hashlib.sha256(name.encode()).digest()[0] % 2 == 0 for name in self.run.ids], dtype=np.bool_)

    def part(self, half: str) -> Rows:
        """Which questions: "all" of them, the "first" half or the "second"."""
        everyone = np.ones(self.size, dtype=np.bool_)
        return {"all": everyone, "first": self.first_half, "second": ~self.first_half}[half]

    # -- numbers --

    def auroc(
        self, method: str, measure: str, target: Target, n: int | None = None, *, half: str = "all", resamples: int = 0
    ) -> Number:
        """AUROC of a measure, on all questions or a half of them; with an interval if there are resamples."""
        key = (method, measure, target, n, half, resamples)
        if key not in self._aurocs:
            rows = self.part(half)
            scores, wrong = self.scores(method, measure, n)[rows], self.wrong(target)[rows]
            self._aurocs[key] = number(statistics.auroc(scores, wrong, resamples=resamples))
        return self._aurocs[key]

    def difference(self, first: MethodMeasure, second: MethodMeasure, target: Target, *, half: str = "all") -> Number:
        """AUROC(first) − AUROC(second), paired over the questions that have both."""
        rows = self.part(half)
        one, other = (self.scores(*measured)[rows] for measured in (first, second))
        return number(statistics.paired_difference(one, other, self.wrong(target)[rows]), signed=True)


def number(figure: statistics.Figure, *, signed: bool = False) -> Number:
    """A statistic as the report shows it."""
    return Number(figure.value, figure.low, figure.high, figure.reason, questions=figure.n, signed=signed)


def is_known(measure: str) -> bool:
    """Whether there is such a measure here."""
    try:
        return _measure(measure) is not None
    except UnknownName:
        return False


def _measure(name: str) -> Measure:
    return find_measure(name.partition(" @ ")[0])


def views_of(runs: Sequence[RunResults]) -> list[RunView]:
    """Every run under a name of its own: data and model, and the folder where that is not enough."""
    plain = [f"{run.data} · {run.model}" for run in runs]
    labels = [
        name if plain.count(name) == 1 else f"{name} · {run.folder.name}" for name, run in zip(plain, runs, strict=True)
    ]
    named = enumerate(zip(runs, labels, strict=True), 1)
    return [RunView(run, label, f"{place}-{_slug(label)}") for place, (run, label) in named]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
