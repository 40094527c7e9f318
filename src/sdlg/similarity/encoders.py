"""Sentence encoders (two texts, two vectors, their cosine) and cross-encoders (two texts, one score).

Texts and pairs are deduplicated, sorted by length and batched; identical texts cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.utils import cached_file

from ..concurrency.in_flight import one_at_a_time
from ..errors import ModelNotFound, NotSupported, first_line
from ..loading.batching import batch_characters, run_in_batches
from ..loading.cache_folder import advice_on
from ..loading.pretrained import load_tokenizer, pick_device
from . import Array

_BATCH = 64
_MAX_LENGTH = 512


def load_encoder(source: str | Path, *, name: str, device: str | None) -> SentenceEncoder | CrossEncoder:
    """Load from a folder or the hub; the configuration says which of the two it is."""
    where = pick_device(device)
    try:
        tokenizer = load_tokenizer(source)
        architectures = AutoConfig.from_pretrained(source).architectures or []
        is_cross = any("SequenceClassification" in architecture for architecture in architectures)
        kind = AutoModelForSequenceClassification if is_cross else AutoModel
        model = kind.from_pretrained(source, dtype=torch.float32)
    except Exception as error:  # whatever a stranger's files make transformers raise
        raise ModelNotFound(
            f"cannot load the similarity model {name!r}: {first_line(error)} Give a hub name, a folder, or 'minilm'."
            f"{advice_on(source)}"
        ) from error
    if is_cross:
        return CrossEncoder(model.to(where), tokenizer, name=name)
    return SentenceEncoder(model.to(where), tokenizer, name=name, pooling=_pooling(source))


def _pooling(source: str | Path) -> str:
    """Return the pooling that a sentence-transformers model names; the mean where it names none."""
    file = cached_file(str(source), "1_Pooling/config.json", _raise_exceptions_for_missing_entries=False)
    config = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    return "first" if config.get("pooling_mode_cls_token") else "mean"


class SentenceEncoder:
    """Token vectors pooled to one of length 1, as sentence-transformers models do: their mean, or the first one."""

    has_embeddings = True

    def __init__(self, model: Any, tokenizer: Any, *, name: str = "", pooling: str = "mean") -> None:
        self.name, self._pooling = name or type(model).__name__, pooling
        self._model, self._tokenizer, self._turn = model.eval(), tokenizer, RLock()
        self.texts_run = 0

    def embed(self, texts: Sequence[str]) -> Array:
        """Return one row per text, (texts, width)."""
        rows = run_in_batches(self._run, texts, _BATCH, batch_characters(self._model.device))
        return np.stack([rows[text] for text in texts])

    @one_at_a_time  # a batch, not all of them: others may have a turn between two
    def _run(self, batch: list[str]) -> Array:
        self.texts_run += len(batch)
        inputs = self._tokenizer(
            list(batch), padding=True, truncation=True, max_length=_MAX_LENGTH, return_tensors="pt"
        )
        inputs = inputs.to(self._model.device)
        with torch.inference_mode():
            states = self._model(**inputs).last_hidden_state  # (batch, pieces, width)
        mask = inputs["attention_mask"][..., None].float()
        pooled = states[:, 0] if self._pooling == "first" else (states * mask).sum(dim=1) / mask.sum(dim=1)
        rows: Array = torch.nn.functional.normalize(pooled, dim=-1).double().cpu().numpy()
        return rows

    def similarity(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """Return cosines, negative ones as 0."""
        if not pairs:
            return np.zeros(0)
        rows = self.embed([text for pair in pairs for text in pair])
        cosines: Array = np.clip((rows[0::2] * rows[1::2]).sum(axis=1), 0.0, 1.0)
        same = np.array([first == second for first, second in pairs])
        return np.where(same, 1.0, cosines)


class CrossEncoder:
    """A classifier with one output for a pair: the sigmoid of its score."""

    has_embeddings = False

    def __init__(self, model: Any, tokenizer: Any, *, name: str = "") -> None:
        self.name = name or type(model).__name__
        if model.config.num_labels != 1:
            raise NotSupported(f"{self.name} has {model.config.num_labels} outputs; a similarity cross-encoder has one")
        self._model, self._tokenizer, self._turn = model.eval(), tokenizer, RLock()

    def similarity(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """Return one score per pair."""
        different = (pair for pair in pairs if pair[0] != pair[1])
        scores = run_in_batches(self._run, different, _BATCH, batch_characters(self._model.device))
        return np.array([scores.get(pair, 1.0) for pair in pairs])

    @one_at_a_time
    def _run(self, batch: Sequence[tuple[str, str]]) -> list[float]:
        inputs = self._tokenizer(
            [pair[0] for pair in batch], [pair[1] for pair in batch],
            padding=True, truncation=True, max_length=_MAX_LENGTH, return_tensors="pt",
        )  # fmt: skip
        with torch.inference_mode():
            scores = torch.sigmoid(self._model(**inputs.to(self._model.device)).logits[:, 0].float())
        return [float(score) for score in scores]

    def embed(self, texts: Sequence[str]) -> Array:
        """Refuse: it has none."""
        raise NotSupported(f"{self.name} is a cross-encoder and has no embeddings")
