"""What a run's files must look like, checked when they are read: whatever else is in them is damage, told as such.

A shape is a type, a list of one shape, `Each` of one (by any name), several to choose from, or names with their shapes;
a name that ends with "?" may be absent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..formats.numbers import LARGEST, is_number


@dataclass(frozen=True, slots=True)
class Each:
    """An object whose values all have one shape."""

    shape: Any


@dataclass(frozen=True, slots=True)
class Number:
    """A number that fits a float."""


def fits(value: Any, shape: Any) -> bool:
    """Whether a value has a shape."""
    if isinstance(shape, Number):
        return is_number(value) and _is_float(value)
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    if isinstance(shape, Each):
        return isinstance(value, dict) and all(fits(item, shape.shape) for item in value.values())
    if isinstance(shape, Mapping):
        return isinstance(value, dict) and all(_has(value, name, part) for name, part in shape.items())
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool) and _is_float(value)
    return value is None if shape is None else isinstance(value, shape)


def _has(value: Mapping[str, Any], name: str, shape: Any) -> bool:
    plain = name.removesuffix("?")
    return fits(value[plain], shape) if plain in value else plain != name


def _is_float(value: float) -> bool:
    """Python compares whole numbers of any size; NaN stands for what is undefined in older runs."""
    return -LARGEST <= value <= LARGEST or (isinstance(value, float) and not math.isfinite(value))


_NUMBER = Number()
_MATRIX = [[(_NUMBER, None)]]  # of pairs that were asked
_SECONDS = (_NUMBER, Each(_NUMBER))  # in all, or by what they were for
_GENERATED = {
    "question": str, "answer": dict, "methods": Each({"samples": [dict]}), "seconds?": _SECONDS,
    "parameters?": Each((int, None)), "cost?": (dict, None),
}  # fmt: skip
_CLUSTERS = {"distinct": [int], "entailment": _MATRIX, "contradiction": _MATRIX, "clusters": [int]}
ROWS: Mapping[str, Any] = {
    "generate": ({"id": str, "question": str, "skipped": str}, {"id": str, **_GENERATED}),
    "cluster": {"id": str, "methods": Each(_CLUSTERS), "nli_pairs?": int, "seconds?": _SECONDS},
    "measure": {"id": str, "values?": Each(Each([(_NUMBER, None)])), "reasons?": Each(Each(str))},
    "judge": {
        "id": str, "scores?": Each(_NUMBER), "reference?": str, "scores_without_stock?": (Each(_NUMBER), None),
    },
}  # fmt: skip
_PLAN = {"model": str, "nli": str, "preset": str, "methods": [str], "options": {"samples": int}}
DESCRIPTION: Mapping[str, Any] = {
    "plan": _PLAN, "data": {"name": str, "sha256?": str, "folder?": (str, None)}, "order?": [str],
    "sessions?": [dict],
}  # fmt: skip
