"""Language models. `load_model` turns a name into one; `LanguageModel` is what they all offer."""

from __future__ import annotations

from collections.abc import Sequence as Many
from pathlib import Path
from typing import Any

from ..errors import ModelNotFound
from ..threads import calm_threads
from .base import Capabilities, Continuation, Decoded, LanguageModel
from .scripted import ScriptedModel

__all__ = ["Capabilities", "Continuation", "Decoded", "LanguageModel", "ScriptedModel", "load_model"]


def load_model(
    source: str | Path | LanguageModel | Many[Any], *, device: str | None = None, dtype: str | None = None
) -> LanguageModel:
    """`smollm2`, a hub name, a folder, a .gguf file, a loaded (model, tokenizer), or a `LanguageModel` as it is."""
    if isinstance(source, (str, Path)):
        return _load_named(str(source), device, dtype)
    if isinstance(source, (tuple, list)) and len(source) == 2:
        from .transformers_lm import TransformersModel

        return TransformersModel(*source)
    if hasattr(source, "decode") and hasattr(source, "capabilities"):
        return source  # type: ignore[return-value]
    raise ModelNotFound(f"cannot use a {type(source).__name__} as a language model; give a name or (model, tokenizer)")


def _load_named(name: str, device: str | None, dtype: str | None) -> LanguageModel:
    calm_threads()
    from . import embedded
    from .loading import load_transformers

    if not name.strip():
        raise ModelNotFound("the model's name is empty; give a hub name, a folder, a .gguf file or 'smollm2'")
    if name == embedded.SMOLLM2:
        return load_transformers(embedded.smollm2_folder(), name=name, device=device, dtype=dtype)
    if name.endswith(".gguf"):
        return load_transformers(
            embedded.converted_gguf(Path(name).expanduser()), name=name, device=device, dtype=dtype
        )
    return load_transformers(name, name=name, device=device, dtype=dtype)
