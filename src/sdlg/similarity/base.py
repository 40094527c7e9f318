"""What every similarity model offers: how alike two texts are, from 0 to 1; and embeddings, if it has any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class SimilarityModel(Protocol):
    """A similarity model. Implementations: `SentenceEncoder`, `CrossEncoder`."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def has_embeddings(self) -> bool:
        """Whether `embed` works."""

    def similarity(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """One number from 0 to 1 per pair; 1 for identical texts."""

    def embed(self, texts: Sequence[str]) -> Array:
        """One row per text, of length 1. Only if `has_embeddings`."""
