"""Language models. `load_model` turns a name into one; `LanguageModel` is what they all offer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ModelNotFound
from ..loading.devices import calm_threads
from .base import Capabilities, Continuation, Decoded, LanguageModel
from .scripted import ScriptedModel
from .server.address import check_showable, is_address, parse_address, same_model

__all__ = [
    "Capabilities",
    "Continuation",
    "Decoded",
    "LanguageModel",
    "ScriptedModel",
    "is_address",
    "load_model",
    "same_model",
]


def checked_name(name: str) -> str:
    """A model's name, if it may be shown: an address with a key in it is refused."""
    check_showable(name)
    return name


def full_name(name: str) -> str:
    """A model's name with what the environment says of it: `server#x` is the address in OPENAI_BASE_URL."""
    if not is_address(name):
        return name
    address = parse_address(name)
    return f"{address.url}#{address.model}" if address.model else address.url


def load_model(
    source: str | Path | LanguageModel | Sequence[Any],
    *,
    device: str | None = None,
    dtype: str | None = None,
    tokenizer: str | None = None,
    retry_seconds: float | None = None,
) -> LanguageModel:
    """`smollm2`, `gemma3-270m`, a hub name, a folder, a .gguf file, a server (http://…/v1#name), a loaded (model,
    tokenizer), or a `LanguageModel` as it is. `tokenizer` and `retry_seconds` are for servers.
    """
    if isinstance(source, (str, Path)):
        name = str(source)
        return _connect(name, tokenizer, retry_seconds) if is_address(name) else _load(name, device, dtype)
    if isinstance(source, (tuple, list)) and len(source) == 2:
        from .local.transformers_model import TransformersModel

        return TransformersModel(*source)
    if hasattr(source, "decode") and hasattr(source, "capabilities"):
        return source  # type: ignore[return-value]
    raise ModelNotFound(f"cannot use a {type(source).__name__} as a language model; give a name or (model, tokenizer)")


def _connect(name: str, tokenizer: str | None, retry_seconds: float | None) -> LanguageModel:
    from .server.connecting import connect

    return connect(name, tokenizer=tokenizer, retry_seconds=retry_seconds)


def _load(name: str, device: str | None, dtype: str | None) -> LanguageModel:
    calm_threads()
    from .local import gguf as embedded
    from .local.loading import load_transformers

    if not name.strip():
        raise ModelNotFound("the model's name is empty; give a hub name, a folder, a .gguf file, a server or 'smollm2'")
    if name in embedded.EMBEDDED:
        return load_transformers(embedded.EMBEDDED[name](), name=name, device=device, dtype=dtype)
    if name.endswith(".gguf"):
        return load_transformers(
            embedded.converted_gguf(Path(name).expanduser()), name=name, device=device, dtype=dtype
        )
    return load_transformers(name, name=name, device=device, dtype=dtype)
