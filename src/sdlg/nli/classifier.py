"""Any sequence-classification model with contradiction and entailment labels, as an `NliModel`.

Pairs are deduplicated, sorted by length and batched; identical texts cost nothing. Gradients are taken with respect to
a leaf made of the input embeddings: no hooks, no globals.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

from ..concurrency.in_flight import one_at_a_time
from ..errors import LabelNotFound, ModelNotFound, first_line
from ..loading.batching import batch_characters, run_in_batches
from ..loading.cache_folder import advice_on
from ..loading.pretrained import load_tokenizer, pick_device
from ..models.fetching import fetched
from ..options import MINILM, NLI_MINILM
from ..records import Cost
from .base import SAME_TEXT, Array, InputGradients, Judged, NliProbabilities

_BATCH = 32
_CHANGED = Path(__file__).with_name("nli_minilm.safetensors")
_LABELS = ("contradiction", "neutral", "entailment")


def load_classifier(source: str | Path, *, device: str | None) -> SequenceClassifier:
    """Load from a folder or the hub."""
    where, name = pick_device(device), str(source)
    try:
        tokenizer = load_tokenizer(source)
        model = AutoModelForSequenceClassification.from_pretrained(source, dtype=torch.float32)
    except Exception as error:  # whatever a stranger's files make transformers raise
        raise ModelNotFound(
            f"cannot load the NLI model {name!r}: {first_line(error)} Give a hub name (the paper's choice is "
            f"microsoft/deberta-large-mnli), a folder, or 'nli-minilm'.{advice_on(source)}"
        ) from error
    return SequenceClassifier(model.to(where), tokenizer, name=name)


def load_nli_minilm(device: str | None, changed: Path = _CHANGED) -> SequenceClassifier:
    """Load the embedded model: all-MiniLM-L6-v2 with every tensor that fine-tuning changed.

    Its model card is docs/reference/nli-minilm.md: it stands in for a DeBERTa-MNLI model where no hub is reachable.
    """
    base = fetched(MINILM)
    config = BertConfig.from_pretrained(base, num_labels=3, id2label=dict(enumerate(_LABELS)))
    weights = {f"bert.{name}": tensor for name, tensor in load_file(base / "model.safetensors").items()}
    weights.update(load_file(changed))
    weights.pop("bert.embeddings.position_ids", None)
    whole = {name: tensor.float() for name, tensor in weights.items()}
    model = BertForSequenceClassification.from_pretrained(None, config=config, state_dict=whole)  # nothing random first
    where = pick_device(device)
    return SequenceClassifier(model.to(where), load_tokenizer(base), name=NLI_MINILM)


def label_indices(id2label: dict[int, str], name: str) -> dict[str, int | None]:
    """Where each label is. Orders differ between models, so names decide; a missing one is an error."""
    found: dict[str, int | None] = dict.fromkeys(_LABELS)
    for index, label in id2label.items():
        for wanted in _LABELS:
            stem = wanted[:9].casefold()  # contradic, neutral, entailmen
            if stem in label.casefold() and not label.casefold().startswith(("not", "non")):
                found[wanted] = int(index)
    for wanted in ("contradiction", "entailment"):
        if found[wanted] is None:
            raise LabelNotFound(
                f"the NLI model {name!r} has no label {wanted!r}: its labels are {sorted(id2label.values())}. "
                "Use a three-class model (for example microsoft/deberta-large-mnli or 'nli-minilm'), "
                "or name the labels in its config's id2label."
            )
    return found


class SequenceClassifier:
    """A loaded classifier. Threads take turns."""

    def __init__(self, model: Any, tokenizer: Any, *, name: str = "") -> None:
        self._name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__
        self._labels = label_indices(model.config.id2label, self._name)
        self.model, self.tokenizer = model.eval(), tokenizer
        if not tokenizer.is_fast:
            raise ModelNotFound(f"the NLI model {self._name!r} has no fast tokenizer, which spans need")
        self._embedding = model.get_input_embeddings()
        self._statement_tokens = (self._max_length() - tokenizer.num_special_tokens_to_add(pair=True)) // 2
        self._turn = threading.RLock()
        self.parameters: int | None = sum(weight.numel() for weight in model.parameters())

    @property
    def name(self) -> str:
        """What users call it."""
        return self._name

    def _max_length(self) -> int:
        config = self.model.config
        positions = getattr(config, "max_position_embeddings", None) or 512
        if config.model_type in ("roberta", "xlm-roberta", "camembert"):
            positions -= 2  # they count from the padding index
        return min(int(positions), int(self.tokenizer.model_max_length), 1024)

    # -- verdicts -----------------------------------------------------------------------------------------------

    def judge(self, question: str, pairs: Sequence[tuple[str, str]]) -> Judged:
        """Whether the first answer entails the second, for each pair."""
        statements = {answer: self._statement(question, answer)[0] for pair in pairs for answer in pair}
        wanted = [(statements[first], statements[second]) for first, second in pairs]
        different = (pair for pair in wanted if pair[0] != pair[1])
        verdicts = run_in_batches(self._run, different, _BATCH, batch_characters(self.model.device))
        return Judged(tuple(verdicts.get(pair, SAME_TEXT) for pair in wanted), Cost(nli_pairs=len(verdicts)))

    @one_at_a_time  # a batch, not all of them: others may have a turn between two
    def _run(self, batch: Sequence[tuple[str, str]]) -> list[NliProbabilities]:
        inputs = self.tokenizer(
            [pair[0] for pair in batch], [pair[1] for pair in batch], padding=True, return_tensors="pt"
        ).to(self.model.device)
        with torch.inference_mode():
            shares = torch.softmax(self.model(**inputs).logits.float(), dim=-1).tolist()
        return [self._verdict(row) for row in shares]

    def _verdict(self, row: list[float]) -> NliProbabilities:
        return NliProbabilities(
            *(row[index] if (index := self._labels[label]) is not None else 0.0 for label in _LABELS)
        )

    def _statement(self, question: str, answer: str) -> tuple[str, int]:
        """Question and answer as one text that fits twice, and where the answer begins in it (negative: cut).

        Too long, it loses the beginning of the question first; a very long answer then loses its end.
        """
        text = f"{question} {answer}" if question else answer
        begin = len(text) - len(answer)
        if len(text) <= self._statement_tokens // 4:  # no tokenizer makes that many tokens of so few characters
            return text, begin
        offsets = self._offsets(text)
        if len(offsets) <= self._statement_tokens:
            return text, begin
        return self._shortened(text, begin, self._statement_tokens)

    def _shortened(self, text: str, begin: int, budget: int) -> tuple[str, int]:
        """The text within a budget of tokens. A word that is cut may need more pieces than it had, so look again."""
        offsets = self._offsets(text)
        of_answer = [span for span in offsets if span[1] > begin]
        if len(of_answer) >= budget:
            kept, start = text[begin : of_answer[budget - 1][1]], 0
        else:
            cut = offsets[-budget][0]
            kept, start = text[cut:], begin - cut
        too_long = len(self._offsets(kept)) - self._statement_tokens
        return (kept, start) if too_long <= 0 else self._shortened(text, begin, budget - too_long)

    @one_at_a_time  # tokenizers are not for several threads
    def _offsets(self, text: str) -> list[tuple[int, int]]:
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [tuple(span) for span in encoded["offset_mapping"]]

    # -- gradients ----------------------------------------------------------------------------------------------

    @one_at_a_time
    def input_gradients(self, question: str, answer: str) -> InputGradients:
        """Loss = cross-entropy of (statement, statement) to contradiction; its gradient at the answer's pieces."""
        statement, begin = self._statement(question, answer)
        encoded = self.tokenizer(statement, statement, return_offsets_mapping=True, return_tensors="pt")
        spans = encoded.pop("offset_mapping")[0].tolist()
        sides = encoded.sequence_ids(0)
        inputs = encoded.to(self.model.device)
        embeddings, gradients = self._embedding_gradient(dict(inputs))
        places = [  # the answer's pieces in the first copy
            k
            for k, (span, side) in enumerate(zip(spans, sides, strict=True))
            if side == 0 and span[1] > begin and span[1] > span[0]
        ]
        spans_in_answer = tuple((max(spans[k][0] - begin, 0), spans[k][1] - begin) for k in places)
        return InputGradients(spans_in_answer, embeddings[places], gradients[places])

    def _embedding_gradient(self, inputs: dict[str, Tensor]) -> tuple[Array, Array]:
        ids = inputs["input_ids"]
        leaf = self._embedding.weight.detach()[ids[0]].clone().requires_grad_(True)  # (pieces, width)
        loss = self.contradiction_loss(leaf, inputs)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return leaf.detach().double().cpu().numpy(), gradient.double().cpu().numpy()

    def contradiction_loss(self, leaf: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """The loss as a function of the input embeddings, (pieces, width)."""
        target = torch.tensor([self._labels["contradiction"]], device=leaf.device)
        rest = {key: value for key, value in inputs.items() if key != "input_ids"}
        try:
            logits = self.model(inputs_embeds=self._scaled(leaf)[None], **rest).logits
        except NotImplementedError:  # BART must see ids to find its end token
            logits = self._logits_by_table(leaf, inputs)
        precise = torch.promote_types(logits.dtype, torch.float32)
        return torch.nn.functional.cross_entropy(logits.to(precise), target)

    def _scaled(self, leaf: Tensor) -> Tensor:
        scale = getattr(self._embedding, "embed_scale", None)
        return leaf if scale is None else leaf * scale

    def _logits_by_table(self, leaf: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """Append the leaf to the embedding table and point every ordinary piece at its own row of it."""
        table = self._embedding.weight.detach()
        ids = inputs["input_ids"][0]
        special = torch.tensor([int(i) in self.tokenizer.all_special_ids for i in ids], device=ids.device)
        own = torch.where(special, ids, len(table) + torch.arange(len(ids), device=ids.device))
        tied = [n for n, p in self.model.named_parameters(remove_duplicate=False) if p is self._embedding.weight]
        weights = dict.fromkeys(tied, torch.cat([table, leaf]))
        outputs = torch.func.functional_call(self.model, weights, (), {**inputs, "input_ids": own[None]})
        logits: Tensor = outputs.logits
        return logits

    # -- embeddings ---------------------------------------------------------------------------------------------

    @one_at_a_time
    def embed(self, texts: Sequence[tuple[str, str]]) -> Array:
        """Mean input embedding of each surface's pieces, in context."""
        table = self._embedding.weight.detach()
        rows = np.zeros((len(texts), table.shape[1]))
        if not texts:
            return rows
        encoded = self.tokenizer(
            [before + surface for before, surface in texts], add_special_tokens=False, return_offsets_mapping=True
        )
        owners, ids = [], []
        for row, ((before, _), piece_ids, spans) in enumerate(
            zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        ):
            mine = [i for i, (start, end) in zip(piece_ids, spans, strict=True) if end > len(before) and end > start]
            owners += [row] * len(mine)
            ids += mine
        if ids:
            np.add.at(rows, np.array(owners), table[torch.tensor(ids, device=table.device)].double().cpu().numpy())
        counts = np.bincount(np.array(owners, dtype=np.int64), minlength=len(texts))
        return rows / np.maximum(counts, 1)[:, None]
