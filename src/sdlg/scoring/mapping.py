"""The paper's alternative for differing vocabularies: a linear map from the language model's embeddings to the NLI's.

W = argmin ‖E_lm W − E_nli‖ over words that both vocabularies hold (Artetxe et al. 2016, without the orthogonality
constraint, since the widths differ). In: both models. Out: a function from token ids to NLI-space vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import NotSupported
from ..models.base import LanguageModel
from ..nli.base import NliModel

Array = NDArray[np.float64]

_MAX_WORDS = 8000
_RIDGE = 1e-6


def fit_embedding_map(model: LanguageModel, nli: NliModel) -> Callable[[Sequence[int]], Array]:
    """Learn the map on whole lower- or title-case words of the language model's vocabulary."""
    if not model.capabilities.embeddings:
        raise NotSupported(f"{model.name} does not give its embeddings; use --embeddings nli")
    words = [(i, surface) for i, surface in model.vocabulary() if surface.startswith(" ") and surface[1:].isalpha()]
    words = words[:: max(1, len(words) // _MAX_WORDS)][:_MAX_WORDS]
    if not words:
        raise NotSupported(f"{model.name}'s vocabulary marks no word beginnings; use --embeddings nli")
    source = _with_bias(model.token_embeddings([i for i, _ in words]).astype(np.float64))
    target = nli.embed([("", surface) for _, surface in words])
    gram = source.T @ source
    gram += _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))  # embeddings may span less than their width
    weights = np.linalg.solve(gram, source.T @ target)

    def mapped(token_ids: Sequence[int]) -> Array:
        rows: Array = _with_bias(model.token_embeddings(token_ids).astype(np.float64)) @ weights
        return rows

    return mapped


def _with_bias(rows: Array) -> Array:
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
