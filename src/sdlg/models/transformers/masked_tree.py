"""All branches in one row of tokens: a mask lets each token see its own ancestors, and nothing is copied.

In: parents and tokens. Out: nodes and logits (decoding/trees.py). What is remembered of a node is its parent;
which columns a token sees is looked up when it is run. Where answers grow long, each of the same paths has had a token
in every step, for many steps: these are lanes, the newest columns are a grid of steps × lanes, and a token looks at its
own lane of it instead of at all of them through a mask. So a token's cost grows with its path, not with all paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from ..decoding.trees import PathLogits, passes, path_batches
from .prefix_cache import PrefixKV

_MANY_COLUMNS = 1024  # a tree with more drops those of paths that have ended, and looks at lanes


@dataclass(frozen=True, slots=True)
class _Node:
    """A token that has grown."""

    parent: int
    prefix_length: int  # how many tokens of the prefix its path begins with
    position: int
    token: int


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The newest columns, steps × nodes."""

    begin: int  # how many columns there are before them
    steps: int
    nodes: tuple[int, ...]  # of the newest step


class MaskedTree:
    """One row; each token sees its ancestors. Every node that has grown is a column of the cache."""

    def __init__(self, prefix_kv: PrefixKV) -> None:
        self._prefix_kv = prefix_kv
        self._shared = self._next_node = len(prefix_kv.ids)
        self._nodes: dict[int, _Node] = {}  # in the order of their columns
        self._columns: dict[int, int] = {}  # of the cache
        self._lanes = _Lanes(self._shared, 0, ())
        self._seen_before: tuple[Tensor, Tensor] | None = None  # by each lane, (lanes, begin); columns' positions

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """A parent may also be a node of this same call."""
        nodes = [self._add(parent, token) for parent, token in zip(parents, tokens, strict=True)]
        if tuple(parents) == self._lanes.nodes:
            self._lanes = _Lanes(self._lanes.begin, self._lanes.steps + 1, tuple(nodes))
        else:
            self._lanes, self._seen_before = _Lanes(self._shared + len(self._nodes), 0, tuple(nodes)), None
        network, cache = self._prefix_kv.network, self._prefix_kv.cache
        positions = torch.tensor([self._nodes[node].position for node in nodes])
        is_long = self._lanes.steps * len(nodes) > _MANY_COLUMNS
        if is_long and network.packs:
            visible, columns = self._seen_in_lanes(positions)
            logits = network.tree(cache, tokens, positions, visible, columns, lane_steps=self._lanes.steps)
        else:
            logits = network.tree(cache, tokens, positions, *self._seen(nodes, self._shared + len(self._nodes)))
        return nodes, logits

    def _seen(self, nodes: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
        """Which of the first columns are on the way to each node, (nodes, size), and their positions, (size,)."""
        visible = torch.zeros((len(nodes), size), dtype=torch.bool)
        for row, node in enumerate(nodes):
            visible[row, : self._nodes[node].prefix_length] = True
            visible[row, [column for one in self._path(node) if (column := self._columns[one]) < size]] = True
        positions = [node.position for node in islice(self._nodes.values(), size - self._shared)]
        return visible, torch.cat([torch.arange(self._shared), torch.tensor(positions, dtype=torch.long)])

    def _seen_in_lanes(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Of the columns before the lanes what is on its way, of its own lane all: both (lanes, begin + steps)."""
        lanes = self._lanes
        if self._seen_before is None:
            self._seen_before = self._seen(lanes.nodes, lanes.begin)
        before, columns = self._seen_before
        own = positions[:, None] - torch.arange(lanes.steps - 1, -1, -1)
        visible = torch.cat([before, torch.ones_like(own, dtype=torch.bool)], dim=1)
        return visible, torch.cat([columns.expand(len(positions), -1), own], dim=1)

    def _add(self, parent: int, token: int) -> int:
        above = self._nodes.get(parent)  # None: a prefix token, or the root
        node = self._next_node
        self._nodes[node] = _Node(
            parent, above.prefix_length if above else parent + 1, above.position + 1 if above else parent + 1, token
        )
        self._columns[node] = self._shared + len(self._columns)
        self._next_node += 1
        return node

    def _path(self, node: int) -> list[int]:
        """The nodes from the prefix to this one, that have grown."""
        path = []
        while node in self._nodes:
            path.append(node)
            node = self._nodes[node].parent
        return path[::-1]

    def run_paths(self, parents: Sequence[int], paths: Sequence[Sequence[int]]) -> Iterator[PathLogits]:
        """As many as fit into a pass, one beside the other."""
        for group in path_batches(paths):
            tokens = [(number, place) for number in group for place in range(len(paths[number]))]
            first_node = self._next_node
            above = [first_node + k - 1 if place else parents[number] for k, (number, place) in enumerate(tokens)]
            for now in passes(len(tokens)):
                _, logits = self.grow(above[now], [paths[number][place] for number, place in tokens[now]])
                yield from _by_path(tokens[now], logits)
            self.close()

    def prune(self, nodes: Sequence[int]) -> None:
        """Once there are many columns, keep those that are still needed where a lane has ended or most are not."""
        if len(self._nodes) <= _MANY_COLUMNS or tuple(nodes) == self._lanes.nodes:
            return
        needed: set[int] = set()
        for node in nodes:
            while node in self._nodes and node not in needed:
                needed.add(node)
                node = self._nodes[node].parent
        lanes = self._lanes
        left = tuple(node for node in lanes.nodes if node in needed)
        has_lost_lanes = lanes.steps > 0 and len(left) < len(lanes.nodes)
        if has_lost_lanes or 2 * len(needed) < len(self._nodes):
            kept = [self._columns[node] for node in self._nodes if node in needed]
            self._keep_columns([*range(self._shared), *kept])
            self._nodes = {node: facts for node, facts in self._nodes.items() if node in needed}
            self._columns = {node: self._shared + k for k, node in enumerate(self._nodes)}
            before = sum(column < lanes.begin for column in kept)
            if len(kept) - before == lanes.steps * len(left):
                self._lanes = _Lanes(self._shared + before, lanes.steps, left)
            else:  # the beginning of a lane that has ended is to be kept: what is left is no grid
                self._lanes = _Lanes(self._shared + len(kept), 0, left)
            self._seen_before = None

    def _keep_columns(self, columns: list[int]) -> None:
        for layer in self._prefix_kv.cache.layers:
            where = torch.tensor(columns, device=layer.keys.device)
            layer.replace(layer.keys.index_select(-2, where), layer.values.index_select(-2, where))

    def close(self) -> None:
        """Drop the grown columns: the cache is the prefix's again."""
        if self._nodes:
            self._prefix_kv.cache.crop(-len(self._nodes))
        self._forget_nodes()

    def keep_path(self, node: int) -> bool:
        """Gather the node's columns: its path becomes the prefix."""
        if node not in self._nodes:
            self.close()
            if node < self._shared:  # nothing of the path had to be run: the prefix's beginning is all there is
                self._prefix_kv.cut(node + 1)
            return node < self._shared
        path, begin = self._path(node), self._nodes[node].prefix_length
        self._keep_columns([*range(begin), *(self._columns[one] for one in path)])
        self._prefix_kv.ids = [*self._prefix_kv.ids[:begin], *(self._nodes[one].token for one in path)]
        self._forget_nodes()
        return True

    def _forget_nodes(self) -> None:
        self._nodes.clear()
        self._columns.clear()
        self._lanes, self._seen_before = _Lanes(self._shared, 0, ()), None


def _by_path(tokens: Sequence[tuple[int, int]], logits: Tensor) -> Iterator[PathLogits]:
    """The logits after (path, place) pairs, cut where another path begins."""
    begins = [k for k, (number, _) in enumerate(tokens) if k == 0 or tokens[k - 1][0] != number]
    for begin, end in zip(begins, [*begins[1:], len(tokens)], strict=True):
        yield PathLogits(*tokens[begin], logits[begin:end])
