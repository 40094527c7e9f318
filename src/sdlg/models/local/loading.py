"""Loading a causal language model from a folder or the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from ...errors import BadOption, ModelNotFound, first_line
from ...loading.copies import advice_on
from ...loading.devices import pick_device
from ...loading.number_kinds import check_kind
from ...loading.tokenizers import load_tokenizer
from .layout_memory import remembered_layout
from .network import Network
from .transformers_model import TransformersModel


def load_transformers(
    source: str | Path, *, name: str, device: str | None, dtype: str | None, **more: Any
) -> TransformersModel:
    """Load from a folder or the hub. On a CPU in float32, which is faster and steadier there than bfloat16."""
    where = pick_device(device)
    kind = _dtype(dtype, where)
    check_kind(str(kind).removeprefix("torch."), where)
    try:
        tokenizer = load_tokenizer(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=kind)
    except Exception as error:  # whatever a stranger's files make transformers raise
        raise ModelNotFound(
            f"cannot load the language model {name!r}: {first_line(error)} "
            f"Give a hub name, a folder, a .gguf file or 'smollm2'.{advice_on(source)}"
        ) from error
    model = model.to(where)
    if "layout" not in more and Path(source).is_dir():
        more["layout"] = remembered_layout(Network(model.eval()), Path(source))
    return TransformersModel(model, tokenizer, name=name, **more)


def _dtype(name: str | None, device: str) -> torch.dtype | str:
    if name is not None:
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise BadOption(f"unknown dtype {name!r}; for example float32, bfloat16, float16")
        return dtype
    return torch.float32 if device == "cpu" else "auto"
