"""From what was asked over HTTP to work for a thread: options checked, limits kept, before anything is run.

In: a question and options by name. Out: an `Ask` or a `Score`, to be called in a worker thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import BadOption, BadQuestion, UsageError
from ..formats.answers import AnswersRow, row_dict
from ..formats.codec import read_samples
from ..formats.results import Result
from ..measures import Measure, MeasureInputs, inputs_of
from ..measures.measuring import chosen_measures, measure, needed_fields
from ..options import Options, option_groups, options_from, pick, tupled
from ..pipeline import Pipeline, Watch
from ..records import Question, is_unicode
from ..sampling import SAMPLERS, check_method
from .failures import Failure
from .given_work import given_work
from .settings import Limits, Settings

_HALF_A_PAIR = "the text holds half a surrogate pair, which is no character"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that passed all checks, with the pipeline that will answer it."""

    question: Question
    pipeline: Pipeline
    measures: Sequence[str]

    def __call__(self, watch: Watch | None = None) -> Result:
        """Answer it. In a worker thread: this takes long."""
        pipeline = self.pipeline.changed(measures=self.measures) if self.measures else self.pipeline
        return pipeline.ask(self.question, watch=watch)


@dataclass(frozen=True, slots=True)
class Score:
    """Answers that somebody already has."""

    pipeline: Pipeline
    question: Question
    inputs: MeasureInputs
    measures: Mapping[str, Measure]
    work: int  # see `given_work`

    def __call__(self) -> dict[str, Any]:
        """The row that `sdlg score` writes. In a worker thread, too."""
        models = self.pipeline.input_models_of(self.measures)
        measured = measure(self.inputs, self.question, self.measures, models)
        return row_dict(AnswersRow(1, self.question, self.inputs), measured)


class Engine:
    """One pipeline, asked in many ways."""

    def __init__(self, pipeline: Pipeline, settings: Settings) -> None:
        self.pipeline = pipeline
        self.limits = _widened(settings.limits, pipeline.options)
        self._mapped = pipeline.options.scoring.embeddings == "mapped"

    @property
    def name(self) -> str:
        """What clients call the model."""
        return self.pipeline.model.name

    @property
    def methods(self) -> list[str]:
        """Those that the model can do, and that the calibration, if one was named, speaks of."""
        calibrations = self.pipeline.calibrations
        named = calibrations.all and not calibrations.is_packaged
        return [self.pipeline.method] if named else [name for name in SAMPLERS if self._is_able(name)]

    def _is_able(self, method: str) -> bool:
        try:
            check_method(method, self.pipeline.model, self.pipeline.options)
        except UsageError:
            return False
        return True

    @property
    def calibrated(self) -> bool:
        """Whether results may tell a risk."""
        return bool(self.pipeline.calibrations.all)

    def ask(
        self,
        question: Question,
        *,
        method: str | None = None,
        preset: str | None = None,
        measures: Sequence[str] = (),
        options: Mapping[str, Any],
    ) -> Ask:
        """Check everything that can be checked before the work is begun."""
        self._check_question(question)
        preset = None if preset == self.pipeline.preset else preset  # the server's own options begin with it already
        changes = tupled(options)
        _check_limits(_updated(self.pipeline, preset, changes), self.limits, mapped=self._mapped)
        changed = self.pipeline.changed(method=method, preset=preset, **changes)
        check_method(changed.method, changed.model, changed.options)
        if measures:
            chosen_measures(measures)  # an unknown one is told now
        return Ask(question, changed, measures)

    def score(self, question: Question, answers: list[dict[str, Any]], measures: Sequence[str] = ()) -> Score:
        """Answers as `sdlg score` takes them."""
        if len(answers) > self.limits.answers:
            raise BadOption(f"{len(answers)} answers are more than the {self.limits.answers} that this server compares")
        self._check_question(question)
        if not all(is_unicode(text) for answer in answers if isinstance(text := answer.get("text"), str)):
            raise BadQuestion(_HALF_A_PAIR)
        if not answers:
            raise BadQuestion('"answers" is empty; give at least one')
        try:
            inputs = inputs_of(read_samples(answers))
        except (ValueError, TypeError, OverflowError) as error:
            raise BadQuestion(f"the answers do not fit together: {error}") from error
        chosen = chosen_measures(measures)
        work = given_work(inputs, question, needed_fields(chosen.values()))
        if work > self.limits.given_work:
            raise too_much_work(work, self.limits.given_work)
        return Score(self.pipeline, question, inputs, chosen, work)

    def _check_question(self, question: Question) -> None:
        if not question.text.strip():
            raise BadQuestion("the question is empty; ask something")
        turns = [text for shot in question.shots for text in shot]
        texts = [question.text, question.context or "", question.system or "", *turns]
        if not all(map(is_unicode, texts)):
            raise BadQuestion(_HALF_A_PAIR)
        if (size := sum(map(len, texts))) > self.limits.prompt_characters:
            raise BadQuestion(
                f"{size} characters of text are more than the {self.limits.prompt_characters} that this server takes; "
                "shorten the question or its context"
            )


def too_much_work(work: int, most: int) -> Failure:
    """422: it would be understood, but keep everybody else waiting."""
    return Failure(
        422, f"to measure these answers, models would read {work} characters (every pair of answers in both "
        f"directions, for relevance each answer once per token); this server reads at most {most} for one request. "
        "Send fewer or shorter answers, name fewer measures, or send what is known of them (logprobs, clusters)",
        "too_much_work",
    )  # fmt: skip


def _updated(pipeline: Pipeline, preset: str | None, options: Mapping[str, Any]) -> Options:
    """What the options will be: limits are checked before a pipeline is made of them."""
    for name in options:
        pick("option", option_groups(), name)
    try:
        return options_from(preset, options) if preset else pipeline.options.updated(**options)
    except (TypeError, OverflowError) as error:  # a list where a number belongs, a number with a thousand digits
        raise BadOption(f"an option has a value that it cannot have: {error}") from error


def _check_limits(options: Options, limits: Limits, *, mapped: bool) -> None:
    """What the options themselves allow may still be more than a shared server should do."""
    amounts = {"samples": options.samples, "max_tokens": options.decoding.max_tokens, "beams": options.decoding.beams}
    allowed = {"samples": limits.samples, "max_tokens": limits.max_tokens, "beams": limits.samples}
    for name, value in amounts.items():
        if value > allowed[name]:
            raise BadOption(f"{name} is {value}; this server allows at most {allowed[name]}")
    if options.scoring.min_probability < limits.min_probability:
        raise BadOption(f"min_probability must be at least {limits.min_probability:g} on this server")
    if len(options.decoding.stop_strings) + len(options.decoding.stop_ids) > limits.stop_strings:
        raise BadOption(f"at most {limits.stop_strings} stop strings and ids")
    if options.scoring.embeddings == "mapped" and not mapped:
        raise BadOption("this server has no embedding map; start it with --embeddings mapped")


def _widened(limits: Limits, options: Options) -> Limits:
    """What the server itself does by default is allowed."""
    return replace(
        limits,
        samples=max(limits.samples, options.samples, options.decoding.beams),
        max_tokens=max(limits.max_tokens, options.decoding.max_tokens),
        min_probability=min(limits.min_probability, options.scoring.min_probability),
    )
