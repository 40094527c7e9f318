"""Loading a causal language model from a folder or the hub."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from ...errors import BadOption, ModelNotFound, first_line
from ...loading.cache_folder import advice_on
from ...loading.pretrained import load_tokenizer, pick_device
from .layouts import remembered_layout
from .model import TransformersModel
from .network import Network

_CHOICES = "Give a name of `sdlg models`, a hub name (owner/name), a folder or a .gguf file."


def load_transformers(
    source: str | Path, *, name: str, device: str | None, dtype: str | None, threads: int = 0
) -> TransformersModel:
    """Load from a folder or the hub. On a CPU in float32, which is faster and steadier there than bfloat16."""
    if threads:
        torch.set_num_threads(threads)
    where = pick_device(device)
    kind = _dtype(dtype, where)
    try:
        tokenizer = load_tokenizer(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=kind)
    except Exception as error:  # whatever a stranger's files make transformers raise
        raise ModelNotFound(
            f"cannot load the language model {name!r}: {first_line(error)} {_CHOICES}{advice_on(source)}"
        ) from error
    model = model.to(where)
    layout = remembered_layout(Network(model.eval()), Path(source)) if Path(source).is_dir() else None
    return TransformersModel(model, tokenizer, name=name, layout=layout)


def _dtype(name: str | None, device: str) -> torch.dtype | str:
    if name is not None:
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise BadOption(f"unknown dtype {name!r}; for example float32, bfloat16, float16")
        return dtype
    return torch.float32 if device == "cpu" else "auto"
