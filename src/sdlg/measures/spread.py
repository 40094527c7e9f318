"""How different the answers are as points and as strings of words.

In: `MeasureInputs` with embeddings or texts. Out: floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from .base import Array, Measure, MeasureInputs, given

REGULARISATION = 0.001  # α of the authors


def eigenscore(samples: MeasureInputs) -> float:
    """INSIDE (Chen et al. 2024), as published: each embedding is centred on the mean of its own coordinates."""
    embeddings = given(samples.embeddings)
    return _mean_log_variance(embeddings - embeddings.mean(axis=1, keepdims=True))


def embedding_spread(samples: MeasureInputs) -> float:
    """The same with the answers centred on their mean answer, so that only differences between them count."""
    embeddings = given(samples.embeddings)
    return _mean_log_variance(embeddings - embeddings.mean(axis=0, keepdims=True))


def _mean_log_variance(points: Array) -> float:
    """(1/N) log det(points · pointsᵀ + αI), by eigenvalues: those of a Gram matrix are not below 0."""
    eigenvalues = np.linalg.eigvalsh(points @ points.T)  # (N,)
    return float(np.log(np.maximum(eigenvalues, 0.0) + REGULARISATION).mean())


# -- words ------------------------------------------------------------------------------------------------------


def lexical_similarity(samples: MeasureInputs) -> float:
    """Mean ROUGE-L F1 over all pairs of answers. One answer has no pair: undefined."""
    pairs = list(combinations([words(text) for text in given(samples.texts)], 2))
    return math.fsum(rouge_l(one, other) for one, other in pairs) / len(pairs) if pairs else math.nan


def words(text: str) -> list[str]:
    """Runs of letters and digits of any script, without case."""
    return re.findall(r"\w+", text.casefold())


def rouge_l(one: Sequence[str], other: Sequence[str]) -> float:
    """F1 of the longest common subsequence; 1 for equal lists, of no words included."""
    if one == other:
        return 1.0
    return 2.0 * longest_common_subsequence(one, other) / (len(one) + len(other))


def longest_common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Its length. A row of the usual table is one integer, whose 0 bits are where the row grows (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for index, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << index
    everywhere = (1 << len(one)) - 1
    row = everywhere
    for word in other:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & everywhere
    return len(one) - row.bit_count()


_EMBEDDINGS = frozenset({"embeddings"})
_COST = "N sampled answers + their embeddings"

MEASURES = (
    Measure(
        "eigenscore",
        eigenscore,
        _EMBEDDINGS,
        unit="log variance",
        higher_is_less_certain=True,
        low=math.log(REGULARISATION),
        high=math.inf,
        summary="Volume that the answers' embeddings span, as published: centred over coordinates.",
        equation="(1/N) log det(Z J Zᵀ + 0.001 I), J centres each embedding's coordinates",
        cost=_COST,
        aliases=("EigenScore",),
    ),
    Measure(
        "embedding_spread",
        embedding_spread,
        _EMBEDDINGS,
        unit="log variance",
        higher_is_less_certain=True,
        low=math.log(REGULARISATION),
        high=math.inf,
        summary="The same, centred on the mean answer: identical answers give the lowest value.",
        equation="(1/N) log det(J Z Zᵀ J + 0.001 I), J subtracts the mean embedding",
        cost=_COST,
    ),
    Measure(
        "lexical_similarity",
        lexical_similarity,
        frozenset({"texts"}),
        unit="ROUGE-L F1",
        higher_is_less_certain=False,
        low=0.0,
        high=1.0,
        summary="Mean ROUGE-L of all pairs of answers; higher is more certain.",
        equation="mean_{n<m} ROUGE-L(y^n, y^m)",
        cost="N sampled answers",
        aliases=("ROUGE-L similarity",),
    ),
)
