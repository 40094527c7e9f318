"""A run as its readers see it: the stores put together, as arrays with one entry per question.

In: a run's folder. Out: `RunResults`. Only questions that passed all stages count; others are told with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..correctness import THRESHOLDS, is_correct
from ..errors import RunError
from ..measures.table import find_measure
from ..options import pick
from .rows import (
    Clustered,
    Generated,
    JudgedAnswer,
    MeasuredSamples,
    read_clustered,
    read_generated,
    read_judged,
    read_measured,
)
from .store import STAGES, Store

Array = NDArray[np.float64]

# Label → (sampler, measure): the columns of the paper's tables.
PAPER_COLUMNS: Mapping[str, tuple[str, str]] = {
    "LN-PE": ("multinomial", "LN-PE"),
    "PE": ("multinomial", "PE"),
    "SAR": ("multinomial", "SAR"),
    "SE_MS": ("multinomial", "SE_MS"),
    "SE*_MS": ("multinomial", "SE*_MS"),
    "SE*_DBS": ("diverse_beam", "SE*_DBS"),
    "SE*_SDLG": ("sdlg", "SE*_SDLG"),
}


@dataclass(frozen=True, slots=True)
class RunResults:
    """A run's rows by question id, for the questions that passed all stages, in the order they were drawn."""

    folder: Path
    config: Mapping[str, Any]  # run.json
    ids: tuple[str, ...]
    skipped: Mapping[str, str]  # id → reason
    generated: Mapping[str, Generated]
    clustered: Mapping[str, Clustered]
    measured: Mapping[str, MeasuredSamples]
    judged: Mapping[str, JudgedAnswer]

    @property
    def data(self) -> str:
        """The data set's name."""
        return str(self.config["data"]["name"])

    @property
    def model(self) -> str:
        """The language model's name."""
        return str(self.config["plan"]["model"])

    @property
    def nli(self) -> str:
        """The NLI model's name."""
        return str(self.config["plan"]["nli"])

    @property
    def preset(self) -> str:
        """Where the run's options started."""
        return str(self.config["plan"]["preset"])

    @property
    def methods(self) -> tuple[str, ...]:
        """With their options, as in `multinomial:temperature=0.5`."""
        return tuple(self.config["plan"]["methods"])

    @property
    def samples(self) -> int:
        """N, the number of sequences of every method."""
        return int(self.config["plan"]["options"]["samples"])

    @property
    def versions(self) -> Mapping[str, str]:
        """Of Python and the packages, when the run was last worked on."""
        sessions = self.config.get("sessions") or [{}]
        return {name: version for name, version in sessions[-1].items() if name != "began"}

    @property
    def parameters(self) -> Mapping[str, int | None]:
        """Of the language model and the NLI model, where they are known."""
        counts: Mapping[str, int | None] = self.generated[self.ids[0]].parameters if self.ids else {}
        return counts

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics by which every question was judged."""
        if not self.ids:
            return ()
        return tuple(m for m in self.judged[self.ids[0]].scores if all(m in self._scores(i) for i in self.ids))

    @property
    def thresholds(self) -> tuple[float, ...]:
        """From 0.1 to 1.0."""
        return THRESHOLDS

    @property
    def has_stock(self) -> bool:
        """Whether answers were also judged without the replies that are true of any question."""
        return any(self.judged[name].scores_without_stock is not None for name in self.ids)

    def methods_of(self, sampler: str) -> tuple[str, ...]:
        """The methods that use a sampler."""
        return tuple(method for method in self.methods if method.split(":")[0] == sampler)

    def measures(self, method: str) -> tuple[str, ...]:
        """Measures that at least one question has, those of other clusterings included (`NAME @ CLUSTERING`)."""
        pick("method", dict.fromkeys(self.methods), method)
        rows = (self.measured[name].values.get(method, {}) for name in self.ids)
        return tuple(dict.fromkeys(measure for values in rows for measure in values))

    def values(self, method: str, measure: str, n: int | None = None) -> Array:
        """A measure of every question from its first n samples (all, if n is not given). NaN: undefined."""
        stored = stored_name(measure)
        place = (self.samples if n is None else n) - 1
        curves = (self.measured[name].values.get(method, {}).get(stored) for name in self.ids)
        return np.array([np.nan if v is None or v[place] is None else v[place] for v in curves], dtype=np.float64)

    def reasons(self, method: str, measure: str) -> Counter[str]:
        """Why a measure is undefined, and for how many questions."""
        rows = (self.measured[name].reasons.get(method, {}) for name in self.ids)
        return Counter(reasons[stored_name(measure)] for reasons in rows if stored_name(measure) in reasons)

    def correctness(self, metric: str, *, stock: bool = True) -> Array:
        """The initial answers' scores. NaN: not judged by this metric."""
        return np.array([self._scores(name, stock).get(metric, np.nan) for name in self.ids], dtype=np.float64)

    def wrong(self, metric: str, threshold: float, *, stock: bool = True) -> Array:
        """1 for wrong answers (their score is below the threshold), 0 for right ones, NaN where not judged."""
        scores = self.correctness(metric, stock=stock)
        return np.where(np.isnan(scores), np.nan, ~is_correct(scores, threshold))

    def _scores(self, name: str, stock: bool = True) -> Mapping[str, float]:
        judged = self.judged[name]
        return judged.scores if stock else judged.scores_without_stock or {}


def stored_name(measure: str) -> str:
    """The name that a measure is stored under: its own, whatever alias it is asked by."""
    name, at, clustering = measure.partition(" @ ")
    return f"{find_measure(name).name}{at}{clustering}"


def load_run(folder: Path) -> RunResults:
    """Read a run, finished or not."""
    store = Store(folder)
    config = store.read_description()
    rows = {stage: store.rows(stage) for stage in STAGES}
    _check_counts(rows["measure"], int(config["plan"]["options"]["samples"]))
    skipped = {name: row["skipped"] for name, row in rows["generate"].items() if "skipped" in row}
    complete = tuple(name for name in rows["generate"] if all(name in rows[stage] for stage in STAGES))
    order = config.get("order")
    if order is not None:
        place = {name: number for number, name in enumerate(order)}
        complete = tuple(sorted(complete, key=lambda name: place.get(name, len(place))))
    return RunResults(
        folder,
        config,
        complete,
        skipped,
        {name: read_generated(row) for name, row in rows["generate"].items()},
        {name: read_clustered(row) for name, row in rows["cluster"].items()},
        {name: read_measured(row) for name, row in rows["measure"].items()},
        {name: read_judged(row) for name, row in rows["judge"].items()},
    )


def _check_counts(measured: Mapping[str, Mapping[str, Any]], samples: int) -> None:
    """Every measure has a value, or none, for each number of samples."""
    for name, row in measured.items():
        for values in row.get("values", {}).values():
            for measure, curve in values.items():
                if len(curve) != samples:
                    raise RunError(f"{measure} of question {name!r} has {len(curve)} values for {samples} samples")
