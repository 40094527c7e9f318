"""The embedded language models `smollm2` and `gemma3-270m`, and GGUF files in general.

A GGUF file takes transformers about 20 s to read. It is converted once to safetensors in our cache folder, from where
it loads in under a second. In: a name or a file. Out: a folder that transformers can load.
"""

from __future__ import annotations

import hashlib
import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import ModelNotFound
from ...loading.cache_folder import home_folder, make_folder_once
from ...options import SMOLLM2
from ..fetching import fetched

_log = logging.getLogger("sdlg.models")
_CONVERTER_VERSION = 1  # raise it when the converted files must be made anew
_BOS_BY_DEFAULT = ("llama3", "llama-v3", "llama-bpe")  # pre-tokenizers with which llama.cpp begins a text with BOS


def smollm2_folder() -> Path:
    """Return the folder of the smallest embedded model, fetched and converted on first use."""
    return embedded_folder(SMOLLM2)


def embedded_folder(name: str) -> Path:
    """Return the folder of a GGUF file of the catalogue, fetched and converted on first use."""
    return converted_gguf(fetched(name), name=name)


def converted_gguf(file: Path, name: str | None = None) -> Path:
    """Return a folder of safetensors in the cache that holds a GGUF file's weights and tokenizer."""
    if not file.is_file():
        raise ModelNotFound(f"there is no GGUF file {file}")
    target = _cache_folder(name or file.stem, _key(file, name))

    def fill(folder: Path) -> None:
        if name is None:
            _warn_of_memory(file)
        _convert(file, folder)

    return make_folder_once(target, fill)


def _cache_folder(name: str, key: str) -> Path:
    return home_folder() / "models" / f"{name}-{key}-v{_CONVERTER_VERSION}"


def _key(file: Path, name: str | None) -> str:
    """Hash a file's bytes, so that a copy of it is found again; of an embedded model its name and size are enough."""
    if name is not None:
        return hashlib.sha256(f"{file.name}:{file.stat().st_size}:".encode()).hexdigest()[:12]
    return _digest(file)[:12]


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _warn_of_memory(file: Path) -> None:
    """Say what memory the widened weights take: a file of four bits a weight becomes seven times as large."""
    from gguf import GGUFReader

    weights = sum(int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
    _log.warning(
        f"{file.name} is widened to float32: its {weights / 1e6:,.0f} million weights take {4 * weights / 1e9:.1f} GB "
        f"of memory at every start and of the disk under {home_folder()}, and up to twice that now, while they are "
        "converted. llama.cpp runs the file as it is: --set engine=llama.cpp"
    )


def _convert(file: Path, folder: Path) -> None:
    if find_spec("gguf") is None:
        raise ModelNotFound("reading a GGUF file needs the package gguf. Run: pip install 'sdlg[gguf]'")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    _apply_rules(tokenizer, *_tokenizer_rules(file))
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # The weights are plain float32 by now: forget that they came from a quantised file, or they cannot be saved.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer_rules(file: Path) -> tuple[bool, bool]:
    """Whether the tokenizer adds BOS, and a space, before a text.

    The file says so, but transformers does not read it; where the file is silent, follow llama.cpp.
    """
    from gguf import GGUFReader

    fields = GGUFReader(file).fields

    def said(key: str) -> Any:
        return fields[name].contents() if (name := f"tokenizer.ggml.{key}") in fields else None

    is_sentencepiece = said("model") == "llama"
    adds_bos, adds_space = said("add_bos_token"), said("add_space_prefix")
    return (
        is_sentencepiece or said("pre") in _BOS_BY_DEFAULT if adds_bos is None else bool(adds_bos),
        is_sentencepiece if adds_space is None else bool(adds_space),
    )


def _apply_rules(tokenizer: Any, adds_bos: bool, adds_space: bool) -> None:
    """Make the tokenizer follow these rules, also after it was saved and loaded."""
    adds_bos = adds_bos and tokenizer.bos_token is not None
    tokenizer.add_bos_token = tokenizer.init_kwargs["add_bos_token"] = adds_bos
    template = tokenizer.chat_template
    if adds_bos and isinstance(template, str) and not ("bos_token" in template or tokenizer.bos_token in template):
        tokenizer.chat_template = "{{ bos_token }}" + template
    from tokenizers import decoders, pre_tokenizers

    backend = tokenizer.backend_tokenizer
    if not adds_space and isinstance(backend.pre_tokenizer, pre_tokenizers.Metaspace):
        backend.pre_tokenizer.prepend_scheme = "never"
        # Nothing was put before the text, so nothing is taken away from what is read back.
        backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
