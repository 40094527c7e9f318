"""A run: every question through every stage, written as it is made, begun anew or taken up where it stopped.

In: a plan and a folder. Out: the four stores, and a `Progress` after each question for those who watch.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..concurrency.in_flight import run_in_flight
from ..datasets import DataSet, Item, choose_items, load_data
from ..errors import BadOption, UsageError
from ..models import checked_name, is_address
from .plan import Plan
from .rows import StageRow
from .run_models import Announce, RuntimeConfig, silent
from .store import STAGES, Store, merged
from .worker import NEEDS, StageRows, Worker, is_complete

Todo = tuple[Item, StageRows]  # a question and the rows it has
Made = tuple[str, list[tuple[str, StageRow]]]  # a question's id, and its new rows by stage
# Turns questions into rows, as they come. `local_engine` here, or `ray_engine`: the same worker either way.
Engine = Callable[[Plan, RuntimeConfig, Iterable[Todo], tuple[str, ...], Announce], Iterator[Made]]

_VERSIONS = ("sdlg", "torch", "transformers", "tokenizers", "numpy", "rouge-score", "scikit-learn", "ray")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands: `rows` are those of the question that was just finished."""

    finished: int  # of all, those from before included
    total: int
    done_now: int  # since this process began
    seconds: float  # since then
    rows: StageRows

    @property
    def seconds_left(self) -> float:
        """At the rate so far."""
        return self.seconds / max(self.done_now, 1) * (self.total - self.finished)


Watch = Callable[[RunProgress], None]


def local_engine(
    plan: Plan, runtime: RuntimeConfig, todo: Iterable[Todo], stages: tuple[str, ...], announce: Announce
) -> Iterator[Made]:
    """In this process: one question after the other, or as many at once as fill a model server."""
    worker = Worker(plan, runtime, announce)

    def work(one: Todo) -> list[tuple[str, StageRow]]:
        return worker.work(*one, stages)

    served = "generate" in stages and is_address(plan.model)
    at_once = runtime.in_flight or (worker.models.language_model.capabilities.in_flight if served else 1)
    if at_once > 1:
        worker.models.load(stages)
    for (item, _), made in run_in_flight(work, todo, at_once, ordered=False):
        yield item.id, made.result()


def run_evaluation(
    plan: Plan,
    folder: Path,
    *,
    data_dir: Path | None = None,
    stages: tuple[str, ...] = STAGES,
    runtime: RuntimeConfig = RuntimeConfig(),  # noqa: B008 (frozen)
    engine: Engine = local_engine,
    watch: Watch = lambda _: None,
    announce: Announce = silent,
) -> None:
    """Do what is left to do. Killed at any moment, it loses no more than the questions being worked on."""
    announce(f"reading {plan.data}")
    _check_limit(plan)
    checked_name(plan.model)
    store = Store(folder)
    data = load_data(plan.data, data_dir or _remembered_folder(store), plan.preset)
    items = choose_items(data, plan.limit, plan.options.seed)
    store.make_folder()
    with store.writing():
        store.begin(plan, _facts(data, items, data_dir))
        have = _rows_by_question(store)
        todo: list[Todo] = [(item, have.get(item.id, {})) for item in items]
        _check_stages(todo, stages, folder)
        left = [(item, rows) for item, rows in todo if not is_complete(plan, rows, stages)]
        rows = {item.id: dict(have) for item, have in left}
        _drive(store, engine(plan, runtime, left, stages, announce), rows, len(todo), watch)


def _remembered_folder(store: Store) -> Path | None:
    """Where the data was when the run was begun, unless the environment says where it is."""
    if os.environ.get("SDLG_DATA") or not store.description.exists():
        return None
    folder = store.read_description()["data"].get("folder")
    return Path(folder) if folder else None


def _check_stages(todo: list[Todo], stages: tuple[str, ...], folder: Path) -> None:
    """A stage alone needs what those before it have made."""
    for needed in NEEDS[stages[0]]:
        if not any(needed in rows for _, rows in todo):
            raise UsageError(f"{stages[0]} needs {needed} first: sdlg eval {needed} --out {folder}")


def _check_limit(plan: Plan) -> None:
    if plan.limit is not None and plan.limit < 1:
        raise BadOption(f"--limit must be at least 1, not {plan.limit}")


def _facts(data: DataSet, items: tuple[Item, ...], folder: Path | None) -> StageRow:
    described: StageRow = {"name": data.name, "sha256": data.sha256, "rows": len(data.items), "evaluated": len(items)}
    described["format"] = _format(items[0])
    described["folder"] = str(folder.resolve()) if folder else None
    order = [item.id for item in items]
    session = {"began": datetime.now(UTC).isoformat(timespec="seconds"), "python": platform.python_version()}
    return {"data": described, "order": order, "session": {**session, **_versions()}}


def _format(item: Item) -> str:
    """What stands before the question."""
    if item.question.context is not None:
        return "with a context"
    return f"{len(item.question.shots)}-shot" if item.question.shots else "zero-shot"


def _versions() -> dict[str, str]:
    versions = {}
    for package in _VERSIONS:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _rows_by_question(store: Store) -> dict[str, dict[str, StageRow]]:
    rows: dict[str, dict[str, StageRow]] = {}
    for stage in STAGES:
        for name, row in store.rows(stage).items():
            rows.setdefault(name, {})[stage] = row
    return rows


def _drive(store: Store, made: Iterator[Made], rows: dict[str, dict[str, StageRow]], total: int, watch: Watch) -> None:
    """Write rows as they come, and show when a question is finished."""
    started, before = time.perf_counter(), total - len(rows)
    for done, (name, new) in enumerate(made, start=1):
        for stage, row in new:
            store.append(stage, row)
            rows[name][stage] = merged(rows[name].get(stage, {}), row)
        watch(RunProgress(before + done, total, done, time.perf_counter() - started, rows.pop(name)))
