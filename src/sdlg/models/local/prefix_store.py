"""Prefixes kept between calls, so that a prefix shared by questions (shots, system prompt, story) is run once.

In: a prompt. Out: a prefix that already holds as much of it as any kept prefix did. Least recently used first out,
within a memory limit.

Prompts are run in pieces, from boundary to boundary, and only whole pieces are used again. So the numbers do not depend
on what was asked before: a prefix that is reused was computed in just the pieces in which it would be computed now.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from ...records import Prompt
from ..tokenizing import common_length
from .prefix_kv import PrefixKV


def usable_length(held: Prompt, prompt: Prompt) -> int:
    """How much of a prompt a prefix has that was made for another one: all of it, or leading pieces that both have."""
    if _is_same_prompt(held, prompt):
        return len(prompt.token_ids)
    common = common_length(held.token_ids, prompt.token_ids)
    usable = 0
    for held_boundary, boundary in zip(held.boundaries, prompt.boundaries, strict=False):
        if held_boundary != boundary or boundary > common:
            break
        usable = boundary
    return usable


def _is_same_prompt(one: Prompt, other: Prompt) -> bool:
    return (one.token_ids, one.boundaries) == (other.token_ids, other.boundaries)


class PrefixStore:
    """A few prefixes, most recently used last. Who takes one has it alone; threads may share the store."""

    def __init__(self, new_prefix_kv: Callable[[], PrefixKV], limit_bytes: int) -> None:
        self._new_prefix_kv, self._limit_bytes = new_prefix_kv, limit_bytes
        self._kept: list[PrefixKV] = []
        self._lock = Lock()

    def take(self, prompt: Prompt) -> PrefixKV:
        """The prefix that shares most with the prompt: itself if it was made for this very prompt, else a fork."""
        with self._lock:
            newest_first = reversed(self._kept)  # max() takes the first of equals
            best = max(newest_first, key=lambda prefix_kv: usable_length(prefix_kv.prompt, prompt), default=None)
            shared = usable_length(best.prompt, prompt) if best else 0
            if best is None or not shared:
                return self._new_prefix_kv()
            self._kept.remove(best)
            if shared == len(prompt.token_ids):
                return best
            self._kept.append(best)
            return best.fork(shared) if best.can_be_cut(shared) else self._new_prefix_kv()

    def keep(self, prefix_kv: PrefixKV) -> None:
        """Keep a prefix in the place of others for its prompt, and forget the least recently used that no longer fit.

        The newest is always kept.
        """
        prefix_kv.trim()
        with self._lock:
            self._kept = [one for one in self._kept if not _is_same_prompt(one.prompt, prefix_kv.prompt)]
            self._kept.append(prefix_kv)
            while len(self._kept) > 1 and self.nbytes > self._limit_bytes:
                self._kept.pop(0)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return sum(prefix_kv.nbytes for prefix_kv in self._kept)
