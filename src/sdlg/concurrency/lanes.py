"""Short work beside long work on one machine: the short overtakes, the long still gets on.

In: work that is known to be short or long. Long work stops at its next step while short work runs, unless it has had
less than its share of the time since it began; so a small question beside a large one takes about half as long again
as alone, however many of them come, and the large one ends. Two workers that compute at once would slow both by more:
each network uses all cores already.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from .limits import pausing, raise_if_over

LONG_SHARE = 1 / 3  # of the time that long work gets beside short work
_LOOK_AGAIN_SECONDS = 0.05  # how soon a pause sees that its work was cancelled, or has its share again


class Lanes:
    """Who runs now. Threads share it."""

    def __init__(self) -> None:
        self.short_count = 0  # pieces of short work that run now
        self.changed = Condition()

    @contextmanager
    def short(self) -> Iterator[None]:
        """What is done inside goes first."""
        with self.changed:
            self.short_count += 1
        try:
            yield
        finally:
            with self.changed:
                self.short_count -= 1
                self.changed.notify_all()

    @contextmanager
    def long(self) -> Iterator[None]:
        """What is done inside gives way at its steps."""
        with pausing(_LongWork(self).give_way):
            yield


class _LongWork:
    """One piece of long work: how long it has computed beside short work, and how long it has stood aside."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._computed = self._paused = 0.0
        self._resumed: float | None = None  # when a step began while short work was running

    def give_way(self) -> None:
        """Wait while short work runs and this one has had its share."""
        if self._resumed is not None:
            self._computed += time.monotonic() - self._resumed
        while self._lanes.short_count and self._computed >= LONG_SHARE * (self._computed + self._paused):
            began = time.monotonic()
            with self._lanes.changed:
                if self._lanes.short_count:
                    self._lanes.changed.wait(_LOOK_AGAIN_SECONDS)
            self._paused += time.monotonic() - began
            raise_if_over()
        self._resumed = time.monotonic() if self._lanes.short_count else None
