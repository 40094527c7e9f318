"""Language models. `load_model` turns a name into one; `LanguageModel` is what they all offer."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..errors import BadOption, ModelNotFound
from ..loading.pretrained import calm_threads
from ..options import Loading
from .base import Capabilities, Continuation, Decoded, LanguageModel
from .catalogue import CATALOGUE
from .scripted import ScriptedModel
from .server.address import checked_name, full_name, is_address, same_model

__all__ = [
    "Capabilities",
    "Continuation",
    "Decoded",
    "LanguageModel",
    "ScriptedModel",
    "checked_name",
    "chosen_engine",
    "engine_of",
    "full_name",
    "is_address",
    "load_model",
    "same_model",
]


def load_model(
    source: str | Path | LanguageModel | Sequence[Any],
    loading: Loading = Loading(),  # noqa: B008 (frozen)
) -> LanguageModel:
    """Load a language model.

    `source`: a name of the catalogue (`smollm2`, …), a hub name, a folder, a .gguf file, a server (http://…/v1#name),
    a loaded (model, tokenizer), or a `LanguageModel`, which is returned as it is.
    """
    if isinstance(source, str | Path):
        name = str(source)
        if is_address(name):
            from .server.served import connect

            return connect(name, tokenizer=loading.tokenizer, retry_seconds=loading.retry_seconds)
        calm_threads()
        if chosen_engine(name, loading.engine) == "llama.cpp":
            from .llama.model import load_llama

            return load_llama(_gguf_file(name), loading, name=name)
        return _load_transformers(name, loading)
    if isinstance(source, tuple | list) and len(source) == 2:
        from .transformers.model import TransformersModel

        return TransformersModel(*source)
    if hasattr(source, "decode") and hasattr(source, "capabilities"):
        return source  # type: ignore[return-value]
    raise ModelNotFound(f"cannot use a {type(source).__name__} as a language model; give a name or (model, tokenizer)")


def chosen_engine(name: str, engine: str = "auto") -> str | None:
    """Return what will run a .gguf file, which two engines can; None for all else."""
    is_file = _is_gguf(name)
    if engine == "llama.cpp" and not is_file:
        raise BadOption(f"llama.cpp runs .gguf files, and {name!r} is none; leave out engine=llama.cpp")
    return ("llama.cpp" if engine == "auto" else engine) if is_file else None


def engine_of(model: LanguageModel) -> str | None:
    """Return what runs a .gguf file that is loaded; None for all else."""
    return getattr(model, "engine", None) if _is_gguf(model.name) else None


def _is_gguf(name: str) -> bool:
    """Whether a model is a GGUF file, which two engines can run."""
    return name.endswith(".gguf") or (name in CATALOGUE and not CATALOGUE[name].is_folder)


def _gguf_file(name: str) -> Path:
    from .fetching import fetched

    return fetched(name) if name in CATALOGUE else Path(name).expanduser()


def _place(name: str) -> str | Path:
    """Return a folder, or the hub name that it must be; what cannot be one is an error before the hub is asked."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ModelNotFound(f"{name} holds no model: there is no config.json in it")
        return folder
    if name.startswith((".", "/", "~")):
        raise ModelNotFound(f"there is no folder {name}")
    close = [] if "/" in name else get_close_matches(name, CATALOGUE, n=1, cutoff=0.8)
    if close:
        raise ModelNotFound(f"there is no model {name!r}; did you mean {close[0]}? (sdlg models)")
    return name


def _load_transformers(name: str, loading: Loading) -> LanguageModel:
    from .transformers.gguf import converted_gguf, embedded_folder
    from .transformers.loading import load_transformers

    if not name.strip():
        raise ModelNotFound("the model's name is empty; give one of `sdlg models`, a hub name, a folder, …")
    source: str | Path = name
    if name in CATALOGUE and not CATALOGUE[name].is_folder:
        source = embedded_folder(name)
    elif name.endswith(".gguf"):
        source = converted_gguf(Path(name).expanduser())
    else:
        source = _place(name)
    return load_transformers(source, name=name, device=loading.device, dtype=loading.dtype, threads=loading.threads)
