"""A run: every question through every stage, written as it is made, begun anew or taken up where it stopped.

In: a plan and a folder. Out: the four stores, and a `Progress` after each question for those who watch.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..datasets import DataSet, Item, choose_items, load_data
from ..errors import BadOption
from .plan import Plan
from .stages import Places, Rows, Tell, Worker, is_complete
from .store import STAGES, Row, Store

Todo = tuple[Item, Rows]  # a question and the rows it has
Made = tuple[str, str, Row]  # question id, stage, row
# Turns questions into rows, as they come. `local_engine` here, or `ray_engine`: the same worker either way.
Engine = Callable[[Plan, Places, Iterable[Todo], tuple[str, ...], Tell], Iterator[Made]]

_VERSIONS = ("sdlg", "torch", "transformers", "tokenizers", "numpy", "rouge-score", "scikit-learn", "ray")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands: `rows` are those of the question that was just finished."""

    finished: int  # of all, those from before included
    total: int
    done_now: int  # since this process began
    seconds: float  # since then
    rows: Rows

    @property
    def seconds_left(self) -> float:
        """At the rate so far."""
        return self.seconds / max(self.done_now, 1) * (self.total - self.finished)


Watch = Callable[[Progress], None]


def local_engine(
    plan: Plan, places: Places, todo: Iterable[Todo], stages: tuple[str, ...], tell: Tell
) -> Iterator[Made]:
    """One question after the other, in this process."""
    worker = Worker(plan, places, tell)
    for item, rows in todo:
        for stage, row in worker.work(item, rows, stages):
            yield item.id, stage, row


def run_evaluation(
    plan: Plan,
    folder: Path,
    *,
    data_dir: Path | None = None,
    stages: tuple[str, ...] = STAGES,
    places: Places = Places(),  # noqa: B008 (frozen)
    engine: Engine = local_engine,
    watch: Watch = lambda _: None,
    tell: Tell = lambda _: None,
) -> None:
    """Do what is left to do. Killed at any moment, it loses no more than the questions being worked on."""
    tell(f"reading {plan.data}")
    data = load_data(plan.data, data_dir)
    items = choose_items(data, plan.limit, plan.options.seed)
    store = Store(folder)
    _check_limit(plan)
    store.begin(plan, _facts(data, items))
    with store.writing():
        have = _rows_by_question(store)
        todo = [(item, have.get(item.id, {})) for item in items]
        left = [(item, rows) for item, rows in todo if not is_complete(plan, rows, stages)]
        _drive(plan, store, engine(plan, places, left, stages, tell), left, len(todo), watch, stages)


def _check_limit(plan: Plan) -> None:
    if plan.limit is not None and plan.limit < 1:
        raise BadOption(f"--limit must be at least 1, not {plan.limit}")


def _facts(data: DataSet, items: tuple[Item, ...]) -> Row:
    described: Row = {"name": data.name, "sha256": data.sha256, "rows": len(data.items), "evaluated": len(items)}
    described["format"] = _format(items[0])
    order = [item.id for item in items]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "data": described,
        "order": order,
        "created": created,
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _format(item: Item) -> str:
    """What stands before the question."""
    if item.question.context is not None:
        return "with a context"
    return f"{len(item.question.shots)}-shot" if item.question.shots else "zero-shot"


def _versions() -> dict[str, str]:
    found = {}
    for package in _VERSIONS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _rows_by_question(store: Store) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for stage in STAGES:
        for name, row in store.rows(stage).items():
            found.setdefault(name, {})[stage] = row
    return found


def _drive(
    plan: Plan,
    store: Store,
    made: Iterator[Made],
    left: list[Any],
    total: int,
    watch: Watch,
    stages: tuple[str, ...],
) -> None:
    """Write rows as they come, and tell when a question is finished."""
    rows = {item.id: dict(have) for item, have in left}
    started, done = time.perf_counter(), 0
    for name, stage, row in made:
        store.append(stage, row)
        rows[name][stage] = row if stage not in rows[name] else {**rows[name][stage], **row}
        if stage == stages[-1] or "skipped" in row:
            done += 1
            watch(Progress(total - len(left) + done, total, done, time.perf_counter() - started, rows.pop(name)))
