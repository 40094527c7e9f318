"""Choosing the next token of each path from logits: greedy, multinomial, or by codes.

In: logits (paths, V). Out: one token per path and its log-probability under the model itself (temperature 1, before
top-p). Every path draws from a generator of its own, so a sample does not depend on how many others there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...options import Decoding
from ...records import Alternative
from ..base import PathRandom, Steering
from ..codes import choose_by_code


def choose_tokens(logprobs: Tensor, randoms: Sequence[PathRandom]) -> Tensor:
    """(paths, V) → (paths,), each path in its own way."""
    tokens = choose_greedy(logprobs)
    multinomial = [row for row, random in enumerate(randoms) if random.decoding.strategy == "multinomial"]
    if multinomial:
        decoding, generators = randoms[multinomial[0]].decoding, [randoms[row].generator for row in multinomial]
        tokens[multinomial] = choose_multinomial(logprobs[multinomial], decoding, generators).to(tokens.device)
    for row, random in enumerate(randoms):
        if random.code is not None:
            shares = torch.softmax(logprobs[row].double() / random.decoding.temperature, dim=-1).cpu().numpy()
            tokens[row] = choose_by_code(shares, random.code, random.decoding.top_p)
    return tokens


def steered(logprobs: Tensor, token_ids: tuple[int, ...], steering: Steering, temperature: float) -> Tensor:
    """(1, V) with the steering's penalties taken off, so that softmax(· / temperature) is what is drawn from."""
    candidates = alternatives_above(logprobs[0], steering.min_probability)[: steering.candidates]
    penalties = steering.penalties(token_ids, candidates)
    moved = logprobs.clone()
    for candidate, penalty in zip(candidates, penalties, strict=True):
        moved[0, candidate.token_id] -= temperature * penalty
    return moved


def choose_greedy(logprobs: Tensor) -> Tensor:
    """(paths, V) → (paths,). Ties go to the lower id."""
    return logprobs.argmax(dim=-1)


def choose_multinomial(logprobs: Tensor, decoding: Decoding, generators: Sequence[np.random.Generator]) -> Tensor:
    """(paths, V) → (paths,), by inverting the cumulative distribution at one uniform number per path."""
    uniforms = torch.tensor([[generator.random()] for generator in generators], dtype=torch.float64)
    probabilities = torch.softmax(logprobs.double() / decoding.temperature, dim=-1).cpu()
    if decoding.top_p >= 1.0:
        return _invert(probabilities, uniforms)
    ordered, ids = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    kept = torch.where(before < decoding.top_p, ordered, 0.0)
    kept[:, 0] = ordered[:, 0]  # top_p = 0 keeps the likeliest
    return ids.gather(1, _invert(kept, uniforms)[:, None])[:, 0]


def _invert(weights: Tensor, uniforms: Tensor) -> Tensor:
    cumulative = weights.cumsum(dim=-1)
    chosen = torch.searchsorted(cumulative, uniforms * cumulative[:, -1:], right=True)[:, 0]
    last = weights.shape[-1] - 1 - (weights.flip(-1) > 0).int().argmax(dim=-1)  # rounding never picks weight 0
    return torch.minimum(chosen, last)


def alternatives_above(logprobs: Tensor, min_probability: float) -> tuple[Alternative, ...]:
    """The tokens of one step, (V,), that are likelier than this; likeliest first, ties by id."""
    floor = math.log(min_probability) if min_probability > 0 else -math.inf
    ids = (logprobs > floor).nonzero()[:, 0]
    values, order = logprobs[ids].sort(descending=True, stable=True)
    return tuple(Alternative(i, v) for i, v in zip(ids[order].tolist(), values.tolist(), strict=True))
