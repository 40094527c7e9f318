"""Trunks kept between calls, so that a prefix shared by questions (few-shot header, system prompt, story) is run once.

In: a prompt. Out: a trunk that already holds as much of it as any kept trunk did. Least recently used first out,
within a memory limit.

Prompts are run in pieces, from boundary to boundary, and only whole pieces are used again. So the numbers do not depend
on what was asked before: a prefix that is reused was computed in just the pieces in which it would be computed now.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many

from ..records import Prompt
from .trunk import Trunk


def common_length(one: Many[int], other: Many[int]) -> int:
    """How many leading ids two sequences share."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def usable_length(held: Prompt, prompt: Prompt) -> int:
    """How much of a prompt a trunk has that was made for another one: all of it, or leading pieces that both have."""
    if (held.token_ids, held.boundaries) == (prompt.token_ids, prompt.boundaries):
        return len(prompt.token_ids)
    common = common_length(held.token_ids, prompt.token_ids)
    usable = 0
    for own, wanted in zip(held.boundaries, prompt.boundaries, strict=False):
        if own != wanted or wanted > common:
            break
        usable = wanted
    return usable


class PrefixStore:
    """A few trunks, most recently used last."""

    def __init__(self, new_trunk: Callable[[], Trunk], limit_bytes: int) -> None:
        self._new_trunk, self._limit_bytes = new_trunk, limit_bytes
        self._trunks: list[Trunk] = []

    def take(self, prompt: Prompt) -> Trunk:
        """The trunk that shares most with the prompt: itself if it was made for this very prompt, else a fork."""
        newest_first = reversed(self._trunks)  # max() takes the first of equals
        best = max(newest_first, key=lambda trunk: usable_length(trunk.prompt, prompt), default=None)
        shared = usable_length(best.prompt, prompt) if best else 0
        if best is None or not shared:
            return self._new_trunk()
        self._trunks.remove(best)
        if shared == len(prompt.token_ids):
            return best
        self._trunks.append(best)
        return best.fork(shared) if best.can_be_cut(shared) else self._new_trunk()

    def keep(self, trunk: Trunk) -> None:
        """Keep a trunk, and forget the least recently used ones that no longer fit. The newest is always kept."""
        self._trunks.append(trunk)
        while len(self._trunks) > 1 and self.nbytes > self._limit_bytes:
            self._trunks.pop(0)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return sum(trunk.nbytes for trunk in self._trunks)
