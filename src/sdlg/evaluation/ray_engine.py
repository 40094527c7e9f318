"""The same workers on a Ray cluster: one question at a time each, rows come back as they are made.

In: questions to do. Out: their rows, in the order in which they are finished. A worker that dies is started again, its
question is done again; one that kills several workers stops the run with its name, since every further try would cost
a worker as well. Rows are those of the local loop; to the last bit, if workers have as many threads as it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import BadOption, RunError, SdlgError, first_line
from .plan import Plan
from .rows import StageRow
from .run import Engine, Made, Todo
from .run_models import Announce, RuntimeConfig
from .worker import StageRows, Worker

_TRIES_AFTER_DEATH = 2


class _RemoteWorker:
    """A worker in a process of the cluster."""

    def __init__(self, plan: Plan, runtime: RuntimeConfig) -> None:
        self._worker = Worker(plan, runtime)

    def work(self, item: Any, rows: StageRows, stages: tuple[str, ...]) -> list[tuple[str, StageRow]]:
        """All missing rows of a question, together."""
        return self._worker.work(item, rows, stages)


def ray_engine(address: str | None, workers: int) -> Engine:
    """An engine with so many workers on the cluster at this address, or on one that is started here."""
    if workers < 1:
        raise BadOption(f"--workers must be at least 1, not {workers}")
    try:
        import ray
    except ImportError as error:
        raise RunError("--engine ray needs the ray package: pip install 'sdlg[ray]'") from error

    def engine(
        plan: Plan, runtime: RuntimeConfig, todo: Iterable[Todo], stages: tuple[str, ...], announce: Announce
    ) -> Iterator[Made]:
        left = list(todo)
        if not left:
            return
        announce(f"joining Ray at {address or 'this machine'}")
        with _connected(ray, address):
            yield from _spread(ray, plan, runtime, left, stages, workers)

    return engine


def _connected(ray: Any, address: str | None) -> Any:
    """A context that leaves the cluster again."""
    local = {"include_dashboard": False} if address is None else {}
    try:
        return ray.init(address=address or "local", log_to_driver=False, logging_level="error", **local)
    except Exception as error:  # Ray raises many kinds, some of them built-in
        raise RunError(f"cannot join Ray at {address or 'this machine'}: {first_line(error)}") from error


def _spread(
    ray: Any, plan: Plan, runtime: RuntimeConfig, left: list[Todo], stages: tuple[str, ...], workers: int
) -> Iterator[Made]:
    """Every worker has one question; whoever is finished gets the next."""
    remote = ray.remote(_RemoteWorker).options(
        **_share(ray, workers), max_restarts=-1, max_task_retries=_TRIES_AFTER_DEATH
    )
    actors = [remote.remote(plan, runtime) for _ in range(min(workers, len(left)))]
    waiting = iter(left)
    busy: dict[Any, tuple[Any, str]] = {}

    def give(actor: Any) -> None:
        item, rows = next(waiting, (None, None))
        if item is not None:
            busy[actor.work.remote(item, rows, stages)] = (actor, item.id)

    for actor in actors:
        give(actor)
    while busy:
        (done,), _ = ray.wait(list(busy), num_returns=1)
        actor, name = busy.pop(done)
        rows = _result(ray, done, name)
        give(actor)
        yield name, rows


def _share(ray: Any, workers: int) -> dict[str, float]:
    """What each worker may use, so that all of them fit. Ray gives it as many threads as processors."""
    return share_of([node["Resources"] for node in ray.nodes() if node["Alive"]], workers)


def share_of(nodes: Sequence[Mapping[str, float]], workers: int) -> dict[str, float]:
    """Equal parts of the smallest node, or of a GPU; less than one where there are more workers than that."""
    on_each = math.ceil(workers / max(len(nodes), 1))
    processors = min((node.get("CPU", 1.0) for node in nodes), default=1.0) / on_each
    share = {"num_cpus": float(math.floor(processors)) if processors >= 1 else processors}
    if gpus := sum(math.floor(node.get("GPU", 0.0)) for node in nodes):
        share["num_gpus"] = 1.0 / math.ceil(workers / gpus)
    return share


def _result(ray: Any, done: Any, name: str) -> list[tuple[str, StageRow]]:
    try:
        rows: list[tuple[str, StageRow]] = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SdlgError):
            raise error.cause from None
        raise RunError(f"the question {name} failed on a worker: {first_line(error.cause or error)}") from error
    except ray.exceptions.RayActorError as error:
        raise RunError(
            f"the question {name} has cost {_TRIES_AFTER_DEATH + 1} workers their life: {first_line(error)}. "
            "Nothing is lost: start the same command again to go on"
        ) from error
    return rows
