"""Texts through a model that reads many at once, each different one once.

In: texts or pairs of texts, as often as they come. Out: what the model says of each. They are sorted by length, so that
little is padded; between batches the caller's deadline is looked at. So that this happens often enough, long texts make
small batches where a processor reads them: there they gain nothing from large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..concurrency.limits import check_limit

Item = TypeVar("Item", str, tuple[str, str])
Outcome = TypeVar("Outcome")


_CHARACTERS = 8192  # in one batch, padding included: some tenths of a second for a small encoder on two cores


def batch_characters(device: Any) -> int | None:
    """How many characters a batch may have on a torch device; None: as many as there are."""
    return _CHARACTERS if device.type == "cpu" else None


def run_in_batches(
    run: Callable[[list[Item]], Iterable[Outcome]], items: Iterable[Item], size: int, characters: int | None = None
) -> dict[Item, Outcome]:
    """What `run` gives for each different item, shortest first; equally long ones as they come.

    A batch has at most `size` items, and fewer if they are long: `characters` bounds items × the longest one's length.
    """
    todo = sorted(dict.fromkeys(items), key=_characters)
    outcomes: dict[Item, Outcome] = {}
    while len(outcomes) < len(todo):
        check_limit()
        batch = _next_batch(todo[len(outcomes) : len(outcomes) + size], characters)
        outcomes.update(zip(batch, run(batch), strict=True))
    return outcomes


def _next_batch(items: list[Item], characters: int | None) -> list[Item]:
    """The first of these, sorted by length, that fit together; one always does."""
    if characters is None:
        return items
    fits = [count for count, item in enumerate(items, start=1) if count * _characters(item) <= characters]
    return items[: max(fits, default=1)]


def _characters(item: str | tuple[str, str]) -> int:
    return len(item) if isinstance(item, str) else len(item[0]) + len(item[1])
