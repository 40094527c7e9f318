"""Who is served when: so many at once, so many waiting, the rest is told when to come back.

    with admission.enter() as slot:          # Failure 429 when the queue is full, 503 while shutting down
        result = await admission.run(slot, work)  # waits for its turn; runs in a thread; TimedOut past the deadline

Cancelling `run` stops the work at its next step. All methods are for the event loop's thread. The pool has as many
threads as there are places: work that was given up but has not noticed yet still holds its thread, so that
impatient clients cannot pile up work.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from ..concurrency.in_flight import in_thread
from ..errors import TimedOut
from .failures import Failure

T = TypeVar("T")

_REMEMBERED = 32  # durations


class Slot:
    """A place among those who are served, or in its queue, given back on leaving the `with` block."""

    def __init__(self, admission: Admission, now: float) -> None:
        self._admission = admission
        self.entered = now
        self.turn = asyncio.Event()
        self.refused = False

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._admission.leave(self)


class Admission:
    """Places, a queue, and a memory of how long things take."""

    def __init__(self, places: int, queue: int, deadline: float) -> None:
        self.places, self.queue, self.deadline = places, queue, deadline
        self.draining = False
        self._running: set[Slot] = set()
        self._waiting: deque[Slot] = deque()
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._idle = asyncio.Event()
        self._idle.set()
        self._pool = ThreadPoolExecutor(places, thread_name_prefix="sdlg-serve")

    @property
    def running(self) -> int:
        """How many are being served."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    def check_room(self) -> None:
        """A `Failure` if nobody can enter now."""
        if self.draining:
            raise shutting_down()
        if self.waiting >= self.queue and self.running >= self.places:
            seconds = self.retry_after()
            raise Failure(
                429, f"{self.running} requests are running and {self.waiting} are waiting; try again in {seconds} s",
                "queue_full", {"Retry-After": str(seconds)},
            )  # fmt: skip

    def enter(self) -> Slot:
        """A place, or one in the queue; a `Failure` if there is neither."""
        self.check_room()
        slot = Slot(self, time.monotonic())
        self._waiting.append(slot)
        self._idle.clear()
        self._call_next()
        return slot

    def leave(self, slot: Slot) -> None:
        """Give the place back; more than once does no harm."""
        self._running.discard(slot)
        if slot in self._waiting:
            self._waiting.remove(slot)
        self._call_next()
        if not self._running and not self._waiting:
            self._idle.set()

    def before(self, slot: Slot) -> int:
        """How many are served before it."""
        return self._waiting.index(slot) if slot in self._waiting else 0

    async def run(self, slot: Slot, work: Callable[[], T]) -> T:
        """The work's result, when its turn has come. Then the place is free: others need not wait until it is sent."""
        left = slot.entered + self.deadline - time.monotonic()
        try:
            async with asyncio.timeout(left):
                await slot.turn.wait()
                if slot.refused:
                    raise shutting_down()
                return await self._timed(work)
        except TimeoutError as error:
            raise TimedOut(
                f"no answer within {self.deadline:g} s, the time in the queue included; ask for less"
            ) from error
        finally:
            self.leave(slot)

    async def _timed(self, work: Callable[[], T]) -> T:
        started = time.monotonic()
        try:
            return await in_thread(work, self._pool)
        finally:  # what was given up took its time as well
            self._seconds.append(time.monotonic() - started)

    def retry_after(self) -> int:
        """Whole seconds until half the queue should be free, by how long the last ones took.

        Sooner, and most who come back would find it full again; later, and it might run empty.
        """
        typical = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return max(1, min(math.ceil(typical * self.waiting / 2 / self.places), math.ceil(self.deadline)))

    def drain(self) -> None:
        """Nobody enters any more, who waits is refused, who is served is served to the end."""
        self.draining = True
        for slot in self._waiting:
            slot.refused = True
            slot.turn.set()

    async def idle(self) -> None:
        """Wait until nobody is left."""
        await self._idle.wait()

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _call_next(self) -> None:
        while self._waiting and self.running < self.places:
            slot = self._waiting.popleft()
            self._running.add(slot)
            slot.turn.set()


def shutting_down() -> Failure:
    """503: somebody else may answer."""
    return Failure(
        503, "the server is shutting down; ask another one, or try again later", "shutting_down", {"Retry-After": "5"}
    )
