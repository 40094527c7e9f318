"""Our cache folder, and writing to it so that a killed process leaves nothing broken.

`SDLG_HOME` names it; the default is a folder of ours under the user's cache folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import CacheUnavailable

_PARTIAL = ".partial-"


def home_folder() -> Path:
    """Where converted models are kept."""
    if named := os.environ.get("SDLG_HOME"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "sdlg"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sdlg"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sdlg"


def make_folder_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make `target` by filling a folder beside it and renaming that: it is there whole or not at all."""
    try:
        if not target.is_dir():
            _make_folder(target, fill)
    except Exception as error:
        if reason := _disk_trouble(error):
            raise CacheUnavailable(
                f"cannot write the model cache {target.parent}: {reason}. "
                "Free some space there, or set SDLG_HOME to a folder that can hold about 600 MB."
            ) from error
        raise
    return target


def _make_folder(target: Path, fill: Callable[[Path], None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}{_PARTIAL}{os.getpid()}-", dir=target.parent))
    try:
        fill(partial)
        _rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _rename(partial: Path, target: Path) -> None:
    for path in partial.rglob("*"):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
    try:
        partial.rename(target)
    except OSError:
        if not target.is_dir():  # another process was first: its folder is as good as ours
            raise


def _sweep(target: Path) -> None:
    """Remove what killed processes left behind."""
    for left in target.parent.glob(f"{target.name}{_PARTIAL}*"):
        process = left.name.split(_PARTIAL)[1].split("-")[0]
        if not (process.isdigit() and _alive(int(process))):
            shutil.rmtree(left, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _disk_trouble(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EACCES,
        errno.EROFS,
        errno.EPERM,
    ):
        return os.strerror(error.errno)
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "a file is in the way"
    text = str(error)  # safetensors wraps the system's error in its own
    return "no space left on device" if "No space left" in text or "os error 28" in text else None
