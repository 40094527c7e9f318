"""Half-precision numbers on a CPU: tried before they are used.

Some machines, mostly virtual ones, promise instructions that they do not have. Whoever uses them is ended by the system
(SIGILL) without a word. So one small product is tried in a process of its own, once for each kind of number.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import cache

from ..errors import BadOption

HALF = ("bfloat16", "float16")
_SECONDS = 120.0  # importing torch on a busy machine
_PRODUCT = """
import sys, torch
kind = getattr(torch, sys.argv[1])
weights, bias = torch.ones(64, 64, dtype=kind), torch.ones(64, dtype=kind)
for rows in (1, 32):
    torch.nn.functional.linear(torch.ones(rows, 64, dtype=kind), weights, bias).float().sum().item()
"""


def check_kind(name: str, device: str) -> None:
    """Half precision on a CPU that cannot multiply it is refused, in words."""
    if device == "cpu" and name in HALF and (reason := _trouble(name)):
        raise BadOption(f"this machine's CPU cannot compute in {name}: {reason}. Use --dtype float32")


@cache
def _trouble(name: str) -> str:
    """What happened to a small product in this kind of number; nothing: it is fine."""
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _PRODUCT, name], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # it could not be tried, which says nothing of the CPU
    if ended.returncode < 0:
        return f"a small product was ended by {signal.Signals(-ended.returncode).name}"
    last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    return f"a small product failed ({last})" if ended.returncode else ""
