"""Writing files so that nothing is lost: one writer at a time, whole or not at all, lines that carry a checksum."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import BadOption, RunError, UsageError
from .records import is_unicode


@contextmanager
def one_writer(path: Path, writer: str) -> Iterator[None]:
    """Nobody else writes to the file meanwhile: rows of two writers would be mixed, and every one made twice."""
    if not path.parent.is_dir():  # FileLock would make it
        raise BadOption(f"cannot write {path}: there is no folder {path.parent}")
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(f"another {writer} is writing to {path}; wait for it or stop it") from None
    except (OSError, NotImplementedError) as error:
        raise BadOption(f"cannot write {path}: {error}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole, or as it was before."""
    target = path.resolve()  # what a link points to, not the link
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not target.is_file():  # a pipe or a device cannot be replaced
            target.write_bytes(content)
            return
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


# -- lines of JSON with a checksum ------------------------------------------------------------------------------
#
#     {"id": "q1", …, "crc32": "0a1b2c3d"}
#
# A byte that flipped on a disk mostly leaves valid JSON, with another number in it. Lines without a checksum (made by
# hand) are taken as they are.

CHECKSUM = "crc32"
_SEAL = f', "{CHECKSUM}": "00000000"}}'.encode()
_DIGITS = range(len(_SEAL) - 10, len(_SEAL) - 2)


def seal(line: str) -> str:
    """Return a JSON object in one line with its checksum as its last field."""
    body = (line if is_unicode(line) else json.dumps(json.loads(line))).removesuffix("}")
    return f'{body}, "{CHECKSUM}": "{checksum(body.encode())}"}}'


def in_ascii(line: str) -> str:
    """Return the same line for a stream that cannot take every character."""
    row = json.loads(line)
    sealed = row.pop(CHECKSUM, None) is not None
    return seal(json.dumps(row)) if sealed else json.dumps(row)


def is_intact(line: bytes) -> bool:
    """Whether a line is as it was sealed; one that never was sealed is."""
    line = line.rstrip(b"\n")
    body, end = line[: -len(_SEAL)], line[-len(_SEAL) :]
    differing = [place for place, byte in enumerate(end) if place not in _DIGITS and byte != _SEAL[place]]
    if len(end) < len(_SEAL) or len(differing) > 1:
        return True
    return not differing and end[_DIGITS.start : _DIGITS.stop] == checksum(body).encode()


def checksum(body: bytes) -> str:
    """Return the CRC-32 of some bytes, as eight hexadecimal digits."""
    return f"{zlib.crc32(body):08x}"
