"""Who is served when: so many at once, so many waiting; the rest is refused and learns when to come back.

    with admission.enter() as slot:          # Failure 429 when the queue is full, 503 while shutting down
        result = await admission.run(slot, work)  # waits for its turn; runs in a thread; TimedOut past the deadline

Cancelling `run` stops the work at its next step. All methods are for the event loop's thread. Work that was given up
but has not stopped yet still holds its place and its thread, so that impatient clients cannot pile up work. Large work
(`LARGE` characters to read) has a place and a queue of its own, and gives way to all other work (`concurrency.lanes`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from ..concurrency.in_flight import in_thread
from ..concurrency.lanes import Lanes
from ..errors import SdlgError, TimedOut
from .failures import Failure

T = TypeVar("T")

LARGE = 20_000  # characters: one or two seconds on two slow cores
_REMEMBERED = 32  # durations


class Slot:
    """A place among those who are served or wait, given back on leaving the `with` block."""

    def __init__(self, admission: Admission, characters: int) -> None:
        self._admission = admission
        self.is_large = characters > LARGE
        self.entered = time.monotonic()
        self.patience: asyncio.Timeout | None = None  # of `run`
        self.runs = self.computes = self.left = self.refused = False

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._admission.leave(self)


class Admission:
    """Places, a queue, and a memory of how long things take."""

    def __init__(self, places: int, queue: int, deadline: float, grace: float = 2.0) -> None:
        self.places, self.queue, self.deadline, self.grace = places, queue, deadline, grace
        self.draining = False
        self._slots: list[Slot] = []  # in the order in which they came
        self._turns = {False: asyncio.Semaphore(places), True: asyncio.Semaphore(1)}  # by whether the work is large
        self._seconds = {large: deque[float](maxlen=_REMEMBERED) for large in self._turns}
        self._idle = asyncio.Event()
        self._idle.set()
        self._lanes = Lanes()
        self._pool = ThreadPoolExecutor(places + 1, thread_name_prefix="sdlg-serve")

    @property
    def running(self) -> int:
        """How many are being served, those included whose work was given up and has not stopped yet."""
        return sum(slot.runs for slot in self._slots)

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._slots) - self.running

    def _of_lane(self, *, is_large: bool) -> list[Slot]:
        return [slot for slot in self._slots if slot.is_large == is_large]

    # -- coming and going -----------------------------------------------------------------------------------------

    def check_room(self, characters: int = 0) -> None:
        """Raise a `Failure` if nobody with so much work can enter now."""
        if self.draining:
            raise shutting_down()
        lane = self._of_lane(is_large=characters > LARGE)
        places = 1 if characters > LARGE else self.places
        if len(lane) >= places + self.queue:
            seconds = self._retry_after(characters > LARGE, sum(not slot.runs for slot in lane), places)
            raise Failure(
                429, f"{self.running} requests are running and {self.waiting} are waiting; try again in {seconds} s",
                "queue_full", {"Retry-After": str(seconds)},
            )  # fmt: skip

    def _retry_after(self, is_large: bool, waiting: int, places: int) -> int:
        """Return whole seconds until half the queue should be free, by how long the last ones took.

        Sooner, and most who come back would find it full again; later, and it might run empty.
        """
        known = self._seconds[is_large] or [1.0]
        typical = sum(known) / len(known)
        return max(1, min(math.ceil(typical * waiting / 2 / places), math.ceil(self.deadline)))

    def enter(self, characters: int = 0) -> Slot:
        """Return a place among those who wait, or raise a `Failure`. `characters` are those of given answers."""
        self.check_room(characters)
        slot = Slot(self, characters)
        self._slots.append(slot)
        self._idle.clear()
        return slot

    def leave(self, slot: Slot) -> None:
        """Give the place back, once its work has stopped; more than once does no harm."""
        slot.left = True
        if slot.computes or slot not in self._slots:
            return
        self._slots.remove(slot)
        if slot.runs:
            self._turns[slot.is_large].release()
        if not self._slots:
            self._idle.set()

    # -- running --------------------------------------------------------------------------------------------------

    async def run(self, slot: Slot, work: Callable[[], T]) -> T:
        """Return the work's result, when its turn has come. Then the place is free, before the result is sent."""
        left = slot.entered + self.deadline - time.monotonic()
        try:
            async with asyncio.timeout(left) as slot.patience:
                if self.draining:
                    raise shutting_down()
                await self._turns[slot.is_large].acquire()
                slot.runs = True
                return await self._timed(slot, work)
        except TimeoutError as error:
            raise self._too_late(slot) from error
        finally:
            self.leave(slot)

    def _too_late(self, slot: Slot) -> Failure | SdlgError:
        if slot.refused:
            return shutting_down()
        if slot.is_large:  # alone it might have been in time
            return Failure(
                503, f"{self.deadline:g} s were not enough beside the work of others; try again later, or send less",
                "too_busy", {"Retry-After": str(math.ceil(self.deadline / 2))},
            )  # fmt: skip
        return TimedOut(f"no answer within {self.deadline:g} s, the time in the queue included; ask for less")

    async def _timed(self, slot: Slot, work: Callable[[], T]) -> T:
        loop, started, slot.computes = asyncio.get_running_loop(), time.monotonic(), True

        def in_lane() -> T:
            with self._lanes.long() if slot.is_large else self._lanes.short():
                return work()

        def ended() -> None:
            with suppress(RuntimeError):  # the loop is no more
                loop.call_soon_threadsafe(self._stopped, slot)

        try:
            return await in_thread(in_lane, self._pool, ended=ended)
        finally:
            self._seconds[slot.is_large].append(time.monotonic() - started)

    def _stopped(self, slot: Slot) -> None:
        slot.computes = False
        if slot.left:
            self.leave(slot)

    # -- ending ---------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Let nobody in any more, refuse who waits, and give who is served `grace` seconds."""
        self.draining = True
        self._refuse(slot for slot in self._slots if not slot.runs)
        asyncio.get_running_loop().call_later(self.grace, lambda: self._refuse(self._slots))

    def _refuse(self, slots: Iterable[Slot]) -> None:
        now = asyncio.get_running_loop().time()
        for slot in slots:
            slot.refused = True
            if slot.patience is not None:
                with suppress(RuntimeError):  # its time was over already
                    slot.patience.reschedule(now)

    async def idle(self) -> None:
        """Wait until nobody is left and nothing is computed any more."""
        await self._idle.wait()

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def shutting_down() -> Failure:
    """Return the 503 of a server that ends."""
    return Failure(
        503, "the server is shutting down; ask another one, or try again later", "shutting_down", {"Retry-After": "5"}
    )
