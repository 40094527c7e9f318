"""How many threads suit this machine now: its cores without those that other processes keep busy.

With one of two cores busy, two threads take twice as long as one: at every barrier both wait for the slower. In: a
moment's look at what the processors do (Linux), else the load of the last minute. Out: a number of threads.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_LEAST_SECONDS = 0.2  # clock ticks are hundredths of a second
_ENOUGH = 0.5  # a core that others use less than this counts as free


@dataclass(frozen=True, slots=True)
class CoreWatch:
    """A moment from which on the use of the processors is counted."""

    at: float
    busy_seconds: float | None  # of all processes together, since the machine was started
    own_seconds: float

    @classmethod
    def begin(cls) -> CoreWatch:
        """Now."""
        return cls(time.monotonic(), _busy_seconds(), time.process_time())

    def usable_cores(self) -> int:
        """Ours, without those that others have used since; at least one. Our own work does not count."""
        cores = own_cores()
        if self.busy_seconds is None:
            return cores_left(cores, _load_of_others())
        if (wait := self.at + _LEAST_SECONDS - time.monotonic()) > 0:
            time.sleep(wait)
        now = CoreWatch.begin()
        others = (now.busy_seconds or 0.0) - self.busy_seconds - (now.own_seconds - self.own_seconds)
        return cores_left(cores, others / (now.at - self.at))


def usable_cores() -> int:
    """From a short look; or what the environment says."""
    return named_threads() or CoreWatch.begin().usable_cores()


def named_threads() -> int | None:
    """What `OMP_NUM_THREADS` says, if it says anything."""
    with suppress(ValueError):
        return max(int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0]), 1)
    return None


def own_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_left(cores: int, busy: float) -> int:
    """Of so many cores, those that are not busy; at least one."""
    return max(cores - int(busy + 1 - _ENOUGH), 1)


def _busy_seconds() -> float | None:
    """Of all processors, since the start; None where that cannot be told, or is about other cores than ours."""
    with suppress(OSError, ValueError, IndexError):
        total, *each = [line.split() for line in _STAT.read_text().splitlines() if line.startswith("cpu")]
        if len(each) == own_cores():
            user, nice, system, _idle, _waiting, irq, soft, *_ = map(int, total[1:])
            return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")
    return None


def _load_of_others() -> float:
    """The load of the last minute, but for ourselves."""
    return max(os.getloadavg()[0] - 1.0, 0.0) if hasattr(os, "getloadavg") else 0.0
