"""Prefixes of tokens with their keys and values, and a store of them that is kept between questions.

In: a prompt. Out: a prefix that holds as much of it as any kept prefix did, so that what questions share (shots, system
prompt, story) is run once. kv_tree.py has the branches that grow from a prefix.

Prompts are run in pieces, from boundary to boundary, and only whole pieces are used again. So the numbers do not depend
on what was asked before: a prefix that is reused was computed in the pieces in which it would be computed now.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from ...records import Prompt, StopRule
from ..prompts import common_length

if TYPE_CHECKING:
    from .network import Network

_SPARE_COLUMNS = 128  # buffers are multiples of it: what one leaves free fits the next, so memory does not fragment


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's keys and values in buffers with spare columns: appending writes in place and copies nothing."""

    keys: Tensor
    values: Tensor
    _buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append (batch, heads, new, width) and return all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        buffers = self._buffers
        if buffers is None or buffers[0].shape[-2] < end or buffers[0].shape[0] != key_states.shape[0]:
            buffers = _buffer(self.keys, key_states, start, end), _buffer(self.values, value_states, start, end)
        for buffer, new in zip(buffers, (key_states, value_states), strict=True):
            buffer[..., start:end, :] = new
        self._buffers = buffers
        self.keys, self.values = (buffer[..., :end, :] for buffer in buffers)
        return self.keys, self.values

    def trim(self) -> None:
        """Free columns that a tree needed and its prefix does not."""
        end = self.get_seq_length()
        if self._buffers is not None and self._buffers[0].shape[-2] > _buffer_columns(end):
            self._buffers = _buffer(self.keys, self.keys, end, end), _buffer(self.values, self.values, end, end)
            self.keys, self.values = (buffer[..., :end, :] for buffer in self._buffers)

    def replace(self, keys: Tensor, values: Tensor) -> None:
        """Hold these instead."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.keys, self.values, self._buffers = keys, values, None


def _buffer(old: Tensor, new: Tensor, start: int, end: int) -> Tensor:
    buffer = new.new_empty((*new.shape[:-2], _buffer_columns(end), new.shape[-1]))
    if start:
        buffer[..., :start, :] = old
    return buffer


def _buffer_columns(end: int) -> int:
    return -(-(end + max(_SPARE_COLUMNS, end // 4)) // _SPARE_COLUMNS) * _SPARE_COLUMNS


class PrefixKV:
    """Tokens that were run one after another, with their keys and values: a prompt, and perhaps an answer to it."""

    def __init__(self, network: Network, *, native: bool) -> None:
        self.network, self.native = network, native
        self.ids: list[int] = []
        self.prompt = Prompt((), StopRule())  # the prompt it holds, once all of it was run
        self.tip: Tensor | None = None  # the logits after the prompt, (1, V)
        self.cache: Cache = network.new_cache(native=native)

    def extend(self, tokens: Sequence[int], keep: int = 1) -> Tensor:
        """Run more tokens; return the logits after the last `keep` of them, (keep, V)."""
        # Models with a state go on from it one token at a time; given several, some of them forget it.
        pieces = [[token] for token in tokens] if self.ids and any(self.cache.is_linear) else [list(tokens)]
        tail: list[Tensor] = []
        for piece in pieces:
            logits = self.network.chain(self.cache, piece, len(self.ids), keep=min(keep, len(piece)))
            tail = [*tail, logits][-keep:]  # pieces of one row each, or one piece
            self.ids.extend(piece)
        return torch.cat(tail)

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens only. For caches of ours, which have every column."""
        if length < len(self.ids):
            self.cache.crop(length - len(self.ids))
            self.ids = self.ids[:length]

    def trim(self) -> None:
        """Free the memory of what grew here and is gone."""
        for layer in self.cache.layers:
            if isinstance(layer, GrowingLayer):
                layer.trim()

    def fork(self, length: int) -> PrefixKV:
        """Return a new prefix with the first `length` tokens of this one."""
        other = PrefixKV(self.network, native=self.native)
        if not length:
            return other
        if not self.native:
            for layer in self.cache.layers:
                copied = GrowingLayer()
                copied.replace(layer.keys[..., :length, :].clone(), layer.values[..., :length, :].clone())
                other.cache.layers.append(copied)
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
        """Memory of the keys and values, with their spare columns."""
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for layer in self.cache.layers
            for tensor in vars(layer).values()
            if isinstance(tensor, Tensor)
        }
        return sum(storages.values())


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


class PrefixStore:
    """A few prefixes, most recently used last. Whoever takes one has it alone; threads may share the store."""

    def __init__(self, new_prefix_kv: Callable[[], PrefixKV], limit_bytes: int) -> None:
        self._new_prefix_kv, self._limit_bytes = new_prefix_kv, limit_bytes
        self._kept: list[PrefixKV] = []
        self._lock = Lock()

    def take(self, prompt: Prompt) -> PrefixKV:
        """Return the prefix that shares most with the prompt: itself if it was made for this prompt, else a fork."""
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
        """Keep a prefix in place of others for its prompt; drop the least recently used, but never the newest."""
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
