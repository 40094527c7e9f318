"""Numbers that strangers wrote. JSON's have no bounds: a whole number of 400 digits is valid, and fits no float.

In: whatever JSON held. Out: floats within the range that was asked for, or `BadQuestion` that names what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BadQuestion

LARGEST = 1e300  # beyond ±this, sums of a few of them are no numbers any more
SHARE = (-1e-6, 1 + 1e-6)  # a probability or a similarity, as rounding leaves it


def is_number(value: object) -> bool:
    """Whether JSON held a number; it may still fit no float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_number(value: Any, what: str, low: float = -LARGEST, high: float = LARGEST) -> float:
    """One number of a range. NaN is in none."""
    if not is_number(value) or not low <= value <= high:  # Python compares whole numbers of any size exactly
        raise BadQuestion(f"{what} must be {_range(low, high)}, not {shown(value)}")
    return float(value)


def read_numbers(values: Any, what: str, low: float = -LARGEST, high: float = LARGEST) -> tuple[float, ...]:
    """A list of numbers of a range."""
    if not isinstance(values, list):
        raise BadQuestion(f"{what} must be a list, not {shown(values)}")
    return tuple(read_number(value, f"{what}: each number", low, high) for value in values)


def read_number_rows(
    rows: Any, what: str, low: float = -LARGEST, high: float = LARGEST
) -> tuple[tuple[float, ...], ...]:
    """A list of lists of numbers."""
    if not isinstance(rows, list):
        raise BadQuestion(f"{what} must be a list of lists, not {shown(rows)}")
    return tuple(read_numbers(row, f"{what}: each row", low, high) for row in rows)


def read_table(rows: Any, what: str, low: float = -LARGEST, high: float = LARGEST) -> tuple[tuple[float, ...], ...]:
    """Rows that are equally long, and not empty."""
    table = read_number_rows(rows, what, low, high)
    if len({len(row) for row in table}) != 1 or not table[0]:
        raise BadQuestion(f"{what} must be a list of equally long lists of numbers, and not empty")
    return table


def shown(value: Any) -> str:
    """A stranger's value in a message, no longer than a message should be."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**20:
        return "a whole number of more than 20 digits"  # writing one of a million digits takes seconds
    if isinstance(value, (list, Mapping)):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _range(low: float, high: float) -> str:
    if low > -LARGEST and high < LARGEST:
        return f"a number from {round(low):g} to {round(high):g}"
    if low > -LARGEST:
        return f"a number of at least {round(low):g}"
    return f"a number of at most {round(high):g}" if high < LARGEST else "a number"
