"""Who is served when: so many at once, so many waiting, the rest is told when to come back.

    with admission.enter() as slot:          # Failure 429 when the queue is full, 503 while shutting down
        result = await admission.run(slot, work)  # waits for its turn; runs in a thread; TimedOut past the deadline

Cancelling `run` stops the work at its next step. All methods are for the event loop's thread. Work that was given up
but has not stopped yet still holds its place and its thread, so that impatient clients cannot pile up work, and whoever
counts sees it. Large work has a place and a queue of its own, and gives way to all other work (`lanes`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from ..concurrency.in_flight import in_thread
from ..concurrency.lanes import Lanes
from ..errors import TimedOut
from .failures import Failure
from .given_work import LONG_WORK

T = TypeVar("T")

_REMEMBERED = 32  # durations
_FIRST_PACE = 4_000.0  # characters per second of large work, until some was done: two slow cores beside other work


class Slot:
    """A place among those who are served, or in its queue, given back on leaving the `with` block."""

    def __init__(self, admission: Admission, now: float, work: int) -> None:
        self._admission = admission
        self.entered = now
        self.work = work
        self.turn = asyncio.Event()
        self.refused = False
        self.patience: asyncio.Timeout | None = None  # of whoever waits for it
        self.computes = self.left = False
        self.overtaken = False  # others were served since it came

    @property
    def is_long(self) -> bool:
        """Whether others overtake it."""
        return self.work > LONG_WORK

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._admission.leave(self)


class Admission:
    """Places, a queue, and a memory of how long things take."""

    def __init__(self, places: int, queue: int, deadline: float, grace: float = 2.0) -> None:
        self.places, self.queue, self.deadline, self.grace = places, queue, deadline, grace
        self.draining = False
        self._running: set[Slot] = set()
        self._waiting: deque[Slot] = deque()
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._pace = _FIRST_PACE
        self._idle = asyncio.Event()
        self._idle.set()
        self._lanes = Lanes()
        self._pool = ThreadPoolExecutor(places + 1, thread_name_prefix="sdlg-serve")

    @property
    def running(self) -> int:
        """How many are being served, those included whose work was given up and has not stopped yet."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    def check_room(self, work: int = 0) -> None:
        """A `Failure` if nobody with so much work can enter now."""
        if self.draining:
            raise shutting_down()
        if work > LONG_WORK:
            self._check_time(work)
        elif self._count(self._waiting, long=False) >= self.queue and not self._has_place(long=False):
            raise self._full(self.retry_after())

    def _check_time(self, work: int) -> None:
        """Large work that would not be done by the deadline is not begun, unless all is quiet: then it may try."""
        ahead = sum(slot.work for slot in (*self._running, *self._waiting) if slot.is_long)
        if self._running and (ahead + work) / self._pace > self.deadline:
            seconds = max(min(ahead or work, self.deadline * self._pace) / self._pace, 1.0)
            raise self._full(math.ceil(seconds))

    def _full(self, seconds: int) -> Failure:
        return Failure(
            429, f"{self.running} requests are running and {self.waiting} are waiting; try again in {seconds} s",
            "queue_full", {"Retry-After": str(seconds)},
        )  # fmt: skip

    def enter(self, work: int = 0) -> Slot:
        """A place, or one in the queue; a `Failure` if there is neither. `work` of given answers decides the lane."""
        self.check_room(work)
        slot = Slot(self, time.monotonic(), work)
        self._waiting.append(slot)
        self._idle.clear()
        self._call_next()
        return slot

    def leave(self, slot: Slot) -> None:
        """Give the place back, once its work has stopped; more than once does no harm."""
        slot.left = True
        if slot.computes:
            return
        self._running.discard(slot)
        if slot in self._waiting:
            self._waiting.remove(slot)
        self._call_next()
        if not self._running and not self._waiting:
            self._idle.set()

    def before(self, slot: Slot) -> int:
        """How many are served before it."""
        lane = [other for other in self._waiting if other.is_long == slot.is_long]
        return lane.index(slot) if slot in lane else 0

    async def run(self, slot: Slot, work: Callable[[], T]) -> T:
        """The work's result, when its turn has come. Then the place is free: others need not wait until it is sent."""
        left = slot.entered + self.deadline - time.monotonic()
        try:
            async with asyncio.timeout(left) as slot.patience:
                await slot.turn.wait()
                if slot.refused:
                    raise shutting_down()
                return await self._timed(slot, work)
        except TimeoutError as error:
            if slot.refused:
                raise shutting_down() from error
            if slot.is_long and slot.overtaken:
                raise self._overtaken() from error
            raise TimedOut(
                f"no answer within {self.deadline:g} s, the time in the queue included; ask for less"
            ) from error
        finally:
            self.leave(slot)

    def _overtaken(self) -> Failure:
        """Not too much work as such, but too much beside that of others."""
        return Failure(
            503, f"others went first, and {self.deadline:g} s were not enough beside them; try again, or send less",
            "overtaken", {"Retry-After": str(math.ceil(self.deadline / 2))},
        )  # fmt: skip

    async def _timed(self, slot: Slot, work: Callable[[], T]) -> T:
        loop, started, slot.computes = asyncio.get_running_loop(), time.monotonic(), True

        def ended() -> None:
            with suppress(RuntimeError):  # the loop is no more
                loop.call_soon_threadsafe(self._stopped, slot)

        done = False
        try:
            result = await in_thread(lambda: self._in_lane(slot, work), self._pool, ended=ended)
            done = True
            return result
        finally:
            self._remember(slot, time.monotonic() - started, done=done)

    def _in_lane(self, slot: Slot, work: Callable[[], T]) -> T:
        with self._lanes.long() if slot.is_long else self._lanes.short():
            return work()

    def _stopped(self, slot: Slot) -> None:
        slot.computes = False
        if slot.left:
            self.leave(slot)

    def _remember(self, slot: Slot, seconds: float, *, done: bool) -> None:
        """What was given up took its time as well; of large work it only says that it was not faster."""
        if not slot.is_long:
            self._seconds.append(seconds)
            return
        pace = slot.work / max(seconds, 1e-3)
        if done or pace < self._pace:
            self._pace = (self._pace + pace) / 2

    def retry_after(self) -> int:
        """Whole seconds until half the queue should be free, by how long the last ones took.

        Sooner, and most who come back would find it full again; later, and it might run empty.
        """
        typical = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        waiting = self._count(self._waiting, long=False)
        return max(1, min(math.ceil(typical * waiting / 2 / self.places), math.ceil(self.deadline)))

    def drain(self) -> None:
        """Nobody enters any more, who waits is refused, who is served has a few seconds to be served to the end."""
        self.draining = True
        for slot in self._waiting:
            slot.refused = True
            slot.turn.set()
        asyncio.get_running_loop().call_later(self.grace, self._cut_off)

    def _cut_off(self) -> None:
        for slot in self._running:
            slot.refused = True
            if slot.patience is not None and not slot.left:
                slot.patience.reschedule(asyncio.get_running_loop().time())

    async def idle(self) -> None:
        """Wait until nobody is left and nothing is computed any more."""
        await self._idle.wait()

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _count(slots: Collection[Slot], *, long: bool) -> int:
        return sum(slot.is_long == long for slot in slots)

    def _has_place(self, *, long: bool) -> bool:
        """One large piece of work at a time: beside each other they would all be late."""
        return self._count(self._running, long=long) < (1 if long else self.places)

    def _call_next(self) -> None:
        for slot in list(self._waiting):
            if self._has_place(long=slot.is_long):
                self._waiting.remove(slot)
                self._running.add(slot)
                slot.turn.set()
                for other in (*self._running, *self._waiting):
                    other.overtaken = other.overtaken or other is not slot


def shutting_down() -> Failure:
    """503: somebody else may answer."""
    return Failure(
        503, "the server is shutting down; ask another one, or try again later", "shutting_down", {"Retry-After": "5"}
    )
