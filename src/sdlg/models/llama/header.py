"""What a GGUF file says of itself before its weights, and how much of the machine it gets by default.

In: a file. Out: `GgufHeader`. The format: a magic word, a version, counts, then keys with typed values.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import ModelNotFound

MOST_CONTEXT = 4096  # tokens of a prompt with its answer, unless more is asked for: keys and values take memory
_MAGIC = b"GGUF"
_WHOLE_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value, by its type
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What matters before a file is loaded."""

    context_tokens: int | None  # with which the model was trained
    has_template: bool  # for chats


def read_header(file: Path) -> GgufHeader:
    """The header of a GGUF file, or an error that says why it is none."""
    if not file.is_file():
        raise ModelNotFound(f"there is no GGUF file {file}")
    try:
        with file.open("rb") as content, mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = dict(_keys(data))
    except (ValueError, struct.error, IndexError) as error:
        raise ModelNotFound(f"{file} is not a whole GGUF file: {error}") from error
    context = next((value for key, value in found.items() if key.endswith(".context_length")), None)
    return GgufHeader(context or None, "tokenizer.chat_template" in found)


def _keys(data: mmap.mmap) -> Iterator[tuple[str, int | None]]:
    """Every key, with its value where that is a whole number."""
    if data[:4] != _MAGIC:
        raise ValueError("it does not begin as one")
    (count,), place = struct.unpack_from("<Q", data, 16), 24
    for _ in range(count):
        key, place = _string(data, place)
        (kind,) = struct.unpack_from("<I", data, place)
        place += 4
        number = struct.unpack_from(_WHOLE_NUMBERS[kind], data, place)[0] if kind in _WHOLE_NUMBERS else None
        yield key.decode("utf-8", "replace"), number
        place = _after(data, place, kind)


def _string(data: mmap.mmap, place: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from("<Q", data, place)
    end = place + 8 + size
    if end > len(data):
        raise ValueError("it is cut off")
    return data[place + 8 : end], end


def _after(data: mmap.mmap, place: int, kind: int) -> int:
    """Where a value ends."""
    if kind == _STRING:
        return _string(data, place)[1]
    if kind != _ARRAY:
        return place + _size(kind)
    kind, count = map(int, struct.unpack_from("<IQ", data, place))
    place += 12
    if kind not in (_STRING, _ARRAY):
        return place + count * _size(kind)
    for _ in range(count):
        place = _after(data, place, kind)
    return place


def _size(kind: int) -> int:
    if kind not in _SIZES:
        raise ValueError(f"a value of an unknown type, {kind}")
    return _SIZES[kind]


def own_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
