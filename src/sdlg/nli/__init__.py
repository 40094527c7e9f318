"""NLI models. `load_nli` turns a name into one; `NliModel` is what they all offer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ModelNotFound
from ..loading.devices import calm_threads
from ..options import NLI_MINILM
from .base import InputGradients, Judged, NliModel, NliProbabilities

__all__ = ["InputGradients", "Judged", "NliModel", "NliProbabilities", "load_nli"]


def load_nli(source: str | Path | NliModel | Sequence[Any], *, device: str | None = None) -> NliModel:
    """`nli-minilm`, a hub name, a folder, a loaded (model, tokenizer), or an `NliModel` as it is."""
    if isinstance(source, (str, Path)):
        calm_threads()
        from .classifier import load_classifier
        from .embedded import load_nli_minilm

        if not str(source).strip():
            raise ModelNotFound("the NLI model's name is empty; give a hub name, a folder or 'nli-minilm'")
        return (
            load_nli_minilm(device)
            if source == NLI_MINILM
            else load_classifier(source, name=str(source), device=device)
        )
    if isinstance(source, (tuple, list)) and len(source) == 2:
        from .classifier import SequenceClassifier

        return SequenceClassifier(*source)
    if hasattr(source, "judge") and hasattr(source, "input_gradients"):
        return source  # type: ignore[return-value]
    raise ModelNotFound(f"cannot use a {type(source).__name__} as an NLI model; give a name or (model, tokenizer)")
