"""Our cache folder, and writing to it so that a killed process leaves nothing broken.

`SDLG_HOME` names it; the default is a folder of ours under the user's cache folder.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from ..errors import CacheUnavailable

_PARTIAL = ".partial-"
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_DISK_ERRORS = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EROFS, errno.EPERM,
})  # fmt: skip


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
    partial = target.with_name(f"{target.name}{_PARTIAL}{uuid4().hex}")
    lock = _lock_of(partial)
    _hold(lock)  # before its folder is there: a folder whose lock is free was left by a process that is gone
    try:
        partial.mkdir()
        fill(partial)
        _rename(partial, target)
    finally:
        _discard(partial, lock)


def _lock_of(partial: Path) -> FileLock:
    """The system frees this lock when its process ends, however that happens, also for other machines and containers
    that share the folder. Process ids say nothing there, and cannot be asked for without harm on Windows."""
    return FileLock(partial.with_name(f"{partial.name}.lock"))


def _hold(lock: FileLock) -> None:
    try:
        lock.acquire(timeout=0)
    except (OSError, NotImplementedError) as error:
        if _disk_trouble(error):
            raise
        # A file system without locks: nobody can take this one either, so nothing is ever swept there.


def _discard(partial: Path, lock: FileLock) -> None:
    """The folder first: while it is there, its lock is held."""
    shutil.rmtree(partial, ignore_errors=True)
    lock.release()
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)


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
    """Remove what killed processes left behind: the folders whose lock nobody holds."""
    for partial in target.parent.glob(f"{glob.escape(target.name)}{_PARTIAL}*"):
        if not partial.is_dir():
            continue
        lock = _lock_of(partial)
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError, NotImplementedError):  # held, or locks do not work here: leave it alone
            continue
        _discard(partial, lock)


def _disk_trouble(error: BaseException) -> str | None:
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "a file is in the way"
    number = error.errno if isinstance(error, OSError) else None
    if wrapped := _OS_ERROR.search(str(error)):  # safetensors wraps the system's error in its own
        number = int(wrapped[1])
    if number in _DISK_ERRORS:
        return os.strerror(number)
    return os.strerror(errno.ENOSPC) if "No space left" in str(error) else None
