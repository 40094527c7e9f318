"""The branches that grow from a prefix, without copying it where the model allows that.

Nodes are numbered: node k < len(prefix) is the prefix's token k, later nodes are numbered as they grow; -1 is the root.
`grow(parents, tokens)` runs one token under each parent and gives the logits after it. Four ways to do it:

    Chain           one path: the prefix itself becomes longer
    MaskedTree      one row, a mask lets each path see its own ancestors; nothing is copied, forks are free
    PaddedRows      a padded batch; the columns a row must not see are masked out (gap mask)
    SeparateCaches  a cache of its own per path: works for any model, also those with a state for keys and values

layouts.py chooses among them. The last three can also run whole paths that are given, in as few passes as possible.
MaskedTree has a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from ...concurrency.limits import check_limit
from .prefix_kv import PrefixKV, layer_at

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


def path_batches(paths: Sequence[Sequence[int]], size: Callable[[list[int]], int]) -> Iterator[list[int]]:
    """The numbers of the paths that have tokens, in groups that fit into one pass; a longer one is alone.

    `size` says how many tokens a pass over paths of these lengths runs.
    """
    group: list[int] = []
    for number, path in enumerate(paths):
        if group and size([*(len(paths[other]) for other in group), len(path)]) > _PASS_TOKENS:
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
        """The trunk keeps what has grown."""

    def keep_path(self, node: int) -> bool:
        """It is the prefix already."""
        return node == len(self._prefix_kv.ids) - 1


class PaddedRows:
    """A batch with one row per path. Rows are copies of the prefix whose later columns are masked out."""

    def __init__(self, prefix_kv: PrefixKV) -> None:
        self._prefix_kv = prefix_kv
        self._shared = self._next_node = len(prefix_kv.ids)
        self._row_of: dict[int, int] = {}
        self._depth: dict[int, int] = {}
        self._visible = torch.zeros((0, self._shared), dtype=torch.bool)
        self._cache: Cache = prefix_kv.network.new_cache(native=False)

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """Parents are prefix tokens or nodes of the call before."""
        self._arrange(parents)
        depths = [parent + 1 if parent < self._shared else self._depth[parent] + 1 for parent in parents]
        logits = self._run(
            torch.tensor(list(tokens))[:, None], torch.tensor(depths)[:, None], torch.ones(len(tokens), 1)
        )
        nodes = list(range(self._next_node, self._next_node + len(tokens)))
        self._next_node += len(tokens)
        self._row_of = {node: row for row, node in enumerate(nodes)}
        self._depth = dict(zip(nodes, depths, strict=True))
        return nodes, logits[:, -1]

    def _run(self, ids: Tensor, positions: Tensor, are_tokens: Tensor) -> Tensor:
        """Append columns to all rows, (rows, new); those that are padding are never seen."""
        self._visible = torch.cat([self._visible, are_tokens.bool()], dim=1)
        return self._prefix_kv.network.rows(self._cache, ids, positions, self._visible)

    def run_paths(self, parents: Sequence[int], paths: Sequence[Sequence[int]]) -> Iterator[PathLogits]:
        """As many as fit into a pass, in rows of a batch that are padded at their ends."""
        for group in path_batches(paths, size=_padded):
            rows = PaddedRows(self._prefix_kv)
            rows._arrange([parents[number] for number in group])
            lengths = torch.tensor([len(paths[number]) for number in group])[:, None]
            ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(list(paths[k])) for k in group], batch_first=True)
            places = torch.arange(ids.shape[1])[None].expand(ids.shape)
            positions = places + torch.tensor([[parents[number] + 1] for number in group])
            for now in passes(ids.shape[1]):
                logits = rows._run(ids[:, now], positions[:, now], (places < lengths)[:, now])
                for row, number in enumerate(group):  # several, and all in this pass; or one that fills it
                    yield PathLogits(number, now.start, logits[row, : len(paths[number]) - now.start])

    def _arrange(self, parents: Sequence[int]) -> None:
        rows = [self._row_of.get(parent, -1) for parent in parents]
        if rows == list(range(len(self._visible))):
            return
        width = self._visible.shape[1]
        fresh = torch.arange(width)[None] <= torch.tensor(list(parents))[:, None]
        old = torch.tensor([max(row, 0) for row in rows])
        existing = self._visible[old] if len(self._visible) else fresh
        is_fresh = torch.tensor([row < 0 for row in rows])
        self._visible = torch.where(is_fresh[:, None], fresh, existing)
        for index, layer in enumerate(self._prefix_kv.cache.layers):
            layer_at(self._cache, index).replace(
                *(self._pick(index, name, old, is_fresh, width, getattr(layer, name)) for name in ("keys", "values"))
            )

    def _pick(self, index: int, name: str, old: Tensor, is_fresh: Tensor, width: int, prefix_kv: Tensor) -> Tensor:
        padded = torch.nn.functional.pad(prefix_kv, (0, 0, 0, width - prefix_kv.shape[-2]))
        layer = self._cache.layers[index] if index < len(self._cache.layers) else None
        if layer is None or not layer.is_initialized:
            return padded.repeat_interleave(len(old), dim=0)
        chosen = getattr(layer, name)[old.to(prefix_kv.device)]
        return torch.where(is_fresh.to(prefix_kv.device)[:, None, None, None], padded, chosen)

    def prune(self, nodes: Sequence[int]) -> None:
        """Rows that are not continued are dropped anyway."""

    def close(self) -> None:
        """The trunk was never touched."""

    def keep_path(self, node: int) -> bool:
        """Not without a copy."""
        return False


def _padded(lengths: list[int]) -> int:
    return len(lengths) * max(lengths)


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
        """The trunk was never touched."""

    def keep_path(self, node: int) -> bool:
        """Take that path's cache over, if it is still there."""
        if node not in self._tips:
            return False
        self._prefix_kv.cache, self._prefix_kv.ids = self._tips[node].cache, self._tips[node].ids
        return True
