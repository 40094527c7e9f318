"""BLEURT (Sellam et al., 2020): a BERT trained to rate how well a candidate conveys a reference.

In: (answer, reference). Out: the model's raw output for [CLS] reference [SEP] answer [SEP]. It is not a probability:
older checkpoints give about −2 for nonsense and 1 for a perfect answer, BLEURT-20 about 0 and 1; both overshoot.

Pairs are deduplicated, sorted by length and batched. Too long a pair loses the end of the longer text, as in the
authors' code (give or take one piece).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from ...concurrency.in_flight import one_at_a_time
from ...errors import ModelNotFound, first_line
from ...loading.batching import run_in_batches
from ...loading.pretrained import load_tokenizer, pick_device

_BATCH = 32
_MAX_LENGTH = 512  # of every published checkpoint
_ADVICE = (
    "Give the hub name or folder of a BLEURT checkpoint that transformers can load by itself, such as "
    "Elron/bleurt-base-512 (those of lucadiliello, such as BLEURT-20, need classes of their own)."
)


def load_bleurt(source: str | Path, *, device: str | None = None) -> Bleurt:
    """Load from a folder or the hub."""
    where = pick_device(device)
    try:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source, dtype=torch.float32, output_loading_info=True
        )
        tokenizer = load_tokenizer(source)
    except Exception as error:  # whatever a stranger's files make transformers raise
        why = first_line(error).rstrip(" .:")
        raise ModelNotFound(f"cannot load the BLEURT checkpoint {str(source)!r}: {why}. {_ADVICE}") from error
    metric = Bleurt(model.to(where), tokenizer, source=str(source))
    if report["missing_keys"]:  # transformers would fill them with random numbers
        missing = ", ".join(sorted(report["missing_keys"]))
        raise ModelNotFound(f"the BLEURT checkpoint {str(source)!r} has no weights for {missing}. {_ADVICE}")
    return metric


class Bleurt:
    """A loaded checkpoint."""

    name = "bleurt"

    def __init__(self, model: Any, tokenizer: Any, *, source: str = "") -> None:
        outputs = model.config.num_labels
        if outputs != 1:
            what = source or type(model).__name__
            raise ModelNotFound(f"{what!r} is not a BLEURT checkpoint: it has {outputs} outputs, not one. {_ADVICE}")
        self._model, self._tokenizer = model.eval(), tokenizer
        positions = getattr(model.config, "max_position_embeddings", None) or _MAX_LENGTH
        self._max_length = min(_MAX_LENGTH, positions, tokenizer.model_max_length)
        self.pairs_run, self._turn = 0, RLock()

    @one_at_a_time
    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One rating per (answer, reference)."""
        ratings = run_in_batches(self._run, sorted(pairs), _BATCH)  # sorted: a rating depends on no order
        return [ratings[pair] for pair in pairs]

    def _run(self, batch: Sequence[tuple[str, str]]) -> list[float]:
        self.pairs_run += len(batch)
        inputs = self._tokenizer(
            [reference for _, reference in batch], [answer for answer, _ in batch],
            padding=True, truncation=True, max_length=self._max_length, return_tensors="pt",
        )  # fmt: skip
        with torch.inference_mode():
            ratings = self._model(**inputs.to(self._model.device)).logits[:, 0]  # (batch,)
        return [float(rating) for rating in ratings]
