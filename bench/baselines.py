"""Other ways to ten sequences and their meanings, on transformers' own generate(), for `bench/speed.py`.

In: a question with shots, and for the authors' shape the substitutions that ours made. All of them decode with the same
weights in float32 and end where ours end; (a) and (b) cluster with the same code as ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import torch

import polygraph
from sdlg import Question, Result
from sdlg.clustering import cluster_answers
from sdlg.models.transformers.model import TransformersModel
from sdlg.nli.classifier import SequenceClassifier
from sdlg.options import Clustering
from sdlg.records import Prompt

BEAMS = 5  # of the authors' shape


@dataclass(frozen=True)
class Baselines:
    """The other ways, on loaded models."""

    lm: TransformersModel
    nli: SequenceClassifier
    samples: int
    max_tokens: int
    clustering: Clustering

    @property
    def ways(self) -> Mapping[str, tuple[str, Callable[[Question, Result], None]]]:
        """Letter → its title, and what runs it; lm-polygraph only where it is installed."""
        found: dict[str, tuple[str, Callable[[Question, Result], None]]] = {
            "a": ("(a) ten generate() calls", self.separate),
            "b": ("(b) num_return_sequences=10", self.batched),
            "c": ("(c) the authors' shape", self.authors),
        }
        if polygraph.IS_INSTALLED:
            found["e"] = ("(e) lm-polygraph", self.by_polygraph)
        return found

    def prompt(self, question: Question) -> Prompt:
        return self.lm.prompt(question, "plain")

    def generate(self, prompt: Prompt, prefix: tuple[int, ...] = (), **options: Any) -> torch.Tensor:
        """Return the new ids, the prefix among them: (sequences, tokens)."""
        ids, ends = torch.tensor([[*prompt.token_ids, *prefix]]), sorted(prompt.stop.token_ids)
        with torch.inference_mode():
            out: torch.Tensor = self.lm.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=max(self.max_tokens - len(prefix), 1),
                pad_token_id=ends[0], eos_token_id=ends, stop_strings=list(prompt.stop.strings),
                tokenizer=self.lm.tokenizer, **options,
            )  # fmt: skip
        return out[:, len(prompt.token_ids) :]

    def cluster(self, question: Question, generations: list[torch.Tensor]) -> None:
        texts = [self.lm.text(ids.tolist()).split("\n")[0].split(" Q:")[0].strip() for ids in generations]
        cluster_answers(question.text, texts, self.nli.judge, self.clustering, nli=self.nli.name)

    def separate(self, question: Question, _: Result) -> None:
        prompt = self.prompt(question)
        self.cluster(question, [self.generate(prompt, do_sample=k > 0)[0] for k in range(self.samples)])

    def batched(self, question: Question, _: Result) -> None:
        found = self.generate(self.prompt(question), do_sample=True, num_return_sequences=self.samples)
        self.cluster(question, list(found))

    def authors(self, question: Question, ours: Result) -> None:
        """Beams from scratch for each sequence, with our substitutions; likelihoods and NLI pairs one at a time."""
        prompt = self.prompt(question)
        answer = self.generate(prompt, num_beams=BEAMS, do_sample=False)[0]
        self.nli.input_gradients(question.text, self.lm.text(answer.tolist()))
        found = [answer]
        for sample in ours.samples[1:]:
            assert sample.substitution is not None
            prefix = (*ours.answer.token_ids[: sample.substitution.position], sample.substitution.token_id)
            found.append(self.generate(prompt, prefix, num_beams=BEAMS, do_sample=False)[0])
        with torch.inference_mode():
            for ids in found:
                logits = self.lm.model(torch.tensor([[*prompt.token_ids, *ids.tolist()]])).logits
                torch.log_softmax(logits[0].float(), dim=-1)
        texts = [self.lm.text(ids.tolist()).strip() for ids in found]
        for one, other in permutations(texts, 2):
            self.nli._run([(f"{question.text} {one}", f"{question.text} {other}")])

    def by_polygraph(self, question: Question, _: Result) -> None:
        self._polygraph(self.prompt(question))

    @cached_property
    def _polygraph(self) -> Callable[[Prompt], None]:
        return polygraph.polygraph_entropy(self.lm, self.nli, self.max_tokens)
