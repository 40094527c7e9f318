"""From what was asked over HTTP to work for a thread: all that can be checked is checked before anything is run.

In: a question and options by name, or answers that somebody already has. Out: `Asked`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import BadOption, BadQuestion, UsageError
from ..measures import MeasureInputs, inputs_of
from ..measures.measuring import needed_fields
from ..options import OPTIONS, Options, pick
from ..pipeline import Pipeline
from ..progress import Watch
from ..questions import checked_question
from ..records import Question
from ..result import Result
from ..sampling import SAMPLERS, check_method
from ..schema import GivenAnswer, given_samples
from .bodies import UncertaintyBody
from .failures import Failure
from .settings import Settings

_BY_LANGUAGE_MODEL = 10  # as measured: the embedded model reads a tenth of what the embedded judge reads in a second
_CHARACTERS_PER_TOKEN = 4  # of answers whose tokens are not given; more are short words
_SHORTCUTS = {"samples", "seed", "max_tokens", "stop_at", "temperature"}  # options that need not stand in `options`


@dataclass(frozen=True, slots=True)
class Asked:
    """Work that passed all checks."""

    pipeline: Pipeline
    answer: Callable[[Watch | None], Result]  # takes long: for a worker thread
    characters: int = 0  # that models read to measure given answers, at most


def able_methods(pipeline: Pipeline) -> list[str]:
    """Return the methods that the model can do, and that the calibration, if one was named, is about."""
    return [name for name in SAMPLERS if _is_able(pipeline, name)]


def _is_able(pipeline: Pipeline, method: str) -> bool:
    try:
        check_method(method, pipeline.models.language_model, pipeline.changed(method=method).options)
    except UsageError:
        return False
    return True


def asked_by(pipeline: Pipeline, settings: Settings, body: UncertaintyBody) -> Asked:
    """Check the body of `POST /v1/uncertainty`."""
    question = checked_question(body.question, body.context, body.messages)
    if body.system is not None:
        question = replace(question, system=body.system)
    if body.answers is not None:
        own = {"question", "messages", "context", "system", "answers", "measures", "stream"}  # not `answer`
        if unused := body.model_dump(exclude=own, exclude_none=True):
            raise BadOption(f"answers are given, nothing is sampled: leave out {', '.join(unused)}")
        return asked_answers(pipeline, settings, question, body.answers, body.measures or ())
    if body.answer is not None and (body.messages or body.method):
        raise BadOption("a text is checked under its question, by SDLG: leave out messages and method")
    named, options = body.model_dump(include=_SHORTCUTS, exclude_none=True), body.options or {}
    named |= {"unit": body.uncertainty} if body.uncertainty else {}
    if twice := set(named) & set(options):
        raise BadOption(f"given twice, in the body and in its options: {', '.join(sorted(twice))}")
    return asked_question(
        pipeline, settings, question, method=body.method, preset=body.preset, measures=body.measures or (),
        options={**named, **options}, answer=body.answer,
    )  # fmt: skip


def asked_question(
    pipeline: Pipeline,
    settings: Settings,
    question: Question,
    *,
    method: str | None = None,
    preset: str | None = None,
    measures: Sequence[str] = (),
    options: Mapping[str, Any],
    answer: str | None = None,
) -> Asked:
    """Check a question with its options; and the answer to it that is to be checked, if there is one."""
    _check_size(replace(question, context=f"{question.context or ''}{answer or ''}"), settings)
    for name in options:
        pick("option", OPTIONS, name)
    preset = None if preset == pipeline.preset else preset  # the server's own options begin with it already
    changed = pipeline.changed(method=method, preset=preset, measures=measures, **options)
    _check_limits(changed.options, settings)
    check_method(changed.method, changed.models.language_model, changed.options)
    if answer is not None:
        if not answer.strip():
            raise BadQuestion("the answer is empty: there is nothing to check")
        return Asked(changed, lambda watch: changed.check(question, answer, watch=watch))
    return Asked(changed, lambda watch: changed.ask(question, watch=watch))


def asked_answers(
    pipeline: Pipeline,
    settings: Settings,
    question: Question,
    answers: Sequence[str | GivenAnswer],
    measures: Sequence[str] = (),
) -> Asked:
    """Check answers that somebody already has."""
    if len(answers) > settings.answers:
        raise BadOption(f"{len(answers)} answers are more than the {settings.answers} that this server compares")
    _check_size(question, settings)
    changed, samples = pipeline.changed(measures=measures), given_samples(answers)
    characters = characters_read(inputs_of(samples), question, {*needed_fields(changed.measures), "clusters"})
    if characters > settings.characters_read:
        raise _too_much(characters, settings.characters_read)
    return Asked(changed, lambda _: changed.score(question, samples), characters)


def _check_size(question: Question, settings: Settings) -> None:
    turns = [text for shot in question.shots for text in shot]
    size = sum(map(len, (question.text, question.context or "", question.system or "", *turns)))
    if size > settings.prompt_characters:
        raise BadQuestion(
            f"{size} characters of text are more than the {settings.prompt_characters} that this server takes; "
            "shorten the question or its context"
        )


def _check_limits(options: Options, settings: Settings) -> None:
    """Raise for what `Options` allow and a shared server should not do."""
    largest = {
        "samples": settings.samples,
        "sentence_samples": settings.samples,
        "most_sentences": settings.sentences,
        "max_tokens": settings.max_tokens,
        "beams": settings.samples,
    }
    for name, most in largest.items():
        if getattr(options, name) > most:
            raise BadOption(f"{name} is {getattr(options, name)}; this server allows at most {most}")
    if options.min_probability < settings.min_probability:
        raise BadOption(f"min_probability must be at least {settings.min_probability:g} on this server")
    if len(options.stop_strings) > settings.stop_strings:
        raise BadOption(f"at most {settings.stop_strings} stop strings")


# -- how much work given answers are --------------------------------------------------------------------------------


def characters_read(inputs: MeasureInputs, question: Question, needs: Collection[str]) -> int:
    """Return how many characters the judge of meaning and the similarity model would read, at most.

    Every pair of answers is read in both directions, and relevance reads an answer once for each of its tokens: bytes
    say little of it. What a language model reads counts more. What is given already costs nothing.
    """
    missing = {name for name in needs if getattr(inputs, name, None) is None}
    sizes = [len(question.text) + 1 + len(text) for text in inputs.texts or ()]
    pairs = 2 * max(len(sizes) - 1, 0) * sum(sizes)
    judged = pairs * len(missing & {"clusters", "entailment"})
    compared = sum(sizes) * len(missing & {"similarity", "embeddings"})
    prompt = len(question.context or "") + len(question.text)
    asked = (prompt + sum(sizes)) * len(missing & {"logprobs", "p_true", "assessment", "other_logprobs"})
    return judged + compared + _BY_LANGUAGE_MODEL * asked + _for_relevance(inputs, sizes, missing)


def _for_relevance(inputs: MeasureInputs, sizes: list[int], missing: Collection[str]) -> int:
    """Each answer once more without each of its tokens."""
    if "relevance" not in missing:
        return 0
    if inputs.tokens is None:
        return sum(size * (size // _CHARACTERS_PER_TOKEN + 1) for size in sizes)
    return sum((len(tokens) + 1) * (sum(map(len, tokens)) + 1) for tokens in inputs.tokens)


def _too_much(characters: int, most: int) -> Failure:
    return Failure(
        422, f"to measure these answers, models would read {characters} characters (every pair of answers in both "
        f"directions, for relevance each answer once per token); this server reads at most {most} for one request. "
        "Send fewer or shorter answers, name fewer measures, or send what is known of them (logprobs, clusters)",
        "too_much_work",
    )  # fmt: skip
