"""What every sampler returns, and how a continuation becomes a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..errors import NotSupported
from ..models.base import Continuation, LanguageModel
from ..nli.base import NliModel
from ..options import Options
from ..records import Cost, Generation, Prompt, Question, Substitution, Word
from ..scoring import EmbeddingMap


class Observer(Protocol):
    """Told of a stage and what there is to show of it; of every sequence when it is finished."""

    def __call__(
        self, stage: str, text: str, generation: Generation | None = None, substitution: Substitution | None = None
    ) -> None:
        """Take note."""


def _unreported(
    stage: str, text: str, generation: Generation | None = None, substitution: Substitution | None = None
) -> None:
    """Nobody is watching."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An initial answer, with the alternatives of every step, and what it cost."""

    generation: Generation
    cost: Cost
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """All that a sampler may use."""

    question: Question
    model: LanguageModel
    nli: NliModel
    options: Options
    embedding_map: EmbeddingMap | None = None
    report: Observer = _unreported
    answer: Answered | None = None  # the initial answer, where it is known already

    def prompt(self) -> Prompt:
        """The question in the model's form, with all stops."""
        return self.model.prompt(self.question, self.options.prompt, self.options.decoding.stop_rule)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Sequences, the initial answer first where the method has one, each with the substitution it began with."""

    generations: tuple[Generation, ...]
    substitutions: tuple[Substitution | None, ...]
    words: tuple[Word, ...]  # of the first sequence
    cost: Cost
    notes: tuple[str, ...] = ()
    candidates: tuple[Substitution, ...] = ()  # all that were ranked, best first


def check_strategies(model: LanguageModel, wanted: set[str]) -> None:
    """Before any work is done: can the model decode like this?"""
    able = model.capabilities.strategies
    if missing := wanted - able:
        raise NotSupported(
            f"{model.name} cannot decode by {', '.join(sorted(missing))}; it can: {', '.join(sorted(able))}"
        )


def whole_generation(
    model: LanguageModel,
    grown: Continuation,
    prefix: tuple[int, ...] = (),
    prefix_logprobs: tuple[float, ...] = (),
    prefix_entropies: tuple[float, ...] = (),
) -> Generation:
    """Prefix and continuation as one sequence. A stop string that began in the prefix takes its tokens with it."""
    kept = len(prefix) - grown.dropped
    ids = (*prefix[:kept], *grown.token_ids)
    ending = (*prefix_logprobs[kept:], *grown.ending_logprobs)
    logprobs = (*prefix_logprobs[:kept], *grown.logprobs)
    entropies = (*prefix_entropies, *grown.entropies)[: len(logprobs) + len(ending)]
    text = model.text(ids).strip()
    return Generation(
        text, ids, logprobs, grown.stop_reason, ending, grown.alternatives, entropies, grown.truncated_mass
    )


def cut_note(answer: Generation, options: Options) -> list[str]:
    """An answer cut by length is never hidden."""
    if answer.stop_reason != "length":
        return []
    tokens = len(answer.token_ids)
    if tokens < options.decoding.max_tokens:
        return [f"the answer was cut at {tokens} tokens, where the model's context ends; shorten the prompt"]
    return [f"the answer was cut at {tokens} tokens; raise --max-tokens to see all of it"]
