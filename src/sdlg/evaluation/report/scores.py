"""A run's scores and verdicts as arrays with one entry per question, and the columns of the paper's tables.

In: `RunResults`. Out: AUROCs with intervals. Scores are higher for less certain answers, whatever the measure's own
direction. Where a run has several settings of a sampler (temperatures, penalties), a column takes the one with the
highest mean AUROC over all thresholds on the first half of the questions, and is said to be tuned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import UnknownName
from ...measures.table import find_measure
from ..defaults import HEADLINE_THRESHOLD, headline_metric
from ..frames import costs_frame, measures_frame, questions_frame, samples_frame
from ..resampling import Array
from ..results import PAPER_COLUMNS, RunResults, stored_name
from ..statistics import RESAMPLES, Figure, auroc, paired_difference

WEIGHTS = ("attribution_weight", "substitution_weight", "importance_weight")
METRIC_NAMES = {
    "same_answer": "same answer", "rouge_l": "ROUGE-L", "rouge_1": "ROUGE-1", "bleurt": "BLEURT",
    "exact_match": "exact match",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """What counts as a wrong answer: a metric below a threshold, with or without the stock references."""

    metric: str
    threshold: float = HEADLINE_THRESHOLD
    stock: bool = True

    def __str__(self) -> str:
        without = "" if self.stock else ", without stock references"
        return f"{METRIC_NAMES.get(self.metric, self.metric)} ≥ {self.threshold:g}{without}"


@dataclass(frozen=True, slots=True)
class Column:
    """A method and a measure, or the reason why a run has none."""

    label: str
    method: str = ""
    measure: str = ""
    reason: str = ""
    is_tuned: bool = False


def settings_of(method: str) -> dict[str, str]:
    """Return "multinomial:temperature=0.5" → {"temperature": "0.5"}."""
    return {name: value for name, _, value in (setting.partition("=") for setting in method.split(":")[1:])}


def is_ablation(method: str) -> bool:
    """Return whether a method is SDLG with other weights of its three scores."""
    return not settings_of(method).keys().isdisjoint(WEIGHTS)


def first_half(ids: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return a fixed half of the questions by a hash of their ids: the same for every run of the same data."""
    return np.array([hashlib.sha256(name.encode()).digest()[0] % 2 == 0 for name in ids], dtype=np.bool_)


class RunScores:
    """One run under a name of its own. AUROCs are computed once."""

    def __init__(self, run: RunResults, label: str) -> None:
        self.run, self.label, self.samples = run, label, run.samples
        self.ids = list(run.ids)
        self.options: Mapping[str, Any] = run.config["plan"]["options"]
        self.target = Target(headline_metric(run.metrics))
        self.targets = [self.target, *([Target(self.target.metric, stock=False)] if run.has_stock else [])]
        half = first_half(run.ids)
        self.parts = {"all": np.ones(len(half), dtype=np.bool_), "first": half, "second": ~half}
        self.scores = lru_cache(maxsize=None)(self._scores)
        self.wrong = lru_cache(maxsize=None)(self._wrong)
        self.auroc = lru_cache(maxsize=None)(self._auroc)
        self.column = lru_cache(maxsize=None)(self._column)

    # -- tables --

    @cached_property
    def questions(self) -> pd.DataFrame:
        """The questions that passed all stages, by id."""
        return questions_frame(self.run).set_index("id").loc[self.ids]

    @cached_property
    def drawn(self) -> pd.DataFrame:
        """Their samples, with the prompt's length."""
        samples = samples_frame(self.run)
        return samples[samples["id"].isin(self.ids)].join(self.questions[["question", "prompt_tokens"]], on="id")

    @cached_property
    def costs(self) -> pd.DataFrame:
        """What each method's samples cost, for the same questions."""
        costs = costs_frame(self.run)
        return costs[costs["id"].isin(self.ids)]

    @cached_property
    def _measures(self) -> pd.DataFrame:
        return measures_frame(self.run)

    # -- methods and measures --

    def methods_of(self, sampler: str) -> list[str]:
        """Return the run's settings of a sampler, ablations of SDLG's scores aside."""
        return [name for name in self.run.methods if name.split(":")[0] == sampler and not is_ablation(name)]

    def has(self, method: str, measure: str) -> bool:
        """Return whether the run has this measure of a method, under whatever name."""
        try:
            return (method, stored_name(measure)) in self._measures.index
        except UnknownName:
            return False

    def everything(self) -> Iterator[tuple[str, str]]:
        """Yield every method and measure that this installation knows: a plug-in's may be gone."""
        pairs = ((method, measure) for method in self.run.methods for measure in self.run.measures(method))
        yield from (pair for pair in pairs if self.has(*pair))

    def _column(self, label: str, sampler: str = "", measure: str = "") -> Column:
        """Return a column of the paper's by its label, or any other by sampler and measure."""
        if not sampler:
            sampler, measure = PAPER_COLUMNS[label]
        methods = self.methods_of(sampler)
        settings = [method for method in methods if self.has(method, measure)]
        if not settings:
            missing = f"no measure {measure} of {methods[0]}" if methods else f"no {sampler} samples"
            return Column(label, reason=f"the run has {missing}")
        best = max(settings, key=lambda method: np.nan_to_num(self.mean_auroc(method, measure, "first"), nan=-1.0))
        return Column(label, best, measure, is_tuned=len(settings) > 1)

    def paper_columns(self) -> list[Column]:
        """Return the paper's seven columns."""
        return [self.column(label) for label in PAPER_COLUMNS]

    # -- arrays and numbers (cached under the same names without the underscore) --

    def _scores(self, method: str, measure: str, n: int | None = None) -> Array:
        curves = self._measures.loc[(method, stored_name(measure))]
        values: Array = curves[n or self.samples].reindex(self.ids).to_numpy()
        return values if find_measure(measure).higher_is_less_certain else -values

    def _wrong(self, target: Target) -> Array:
        return self.run.wrong(target.metric, target.threshold, stock=target.stock)

    def _auroc(
        self, column: Column, target: Target, n: int | None = None, half: str = "all", resamples: int = RESAMPLES
    ) -> Figure:
        if column.reason:
            return Figure(np.nan, reason=column.reason)
        rows = self.parts[half]
        scores = self.scores(column.method, column.measure, n)
        return auroc(scores[rows], self.wrong(target)[rows], resamples=resamples)

    def difference(self, first: Column, second: Column, target: Target) -> Figure:
        """Return AUROC(first) − AUROC(second), paired over the questions that have both."""
        for column in (second, first):
            if column.reason:
                return Figure(np.nan, reason=column.reason)
        one, other = (self.scores(column.method, column.measure) for column in (first, second))
        return paired_difference(one, other, self.wrong(target))

    def mean_auroc(self, method: str, measure: str, half: str = "all") -> float:
        """Return the mean AUROC over all thresholds at which it is defined."""
        column = Column("", method, measure)
        targets = (Target(self.target.metric, threshold) for threshold in self.run.thresholds)
        values = np.array([self.auroc(column, target, None, half, 0).value for target in targets])
        return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else np.nan


def name_runs(runs: list[RunResults]) -> list[RunScores]:
    """Name every run by its data and model, and by its folder where that is not enough."""
    plain = [f"{run.data} · {run.model}" for run in runs]
    return [
        RunScores(run, name if plain.count(name) == 1 else f"{name} · {run.folder.name}")
        for name, run in zip(plain, runs, strict=True)
    ]


def number(name: str, figure: Figure) -> dict[str, float | str]:
    """Return a figure as four cells of a table: its value, its interval and the reason why it has none."""
    return {name: figure.value, f"{name} low": figure.low, f"{name} high": figure.high, f"{name} reason": figure.reason}
