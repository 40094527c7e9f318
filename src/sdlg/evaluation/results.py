"""A run as its readers see it: the stores put together, as arrays with one entry per question.

In: a run's folder. Out: `RunResults`. Only questions that passed all stages count; the others have a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunError
from ..measures.table import find_measure
from ..options import pick
from ..schema import adapter
from .correctness import THRESHOLDS, is_correct
from .plan import Plan
from .store import STAGES, Description, GeneratedRow, JudgedRow, MeasuredRow, Store

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
    """A run's rows by question id; `ids` are those that passed all stages, in the order they were drawn."""

    folder: Path
    description: Description  # run.json
    ids: tuple[str, ...]
    generated: Mapping[str, GeneratedRow]
    measured: Mapping[str, MeasuredRow]
    judged: Mapping[str, JudgedRow]

    @property
    def config(self) -> Mapping[str, Any]:
        """What run.json holds."""
        document: Mapping[str, Any] = adapter(Description).dump_python(self.description, mode="json")
        return document

    @property
    def plan(self) -> Plan:
        """What the run is."""
        return self.description.plan

    @property
    def data(self) -> str:
        """The data set's name."""
        return self.description.data.name

    @property
    def model(self) -> str:
        """The language model's name."""
        return self.plan.model

    @property
    def nli(self) -> str:
        """The NLI model's name."""
        return self.plan.nli

    @property
    def preset(self) -> str:
        """Where the run's options started."""
        return self.plan.preset

    @property
    def methods(self) -> tuple[str, ...]:
        """With their options, as in `multinomial:temperature=0.5`."""
        return self.plan.methods

    @property
    def samples(self) -> int:
        """N, the number of sequences of every method."""
        return self.plan.options.samples

    @property
    def skipped(self) -> Mapping[str, str]:
        """Questions that could not be asked, with the reason."""
        return {name: row.skipped for name, row in self.generated.items() if row.skipped}

    @property
    def versions(self) -> Mapping[str, str]:
        """Of Python and the packages, when the run was last worked on."""
        sessions = self.description.sessions or ({},)
        return {name: version for name, version in sessions[-1].items() if name != "began"}

    @property
    def parameters(self) -> Mapping[str, int | None]:
        """Of the language model and the NLI model, where they are known."""
        return self.generated[self.ids[0]].parameters if self.ids else {}

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
        """Return the methods that use a sampler."""
        return tuple(method for method in self.methods if method.split(":")[0] == sampler)

    def measures(self, method: str) -> tuple[str, ...]:
        """Return the measures that at least one question has."""
        pick("method", dict.fromkeys(self.methods), method)
        rows = (self.measured[name].values.get(method, {}) for name in self.ids)
        return tuple(dict.fromkeys(measure for values in rows for measure in values))

    def values(self, method: str, measure: str, n: int | None = None) -> Array:
        """Return a measure of every question from its first n samples (all, if n is not given). NaN: undefined."""
        stored, place = stored_name(measure), (self.samples if n is None else n) - 1
        curves = (self.measured[name].values.get(method, {}).get(stored) for name in self.ids)
        return np.array([np.nan if v is None or v[place] is None else v[place] for v in curves], dtype=np.float64)

    def reasons(self, method: str, measure: str) -> Counter[str]:
        """Return why a measure is undefined, and for how many questions."""
        rows = (self.measured[name].reasons.get(method, {}) for name in self.ids)
        return Counter(reasons[stored_name(measure)] for reasons in rows if stored_name(measure) in reasons)

    def correctness(self, metric: str, *, stock: bool = True) -> Array:
        """Return the initial answers' scores. NaN: not judged by this metric."""
        return np.array([self._scores(name, stock).get(metric, np.nan) for name in self.ids], dtype=np.float64)

    def wrong(self, metric: str, threshold: float, *, stock: bool = True) -> Array:
        """Return 1 for wrong answers (their score is below the threshold), 0 for right ones, NaN where not judged."""
        scores = self.correctness(metric, stock=stock)
        return np.where(np.isnan(scores), np.nan, ~is_correct(scores, threshold))

    def _scores(self, name: str, stock: bool = True) -> Mapping[str, float]:
        judged = self.judged[name]
        return judged.scores if stock else judged.scores_without_stock or {}


def stored_name(measure: str) -> str:
    """Return the name that a measure is stored under: its own, whatever alias it is asked by."""
    return find_measure(measure).name


def load_run(folder: Path) -> RunResults:
    """Read a run, finished or not."""
    store = Store(folder)
    description = store.read_description()
    generated, measured, judged = (store.rows(stage) for stage in STAGES)
    _check_counts(measured, description.plan.options.samples)
    place = {name: number for number, name in enumerate(description.order)}
    complete = (name for name, row in generated.items() if not row.skipped and name in measured and name in judged)
    ids = tuple(sorted(complete, key=lambda name: place.get(name, len(place))))
    return RunResults(folder, description, ids, generated, measured, judged)


def _check_counts(measured: Mapping[str, MeasuredRow], samples: int) -> None:
    """Every measure has a value, or none, for each number of samples."""
    for name, row in measured.items():
        for values in row.values.values():
            for measure, curve in values.items():
                if len(curve) != samples:
                    raise RunError(f"{measure} of question {name!r} has {len(curve)} values for {samples} samples")
