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
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ...errors import NotSupported

_ATTENTION = "sdlg_packed"  # as transformers knows it
_NOT_PACKED = ("position_bias", "softcap")  # change scores: of a network that has them every question is run alone
_MOST_TOKENS = 1024  # of a pass of several: bounds its memory, and how long the smallest waits for the largest


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """Tokens for one cache, ids and positions (1, q), and how they see each other and what is there."""

    cache: Cache
    ids: Tensor
    positions: Tensor
    mask: Any  # as the network takes it; None: each token sees all before it
    keep: int  # of how many of the last ones logits are wanted
    masks: Callable[[], Mapping[str, Tensor]] | None = None  # for each kind of layer; None: it must be run alone
    lane_steps: int = 0  # so many of each token's keys are its own: the newest columns are lane_steps × q

    @property
    def size(self) -> int:
        """How many tokens it runs."""
        return self.ids.numel()

    def columns(self) -> list[int]:
        """What each layer of its cache holds."""
        return [layer.get_seq_length() for layer in self.cache.layers]

    def take_back(self, columns: Sequence[int]) -> None:
        """Leave its cache as it was before a pass that failed half-way."""
        del self.cache.layers[len(columns) :]
        for layer, before in zip(self.cache.layers, columns, strict=True):
            layer.crop(before - layer.get_seq_length())


def pass_groups(passes: Sequence[Pass]) -> Iterator[list[int]]:
    """The places of passes that are run as one, in their order; one that must be run alone is alone."""
    group: list[int] = []
    for place, one in enumerate(passes):
        if one.masks is None:
            yield [place]
            continue
        if group and sum(passes[other].size for other in group) + one.size > _MOST_TOKENS:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """Keys or values of each question, (1, heads, keys, width), where a network expects one tensor of them."""

    parts: Sequence[Tensor]
    masks: Sequence[Tensor]  # what its tokens see of them, (1, 1, q, keys)
    lane_steps: Sequence[int]


class PackedCache(Cache):  # type: ignore[misc]
    """Passes as one. New tokens are handed out to their caches, and what each has is handed back."""

    def __init__(self, passes: Sequence[Pass], kinds: Sequence[str]) -> None:
        super().__init__(layers=[])
        self._passes, self._kinds = passes, kinds  # the kind of each layer; one for all, if there are no others
        self._sizes = [one.size for one in passes]
        self._masks = [one.masks() for one in passes if one.masks]

    @property
    def ids(self) -> Tensor:
        """(1, Σq)."""
        return torch.cat([one.ids for one in self._passes], dim=1)

    @property
    def positions(self) -> Tensor:
        """(1, Σq)."""
        return torch.cat([one.positions for one in self._passes], dim=1)

    @property
    def wanted(self) -> Tensor:
        """The places in the row of which logits are wanted."""
        ends = accumulate(self._sizes)
        return torch.cat([torch.arange(end - one.keep, end) for one, end in zip(self._passes, ends, strict=True)])

    @property
    def mask(self) -> Any:
        """In the place of a mask: what is seen comes with the keys."""
        nothing = torch.ones((1, 1, 1, 1), dtype=torch.bool)
        kinds = set(self._kinds)
        return nothing if len(kinds) == 1 else dict.fromkeys(kinds, nothing)

    def logits_of(self, logits: Tensor) -> list[Tensor]:
        """(1, Σkeep, V) → (1, keep, V) for each pass, without the memory of the others."""
        return [part.float().clone() for part in _split(logits, [one.keep for one in self._passes], 1)]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[_States, _States]:
        """Append each question's own tokens to its cache."""
        kind = self._kinds[layer_idx if len(self._kinds) > 1 else 0]
        masks = [of_kinds[kind] for of_kinds in self._masks]
        parts = zip(*(_split(states, self._sizes, -2) for states in (key_states, value_states)), strict=True)
        held = [
            one.cache.update(*new, layer_idx, *args, **kwargs) for one, new in zip(self._passes, parts, strict=True)
        ]
        keys, values = zip(*held, strict=True)
        lane_steps = [one.lane_steps for one in self._passes]
        return _States(keys, masks, lane_steps), _States(values, masks, lane_steps)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Of all together."""
        return sum(one.cache.get_seq_length(layer_idx) for one in self._passes)


def _split(tensor: Tensor, sizes: Sequence[int], dim: int) -> list[Tensor]:
    return list(tensor.split(list(sizes), dim=dim))  # type: ignore[no-untyped-call]


def _attend(
    module: torch.nn.Module, query: Tensor, key: Any, value: Any, attention_mask: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    """Each question's queries with its own keys; what is not packed as torch does it."""
    if not isinstance(key, _States):
        attended: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return attended
    if any(kwargs.get(name) is not None for name in _NOT_PACKED):
        raise NotSupported(f"attention with {' or '.join(_NOT_PACKED)} cannot be packed")
    queries = _split(query, [mask.shape[-2] for mask in key.masks], 2)
    each = zip(queries, key.parts, value.parts, key.masks, strict=True)
    scaling = kwargs.get("scaling")
    attended_parts = [
        _attend_in_lanes(*one, steps, scaling) if steps else _attend_in_groups(*one, scaling)
        for one, steps in zip(each, key.lane_steps, strict=True)
    ]
    return torch.cat(attended_parts, dim=1), None


def _attend_in_groups(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float | None) -> Tensor:
    """Heads that share keys are one head with more queries: (1, heads, q, width) → (1, q, heads, width).

    The keys are read where they are, not copied for each head as `sdpa_attention_forward` does where there is a mask.
    """
    _, heads, asked, width = query.shape
    groups = keys.shape[1]
    of_group = heads // groups
    found = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(1, groups, of_group * asked, width),
        keys,
        values,
        attn_mask=mask.repeat(1, 1, of_group, 1),
        scale=scaling,
    )
    return found.reshape(1, heads, asked, -1).transpose(1, 2)  # kernels lay it out in their own ways


def _attend_in_lanes(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, steps: int, scaling: float | None
) -> Tensor:
    """Each query with the keys before the lanes and with its own lane: (1, heads, q, width) → (1, q, heads, width).

    The newest columns are a grid of steps × q. A lane is a view of it: nothing is gathered.
    """
    _, heads, lanes, width = query.shape
    groups = keys.shape[1]  # of heads that share keys
    begin = keys.shape[2] - steps * lanes
    asked = query[0].view(groups, heads // groups, lanes, width) * (width**-0.5 if scaling is None else scaling)

    def parts(states: Tensor) -> tuple[Tensor, Tensor]:
        grid = states[0, :, begin:].view(groups, steps, lanes, states.shape[-1])
        return states[0, :, :begin], grid.transpose(1, 2)  # (groups, begin, width), (groups, lanes, steps, width)

    (keys_before, own_keys), (values_before, own_values) = parts(keys), parts(values)
    before = asked.flatten(1, 2) @ keys_before.transpose(1, 2)  # (groups, heads of it · lanes, begin)
    by_lane = asked.transpose(1, 2)  # (groups, lanes, heads of it, width)
    own = torch.stack([one @ its.transpose(1, 2) for one, its in zip(by_lane, own_keys, strict=True)])
    scores = torch.cat([before.view(*asked.shape[:3], begin), own.transpose(1, 2)], dim=-1)
    weights = scores.float().masked_fill(~mask, -torch.inf).softmax(dim=-1).to(values.dtype)
    of_before, of_own = weights[..., :begin], weights[..., begin:].transpose(1, 2)
    found = (of_before.flatten(1, 2) @ values_before).view(*asked.shape[:3], values.shape[-1])
    found = found + torch.stack([one @ its for one, its in zip(of_own, own_values, strict=True)]).transpose(1, 2)
    return found.flatten(0, 1).transpose(0, 1)[None]


@contextmanager
def packed_attention(config: Any) -> Iterator[None]:
    """Inside, a model with this configuration attends question by question. One thread at a time."""
    AttentionInterface.register(_ATTENTION, _attend)
    AttentionMaskInterface.register(_ATTENTION, sdpa_mask)  # whoever else calls the model meanwhile has its masks
    before = config._attn_implementation
    config._attn_implementation = _ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before
