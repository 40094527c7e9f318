"""Similarity models: how alike two texts are. `load_similarity` turns a name into one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..loading.pretrained import calm_threads
from ..models.fetching import fetched
from ..options import MINILM

__all__ = ["SimilarityModel", "load_similarity"]

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
        """Return one number from 0 to 1 per pair; 1 for identical texts."""

    def embed(self, texts: Sequence[str]) -> Array:
        """Return one row per text, of length 1. Only if `has_embeddings`."""


def load_similarity(source: str | Path | SimilarityModel, device: str | None = None) -> SimilarityModel:
    """Load the embedded `minilm`, or a sentence encoder or cross-encoder by hub name or folder."""
    if not isinstance(source, str | Path):
        return source
    calm_threads()
    from .encoders import load_encoder

    return load_encoder(fetched(MINILM) if source == MINILM else source, name=str(source), device=device)
