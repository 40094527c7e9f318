"""The same workers on a Ray cluster: one question at a time each, rows come back as they are made.

In: questions to do. Out: their rows, in the order in which they are finished. A worker that dies is started again, its
question is done again; one that kills several workers stops the run with its name, since every further try would cost
a worker as well. Rows are those of the local loop; to the last bit, if workers have as many threads as it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import BadOption, RunError, SdlgError, first_line
from .plan import Plan
from .run import Engine, Made, Todo
from .store import QuestionRows
from .worker import Announce, Worker

_TRIES_AFTER_DEATH = 2


def ray_engine(address: str | None, workers: int) -> Engine:
    """Return an engine with so many workers on the cluster at this address, or on one that is started here."""
    if workers < 1:
        raise BadOption(f"--workers must be at least 1, not {workers}")
    try:
        import ray
    except ImportError as error:
        raise RunError("--ray needs the ray package: pip install 'sdlg[ray]'") from error

    def engine(plan: Plan, todo: Sequence[Todo], stages: Sequence[str], announce: Announce) -> Iterator[Made]:
        announce(f"joining Ray at {address or 'this machine'}")
        with _connected(ray, address):
            yield from _spread(ray, plan, todo, stages, workers)

    return engine


def _connected(ray: Any, address: str | None) -> Any:
    """Return a context that leaves the cluster again."""
    local = {"include_dashboard": False} if address is None else {}
    try:
        return ray.init(address=address or "local", log_to_driver=False, logging_level="error", **local)
    except Exception as error:  # Ray raises many kinds, some of them built-in
        raise RunError(f"cannot join Ray at {address or 'this machine'}: {first_line(error)}") from error


def _spread(ray: Any, plan: Plan, todo: Sequence[Todo], stages: Sequence[str], workers: int) -> Iterator[Made]:
    """Every worker has one question; whoever is finished gets the next."""
    share = share_of([node["Resources"] for node in ray.nodes() if node["Alive"]], workers)
    remote = ray.remote(Worker).options(**share, max_restarts=-1, max_task_retries=_TRIES_AFTER_DEATH)
    waiting = iter(todo)
    busy: dict[Any, tuple[Any, str]] = {}

    def give(actor: Any) -> None:
        for item, rows in waiting:
            busy[actor.work.remote(item, rows, stages)] = (actor, item.id)
            break

    for _ in range(min(workers, len(todo))):
        give(remote.remote(plan))
    while busy:
        (done,), _ = ray.wait(list(busy), num_returns=1)
        actor, name = busy.pop(done)
        rows = _result(ray, done, name)
        give(actor)
        yield name, rows


def share_of(nodes: Sequence[Mapping[str, float]], workers: int) -> dict[str, float]:
    """Return what each worker may use, so that all of them fit: equal parts of the smallest node, or of a GPU.

    Less than one where there are more workers than that. Ray gives a worker as many threads as processors.
    """
    on_each = math.ceil(workers / max(len(nodes), 1))
    processors = min((node.get("CPU", 1.0) for node in nodes), default=1.0) / on_each
    share = {"num_cpus": float(math.floor(processors)) if processors >= 1 else processors}
    if gpus := sum(math.floor(node.get("GPU", 0.0)) for node in nodes):
        share["num_gpus"] = 1.0 / math.ceil(workers / gpus)
    return share


def _result(ray: Any, done: Any, name: str) -> QuestionRows:
    try:
        rows: QuestionRows = ray.get(done)
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
