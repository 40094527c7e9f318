"""One transformers network and the two shapes in which tokens are run through it.

In: token ids, their positions, and what each may see. Out: float32 next-token logits. This is the only file that calls
the network, so it is also where forward tokens and steps are counted. Threads that decode at once share its passes.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache

from ...concurrency.shared_passes import SharedPasses
from ..decoding.tree_model import TreeNetwork
from .packing import PackedCache, Pass, packed_attention, pass_groups
from .prefix_cache import GrowingLayer

KNOWN_WINDOWS = {"full_attention", "sliding_attention"}
# What models call windows that we do not build masks for: GPT-Neo's local attention, Llama 4's chunks, …
_OTHER_WINDOWS = ("attention_layers", "window_size", "attention_chunk_size", "local_attention", "attention_window")


def _run_together(wanted: Sequence[tuple[Network, Pass]]) -> list[Tensor | Exception]:
    """All are of one model, whoever has wrapped it."""
    return wanted[0][0].run_all([one for _, one in wanted])


# Of a model: two networks of it would change its attention under each other's hands.
_SHARED_PASSES: WeakKeyDictionary[Any, SharedPasses[tuple[Network, Pass], Tensor]] = WeakKeyDictionary()
_ATTENTIONS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()  # held while it is another one


class Network(TreeNetwork):
    """A causal language model, seen as a function from tokens to logits."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.device: torch.device = model.device
        accepted = inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in accepted
        self._takes_keep = "logits_to_keep" in accepted
        self._cache_name = "past_key_values" if "past_key_values" in accepted else "cache_params"  # Mamba's word for it
        self._config = model.config.get_text_config()
        self._additive_masks = getattr(self._config, "_attn_implementation", "sdpa") == "eager"
        self.passes = 0  # of all threads
        self._shared = _SHARED_PASSES.setdefault(model, SharedPasses(_run_together))
        self._attention = _ATTENTIONS.setdefault(model, threading.RLock())

    def decoding(self) -> AbstractContextManager[None]:
        """For a thread that will want one pass after the other: it shares them with others that do."""
        return self._shared.decoding()

    def aside(self) -> AbstractContextManager[None]:
        """For a thread that does something else in between: others do not wait for it."""
        return self._shared.aside()

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
        return DynamicCache(config=self.model.config) if native else Cache(layer_class_to_replicate=GrowingLayer)

    def chain(self, cache: Cache, tokens: Sequence[int], start: int, keep: int = 1) -> Tensor:
        """Run tokens that follow each other and all that is in the cache. Logits after the last ones: (keep, V)."""
        return self._run(self._chain(cache, tokens, start, keep))[0]

    def _chain(self, cache: Cache, tokens: Sequence[int], start: int, keep: int) -> Pass:
        positions = torch.arange(start, start + len(tokens))
        masks = None if isinstance(cache, DynamicCache) else partial(self._causal_masks, positions)
        return Pass(cache, torch.tensor([list(tokens)]), positions[None], None, keep, masks)

    def tree(
        self,
        cache: Cache,
        tokens: Sequence[int],
        positions: Tensor,
        visible: Tensor,
        columns: Tensor,
        lane_steps: int = 0,
    ) -> Tensor:
        """Run one row of tokens that see only their own path.

        positions: (q,); visible: bool (q, keys); columns: position of every key (keys,). Logits: (q, V). Where the
        newest columns are lanes, a token's keys are those before them and its own lane's; columns: (q, keys).
        """
        masks = self._masks(visible, positions, columns)
        ids, mask = torch.tensor([list(tokens)]), self._given(masks)
        return self._run(Pass(cache, ids, positions[None], mask, len(tokens), lambda: masks, lane_steps))[0]

    # -- masks --------------------------------------------------------------------------------------------------

    def _causal_masks(self, positions: Tensor) -> Mapping[str, Tensor]:
        columns = torch.arange(int(positions[-1]) + 1)
        return self._masks(columns[None] <= positions[:, None], positions, columns)

    def _masks(self, visible: Tensor, positions: Tensor, columns: Tensor) -> dict[str, Tensor]:
        """For each kind of layer, (1, 1, q, keys)."""
        return {kind: self._mask(visible, positions, columns, window) for kind, window in self.windows.items()}

    def _mask(self, visible: Tensor, positions: Tensor, columns: Tensor, window: int | None) -> Tensor:
        if window is not None:
            visible = visible & (positions[:, None] - columns < window)
        visible = visible[None, None].to(self.device)
        if not self._additive_masks:
            return visible
        lowest = torch.finfo(self.model.dtype).min
        return torch.zeros(visible.shape, dtype=self.model.dtype, device=self.device).masked_fill(~visible, lowest)

    @staticmethod
    def _given(masks: Mapping[str, Tensor]) -> Any:
        """As networks take them: by kind if there are several."""
        return next(iter(masks.values())) if len(masks) == 1 else masks

    # -- passes -------------------------------------------------------------------------------------------------

    def _run(self, wanted: Pass) -> Tensor:
        """Logits of the last `keep` columns: (rows, keep, V)."""
        self.count_pass(wanted.size)
        can_share = wanted.masks is not None and self.__dict__.get("packs", True)  # perhaps, until it was tried
        return self._shared.run((self, wanted), waits=can_share)

    def run_all(self, passes: Sequence[Pass]) -> list[Tensor | Exception]:
        """Logits, or what went wrong, of each; in one pass of the network where they can stand beside each other."""
        if len(passes) == 1 or not self.packs:
            return self._one_by_one(passes)
        found: dict[int, Tensor | Exception] = {}
        for group in pass_groups(passes):
            found.update(zip(group, self._run_group([passes[place] for place in group]), strict=True))
        return [found[place] for place in range(len(passes))]

    def _run_group(self, passes: Sequence[Pass]) -> Sequence[Tensor | Exception]:
        """What fails together (a token that there is not, no memory) may go well alone, and fails for itself only."""
        if len(passes) == 1:
            return self._one_by_one(passes)
        columns = [one.columns() for one in passes]
        try:
            return self._packed(passes)
        except Exception:
            for one, before in zip(passes, columns, strict=True):
                one.take_back(before)
            return self._one_by_one(passes)

    def _one_by_one(self, passes: Sequence[Pass]) -> list[Tensor | Exception]:
        found: list[Tensor | Exception] = []
        for one in passes:
            try:
                found.append(self._alone(one))
            except Exception as error:
                found.append(error)
        return found

    def _alone(self, one: Pass) -> Tensor:
        if one.lane_steps or (one.masks and one.mask is not None and self.packs):
            return self._packed([one])[0]  # with our attention, which copies no keys
        return self._call(one.cache, one.ids, one.positions, one.mask, one.keep)[:, -one.keep :].float()

    def _packed(self, passes: Sequence[Pass]) -> list[Tensor]:
        kinds = getattr(self._config, "layer_types", None) or list(self.windows)
        cache = PackedCache(passes, kinds)
        with self._attention, packed_attention(self._config):
            logits = self._call(cache, cache.ids, cache.positions, cache.mask, cache.wanted)
        return cache.logits_of(logits)

    def _call(self, cache: Cache, ids: Tensor, positions: Tensor, mask: Any, keep: int | Tensor) -> Tensor:
        """Logits of the last `keep` columns, or of those; a network may give more of them."""
        self.passes += 1
        extra: dict[str, Any] = {}
        if self._takes_keep:
            extra["logits_to_keep"] = keep if isinstance(keep, int) else keep.to(self.device)
        if self.takes_positions:
            extra["position_ids"] = positions.to(self.device)
        if mask is not None:
            extra["attention_mask"] = mask.to(self.device) if isinstance(mask, Tensor) else mask
        with torch.inference_mode():
            logits: Tensor = self.model(
                ids.to(self.device), use_cache=True, **{self._cache_name: cache}, **extra
            ).logits
        return logits

    @cached_property
    def packs(self) -> bool:
        """Whether two chains beside each other get the logits that they get alone: tried on the network itself."""
        with self._attention:  # whoever asks may not be the one whose turn it is
            return self._seems_to_pack() and self._was_seen_to_pack()

    def _seems_to_pack(self) -> bool:
        is_plain = getattr(self._config, "_attn_implementation", None) == "sdpa" and not self._rope_hangs_on_length
        return is_plain and set(self.windows) <= KNOWN_WINDOWS and self.takes_positions and self._takes_keep

    def _was_seen_to_pack(self) -> bool:
        try:
            alone, together = self._probe(lambda passes: list(map(self._alone, passes))), self._probe(self._packed)
        except Exception:  # any failure of a foreign network means: one after the other
            return False
        most = max(1e-3, torch.finfo(self.model.dtype).eps) * max(1.0, float(alone.abs().max()))
        return bool((alone - together).abs().max() < most)

    @property
    def _rope_hangs_on_length(self) -> bool:
        """Whether positions turn keys by more the longer the longest question of a pass is."""
        rope = str(getattr(self._config, "rope_parameters", None) or getattr(self._config, "rope_scaling", None) or "")
        return "longrope" in rope or "dynamic" in rope

    def _probe(self, run: Callable[[Sequence[Pass]], list[Tensor]]) -> Tensor:
        """Logits after two chains of different lengths, then after one more token of each."""
        size = int(self.model.get_input_embeddings().num_embeddings)
        chains = [[(factor * k + 11) % size for k in range(length)] for factor, length in ((7919, 9), (104729, 5))]
        caches, logits = [self.new_cache(native=False) for _ in chains], []
        ends = [len(chain) - 1 for chain in chains]
        for begins, stops in (([0, 0], ends), (ends, [end + 1 for end in ends])):
            steps = zip(caches, chains, begins, stops, strict=True)
            logits += run([self._chain(cache, chain[begin:stop], begin, 1) for cache, chain, begin, stop in steps])
        return torch.cat(logits)
