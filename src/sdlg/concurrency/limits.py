"""When to give up: a deadline that has passed, or an answer that nobody wants any more.

    with limited(Limit(seconds=30)):
        ...  # raises TimedOut after 30 s, Cancelled after limit.cancel()

The limit holds for all that is called inside, like a cancel scope. What works step by step calls `check_limit`; what
waits for others uses `wait_for`, what takes turns `holding`. A limit inside another one ends with it. Work that others
may overtake (`lanes`) gives way at the same steps, but never while it holds what they may need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, RLock
from typing import Any, TypeVar

from ..errors import BadOption, Cancelled, TimedOut

T = TypeVar("T")

_LOOK_AGAIN_SECONDS = 0.05  # how soon a thread that waits for a lock sees a cancellation


class Limit:
    """A deadline, and a way to end it before. Any thread may cancel it."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not seconds > 0:
            raise BadOption(f"timeout must be more than 0 seconds, not {seconds}")
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self._outer = _current.get()
        self._cancelled = False
        self._inner: set[Limit] = set()
        self._waiting: set[Future[Any]] = set()
        self._lock = Lock()

    def cancel(self) -> None:
        """Stop whatever is done under this limit, at its next step."""
        with self._lock:
            self._cancelled = True
            waiting, inner = list(self._waiting), list(self._inner)
        for future in waiting:
            future.cancel()
        for limit in inner:
            limit.cancel()

    def check(self) -> None:
        """Raise if it is over."""
        if self._cancelled:
            raise Cancelled("the question was cancelled")
        if self._end is not None and time.monotonic() >= self._end:
            raise TimedOut(f"no answer within {self._seconds:g} s; allow more time, or ask for less")
        if self._outer is not None:
            self._outer.check()

    def remaining(self) -> float | None:
        """Return the seconds left; None: no deadline."""
        own = None if self._end is None else max(self._end - time.monotonic(), 0.0)
        outer = self._outer.remaining() if self._outer else None
        known = [seconds for seconds in (own, outer) if seconds is not None]
        return min(known, default=None)

    def wait(self, future: Future[T]) -> T:
        """Return a future's result; cancel it when the limit is over first."""
        with self._lock:
            self._waiting.add(future)
        try:
            self.check()
            return future.result(self.remaining())
        except CancelledError:
            self.check()
            raise Cancelled("what was waited for was taken back") from None
        except TimeoutError:
            future.cancel()
            self.check()
            raise
        except BaseException:  # Ctrl-C while waiting
            future.cancel()
            raise
        finally:
            with self._lock:
                self._waiting.discard(future)

    def _join(self, change: Callable[[set[Limit], Limit], None]) -> None:
        if self._outer is not None:
            with self._outer._lock:
                change(self._outer._inner, self)


_current: ContextVar[Limit | None] = ContextVar("limit", default=None)
_pause: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)
_locks_held: ContextVar[int] = ContextVar("locks_held", default=0)


@contextmanager
def limited(limit: Limit) -> Iterator[Limit]:
    """Apply a limit to all that is called inside."""
    token = _current.set(limit)
    limit._join(set.add)
    try:
        yield limit
    finally:
        limit._join(set.discard)
        _current.reset(token)


@contextmanager
def pausing(pause: Callable[[], None]) -> Iterator[None]:
    """Call `pause` at every step inside at which no lock is held; it returns when the work may go on."""
    token = _pause.set(pause)
    try:
        yield
    finally:
        _pause.reset(token)


def gives_way() -> bool:
    """Whether what is done here waits at its steps while others go first."""
    return _pause.get() is not None


def check_limit() -> None:
    """Raise if the limit that holds here is over; wait here if others go first."""
    raise_if_over()
    pause = _pause.get()
    if pause is not None and not _locks_held.get():
        pause()


def raise_if_over() -> None:
    """Raise if the limit that holds here is over; never wait."""
    limit = _current.get()
    if limit is not None:
        limit.check()


@contextmanager
def holding(lock: RLock) -> Iterator[None]:
    """Hold a lock; raise if the limit that holds here is over before it is free."""
    check_limit()
    while not lock.acquire(timeout=_LOOK_AGAIN_SECONDS):
        check_limit()
    token = _locks_held.set(_locks_held.get() + 1)
    try:
        yield
    finally:
        _locks_held.reset(token)
        lock.release()


def wait_for(future: Future[T]) -> T:
    """Return a future's result; raise if the limit that holds here is over first."""
    return (_current.get() or Limit()).wait(future)
