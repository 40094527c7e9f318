"""Prefixes of tokens with their keys and values, in transformers' caches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from ...records import Prompt, StopRule

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
    def size(self) -> int:
        """Bytes of the keys and values, with their spare columns."""
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for layer in self.cache.layers
            for tensor in vars(layer).values()
            if isinstance(tensor, Tensor)
        }
        return sum(storages.values())
