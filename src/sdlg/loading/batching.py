"""Texts through a model that reads many at once, each different one once.

In: texts or pairs of texts, as often as they come. Out: what the model says of each. They are sorted by length, so that
little is padded; between batches the caller's deadline is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ..concurrency.limits import check_limit

Item = TypeVar("Item", str, tuple[str, str])
Outcome = TypeVar("Outcome")


def run_in_batches(
    run: Callable[[list[Item]], Iterable[Outcome]], items: Iterable[Item], size: int
) -> dict[Item, Outcome]:
    """What `run` gives for each different item, `size` at a time, shortest first; equally long ones as they come."""
    todo = sorted(dict.fromkeys(items), key=_characters)
    outcomes: dict[Item, Outcome] = {}
    for first in range(0, len(todo), size):
        check_limit()
        batch = todo[first : first + size]
        outcomes.update(zip(batch, run(batch), strict=True))
    return outcomes


def _characters(item: str | tuple[str, str]) -> int:
    return len(item) if isinstance(item, str) else len(item[0]) + len(item[1])
