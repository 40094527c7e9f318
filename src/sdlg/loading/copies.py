"""Copies of models that we or the hub's library keep: whether they are whole, and which folder to delete if not."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

from ..errors import CacheUnavailable
from .cache_folder import home_folder

_LIST = "sdlg-files.json"
_READ_AT_EVERY_START = 16_000_000  # bytes; of larger files only the size is looked at, or starting would take longer
_BLOCK = 1 << 20


def list_files(folder: Path) -> None:
    """Write down what a folder holds, so that it can be told later whether it still does."""
    files = {str(path.relative_to(folder)): _facts(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    (folder / _LIST).write_text(json.dumps(files, indent=1), encoding="utf-8")


def check_files(folder: Path) -> None:
    """A folder whose files are not what they were is not used; one without a list is taken as it is."""
    listed = folder / _LIST
    if not listed.is_file():
        return
    try:
        files = dict(json.loads(listed.read_bytes()))
        wrong = [name for name, facts in files.items() if not _is_same(folder / name, facts)]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        wrong = [_LIST]
    if wrong:
        raise CacheUnavailable(f"{folder / wrong[0]} is damaged. {delete_and_start_again(folder)}")


def delete_and_start_again(folder: Path) -> str:
    """What to do about a damaged copy."""
    return f"Delete the folder {folder} and start again: it is then made anew."


def advice_on(source: str | Path) -> str:
    """What else to try where a model cannot be loaded: its copy on this machine may be broken off half way.

    A folder that a user named is no copy, and is never to be deleted on our advice.
    """
    folder = Path(source) if Path(source).is_relative_to(home_folder()) else _hub_folder(str(source))
    return f" If its files are not whole: {delete_and_start_again(folder)}" if folder.is_dir() else ""


def _hub_folder(name: str) -> Path:
    """Where the hub's library keeps a model of this name."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def _facts(path: Path) -> dict[str, int]:
    size = path.stat().st_size
    return {"size": size, "crc32": _checksum(path)} if size <= _READ_AT_EVERY_START else {"size": size}


def _is_same(path: Path, facts: dict[str, int]) -> bool:
    return path.is_file() and os.path.getsize(path) == facts["size"] and _facts(path) == facts


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value
