"""Lines of JSON that tell whether they are still what was written: each ends with a checksum of what stands before it.

    {"id": "q1", …, "crc32": "0a1b2c3d"}

A byte that flipped on a disk mostly leaves valid JSON, with another number in it. Lines without a checksum (of older
versions, or made by hand) are taken as they are.
"""

from __future__ import annotations

import json
import zlib

from ..records import is_unicode

NAME = "crc32"
_SEAL = f', "{NAME}": "00000000"}}'.encode()
_DIGITS = range(len(_SEAL) - 10, len(_SEAL) - 2)


def seal(line: str) -> str:
    """A JSON object in one line, with its checksum as its last field."""
    body = (line if is_unicode(line) else json.dumps(json.loads(line))).removesuffix("}")
    return f'{body}, "{NAME}": "{_checksum(body.encode())}"}}'


def in_ascii(line: str) -> str:
    """The same for a stream that cannot take every character."""
    row = json.loads(line)
    sealed = row.pop(NAME, None) is not None
    return seal(json.dumps(row)) if sealed else json.dumps(row)


def is_intact(line: bytes) -> bool:
    """Whether a line is as it was sealed; one that never was is."""
    line = line.rstrip(b"\n")
    body, end = line[: -len(_SEAL)], line[-len(_SEAL) :]
    differing = [place for place, byte in enumerate(end) if place not in _DIGITS and byte != _SEAL[place]]
    if len(end) < len(_SEAL) or len(differing) > 1:
        return True
    return not differing and end[_DIGITS.start : _DIGITS.stop] == _checksum(body).encode()


def _checksum(body: bytes) -> str:
    return f"{zlib.crc32(body):08x}"
