"""Measures of the graph of answers, with entailment as its edges: how many meanings, how far apart.

In: `MeasureInputs` with entailment probabilities. Out: floats.

W is the matrix made symmetric, with 1 on its diagonal; D its degrees; λ the eigenvalues of I − D^−½ W D^−½.
"""

from __future__ import annotations

import numpy as np

from .base import Array, MeasureInputs, as_measure, given

EIGENVALUE_THRESHOLD = 0.9  # of the authors: eigenvectors of larger eigenvalues say nothing about meaning
ROUNDING = 1e-9  # an eigenvalue that equals the threshold is not below it
_COST = "N sampled answers + NLI of all ordered pairs"
_LIN = "Lin et al. 2024, arXiv 2305.19187"
_EDGES = "W = P(entails), both orders averaged"


def affinity(inputs: MeasureInputs) -> Array:
    """Return W. An answer is like itself, whatever a model says of the pair."""
    matrix = given(inputs.entailment)
    symmetric: Array = (matrix + matrix.T) / 2
    np.fill_diagonal(symmetric, 1.0)
    return symmetric


def spectrum(inputs: MeasureInputs) -> tuple[Array, Array]:
    """Return eigenvalues (N,), smallest first, and eigenvectors (N, N), one per column, of the normalised Laplacian.

    Degrees are at least 1, thanks to the diagonal: nothing is divided by 0.
    """
    weights = affinity(inputs)
    root = np.sqrt(weights.sum(axis=1))
    eigenvalues, eigenvectors = np.linalg.eigh(np.eye(len(root)) - weights / np.outer(root, root))
    return eigenvalues, eigenvectors


@as_measure(
    "Deg", needs={"entailment"}, equation=f"1 − trace(D) / N²; {_EDGES}", cost=_COST, unit="share", high=1.0,
    reference=_LIN,
)  # fmt: skip
def degree(inputs: MeasureInputs) -> float:
    """Mean distance of two answers, an answer with itself included."""
    return float(1.0 - affinity(inputs).mean())


@as_measure(
    "Ecc", needs={"entailment"}, equation=f"‖centred eigenvectors with λ < 0.9‖; {_EDGES}", cost=_COST,
    unit="distance", reference=_LIN,
)  # fmt: skip
def eccentricity(inputs: MeasureInputs) -> float:
    """Distance of the answers from their centre, in spectral coordinates."""
    eigenvalues, eigenvectors = spectrum(inputs)
    coordinates = eigenvectors[:, eigenvalues < EIGENVALUE_THRESHOLD - ROUNDING]  # (N, kept)
    return float(np.linalg.norm(coordinates - coordinates.mean(axis=0)))


@as_measure(
    "EigV", needs={"entailment"}, equation=f"Σ_k max(0, 1 − λ_k); {_EDGES}", cost=_COST, unit="clusters", low=1.0,
    reference=_LIN,
)  # fmt: skip
def eigenvalue_sum(inputs: MeasureInputs) -> float:
    """Number of meanings, not necessarily whole."""
    return float(np.maximum(0.0, 1.0 - spectrum(inputs)[0]).sum())
