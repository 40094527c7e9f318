"""Branches with a cache of their own: works for any model, also those with a state in place of keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..decoding.trees import PathLogits, passes
from .prefix_cache import PrefixKV


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
