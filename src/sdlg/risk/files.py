"""The file `sdlg.calibration/2`: checked when it is read. Files of the first format, of one measure, are read, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from ..errors import BadOption
from ..formats.numbers import LARGEST, is_number, shown
from ..options import pick
from .combination import PLAIN
from .maps import MAPS

FORMAT, _OLD_FORMAT = "sdlg.calibration/2", "sdlg.calibration/1"
_LARGEST_COUNT = 2**53  # up to here floats tell whole numbers apart
T = TypeVar("T")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of our format."""
    try:
        row = json.loads(path.read_bytes())
    except OSError as error:
        raise BadOption(f"cannot read the calibration {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BadOption(f"{path} is not a calibration: it is not valid JSON ({error})") from error
    if not isinstance(row, dict) or "format" not in row:
        raise BadOption(f"{path} is not a calibration: it has no format; make one with sdlg calibrate")
    if row["format"] not in (FORMAT, _OLD_FORMAT):
        raise BadOption(f"{path} has the format {shown(row['format'])}, but this version reads {FORMAT}")
    return _of_one_measure(row) if row["format"] == _OLD_FORMAT else row


def _of_one_measure(row: dict[str, Any]) -> dict[str, Any]:
    """A file of the first format as one of today: its one measure is the score."""
    origin = row.get("origin")
    if isinstance(origin, dict) and "measure" in origin:
        row = {**row, "origin": {**origin, "measures": [origin["measure"]]}}
    return {**row, "combination": {name: list(value) for name, value in asdict(PLAIN).items()}}


def build(kind: Callable[..., T], row: object, where: str, **made: object) -> T:
    """A record from its JSON object; `made` are the fields that are records themselves, made already."""
    if not isinstance(row, dict):
        raise BadOption(f"{where} is not an object")
    parts = {part.name: part for part in fields(kind) if part.name not in made}  # type: ignore[arg-type]
    if missing := [name for name, part in parts.items() if name not in row and _is_needed(part)]:
        raise BadOption(f"{where} has no {', '.join(missing)}")
    read = {name: _value(part, row[name], where) for name, part in parts.items() if name in row}
    try:
        return kind(**read, **made)
    except ValueError as error:
        raise BadOption(f"{where} cannot be used: {error}") from error


def build_map(row: object, where: str) -> Any:
    """The map, of the kind that it says."""
    kind = row.get("kind") if isinstance(row, dict) else None
    return build(pick("map", MAPS, str(kind)), row, where)


def _is_needed(part: Field[Any]) -> bool:
    return part.default is MISSING and part.default_factory is MISSING


def _value(part: Field[Any], value: object, where: str) -> Any:
    fits, words = _KINDS[str(part.type)]
    if not fits(value):
        raise BadOption(f"{where}: {part.name} must be {words}, not {shown(value)}")
    return tuple(value) if isinstance(value, list) else value


def _is_number(value: object) -> bool:
    return is_number(value) and -LARGEST <= value <= LARGEST  # type: ignore[operator]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


# by the annotation of the record's field
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda value: isinstance(value, str), "a text"),
    "int": (_is_whole, "a whole number"),
    "float": (_is_number, "a number"),
    "float | None": (lambda value: value is None or _is_number(value), "a number or null"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "tuple[float, ...]": (lambda value: isinstance(value, list) and all(map(_is_number, value)), "a list of numbers"),
    "tuple[str, ...]": (
        lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
        "a list of texts",
    ),
    "Mapping[str, Any]": (lambda value: isinstance(value, dict), "an object"),
}
