"""Questions with references: the paper's three data sets, and any JSONL file.

Adding a data set is a function from rows to items, and a `DataSource` in the table of `sources.py`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import BadOption, BadQuestion, RunError, UnknownName, first_line
from .items import DataRow, DataSet, DataSource, Item, json_object, read_items
from .sources import SOURCES

__all__ = ["SOURCES", "DataSet", "DataSource", "Item", "choose_items", "load_data"]

_FILE_ENDINGS = (".jsonl", ".json", ".ndjson")


def load_data(name: str, folder: Path | None = None, preset: str = "default") -> DataSet:
    """Load a data set by name, or a JSONL file. Named ones come from the folder (or SDLG_DATA) if given, else from the
    hub; the preset may say which shots are shown."""
    if name in SOURCES:
        source = SOURCES[name]
        rows = _rows(source, folder)
        try:
            return _checked(DataSet(name, tuple(source.read(rows, preset))))
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"the rows of {name} are not as expected: {type(error).__name__} {error}") from error
    if not name.endswith(_FILE_ENDINGS) and not Path(name).is_file():
        raise UnknownName(f"unknown data {name!r}; choose from: {', '.join(sorted(SOURCES))}, or name a JSONL file")
    return _checked(DataSet(Path(name).name, tuple(read_items(_lines(Path(name))))))


def choose_items(data: DataSet, limit: int | None, seed: int) -> tuple[Item, ...]:
    """Return all items, or `limit` of them drawn by the seed. A larger limit adds to a smaller one."""
    if limit is None or limit >= len(data.items):
        return data.items
    items = list(data.items)
    random.Random(seed).shuffle(items)
    return tuple(items[:limit])


def _rows(source: DataSource, folder: Path | None) -> Sequence[DataRow]:
    folder = folder or (Path(os.environ["SDLG_DATA"]) if os.environ.get("SDLG_DATA") else None)
    if folder is None:
        return _hub_rows(source)
    rows, path = [], folder / source.file
    for number, line in enumerate(_lines(path), start=1):
        try:
            rows += [json_object(line)] if line.strip() else []
        except BadQuestion as error:
            raise RunError(f"{path}, line {number}: {error}") from error
    return rows


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"cannot read the data {path}: {error}") from error
    return text.split("\n")  # not splitlines(): JSON may hold U+2028


def _hub_rows(source: DataSource) -> Sequence[DataRow]:
    way_out = f"name a folder that holds {source.file} with --data-dir"
    if source.hub is None:
        raise RunError(f"{source.name} is not on the hub; {way_out}")
    try:
        import datasets
    except ImportError as error:
        raise RunError(
            f"loading {source.name} from the hub needs the datasets package: pip install 'sdlg[datasets]'; or {way_out}"
        ) from error
    repository, configuration, split = source.hub
    try:
        rows: Any = datasets.load_dataset(repository, configuration, split=split)
    except Exception as error:  # whatever the hub, the network or the disk may raise
        raise RunError(
            f"cannot load {source.name} ({repository}) from the hub: {first_line(error)}; or {way_out}"
        ) from error
    return list(rows)


def _checked(data: DataSet) -> DataSet:
    if not data.items:
        raise BadOption(f"there is no question in {data.name}")
    double = [name for name, count in Counter(item.id for item in data.items).items() if count > 1]
    if double:
        raise BadOption(f"{len(double)} ids of {data.name} are there more than once, for example {double[0]!r}")
    return data
