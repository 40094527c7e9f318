"""Trunks kept between calls, so that a prefix shared by questions (few-shot header, system prompt, story) is run once.

In: the ids of a prompt. Out: a trunk that already holds as much of it as any kept trunk did. Least recently used first
out, within a memory limit.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many

from .trunk import Trunk


def common_length(one: Many[int], other: Many[int]) -> int:
    """How many leading ids two sequences share."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


class PrefixStore:
    """A few trunks, most recently used last."""

    def __init__(self, new_trunk: Callable[[], Trunk], limit_bytes: int) -> None:
        self._new_trunk, self._limit_bytes = new_trunk, limit_bytes
        self._trunks: list[Trunk] = []

    def take(self, prompt_ids: Many[int]) -> Trunk:
        """The trunk that shares most with the prompt: itself if it holds the whole prompt, else a fork."""
        newest_first = reversed(self._trunks)  # max() takes the first of equals
        best = max(newest_first, key=lambda trunk: common_length(trunk.ids, prompt_ids), default=None)
        if best is None:
            return self._new_trunk()
        shared = common_length(best.ids, prompt_ids)
        self._trunks.remove(best)
        if shared == len(prompt_ids):
            return best
        self._trunks.append(best)
        return best.fork(shared)

    def keep(self, trunk: Trunk) -> None:
        """Keep a trunk, and forget the least recently used ones that no longer fit. The newest is always kept."""
        self._trunks.append(trunk)
        while len(self._trunks) > 1 and self.nbytes > self._limit_bytes:
            self._trunks.pop(0)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return sum(trunk.nbytes for trunk in self._trunks)
