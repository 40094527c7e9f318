"""A run: every question through every stage, written as it is made, begun anew or taken up where it stopped.

In: a plan and a folder. Out: the stores, and a `RunProgress` after each question for those who watch.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..concurrency.in_flight import run_in_flight
from ..errors import RunError, UsageError
from ..loaded import Models
from .datasets import DataSet, Item, choose_items, load_data
from .plan import Plan
from .store import STAGES, DataFacts, Description, QuestionRows, Store
from .worker import Announce, Worker, is_complete, silent

Todo = tuple[Item, QuestionRows]  # a question and the rows it has
Made = tuple[str, QuestionRows]  # a question's id, and its new rows
# Turns questions into rows, as they come. `local_engine` here, or `ray_engine`: the same worker either way.
Engine = Callable[[Plan, Sequence[Todo], Sequence[str], Announce], Iterator[Made]]

_VERSIONS = ("sdlg", "torch", "transformers", "tokenizers", "numpy", "rouge-score", "scikit-learn", "ray")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands."""

    finished: int  # of all, those from before included
    total: int
    done_now: int  # since this process began
    seconds: float  # since then


Watch = Callable[[RunProgress], None]


def local_engine(
    plan: Plan, todo: Sequence[Todo], stages: Sequence[str], announce: Announce, models: Models | None = None
) -> Iterator[Made]:
    """Work in this process: one question after the other, or as many at once as fill a model server."""
    worker = Worker(plan, models, announce)
    at_once = plan.loading.in_flight
    if "generate" in stages:
        worker.models.load(lambda name: announce(f"loading the {name}"))
        at_once = worker.models.in_flight
    if at_once > 1 and "judge" in stages:
        _ = worker.metrics  # threads that came upon them together would each load them
    for (item, _), made in run_in_flight(lambda one: worker.work(*one, stages), todo, max(at_once, 1), ordered=False):
        yield item.id, made.result()


def run_evaluation(
    plan: Plan,
    folder: Path,
    *,
    data_dir: Path | None = None,
    stages: Sequence[str] = STAGES,
    engine: Engine = local_engine,
    watch: Watch = lambda _: None,
    announce: Announce = silent,
) -> None:
    """Do what is left to do. Killed at any moment, it loses no more than the questions being worked on."""
    announce(f"reading {plan.data}")
    store = Store(folder)
    data = load_data(plan.data, data_dir or _remembered_folder(store), plan.preset)
    items = choose_items(data, plan.limit, plan.options.seed)
    _check_items(data.name, items)
    store.make_folder()
    with store.writing():
        store.begin(_description(plan, data, items, data_dir))
        have = {stage: store.rows(stage) for stage in STAGES}
        todo = [(item, _rows_of(item.id, have)) for item in items]
        _check_stages(todo, stages, folder)
        left = [(item, rows) for item, rows in todo if not is_complete(plan, rows, stages)]
        started, before = time.perf_counter(), len(todo) - len(left)
        made = engine(plan, left, stages, announce) if left else iter(())
        for done, (_, new) in enumerate(made, start=1):
            for stage in STAGES:
                if stage in new:
                    store.append(stage, new[stage])  # type: ignore[literal-required]
            watch(RunProgress(before + done, len(todo), done, time.perf_counter() - started))


def _rows_of(name: str, have: dict[str, dict[str, Any]]) -> QuestionRows:
    rows: Any = {stage: rows[name] for stage, rows in have.items() if name in rows}
    found: QuestionRows = rows
    return found


def _check_items(data: str, items: Sequence[Item]) -> None:
    """Data of which no row can be used is an error, with the most frequent reasons."""
    if not all(item.fault for item in items):
        return
    faults = Counter(item.fault for item in items).most_common(3)
    reasons = "; ".join(f"{fault} ({count} rows)" for fault, count in faults)
    raise RunError(
        f"none of the {len(items)} rows of {data} can be used: {reasons}. "
        'A row is a line like {"question": "…", "references": ["…"]}'
    )


def _check_stages(todo: Sequence[Todo], stages: Sequence[str], folder: Path) -> None:
    """Measuring and judging need what was generated."""
    if "generate" not in stages and not any("generate" in rows for _, rows in todo):
        raise UsageError(f"{stages[0]} needs generate first: sdlg eval generate --out {folder}")


def _remembered_folder(store: Store) -> Path | None:
    """Return where the data was when the run was begun, unless the environment says where it is."""
    if os.environ.get("SDLG_DATA") or not store.description.exists():
        return None
    folder = store.read_description().data.folder
    return Path(folder) if folder else None


def _description(plan: Plan, data: DataSet, items: Sequence[Item], data_dir: Path | None) -> Description:
    shown = items[0].question
    shots = f"{len(shown.shots)}-shot" if shown.shots else "zero-shot"
    folder = str(data_dir.resolve()) if data_dir else None
    facts = DataFacts(
        name=data.name,
        sha256=data.sha256,
        rows=len(data.items),
        evaluated=len(items),
        format=shots if shown.context is None else "with a context",
        folder=folder,
    )
    began = datetime.now(UTC).isoformat(timespec="seconds")
    session = {"began": began, "python": platform.python_version(), **_versions()}
    return Description(plan, facts, tuple(item.id for item in items), (session,))


def _versions() -> dict[str, str]:
    versions = {}
    for package in _VERSIONS:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
