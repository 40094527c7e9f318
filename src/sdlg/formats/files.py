"""Files with one writer, and files that are there whole or as they were before, whatever happens meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import BadOption, RunError, UsageError


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
