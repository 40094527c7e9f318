"""The cache folder: models made once, whole or not at all, and checked before they are used.

`SDLG_HOME` names it; the default is a folder under the user's cache folder.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from ..errors import CacheUnavailable, SdlgError

_PARTIAL = ".partial-"
_LIST = "sdlg-files.json"
_READ_AT_EVERY_START = 16_000_000  # bytes; of larger files only the size is checked, or starting would take longer
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_DISK_ERRORS = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EROFS, errno.EPERM,
})  # fmt: skip


def home_folder() -> Path:
    """Return our folder: models that were fetched or converted, fits of the equivalence."""
    if named := os.environ.get("SDLG_HOME"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "sdlg"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sdlg"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sdlg"


# -- making a folder ------------------------------------------------------------------------------------------------


def make_folder_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """Make `target` by filling a folder beside it and renaming that: it is whole or not there. Check its files."""
    with clear_disk_errors(target.parent, "600 MB"):
        if not target.is_dir():
            _make_folder(target, fill)
    check_files(target)
    return target


@contextmanager
def clear_disk_errors(folder: Path, needed: str) -> Iterator[None]:
    """Raise what the disk is to blame for as `CacheUnavailable`, with what to do."""
    try:
        yield
    except SdlgError:
        raise
    except Exception as error:
        if reason := disk_trouble(error):
            raise CacheUnavailable(
                f"cannot write the model cache {folder}: {reason}. "
                f"Free some space there, or set SDLG_HOME to a folder that can hold about {needed}."
            ) from error
        raise


def _make_folder(target: Path, fill: Callable[[Path], None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    partial = target.with_name(f"{target.name}{_PARTIAL}{uuid4().hex}")
    lock = _lock_of(partial)
    _hold(lock)  # before its folder is there: a folder whose lock is free was left by a process that is gone
    try:
        partial.mkdir()
        fill(partial)
        list_files(partial)
        _rename(partial, target)
    finally:
        _discard(partial, lock)


def _lock_of(partial: Path) -> FileLock:
    """The system frees this lock when its process ends, however that happens, also for other machines and containers
    that share the folder. Process ids say nothing there, and cannot be probed without harm on Windows."""
    return FileLock(partial.with_name(f"{partial.name}.lock"))


def _hold(lock: FileLock) -> None:
    try:
        lock.acquire(timeout=0)
    except (OSError, NotImplementedError) as error:
        if disk_trouble(error):
            raise
        # A file system without locks: nobody can take this one either, so nothing is ever swept there.


def _discard(partial: Path, lock: FileLock) -> None:
    """Remove the folder first: while it is there, its lock is held."""
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


def disk_trouble(error: BaseException) -> str | None:
    """Return what the disk has to do with an error; None: nothing."""
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "a file is in the way"
    number = error.errno if isinstance(error, OSError) else None
    if wrapped := _OS_ERROR.search(str(error)):  # safetensors wraps the system's error in its own
        number = int(wrapped[1])
    if number in _DISK_ERRORS:
        return os.strerror(number)
    return os.strerror(errno.ENOSPC) if "No space left" in str(error) else None


# -- checking a copy ------------------------------------------------------------------------------------------------


def list_files(folder: Path) -> None:
    """Write down what a folder holds, so that `check_files` can see whether it still does."""
    files = {str(path.relative_to(folder)): _facts(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    (folder / _LIST).write_text(json.dumps(files, indent=1), encoding="utf-8")


def check_files(folder: Path) -> None:
    """Raise if a folder's files are not those of its list; a folder without a list is taken as it is."""
    listed = folder / _LIST
    if not listed.is_file():
        return
    try:
        files = dict(json.loads(listed.read_bytes()))
        wrong = [name for name, facts in files.items() if not _is_same(folder / name, facts)]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        wrong = [_LIST]
    if wrong:
        raise CacheUnavailable(f"{folder / wrong[0]} is damaged. {_delete_and_start_again(folder)}")


def advice_on(source: str | Path) -> str:
    """Return what else to try where a model cannot be loaded: its copy on this machine may be incomplete.

    A folder that a user named is no copy: never advise to delete it.
    """
    folder = Path(source) if Path(source).is_relative_to(home_folder()) else _hub_folder(str(source))
    return f" If its files are not whole: {_delete_and_start_again(folder)}" if folder.is_dir() else ""


def _delete_and_start_again(folder: Path) -> str:
    return f"Delete the folder {folder} and start again: it is then made anew."


def _hub_folder(name: str) -> Path:
    """Return where the hub's library keeps a model of this name."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def _facts(path: Path) -> dict[str, int]:
    size = path.stat().st_size
    return {"size": size, "crc32": zlib.crc32(path.read_bytes())} if size <= _READ_AT_EVERY_START else {"size": size}


def _is_same(path: Path, facts: dict[str, int]) -> bool:
    return path.is_file() and path.stat().st_size == facts["size"] and _facts(path) == facts
