"""Torch's threads, made to behave on shared cores. Call `calm_threads()` before torch is first imported.

OpenMP threads that wait at a barrier spin by default. When another process wants their cores, every barrier then
waits for a time slice, and two threads become many times slower than one. Told to sleep instead, they are up to a
third slower on idle cores and several times faster on busy ones: docs/experiments.md has the measurement.
"""

from __future__ import annotations

import os
import sys

from ..errors import BadOption
from .cores import CoreWatch, named_threads, own_cores


def pick_device(name: str | None) -> str:
    """The named device if torch has it, else the best there is."""
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise BadOption(
            f"cannot use the device {name!r}: {str(error).splitlines()[0]} Try cpu, cuda or mps."
        ) from error
    return name


def set_threads(asked: int, watch: CoreWatch) -> None:
    """Give torch as many threads as were asked for; 0: as cores were not busy since the watch began.

    Unasked, only torch's own choice is changed, a thread for every core: not what somebody has chosen.
    """
    import torch

    if asked:
        torch.set_num_threads(asked)
    elif named_threads() is None and torch.get_num_threads() == own_cores():
        torch.set_num_threads(watch.usable_cores())


def calm_threads() -> None:
    """Ask OpenMP to sleep at barriers, unless the user has said otherwise or torch is there already."""
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("KMP_BLOCKTIME", "0")
