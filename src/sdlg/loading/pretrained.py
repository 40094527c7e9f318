"""What every kind of pretrained model needs to be loaded: calm threads, a device, a tokenizer.

Call `calm_threads()` before torch is first imported. OpenMP threads that wait at a barrier spin by default. When
another process wants their cores, every barrier then waits for a time slice, and two threads become many times slower
than one. Set to sleep instead, they are up to a third slower on idle cores and several times faster on busy ones
(docs/contributing/tried/speed.md).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ..errors import BadOption


def calm_threads() -> None:
    """Make OpenMP threads soon sleep at barriers, unless the user has set otherwise or torch is imported already.

    A short wait, some microseconds, costs others nothing, and makes llama.cpp a third faster than none.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        os.environ.setdefault("KMP_BLOCKTIME", "0")


def pick_device(name: str | None) -> str:
    """Return the named device if torch has it, else the best there is."""
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


def load_tokenizer(source: str | Path) -> Any:
    """Load a tokenizer from a folder or the hub. Where there is none, transformers makes an empty one: `OSError`."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise OSError("it has no tokenizer.")
    return tokenizer
