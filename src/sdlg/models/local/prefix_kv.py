"""A prefix of tokens with its keys and values: a prompt, and perhaps an answer to it.

In: tokens that follow each other. Out: the logits after them, and forks that need not run them again. kv_tree.py has
the branches that grow from a prefix.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from ...records import Prompt, StopRule
from .network import Network
from .roomy_layer import RoomyLayer

NO_PROMPT = Prompt((), StopRule())


class PrefixKV:
    """Tokens that were run one after another: a prompt, and perhaps an answer to it."""

    def __init__(self, network: Network, *, native: bool) -> None:
        self.network, self.native = network, native
        self.ids: list[int] = []
        self.prompt = NO_PROMPT  # the prompt it holds, once all of it was run
        self.tip: Tensor | None = None  # the logits after the prompt, (1, V)
        self.cache: Cache = network.new_cache(native=native)

    def extend(self, tokens: Sequence[int], keep: int = 1) -> Tensor:
        """Run more tokens; the logits after the last `keep` of them, (keep, V)."""
        # Models with a state go on from it one token at a time; given several, some of them forget it.
        pieces = [[token] for token in tokens] if self.ids and any(self.cache.is_linear) else [list(tokens)]
        tail: list[Tensor] = []
        for piece in pieces:
            logits = self.network.chain(self.cache, piece, len(self.ids), keep=min(keep, len(piece)))
            tail = [*tail, logits][-keep:]  # pieces of one row each, or one piece
            self.ids.extend(piece)
        return torch.cat(tail)

    def cut(self, length: int) -> None:
        """Keep its first `length` tokens only. For caches of ours, which have every column."""
        if length < len(self.ids):
            self.cache.crop(length - len(self.ids))
            self.ids = self.ids[:length]

    def trim(self) -> None:
        """Give back the memory of what grew here and is gone."""
        for layer in self.cache.layers:
            if isinstance(layer, RoomyLayer):
                layer.trim()

    def fork(self, length: int) -> PrefixKV:
        """A new prefix with the first `length` tokens of this one."""
        other = PrefixKV(self.network, native=self.native)
        if not length:
            return other
        if not self.native:
            for index, layer in enumerate(self.cache.layers):
                layer_at(other.cache, index).replace(
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


def layer_at(cache: Cache, index: int) -> RoomyLayer:
    """Its layer of this number, made when it is first asked for."""
    while len(cache.layers) <= index:
        cache.layers.append(RoomyLayer())
    layer: RoomyLayer = cache.layers[index]
    return layer
