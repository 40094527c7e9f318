"""Several questions in one pass: their tokens stand in one row, and each sees its own keys and values only.

In: passes, each with a cache of its own. Out: what a network needs to run them as one. Every weight is read once for
all of them; attention is computed question by question, on the caches as they are: nothing is padded or copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

_ATTENTION = "sdlg_packed"  # as transformers knows it


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """Tokens for one cache, ids and positions (1, q), and how they see each other and what is there."""

    cache: Cache
    ids: Tensor
    positions: Tensor
    mask: Any  # as the network takes it; None: each token sees all before it
    keep: int  # of how many of the last ones logits are wanted
    masks: Callable[[], Mapping[str, Tensor]] | None = None  # for each kind of layer; None: it must be run alone

    @property
    def size(self) -> int:
        """How many tokens it runs."""
        return self.ids.shape[-1]


@dataclass(frozen=True, slots=True, eq=False)
class PackedPasses:
    """Passes as one."""

    passes: Sequence[Pass]

    @property
    def ids(self) -> Tensor:
        """(1, Σq)."""
        return torch.cat([one.ids for one in self.passes], dim=1)

    @property
    def positions(self) -> Tensor:
        """(1, Σq)."""
        return torch.cat([one.positions for one in self.passes], dim=1)

    @property
    def masks(self) -> dict[str, Tensor]:
        """Nobody sees the others: (1, 1, Σq, Σkeys)."""
        each = [one.masks() for one in self.passes if one.masks]
        return {kind: _block_diagonal([masks[kind][0, 0] for masks in each]) for kind in each[0]}

    @property
    def wanted(self) -> Tensor:
        """The places in the row of which logits are wanted."""
        ends = accumulate(one.size for one in self.passes)
        return torch.cat([torch.arange(end - one.keep, end) for one, end in zip(self.passes, ends, strict=True)])

    def split(self, logits: Tensor) -> list[Tensor]:
        """(1, Σkeep, V) → (1, keep, V) for each pass."""
        return _split(logits, [one.keep for one in self.passes], 1)


def _block_diagonal(masks: Sequence[Tensor]) -> Tensor:
    whole: Tensor = torch.block_diag(*masks)  # type: ignore[no-untyped-call]
    return whole[None, None]


def _split(tensor: Tensor, sizes: Sequence[int], dim: int) -> list[Tensor]:
    return list(tensor.split(list(sizes), dim=dim))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """Keys or values of each question, (1, heads, keys, width), where a network expects one tensor of them."""

    parts: Sequence[Tensor]
    queries: Sequence[int]  # how many tokens of each question are run


class PackedCache(Cache):  # type: ignore[misc]
    """The caches of several questions as one: new tokens are handed out, and what each has is handed back."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        super().__init__(layers=[])
        self._caches, self._sizes = [one.cache for one in passes], [one.size for one in passes]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[_States, _States]:
        """Append each question's own tokens to its cache."""
        parts = zip(*(_split(states, self._sizes, -2) for states in (key_states, value_states)), strict=True)
        held = [cache.update(*new, layer_idx, *args, **kwargs) for cache, new in zip(self._caches, parts, strict=True)]
        keys, values = zip(*held, strict=True)
        return _States(keys, self._sizes), _States(values, self._sizes)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Of all together."""
        return sum(cache.get_seq_length(layer_idx) for cache in self._caches)


def _attend(
    module: torch.nn.Module, query: Tensor, key: Any, value: Any, attention_mask: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    """Each question's queries with its own keys, by its block of the mask; what is not packed as torch does it."""
    if not isinstance(key, _States):
        attended: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return attended
    outputs, row, column = [], 0, 0
    for keys, values, queries in zip(key.parts, value.parts, key.queries, strict=True):
        rows, columns = slice(row, row + queries), slice(column, column + keys.shape[-2])
        mask = attention_mask[..., rows, columns]
        outputs.append(sdpa_attention_forward(module, query[:, :, rows], keys, values, mask, **kwargs)[0])
        row, column = rows.stop, columns.stop
    return torch.cat(outputs, dim=1), None


@contextmanager
def packed_attention(config: Any) -> Iterator[None]:
    """Inside, a model with this configuration attends question by question."""
    AttentionInterface.register(_ATTENTION, _attend)
    before = config._attn_implementation
    config._attn_implementation = _ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before
