"""One transformers network and the three shapes in which tokens are run through it.

In: token ids, their positions, and what each may see. Out: float32 next-token logits. This is the only file that calls
the network, so it is also where forward tokens and steps are counted.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

_SPARE_COLUMNS = 128  # and rooms are multiples of it: what one leaves free fits the next, so memory is not in pieces
# What models call windows that we do not build masks for: GPT-Neo's local attention, Llama 4's chunks, …
_OTHER_WINDOWS = ("attention_layers", "window_size", "attention_chunk_size", "local_attention", "attention_window")


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values with spare room: appending writes in place instead of copying the whole cache."""

    keys: Tensor
    values: Tensor
    _rooms: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append (batch, heads, new, width) and return all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self._rooms is None or self._rooms[0].shape[-2] < end or self._rooms[0].shape[0] != key_states.shape[0]:
            self._rooms = (
                self._room(self.keys, key_states, start, end),
                self._room(self.values, value_states, start, end),
            )
        for room, new in zip(self._rooms, (key_states, value_states), strict=True):
            room[..., start:end, :] = new
        self.keys, self.values = (room[..., :end, :] for room in self._rooms)
        return self.keys, self.values

    @staticmethod
    def _room(old: Tensor, new: Tensor, start: int, end: int) -> Tensor:
        room = new.new_empty((*new.shape[:-2], _room_columns(end), new.shape[-1]))
        if start:
            room[..., :start, :] = old
        return room

    def trim(self) -> None:
        """Give back room that a tree needed and its prefix does not."""
        end = self.get_seq_length()
        if self._rooms is not None and self._rooms[0].shape[-2] > _room_columns(end):
            keys, values = self.keys, self.values
            self._rooms = (self._room(keys, keys, end, end), self._room(values, values, end, end))
            self.keys, self.values = (room[..., :end, :] for room in self._rooms)

    def replace(self, keys: Tensor, values: Tensor) -> None:
        """Hold these instead."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.keys, self.values, self._rooms = keys, values, None


def _room_columns(end: int) -> int:
    return -(-(end + max(_SPARE_COLUMNS, end // 4)) // _SPARE_COLUMNS) * _SPARE_COLUMNS


class _Counts(threading.local):
    """Of the thread that asks: threads take turns with a network, also in the middle of their work."""

    forward_tokens = 0
    steps = 0


class Network:
    """A causal language model, seen as a function from tokens to logits."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.device: torch.device = model.device
        accepted = inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in accepted
        self._takes_keep = "logits_to_keep" in accepted
        self._cache_name = "past_key_values" if "past_key_values" in accepted else "cache_params"  # Mamba's word for it
        self._config = model.config.get_text_config()
        self._additive_masks = getattr(self._config, "_attn_implementation", "sdpa") == "eager"
        self._counts = _Counts()

    @property
    def forward_tokens(self) -> int:
        """Tokens that this thread has run."""
        return self._counts.forward_tokens

    @property
    def steps(self) -> int:
        """How often this thread has called the network."""
        return self._counts.steps

    @property
    def windows(self) -> dict[str, int | None]:
        """Attention window per layer type; one entry for models with one kind of layer."""
        if any(getattr(self._config, name, None) for name in _OTHER_WINDOWS):
            return {"a window of another kind": None}
        window = getattr(self._config, "sliding_window", None)
        if getattr(self._config, "use_sliding_window", True) is False:
            window = None
        types = sorted(set(getattr(self._config, "layer_types", None) or ()))
        if not types:
            return {"sliding_attention" if window else "full_attention": window}
        return {kind: window if kind == "sliding_attention" else None for kind in types}

    def new_cache(self, *, native: bool) -> Cache:
        """An empty cache: the model's own kind, or ours, which keeps every column."""
        return DynamicCache(config=self.model.config) if native else Cache(layer_class_to_replicate=RoomyLayer)

    def chain(self, cache: Cache, tokens: Sequence[int], start: int, keep: int = 1) -> Tensor:
        """Run tokens that follow each other and all that is in the cache. Logits after the last ones: (keep, V)."""
        positions = torch.arange(start, start + len(tokens), device=self.device)[None]
        return self._call(cache, torch.tensor([list(tokens)]), positions, None, keep)[0]

    def tree(self, cache: Cache, tokens: Sequence[int], positions: Tensor, visible: Tensor, columns: Tensor) -> Tensor:
        """Run one row of tokens that see only their own path.

        positions: (q,); visible: bool (q, keys); columns: position of every key (keys,). Logits: (q, V).
        """
        masks = {kind: self._mask(visible, positions, columns, window) for kind, window in self.windows.items()}
        mask = next(iter(masks.values())) if len(masks) == 1 else masks
        return self._call(cache, torch.tensor([list(tokens)]), positions[None], mask)[0]

    def rows(self, cache: Cache, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        """Run a batch: ids and positions (rows, new); `visible` is an ordinary padding mask (rows, keys).

        Logits: (rows, new, V).
        """
        return self._call(cache, ids, positions, visible.long())

    def _mask(self, visible: Tensor, positions: Tensor, columns: Tensor, window: int | None) -> Tensor:
        if window is not None:
            visible = visible & (positions[:, None] - columns[None] < window)
        visible = visible[None, None].to(self.device)  # (1, 1, q, keys)
        if not self._additive_masks:
            return visible
        lowest = torch.finfo(self.model.dtype).min
        return torch.zeros(visible.shape, dtype=self.model.dtype, device=self.device).masked_fill(~visible, lowest)

    def _call(self, cache: Cache, ids: Tensor, positions: Tensor, mask: Any, keep: int = 0) -> Tensor:
        """Logits of the last `keep` columns; 0, as in transformers: of all."""
        self._counts.forward_tokens += ids.numel()
        self._counts.steps += 1
        extra: dict[str, Any] = {"logits_to_keep": keep} if keep and self._takes_keep else {}
        if self.takes_positions:
            extra["position_ids"] = positions.to(self.device)
        if mask is not None:
            extra["attention_mask"] = mask.to(self.device) if isinstance(mask, Tensor) else mask
        with torch.inference_mode():
            logits: Tensor = self.model(
                ids.to(self.device), use_cache=True, **{self._cache_name: cache}, **extra
            ).logits
        return logits[:, -keep:].float()
