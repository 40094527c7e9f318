"""What is done to a process while it runs. Each is a function that is called in the child before its work begins."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType

from .children import ProcessFault

# Of Python's own functions in C, those that change files.
FILE_CALLS = frozenset({
    "write", "flush", "fsync", "truncate", "replace", "rename", "open", "mkdir", "unlink", "rmdir", "close", "remove",
    "serialize_file", "save_file", "flock", "lockf", "utime", "read",
})  # fmt: skip
Profile = Callable[[FrameType, str, object], None]


def kill_at(event: int, *, of_files: bool) -> ProcessFault:
    """`kill -9` at the n-th call or return of a function, or of one that touches files: the same moment each time."""

    def fault() -> None:
        left = event

        def profile(_: FrameType, kind: str, argument: object) -> None:
            nonlocal left
            if not of_files or _is_file_call(kind, argument):
                left -= 1
                if left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        _watch(profile)

    return fault


def count_events(file: Path) -> ProcessFault:
    """Undisturbed, but counted: writes how many events there are, as two numbers."""

    def fault() -> None:
        counts = [0, 0]

        def profile(_: FrameType, kind: str, argument: object) -> None:
            counts[0] += 1
            counts[1] += _is_file_call(kind, argument)

        _watch(profile)
        end = os._exit

        def write_and_end(code: int) -> None:
            sys.setprofile(None)
            file.write_text(f"{counts[0]} {counts[1]}")
            end(code)

        os._exit = write_and_end  # type: ignore[assignment]

    return fault


def limit_files(size: int) -> ProcessFault:
    """A disk that is full at this byte of any file."""

    def fault() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return fault


def shake_clock(seed: int) -> ProcessFault:
    """Every look at the clock finds another decade."""

    def fault() -> None:
        random, plain = Random(seed), time.time
        time.time = lambda: max(plain() + random.uniform(-4e8, 4e8), 0.0)

    return fault


def _watch(profile: Profile) -> None:
    threading.setprofile(profile)
    sys.setprofile(profile)


def _is_file_call(kind: str, argument: object) -> bool:
    return kind in ("c_call", "c_return") and getattr(argument, "__name__", "") in FILE_CALLS
