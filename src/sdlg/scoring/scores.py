"""The three token scores (Algorithm 2): arithmetic on embeddings and gradients, no model.

attribution   A_i  = ‖ mean |z_i ⊙ g_i| ‖₂             how much of the meaning hangs on word i
substitution  S_ij = cos(z_i − z_j, g_i)                how far candidate j moves along the gradient
importance    I_ij = p(v_j | y_<i, x)                   how likely the language model finds j there
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def word_attribution(embeddings: Array, gradients: Array) -> float:
    """Of a word's pieces, (pieces, width): the norm of the mean of |z ⊙ g| (the authors' code)."""
    if not len(embeddings):
        return 0.0
    return float(np.linalg.norm(np.abs(embeddings * gradients).mean(axis=0)))


def cosine_substitution(original: Array, candidates: Array, gradient: Array) -> Array:
    """original, gradient: (width,); candidates: (n, width). 0 where either vector is 0."""
    change = original[None] - candidates
    norms = np.linalg.norm(change, axis=1) * np.linalg.norm(gradient)
    cosines: Array = np.divide(change @ gradient, norms, out=np.zeros(len(candidates)), where=norms > 0)
    return cosines


# -- ranking ----------------------------------------------------------------------------------------------------


def dense_ranks(values: Array) -> Array:
    """1 for the highest value; equal values share a rank and leave no gap."""
    _, inverse = np.unique(-values, return_inverse=True)
    return inverse.astype(np.float64) + 1


def combined_rank(scores: tuple[Array, Array, Array], weights: tuple[float, float, float]) -> Array:
    """The weighted mean of the three scores' ranks; lower is tried earlier."""
    total = sum(weights)
    rank: Array = sum(w / total * dense_ranks(score) for w, score in zip(weights, scores, strict=True))  # type: ignore[assignment]
    return rank


def ranked_order(rank: Array, importance: Array, position: Sequence[int], token_id: Sequence[int]) -> list[int]:
    """Indices in the order to try: by rank, then higher importance, earlier position, lower id."""
    rounded = np.round(rank, 12)  # equal sums of ranks must tie, in whatever order they were added
    return sorted(range(len(rank)), key=lambda k: (rounded[k], -importance[k], position[k], token_id[k]))
