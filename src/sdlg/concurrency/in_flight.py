"""Several questions at once: threads that wait for a model server while others do arithmetic.

In: a function and things to do. Out: (thing, its finished future), in their order or as they finish. With one in
flight everything happens in the calling thread. Classifiers and encoders are `one_at_a_time`: threads take turns with
them; those that decode on one local model share its passes (shared_passes.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache, partial, wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ..errors import BadOption
from .limits import Limit, holding, limited

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")

_AHEAD = 4  # times in flight: how far others may go on while the first of them takes long


def run_in_flight(
    work: Callable[[A], B], items: Iterable[A], count: int, *, ordered: bool = True
) -> Generator[tuple[A, Future[B]], None, None]:
    """Work on so many items at once. Whoever stops asking for more cancels what is under way."""
    if count < 1:
        raise BadOption(f"in_flight must be at least 1, not {count}")
    if count == 1:
        yield from ((item, _done(work, item)) for item in items)
        return
    limit, waiting = Limit(), dict[Future[B], A]()
    with ThreadPoolExecutor(count, thread_name_prefix="sdlg") as pool:
        try:
            for item in items:
                waiting[pool.submit(copy_context().run, _limited, limit, partial(work, item))] = item
                while len(waiting) >= (_AHEAD * count if ordered else count):
                    yield _next(waiting, ordered)
            while waiting:
                yield _next(waiting, ordered)
        finally:
            limit.cancel()
            for future in waiting:
                future.cancel()


def _limited(limit: Limit, work: Callable[[], B]) -> B:
    with limited(limit):
        return work()


def _next(waiting: dict[Future[B], A], ordered: bool) -> tuple[A, Future[B]]:
    done, _ = wait([next(iter(waiting))] if ordered else waiting, return_when=FIRST_COMPLETED)
    first = done.pop()
    return waiting.pop(first), first


def _done(work: Callable[[A], B], item: A) -> Future[B]:
    future: Future[B] = Future()
    try:
        future.set_result(work(item))
    except Exception as error:
        future.set_exception(error)
    return future


async def in_thread(
    work: Callable[[], B],
    pool: Executor | None = None,
    *,
    seconds: float | None = None,
    ended: Callable[[], None] | None = None,
) -> B:
    """Run work in a thread, for `await`. Cancelling it stops the work at its next step.

    The time it may take counts from now, so waiting until a thread is free is part of it. `ended` is called, in
    whichever thread, when the work has really stopped: that is later than its caller has given it up.
    """
    limit, context = Limit(seconds), copy_context()
    future = (pool or _threads()).submit(context.run, _limited, limit, work)
    if ended is not None:
        future.add_done_callback(lambda _: ended())
    running = asyncio.wrap_future(future)
    try:
        while not running.done():
            await asyncio.wait([running], timeout=limit.remaining())
            if not running.done():
                limit.check()
        return running.result()
    finally:  # nobody waits any more: work that has not begun never does, the rest ends at its next step
        limit.cancel()
        running.cancel()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="sdlg")


class _TakesTurns(Protocol):
    _turn: RLock


S = TypeVar("S", bound=_TakesTurns)


def one_at_a_time(method: Callable[Concatenate[S, P], B]) -> Callable[Concatenate[S, P], B]:
    """Let only one thread run a method at once, under the object's lock `_turn`, within the caller's limit."""

    @wraps(method)
    def with_turn(self: S, /, *args: P.args, **kwargs: P.kwargs) -> B:
        with holding(self._turn):
            return method(self, *args, **kwargs)

    return with_turn
