"""How different the answers are as points and as strings of words.

In: `MeasureInputs` with embeddings or texts. Out: floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from .base import MeasureInputs, as_measure, given

REGULARISATION = 0.001  # α of the authors


@as_measure(
    "EigenScore", needs={"embeddings"}, unit="log variance", low=math.log(REGULARISATION),
    equation="(1/N) log det(Z J Zᵀ + 0.001 I), J centres each embedding's coordinates",
    cost="N sampled answers + their embeddings", reference="Chen et al. 2024, arXiv 2402.03744",
)  # fmt: skip
def eigenscore(inputs: MeasureInputs) -> float:
    """Volume that the answers' embeddings span.

    As published: each embedding is centred on the mean of its own coordinates. The determinant is taken by
    eigenvalues, which of a Gram matrix are not below 0.
    """
    embeddings = given(inputs.embeddings)
    points = embeddings - embeddings.mean(axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(points @ points.T)  # (N,)
    return float(np.log(np.maximum(eigenvalues, 0.0) + REGULARISATION).mean())


@as_measure(
    needs={"texts"}, unit="ROUGE-L F1", higher_is_less_certain=False, high=1.0,
    equation="mean_{n<m} ROUGE-L(y^n, y^m)", reference="Fomicheva et al. 2020, arXiv 2005.10608",
    undefined="one answer has no other to compare with",
)  # fmt: skip
def lexical_similarity(inputs: MeasureInputs) -> float:
    """Mean ROUGE-L of all pairs of answers; higher is more certain."""
    pairs = list(combinations([words(text) for text in given(inputs.texts)], 2))
    return math.fsum(rouge_l(one, other) for one, other in pairs) / len(pairs) if pairs else math.nan


def words(text: str) -> list[str]:
    """Return runs of letters and digits of any script, without case."""
    return re.findall(r"\w+", text.casefold())


def rouge_l(one: Sequence[str], other: Sequence[str]) -> float:
    """Return F1 of the longest common subsequence; 1 for equal lists, of no words included."""
    if one == other:
        return 1.0
    return 2.0 * longest_common_subsequence(one, other) / (len(one) + len(other))


def longest_common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Return its length. A row of the usual table is one integer, whose 0 bits are where it grows (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for index, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << index
    everywhere = (1 << len(one)) - 1
    row = everywhere
    for word in other:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & everywhere
    return len(one) - row.bit_count()
