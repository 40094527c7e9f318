"""A prefix and the branches that grow from it: what every engine offers to the decoders.

Nodes are numbered: node k < len(prefix) is the prefix's token k, later nodes are numbered as they grow; -1 is the root.
`grow(parents, tokens)` runs one token under each parent and gives the logits after it. The ways to do it:

    Chain                            one path: the prefix itself becomes longer (here)
    transformers/masked_tree.py      one row, a mask lets each path see its own ancestors; nothing is copied
    transformers/separate_caches.py  a cache of its own per path: works for any model, also those with a state
    llama/sequences.py               sequences of llama.cpp that share cells
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from torch import Tensor

from ...concurrency.limits import check_limit
from ...records import Prompt

_PASS_TOKENS = 128  # of given paths, in one pass: bounds the memory of their logits, a row of the vocabulary for each


class Prefix(Protocol):
    """Tokens that were run one after another: a prompt, and perhaps an answer to it."""

    ids: list[int]
    prompt: Prompt  # the prompt it holds, once all of it was run
    tip: Tensor | None  # the logits after the prompt, (1, V)

    def extend(self, tokens: Sequence[int], keep: int = 1) -> Tensor:
        """Run more tokens; return the logits after the last `keep` of them, (keep, V)."""

    def fork(self, length: int) -> Self:
        """Return a new prefix with the first `length` tokens of this one."""

    def can_be_cut(self, length: int) -> bool:
        """Whether its first `length` tokens can be had without running them again."""

    def trim(self) -> None:
        """Free the memory of what grew here and is gone."""

    @property
    def size(self) -> int:
        """Memory in use, in the unit of its store's limit."""


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


def path_batches(paths: Sequence[Sequence[int]], most: int = _PASS_TOKENS) -> Iterator[list[int]]:
    """Yield the numbers of the paths that have tokens, in groups that fit into one pass; a longer one is alone.

    A group has at most so many paths.
    """
    group: list[int] = []
    for number, path in enumerate(paths):
        tokens = sum(len(paths[other]) for other in group) + len(path)
        if group and (len(group) == most or tokens > _PASS_TOKENS):
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

    def __init__(self, prefix: Prefix) -> None:
        self._prefix = prefix

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """The parent can only be the tip."""
        assert list(parents) == [len(self._prefix.ids) - 1]
        logits = self._prefix.extend(tokens)
        return [len(self._prefix.ids) - 1], logits

    def prune(self, nodes: Sequence[int]) -> None:
        """There is one path only."""

    def close(self) -> None:
        """The prefix keeps what has grown."""

    def keep_path(self, node: int) -> bool:
        """It is the prefix already."""
        return node == len(self._prefix.ids) - 1
