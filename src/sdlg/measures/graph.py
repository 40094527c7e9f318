"""Measures of the graph of answers (Lin et al., arXiv 2305.19187): how many meanings, how far apart.

In: `MeasureInputs` with clusters, or with one of three matrices that say how alike answers are. Out: floats.

W is the matrix made symmetric, with 1 on its diagonal; D its degrees; λ the eigenvalues of I − D^−½ W D^−½.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import numpy as np

from .base import Array, Measure, MeasureInputs, given

EIGENVALUE_THRESHOLD = 0.9  # of the authors: eigenvectors of larger eigenvalues say nothing about meaning
ROUNDING = 1e-9  # an eigenvalue that equals the threshold is not below it


def number_of_clusters(samples: MeasureInputs) -> float:
    """How many meanings were seen."""
    return float(len(set(given(samples.clusters))))


LIKENESS: Mapping[str, Callable[[MeasureInputs], Array]] = {
    "similarity": lambda samples: given(samples.similarity),
    "entailment": lambda samples: given(samples.entailment),
    "contradiction": lambda samples: 1.0 - given(samples.contradiction),
}


def affinity(samples: MeasureInputs, kind: str) -> Array:
    """W. An answer is like itself, whatever a model says of the pair."""
    matrix = LIKENESS[kind](samples)
    symmetric: Array = (matrix + matrix.T) / 2
    np.fill_diagonal(symmetric, 1.0)
    return symmetric


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Of the normalised Laplacian, smallest eigenvalue first."""

    eigenvalues: Array  # (N,)
    eigenvectors: Array  # (N, N), one per column


@lru_cache(maxsize=8)  # several measures of the same samples share it
def spectrum(samples: MeasureInputs, kind: str) -> Spectrum:
    """Degrees are at least 1, thanks to the diagonal: nothing is divided by 0."""
    weights = affinity(samples, kind)
    root = np.sqrt(weights.sum(axis=1))
    return Spectrum(*np.linalg.eigh(np.eye(len(root)) - weights / np.outer(root, root)))


def degree(samples: MeasureInputs, kind: str) -> float:
    """trace(N·I − D) / N²: the mean distance of two answers, an answer with itself included."""
    return float(1.0 - affinity(samples, kind).mean())


def eccentricity(samples: MeasureInputs, kind: str) -> float:
    """How far answers lie from their centre in the coordinates of the small eigenvalues."""
    eigen = spectrum(samples, kind)
    coordinates = eigen.eigenvectors[:, eigen.eigenvalues < EIGENVALUE_THRESHOLD - ROUNDING]  # (N, kept)
    return float(np.linalg.norm(coordinates - coordinates.mean(axis=0)))


def eigenvalue_sum(samples: MeasureInputs, kind: str) -> float:
    """Σ max(0, 1 − λ): a number of clusters that need not be whole."""
    return float(np.maximum(0.0, 1.0 - spectrum(samples, kind).eigenvalues).sum())


_WHAT = {
    "similarity": "W = similarities",
    "entailment": "W = P(entails), both orders averaged",
    "contradiction": "W = 1 − P(contradicts), both orders averaged",
}
_COST = {
    "similarity": "N sampled answers + similarities of all pairs",
    "entailment": "N sampled answers + NLI of all ordered pairs",
    "contradiction": "N sampled answers + NLI of all ordered pairs",
}


class _OfKind(Protocol):
    def __call__(self, samples: MeasureInputs, kind: str) -> float: ...


def _of_graph(
    name: str, function: _OfKind, unit: str, low: float, high: float, summary: str, formula: str
) -> list[Measure]:
    """One measure, in one version for each thing that answers can have in common. Lin et al. mean NLI."""
    short = {"degree": "Deg", "eccentricity": "Ecc", "eigenvalue_sum": "EigV"}[name]
    return [
        Measure(
            f"{name}_{kind}",
            partial(function, kind=kind),
            frozenset({kind}),
            unit=unit,
            higher_is_less_certain=True,
            low=low,
            high=high,
            summary=summary,
            equation=f"{formula}; {_WHAT[kind]}",
            cost=_COST[kind],
            aliases=(short,) if kind == "entailment" else (f"{short}_{kind}",),
        )
        for kind in LIKENESS
    ]


MEASURES = (
    Measure(
        "number_of_clusters",
        number_of_clusters,
        frozenset({"clusters"}),
        unit="clusters",
        higher_is_less_certain=True,
        low=1.0,
        high=math.inf,
        summary="How many different meanings were seen.",
        equation="M",
        cost="N sampled answers + NLI of pairs of distinct answers",
        aliases=("NumSets",),
    ),
    *_of_graph("degree", degree, "share", 0.0, 1.0, "Mean distance of the answers.", "1 − trace(D) / N²"),
    *_of_graph(
        "eccentricity",
        eccentricity,
        "distance",
        0.0,
        math.inf,
        "Distance of the answers from their centre, in spectral coordinates.",
        "‖centred eigenvectors with λ < 0.9‖",
    ),
    *_of_graph(
        "eigenvalue_sum",
        eigenvalue_sum,
        "clusters",
        1.0,
        math.inf,
        "Number of meanings, not necessarily whole.",
        "Σ_k max(0, 1 − λ_k)",
    ),
)
