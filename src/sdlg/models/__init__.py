"""Language models. `load_model` turns a name into one; `LanguageModel` is what they all offer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import BadOption, ModelNotFound
from ..loading.cores import CoreWatch
from ..loading.devices import calm_threads, set_threads
from ..options import EngineOptions, engine_options
from .base import Capabilities, Continuation, Decoded, LanguageModel
from .scripted import ScriptedModel
from .server.address import check_showable, is_address, parse_address, same_model

__all__ = [
    "Capabilities",
    "Continuation",
    "Decoded",
    "LanguageModel",
    "ScriptedModel",
    "chosen_engine",
    "engine_of",
    "is_address",
    "load_model",
    "load_scorer",
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
    engine: str | EngineOptions = "auto",
) -> LanguageModel:
    """`smollm2`, `gemma3-270m`, a hub name, a folder, a .gguf file, a server (http://…/v1#name), a loaded (model,
    tokenizer), or a `LanguageModel` as it is. `tokenizer` and `retry_seconds` are for servers; `engine` is what runs it
    here.
    """
    if isinstance(source, (str, Path)):
        name, options = str(source), engine_options(engine)
        if is_address(name):
            return _connect(name, tokenizer, retry_seconds)
        if chosen_engine(name, options) == "llama.cpp":
            return _run_llama(name, options, device, dtype, tokenizer=tokenizer, retry_seconds=retry_seconds)
        return _load(name, device, dtype, options)
    if isinstance(source, (tuple, list)) and len(source) == 2:
        from .local.transformers_model import TransformersModel

        return TransformersModel(*source)
    if hasattr(source, "decode") and hasattr(source, "capabilities"):
        return source  # type: ignore[return-value]
    raise ModelNotFound(f"cannot use a {type(source).__name__} as a language model; give a name or (model, tokenizer)")


def load_scorer(source: Any, *, device: str | None = None, dtype: str | None = None) -> LanguageModel:
    """A model that tells the likelihood of given texts: a .gguf file, too, which llama.cpp would not do."""
    return load_model(source, device=device, dtype=dtype, engine="transformers")


def _connect(name: str, tokenizer: str | None, retry_seconds: float | None) -> LanguageModel:
    from .server.connecting import connect

    return connect(name, tokenizer=tokenizer, retry_seconds=retry_seconds)


def chosen_engine(name: str, engine: str | EngineOptions = "auto") -> str | None:
    """What will run a .gguf file, which two engines can; None for all else."""
    asked, is_file = engine_options(engine).engine, name.endswith(".gguf")
    if asked == "llama.cpp" and not is_file:
        raise BadOption(f"llama.cpp runs .gguf files, and {name!r} is none; leave out --engine")
    return ("llama.cpp" if asked == "auto" else asked) if is_file else None


def engine_of(model: LanguageModel) -> str | None:
    """What runs a .gguf file that is loaded; None for all else."""
    return getattr(model, "engine", None) if model.name.endswith(".gguf") else None


def _run_llama(name: str, options: EngineOptions, device: str | None, dtype: str | None, **named: Any) -> LanguageModel:
    from .llama.model import load_llama

    if dtype is not None:
        raise BadOption(f"--dtype is for --engine transformers: {name} is run with the weights that the file has")
    return load_llama(Path(name).expanduser(), options, name=name, device=device, **named)


def _load(name: str, device: str | None, dtype: str | None, options: EngineOptions) -> LanguageModel:
    calm_threads()
    watch = CoreWatch.begin()
    from .local import gguf as embedded
    from .local.loading import load_transformers

    if not name.strip():
        raise ModelNotFound("the model's name is empty; give a hub name, a folder, a .gguf file, a server or 'smollm2'")
    source: str | Path = name
    if name in embedded.EMBEDDED:
        source = embedded.EMBEDDED[name]()
    elif name.endswith(".gguf"):
        source = embedded.converted_gguf(Path(name).expanduser())
    model = load_transformers(source, name=name, device=device, dtype=dtype)
    set_threads(options.threads, watch)
    return model
