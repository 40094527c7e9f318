"""What samplers are given, and how a continuation becomes a generation, and a generation a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..errors import NotSupported
from ..models.base import Continuation, LanguageModel
from ..nli.base import NliModel
from ..options import Options
from ..records import Branching, Cost, Generation, Prompt, Question, Sample, Substitution, Word
from ..scoring.alignment import token_texts, word_spans


class Observer(Protocol):
    """Called with a stage and what there is to see of it, and with every generation when it is finished."""

    def __call__(
        self, stage: str, text: str, generation: Generation | None = None, substitution: Substitution | None = None
    ) -> None:
        """Show it."""


def _nobody(
    stage: str, text: str, generation: Generation | None = None, substitution: Substitution | None = None
) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class InitialAnswer:
    """An initial answer, with the alternatives of every step, and what it cost."""

    generation: Generation
    cost: Cost
    notes: tuple[str, ...] = ()
    was_read: bool = False  # the model did not decode it: it need not be the likeliest


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """All that a sampler may use."""

    question: Question
    model: LanguageModel
    nli: NliModel
    options: Options
    observe: Observer = _nobody
    answer: InitialAnswer | None = None  # where it is known already

    def prompt(self) -> Prompt:
        """The question in the model's form, with all stops."""
        return self.model.prompt(self.question, self.options.prompt, self.options.decoding.stop_rule)


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
    given: int = 0,
) -> Generation:
    """Prefix and continuation as one generation. A stop string that began in the prefix takes its tokens with it."""
    kept = len(prefix) - grown.dropped
    ids = (*prefix[:kept], *grown.token_ids)
    ending = (*prefix_logprobs[kept:], *grown.ending_logprobs)
    logprobs = (*prefix_logprobs[:kept], *grown.logprobs)
    return Generation(
        text=model.text(ids).strip(),
        token_ids=ids,
        logprobs=logprobs,
        stop_reason=grown.stop_reason,
        ending_logprobs=ending,
        alternatives=grown.alternatives,
        entropies=(*prefix_entropies, *grown.entropies)[: len(logprobs) + len(ending)],
        truncated_mass=grown.truncated_mass,
        given=min(given, len(ids)),
    )


def as_sample(
    model: LanguageModel,
    generation: Generation,
    substitution: Substitution | None = None,
    branching: Branching | None = None,
) -> Sample:
    """A generation with its text token by token."""
    return Sample(generation, tuple(token_texts(generation.token_ids, model.text)), substitution, branching)


def plain_words(text: str) -> tuple[Word, ...]:
    """The words of an answer that nothing was attributed to."""
    return tuple(Word(text[start:end], start, end, None) for start, end in word_spans(text))


def cut_note(answer: Generation, options: Options) -> list[str]:
    """An answer cut by length is never hidden."""
    if answer.stop_reason != "length":
        return []
    tokens = len(answer.logprobs) or options.decoding.max_tokens  # not known: as many as there may be
    if tokens < options.decoding.max_tokens:
        return [f"the answer was cut at {tokens} tokens, where the model's context ends; shorten the prompt"]
    return [f"the answer was cut at {tokens} tokens; raise max_tokens to see all of it"]
