"""Prefixes that are kept between questions, so that what they share (shots, system prompt, story) is run once.

In: a prompt. Out: a prefix that holds as much of it as any kept one did.

Prompts are run in pieces, from boundary to boundary, and only whole pieces are used again. So the numbers do not depend
on what was asked before: a prefix that is reused was computed in the pieces in which it would be computed now.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar

from ...records import Prompt
from ..prompts import common_length
from .trees import Prefix

P = TypeVar("P", bound=Prefix)


def usable_length(held: Prompt, prompt: Prompt) -> int:
    """Return how many of a prompt's tokens a prefix for another prompt has: all, or the leading pieces of both."""
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


class PromptStore(Protocol[P]):
    """Where a model keeps prefixes between questions."""

    def take(self, prompt: Prompt) -> P:
        """Return a prefix that holds as much of the prompt as is there."""

    def keep(self, prefix: P) -> None:
        """Keep a prefix for later questions."""

    def drop_all(self) -> None:
        """Forget all prefixes."""


class PrefixStore(Generic[P]):
    """A few prefixes, most recently used last. Whoever takes one has it alone; threads may share the store."""

    def __init__(self, new_prefix: Callable[[], P], limit: int) -> None:
        self._new_prefix, self._limit = new_prefix, limit
        self._kept: list[P] = []
        self._lock = Lock()

    def take(self, prompt: Prompt) -> P:
        """Return the prefix that shares most with the prompt: itself if it was made for this prompt, else a fork."""
        with self._lock:
            newest_first = reversed(self._kept)  # max() takes the first of equals
            best = max(newest_first, key=lambda prefix: usable_length(prefix.prompt, prompt), default=None)
            shared = usable_length(best.prompt, prompt) if best else 0
            if best is None or not shared:
                return self._new_prefix()
            self._kept.remove(best)
            if shared == len(prompt.token_ids):
                return best
            self._kept.append(best)
            return best.fork(shared) if best.can_be_cut(shared) else self._new_prefix()

    def keep(self, prefix: P) -> None:
        """Keep a prefix in place of others for its prompt; drop the least recently used, but never the newest."""
        prefix.trim()
        with self._lock:
            self._kept = [one for one in self._kept if not _is_same_prompt(one.prompt, prefix.prompt)]
            self._kept.append(prefix)
            while len(self._kept) > 1 and self.size > self._limit:
                self._kept.pop(0)

    @property
    def size(self) -> int:
        """Memory in use, in the unit of the limit."""
        return sum(prefix.size for prefix in self._kept)

    def drop_all(self) -> None:
        """Forget all prefixes."""
        with self._lock:
            self._kept = []
