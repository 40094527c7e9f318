"""A prefix of tokens with its keys and values, and the branches that grow from it without copying it.

Nodes are numbered: node k < len(prefix) is the prefix's token k, later nodes are numbered as they grow; -1 is the root.
`grow(parents, tokens)` runs one token under each parent and gives the logits after it. Four ways to do it:

    Chain      one path: the prefix itself becomes longer
    Tree       one row, a mask lets each path see its own ancestors; nothing is copied, forks are free
    Rows       a padded batch; the columns a row must not see are masked out (gap mask)
    Separate   a cache of its own per path: works for any model, also those with a state instead of keys and values

layouts.py chooses among them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from ...records import Prompt, StopRule
from .network import Network, RoomyLayer


class KVTree(Protocol):
    """Paths that grow from a prefix."""

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """Run a token under each parent: their nodes, and the logits after them, (len(tokens), V)."""

    def close(self) -> None:
        """Leave the prefix as it was."""

    def keep_path(self, node: int) -> bool:
        """Make the path to this node the prefix, if that is possible without running the model."""


NO_PROMPT = Prompt((), StopRule())


class PrefixKV:
    """Tokens that were run one after another: a prompt, and perhaps an answer to it."""

    def __init__(self, network: Network, *, native: bool) -> None:
        self.network, self.native = network, native
        self.ids: list[int] = []
        self.prompt = NO_PROMPT  # the prompt it holds, once all of it was run
        self.tip: Tensor | None = None  # the logits after the prompt, (1, V)
        self.cache: Cache = network.new_cache(native=native)

    def extend(self, tokens: Sequence[int]) -> Tensor:
        """Run more tokens; the logits after the last, (1, V)."""
        # Models with a state go on from it one token at a time; given several, some of them forget it.
        at_once = 1 if self.ids and any(self.cache.is_linear) else len(tokens)
        for first in range(0, len(tokens), at_once):
            some = tokens[first : first + at_once]
            logits = self.network.chain(self.cache, some, len(self.ids))
            self.ids.extend(some)
        return logits

    def fork(self, length: int) -> PrefixKV:
        """A new prefix with the first `length` tokens of this one."""
        other = PrefixKV(self.network, native=self.native)
        if not length:
            return other
        if not self.native:
            for index, layer in enumerate(self.cache.layers):
                _layer(other.cache, index).replace(
                    layer.keys[..., :length, :].clone(), layer.values[..., :length, :].clone()
                )
            other.ids = self.ids[:length]
        elif self.can_be_cut(length):
            other.cache, other.ids = copy.deepcopy(self.cache), self.ids[:length]
            if length < len(self.ids):
                other.cache.crop(length - len(self.ids))
        else:
            other.extend(self.ids[:length])
        return other

    def can_be_cut(self, length: int) -> bool:
        """Whether its first `length` tokens can be had without running them again. A state has no past."""
        if not self.native or length == len(self.ids):
            return True
        return bool(self.cache.is_croppable) and not any(self.cache.is_sliding)

    @property
    def nbytes(self) -> int:
        """Memory of the keys and values, with the room they have to grow."""
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for layer in self.cache.layers
            for tensor in vars(layer).values()
            if isinstance(tensor, Tensor)
        }
        return sum(storages.values())


def _layer(cache: Cache, index: int) -> RoomyLayer:
    while len(cache.layers) <= index:
        cache.layers.append(RoomyLayer())
    layer: RoomyLayer = cache.layers[index]
    return layer


def _cut(prefix_kv: PrefixKV, length: int) -> bool:
    if length < len(prefix_kv.ids):
        prefix_kv.cache.crop(length - len(prefix_kv.ids))
        prefix_kv.ids = prefix_kv.ids[:length]
    return True


class Chain:
    """One path: growing is extending the prefix."""

    def __init__(self, prefix_kv: PrefixKV) -> None:
        self._prefix_kv = prefix_kv

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """The parent can only be the tip."""
        assert list(parents) == [len(self._prefix_kv.ids) - 1]
        logits = self._prefix_kv.extend(tokens)
        return [len(self._prefix_kv.ids) - 1], logits

    def close(self) -> None:
        """The trunk keeps what has grown."""

    def keep_path(self, node: int) -> bool:
        """It is the prefix already."""
        return node == len(self._prefix_kv.ids) - 1


class MaskedTree:
    """One row; each token sees its ancestors. A node is a column of the cache."""

    def __init__(self, prefix_kv: PrefixKV) -> None:
        self._prefix_kv = prefix_kv
        self._shared = len(prefix_kv.ids)
        self._seen_of_prefix: list[int] = []  # per grown node: how many prefix columns it sees
        self._positions: list[int] = []  # per grown node: its depth
        self._tokens: list[int] = []
        self._sees = torch.zeros((256, 256), dtype=torch.bool)  # grown node × grown column

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """A parent may also be a node of this same call."""
        first = len(self._positions)
        for offset, (parent, token) in enumerate(zip(parents, tokens, strict=True)):
            self._add(first + offset, parent - self._shared, token)
        grown = len(self._positions)
        seen = torch.tensor(self._seen_of_prefix[first:])
        of_prefix = torch.arange(self._shared)[None] < seen[:, None]  # (q, prefix)
        visible = torch.cat([of_prefix, self._sees[first:grown, :grown]], dim=1)
        positions = torch.tensor(self._positions)
        columns = torch.cat([torch.arange(self._shared), positions])
        logits = self._prefix_kv.network.tree(self._prefix_kv.cache, tokens, positions[first:], visible, columns)
        return [self._shared + node for node in range(first, grown)], logits

    def _add(self, node: int, parent: int, token: int) -> None:
        if node == len(self._sees):
            bigger = torch.zeros((2 * node, 2 * node), dtype=torch.bool)
            bigger[:node, :node] = self._sees
            self._sees = bigger
        if parent < 0:  # a prefix token, or the root
            self._seen_of_prefix.append(self._shared + parent + 1)
            self._positions.append(self._shared + parent + 1)
        else:
            self._seen_of_prefix.append(self._seen_of_prefix[parent])
            self._positions.append(self._positions[parent] + 1)
            self._sees[node] = self._sees[parent]
        self._sees[node, node] = True
        self._tokens.append(token)

    def close(self) -> None:
        """Drop the grown columns: the cache is the prefix's again."""
        if self._positions:
            self._prefix_kv.cache.crop(-len(self._positions))
            self._positions.clear()

    def keep_path(self, node: int) -> bool:
        """Gather the node's columns: its path becomes the prefix."""
        index = node - self._shared
        if index < 0:  # nothing of the path had to be run: the prefix's beginning is all there is
            self.close()
            return _cut(self._prefix_kv, node + 1)
        grown = self._sees[index].nonzero()[:, 0]
        columns = torch.cat([torch.arange(self._seen_of_prefix[index]), grown + self._shared])
        for layer in self._prefix_kv.cache.layers:
            where = columns.to(layer.keys.device)
            layer.replace(layer.keys.index_select(-2, where), layer.values.index_select(-2, where))
        self._prefix_kv.ids = self._prefix_kv.ids[: self._seen_of_prefix[index]] + [
            self._tokens[i] for i in grown.tolist()
        ]
        self._positions.clear()
        return True


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
        self._visible = torch.cat([self._visible, torch.ones((len(tokens), 1), dtype=torch.bool)], dim=1)
        logits = self._prefix_kv.network.rows(self._cache, tokens, depths, self._visible)
        nodes = list(range(self._next_node, self._next_node + len(tokens)))
        self._next_node += len(tokens)
        self._row_of = {node: row for row, node in enumerate(nodes)}
        self._depth = dict(zip(nodes, depths, strict=True))
        return nodes, logits

    def _arrange(self, parents: Sequence[int]) -> None:
        rows = [self._row_of.get(parent, -1) for parent in parents]
        if rows == list(range(len(self._visible))):
            return
        width = self._visible.shape[1]
        fresh = torch.arange(width)[None] <= torch.tensor(list(parents))[:, None]
        old = torch.tensor([max(row, 0) for row in rows])
        kept = self._visible[old] if len(self._visible) else fresh
        is_fresh = torch.tensor([row < 0 for row in rows])
        self._visible = torch.where(is_fresh[:, None], fresh, kept)
        for index, layer in enumerate(self._prefix_kv.cache.layers):
            _layer(self._cache, index).replace(
                *(self._pick(index, name, old, is_fresh, width, getattr(layer, name)) for name in ("keys", "values"))
            )

    def _pick(self, index: int, name: str, old: Tensor, is_fresh: Tensor, width: int, prefix_kv: Tensor) -> Tensor:
        padded = torch.nn.functional.pad(prefix_kv, (0, 0, 0, width - prefix_kv.shape[-2]))
        layer = self._cache.layers[index] if index < len(self._cache.layers) else None
        if layer is None or not layer.is_initialized:
            return padded.repeat_interleave(len(old), dim=0)
        chosen = getattr(layer, name)[old.to(prefix_kv.device)]
        return torch.where(is_fresh.to(prefix_kv.device)[:, None, None, None], padded, chosen)

    def close(self) -> None:
        """The trunk was never touched."""

    def keep_path(self, node: int) -> bool:
        """Not without a copy."""
        return False


class SeparateCaches:
    """A cache for each path."""

    def __init__(self, prefix_kv: PrefixKV) -> None:
        self._prefix_kv = prefix_kv
        self._next_node = len(prefix_kv.ids)
        self._tips: dict[int, PrefixKV] = {}

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """Parents that are not named are dropped."""
        tips, logits = [], []
        for parent, token in zip(parents, tokens, strict=True):
            source = self._tips.get(parent)
            tip = source.fork(len(source.ids)) if source else self._prefix_kv.fork(parent + 1)
            logits.append(tip.extend([token])[0])
            tips.append(tip)
        nodes = list(range(self._next_node, self._next_node + len(tips)))
        self._next_node += len(tips)
        self._tips = dict(zip(nodes, tips, strict=True))
        return nodes, torch.stack(logits)

    def close(self) -> None:
        """The trunk was never touched."""

    def keep_path(self, node: int) -> bool:
        """Take that path's cache over, if it is still there."""
        if node not in self._tips:
            return False
        self._prefix_kv.cache, self._prefix_kv.ids = self._tips[node].cache, self._tips[node].ids
        return True
