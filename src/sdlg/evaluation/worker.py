"""What is missing of a question, and in which order it is made: everything else is in `stages`.

In: an item and the rows it has already. Out: the rows that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..datasets import Item
from . import stages
from .plan import Plan
from .rows import (
    MeasuredSamples,
    StageRow,
    clustered_row,
    generated_row,
    judged_row,
    measured_row,
    read_clustered,
    read_generated,
    read_judged,
    read_measured,
)
from .run_models import Announce, RunModels, RuntimeConfig, silent
from .store import STAGES, merged

StageRows = Mapping[str, StageRow]  # stage → row

NEEDS: Mapping[str, tuple[str, ...]] = {
    "generate": (),
    "cluster": ("generate",),
    "measure": ("generate", "cluster"),
    "judge": ("generate",),
}


class Worker:
    """A plan and its models, for one question after the other."""

    def __init__(self, plan: Plan, runtime: RuntimeConfig = RuntimeConfig(), announce: Announce = silent) -> None:  # noqa: B008 (frozen)
        self.plan, self.models = plan, RunModels(plan, runtime, announce)

    def work(self, item: Item, have: StageRows, wanted: tuple[str, ...] = STAGES) -> list[tuple[str, StageRow]]:
        """The missing rows of an item, stage by stage."""
        rows, new = dict(have), []
        for stage in wanted:
            if any(needed not in rows for needed in NEEDS[stage]) or "skipped" in rows.get("generate", {}):
                break
            made = _MAKE[stage](item, rows, self.models)
            if made is not None:
                new.append((stage, {"id": item.id, **made}))
                rows[stage] = merged(rows.get(stage, {}), made)
        return new


def _generate(item: Item, rows: StageRows, models: RunModels) -> StageRow | None:
    return None if "generate" in rows else generated_row(stages.generate(item, models))


def _cluster(item: Item, rows: StageRows, models: RunModels) -> StageRow | None:
    if "cluster" in rows:
        return None
    return clustered_row(stages.cluster(item, read_generated(rows["generate"]), models))


def _measure(item: Item, rows: StageRows, models: RunModels) -> StageRow | None:
    had = read_measured(rows.get("measure", {}))
    if not _lacks_measures(models.plan, had):
        return None
    generated, clustered = read_generated(rows["generate"]), read_clustered(rows["cluster"])
    measured = stages.measure(item, generated, clustered, had, models)
    return None if measured is None else measured_row(measured)


def _judge(item: Item, rows: StageRows, models: RunModels) -> StageRow | None:
    had = read_judged(rows.get("judge", {})).scores
    metrics = [metric for metric in models.metrics if metric.name not in had]
    if not metrics:
        return None
    models.announce("judging")
    return judged_row(stages.judge_answer(item, read_generated(rows["generate"]), metrics))


_MAKE: Mapping[str, Callable[[Item, StageRows, RunModels], StageRow | None]] = {
    "generate": _generate,
    "cluster": _cluster,
    "measure": _measure,
    "judge": _judge,
}


def _lacks_measures(plan: Plan, had: MeasuredSamples) -> bool:
    return any(stages.missing_measures(plan, method, had.values.get(method, {})) for method in plan.methods)


def is_complete(plan: Plan, rows: StageRows, wanted: tuple[str, ...] = STAGES) -> bool:
    """Whether these stages have nothing left to do for a question."""
    if "skipped" in rows.get("generate", {}):
        return True
    lacks = {
        "generate": "generate" not in rows,
        "cluster": "cluster" not in rows,
        "measure": _lacks_measures(plan, read_measured(rows.get("measure", {}))),
        "judge": not set(plan.metrics) <= read_judged(rows.get("judge", {})).scores.keys(),
    }
    return not any(lacks[stage] for stage in wanted)
