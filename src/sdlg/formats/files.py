"""Files that are there whole, or as they were before, whatever happens while they are written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..errors import RunError


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
