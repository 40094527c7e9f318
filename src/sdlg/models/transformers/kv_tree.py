"""The branches that grow from a prefix, without copying it where the model allows that.

Nodes are numbered: node k < len(prefix) is the prefix's token k, later nodes are numbered as they grow; -1 is the root.
`grow(parents, tokens)` runs one token under each parent and gives the logits after it. Three ways to do it:

    Chain           one path: the prefix itself becomes longer
    MaskedTree      one row, a mask lets each path see its own ancestors; nothing is copied, forks are free
    SeparateCaches  a cache of its own per path: works for any model, also those with a state for keys and values

layouts.py chooses between the last two, which can also run whole paths that are given, in as few passes as possible.
MaskedTree is in masked_tree.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...concurrency.limits import check_limit
from .prefix_cache import PrefixKV

_PASS_TOKENS = 128  # of given paths, in one pass: bounds the memory of their logits, a row of the vocabulary for each


class KVTree(Protocol):
    """Paths that grow from a prefix."""

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """Run a token under each parent: their nodes, and the logits after them, (len(tokens), V)."""

    def prune(self, nodes: Sequence[int]) -> None:
        """Only the paths to these nodes will be continued or kept: the memory of others may be used again."""

    def close(self) -> None:
        """Leave the prefix as it was."""

    def keep_path(self, node: int) -> bool:
        """Make the path to this node the prefix, if that is possible without running the model."""


@dataclass(frozen=True, slots=True)
class PathLogits:
    """The logits after some tokens of a path that was given, from its token number `first` on: (tokens, V)."""

    path: int
    first: int
    logits: Tensor


class PathTree(KVTree, Protocol):
    """A tree that can also run whole paths."""

    def run_paths(self, parents: Sequence[int], paths: Sequence[Sequence[int]]) -> Iterator[PathLogits]:
        """Run each path under its parent, and forget it. Each one's pieces come in its order; they hold no memory."""


def path_batches(paths: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the numbers of the paths that have tokens, in groups that fit into one pass; a longer one is alone."""
    group: list[int] = []
    for number, path in enumerate(paths):
        if group and sum(len(paths[other]) for other in group) + len(path) > _PASS_TOKENS:
            yield group
            group = []
        if path:
            group.append(number)
    if group:
        yield group


def passes(length: int) -> Iterator[slice]:
    """The passes over so many tokens."""
    for first in range(0, length, _PASS_TOKENS):
        check_limit()
        yield slice(first, min(first + _PASS_TOKENS, length))


class Chain:
    """One path: growing is extending the prefix."""

    def __init__(self, prefix_kv: PrefixKV) -> None:
        self._prefix_kv = prefix_kv

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """The parent can only be the tip."""
        assert list(parents) == [len(self._prefix_kv.ids) - 1]
        logits = self._prefix_kv.extend(tokens)
        return [len(self._prefix_kv.ids) - 1], logits

    def prune(self, nodes: Sequence[int]) -> None:
        """There is one path only."""

    def close(self) -> None:
        """The prefix keeps what has grown."""

    def keep_path(self, node: int) -> bool:
        """It is the prefix already."""
        return node == len(self._prefix_kv.ids) - 1


class SeparateCaches:
    """A cache for each path."""

    def __init__(self, prefix_kv: PrefixKV) -> None:
        self._prefix_kv = prefix_kv
        self._next_node = len(prefix_kv.ids)
        self._tips: dict[int, PrefixKV] = {}

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """Parents that are not named are dropped."""
        tips, logits = [], []
        for k, (parent, token) in enumerate(zip(parents, tokens, strict=True)):
            tip = self._fork(parent) if parent in parents[k + 1 :] else self._take(parent)
            logits.append(tip.extend([token])[0])
            tips.append(tip)
        nodes = list(range(self._next_node, self._next_node + len(tips)))
        self._next_node += len(tips)
        self._tips = dict(zip(nodes, tips, strict=True))
        return nodes, torch.stack(logits)

    def _fork(self, parent: int) -> PrefixKV:
        source = self._tips.get(parent)
        return source.fork(len(source.ids)) if source else self._prefix_kv.fork(parent + 1)

    def _take(self, parent: int) -> PrefixKV:
        """Whoever continues a path last may have its cache; the prefix's own stays."""
        return self._tips.pop(parent, None) or self._fork(parent)

    def run_paths(self, parents: Sequence[int], paths: Sequence[Sequence[int]]) -> Iterator[PathLogits]:
        """One after the other."""
        for number, (parent, path) in enumerate(zip(parents, paths, strict=True)):
            tip = self._prefix_kv.fork(parent + 1) if path else self._prefix_kv
            for now in passes(len(path)):
                yield PathLogits(number, now.start, tip.extend(path[now], keep=now.stop - now.start))

    def prune(self, nodes: Sequence[int]) -> None:
        """Paths that are not continued are dropped anyway."""

    def close(self) -> None:
        """Leave the prefix: it was never touched."""

    def keep_path(self, node: int) -> bool:
        """Take that path's cache over, if it is still there."""
        if node not in self._tips:
            return False
        self._prefix_kv.cache, self._prefix_kv.ids = self._tips[node].cache, self._tips[node].ids
        return True
