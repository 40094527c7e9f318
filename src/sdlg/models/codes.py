"""Arithmetic sampling (Vilnis et al. 2023, arXiv 2210.15458): N answers from N evenly spaced codes, each decoded alone.

In: how many, a seed, and at every step a distribution. Out: codes, and the token that a code chooses.

An order of the tokens at every step cuts [0, 1) into one interval per answer, as wide as the answer is likely. A code
is a point of [0, 1); its answer is the interval that holds it, found token by token: take the token whose piece of the
cumulative distribution holds the code, then stretch that piece to [0, 1) again. Codes are u + i/N (mod 1) with one
u ~ U(0, 1): each is uniform on its own, so every answer is drawn with exactly its probability, and together they are
even: of N codes, floor(N m) or ceil(N m) fall into all answers with one beginning, of mass m.

The likeliest token comes first, ties by id. So the greedy answer is the piece [0, p(greedy)), and even codes on the
rest are draws from all other answers (`outside`).

Stretching a piece stretches rounding, too: after some twenty bits a code would say what float32 got wrong. A piece that
is narrower than the codes are apart holds no other one, so from there on the code is drawn anew at every token. This
changes no distribution, since a code is uniform in its piece, and evenness has nothing left to say there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BELOW_ONE = 1.0 - 2.0**-53
_CODES = 0xC0DE  # keeps these random numbers apart from those of a path that draws token by token
_USUAL = 1e-4  # most codes choose a token that is likelier: only those are sorted


@dataclass(slots=True)
class Code:
    """A point of [outside, 1) in a piece of all answers that has this mass; the next code is `spacing` away."""

    value: float
    generator: np.random.Generator = field(repr=False)
    spacing: float = 0.0
    outside: float = 0.0
    mass: float = 1.0

    def enter(self, low: float, size: float) -> None:
        """Stretch the piece [low, low + size) that holds the code to [0, 1)."""
        self.mass *= size
        self.outside = min(max((self.outside - low) / size, 0.0), BELOW_ONE)
        if self.mass < self.spacing:
            stretched = self.outside + (1.0 - self.outside) * float(self.generator.random())
        else:
            stretched = (self.value - low) / size
        self.value = min(max(stretched, 0.0), BELOW_ONE)


def spread_order(count: int) -> NDArray[np.int64]:
    """0 … count−1 so that every beginning is spread out: the ranks of van der Corput's sequence. (count,)"""
    bits = max(count - 1, 1).bit_length()
    mirrored = [int(f"{number:0{bits}b}"[::-1], 2) for number in range(count)]
    return np.argsort(np.argsort(mirrored))


def even_codes(count: int, seed: int | Sequence[int], outside: float = 0.0) -> list[Code]:
    """Even codes on [outside, 1), in an order of which every beginning is even, too.

    Each alone is uniform, so the first n of them are unbiased as well.
    """
    numbers = list(seed) if isinstance(seed, Sequence) else [seed]
    offset = np.random.default_rng([*numbers, _CODES]).random()
    spacing = (1.0 - outside) / max(count, 1)
    values = outside + (1.0 - outside) * ((offset + spread_order(count) / max(count, 1)) % 1.0)
    return [
        Code(min(float(value), BELOW_ONE), np.random.default_rng([*numbers, _CODES, path + 1]), spacing, outside)
        for path, value in enumerate(values)
    ]


def choose_by_code(probabilities: Array, code: Code, top_p: float = 1.0) -> int:
    """The token whose piece holds the code, (V,) → its id; the code is stretched along. No token of probability 0."""
    kept = probabilities if top_p >= 1.0 else nucleus(probabilities, top_p)
    whole = float(kept.sum())
    for floor in (_USUAL * whole, 0.0):
        ids = np.flatnonzero(kept > floor)
        order = ids[np.argsort(-kept[ids], kind="stable")]
        sizes = kept[order] / whole
        ends = np.cumsum(sizes)
        if len(ends) and code.value < ends[-1]:
            break
    place = min(int(np.searchsorted(ends, code.value, side="right")), len(ends) - 1)
    if sizes[place] < 1.0:  # a token of probability 1 tells nothing and takes nothing
        code.enter(float(ends[place - 1]) if place else 0.0, float(sizes[place]))
    return int(order[place])


def nucleus(probabilities: Array, top_p: float) -> Array:
    """The likeliest tokens of this mass, at least one; all others at 0. (V,)"""
    order = np.argsort(-probabilities, kind="stable")
    ordered = probabilities[order]
    before = np.cumsum(ordered) - ordered
    ordered[1:][before[1:] >= top_p] = 0.0
    kept: Array = np.zeros_like(probabilities)
    kept[order] = ordered
    return kept
