"""The flow, on one page: question → sample → cluster → measure → result. Nothing reaches back.

`Pipeline` is what users hold: models that are loaded once, and options. `sdlg ask`, `score`, `eval` and `serve` all
call it. Threads may share a pipeline; `ask_async` is `ask` in one of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Unpack

from .calibration import CalibrationSource, calibrations_for, read_calibration
from .clustering import Judge, cluster_answers
from .clustering.same_answer import fit_fingerprint
from .concurrency.in_flight import in_thread, run_in_flight
from .concurrency.limits import Limit, check_limit, limited
from .errors import BadQuestion, NotSupported
from .loaded import Models, ModelSource, NliSource
from .long_answers import measure_sentences
from .measures import inputs_of
from .measures.branches import explored_mass
from .measures.headline import sample_weights, semantic_entropy
from .measures.inputs import MeasuringModels, evidence_dict, with_evidence
from .measures.measuring import Measurements, measure
from .measures.shares import counted, meanings_of, numbered, share_entropy_estimate
from .measures.table import find_measures
from .measures.words import words_with_meanings
from .nli.language_model_judge import LanguageModelJudge
from .options import (
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    DEFAULT_NLI,
    NONE,
    PACKAGED,
    PRESETS,
    Keywords,
    Loading,
    Options,
    pick,
    several,
    split_keywords,
)
from .progress import Progress, Watch, ignore
from .questions import Messages, checked_question
from .records import Cost, Generation, Question, Sample, Sampled, Setup, Substitution, is_unicode
from .result import SEMANTIC_ENTROPY, SHARE_ENTROPY, Result
from .sampling import SAMPLERS, InitialAnswer, SamplingRequest, check_method, check_reads_texts, first_answer
from .sampling.sentences import is_long, sentences_of
from .schema import GivenAnswer, given_samples
from .scoring.alignment import token_texts

GIVEN = "given"  # the method of answers that somebody already had
NOT_COMPARED = "nothing compared the answers, so each of them counts as a meaning of its own"
READ_OTHERWISE = "the model's tokenizer cannot spell this text as it is; what it read is shown"
_CANDIDATES = 8  # of each position, in a result


class Pipeline:
    """Models and options. Use it for many questions; `with` closes it."""

    def __init__(
        self,
        model: ModelSource | None = DEFAULT_MODEL,
        nli: NliSource | None = DEFAULT_NLI,
        *,
        method: str = DEFAULT_METHOD,
        preset: str = "default",
        options: Options | None = None,
        loading: Loading | None = None,
        models: Models | None = None,
        measures: Sequence[str] = (),
        calibration: CalibrationSource = PACKAGED,
        watch: Watch = ignore,
        **named: Unpack[Keywords],
    ) -> None:
        """Load the models, or take `models` as they are. `named` are fields of `Options` and `Loading`."""
        changes, places = split_keywords(named)
        self.preset, self._watch = preset, watch
        self.options = (options or pick("preset", PRESETS, preset)).updated(**changes)  # told before models are loaded
        self.method = _method(method)
        self._calibration, self._own_measures = read_calibration(calibration), several(measures)
        find_measures(self._own_measures)  # unknown measures are told now, too
        if models is None:
            models = Models(model, nli, replace(loading or Loading(), **places))
            models.load(lambda what: watch(Progress("load", what)))
        self.models = models
        self._calibrate()

    def changed(
        self,
        *,
        method: str | None = None,
        preset: str | None = None,
        options: Options | None = None,
        measures: Sequence[str] = (),
        calibration: CalibrationSource = None,
        **named: Any,
    ) -> Pipeline:
        """Return a pipeline with other options and further measures. It shares the models: closing one closes both."""
        other = copy(self)
        other.__dict__.pop("_threads", None)
        other.method = _method(method or self.method)
        other.preset = preset or self.preset
        start = options or (pick("preset", PRESETS, preset) if preset else self.options)
        other.options = start.updated(**named)
        find_measures(several(measures))
        other._own_measures = tuple(dict.fromkeys((*self._own_measures, *several(measures))))
        if calibration is not None:
            other._calibration = read_calibration(calibration)
        other._calibrate()
        return other

    def _calibrate(self) -> None:
        """Find the calibration; an error where one was named that says nothing of these answers."""
        self.calibrations = calibrations_for(self._calibration, *self._origin)
        self.calibrations.check(*self._origin)
        self.measures = tuple(dict.fromkeys((*self._own_measures, *self.calibrations.measure_names("answer"))))

    @property
    def _origin(self) -> tuple[str, str, str, Options]:
        return self.models.model_name, self.models.nli_name, self.method, self.options

    @property
    def setup(self) -> Setup:
        """What shapes results besides models, method and options."""
        fit = fit_fingerprint(self.models.nli_name) if self.options.equivalence == "answers" else None
        facts = self.models.facts(self.measures)
        return Setup(self._own_measures, self.calibrations.fingerprint, same_answer_fit=fit, **facts)

    @property
    def in_flight(self) -> int:
        """How many questions at once this pipeline is best asked."""
        return self.models.in_flight

    # -- asking ---------------------------------------------------------------------------------------------------

    def ask(
        self,
        question: str | Question | None = None,
        *,
        messages: Messages | None = None,
        context: str | None = None,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> Result:
        """Answer one question and say how sure the model is of what it means. `timeout` is in seconds.

        `messages` is a conversation as OpenAI's clients write it, in place of the question: the last user's turn is
        what is asked, the whole is the prompt.
        """
        asked = checked_question(question, context, messages)
        with limited(Limit(timeout)):
            show = watch or self._watch
            request = self._request(asked, show)
            check_method(self.method, request.model, self.options)
            initial = first_answer(request) if self.method == DEFAULT_METHOD else None
            if initial is not None:
                sentences = sentences_of(request.model, initial.generation, self.options)
                if is_long(sentences, self.options):
                    return measure_sentences(self, request, initial, sentences, show)
            sampled = self.sample(asked, answer=initial, watch=show)
            show(Progress("clusters", ""))
            return self.measured(asked, sampled)

    async def ask_async(
        self,
        question: str | Question | None = None,
        *,
        messages: Messages | None = None,
        context: str | None = None,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> Result:
        """`ask` for `await`. Cancelling it stops the work at its next step. `watch` is called in a thread.

        `timeout` counts from this call, also while others are answered first.
        """
        work = partial(self.ask, question, messages=messages, context=context, watch=watch)
        return await in_thread(work, self._threads, seconds=timeout)

    def ask_many(self, questions: Iterable[str | Question], *, in_flight: int | None = None) -> Iterator[Result]:
        """Yield one result after the other, in the questions' order; what their prompts share is only read once."""
        for _, answered in run_in_flight(self.ask, questions, self.in_flight if in_flight is None else in_flight):
            yield answered.result()

    def score(
        self,
        question: str | Question,
        answers: str | Sequence[str | GivenAnswer | Mapping[str, Any] | Sample],
        *,
        context: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Measure answers that somebody already has: texts, or mappings with `text` and what else is known.

        `evidence` is that of an earlier result of the same answers: what it holds is not computed again. One text alone
        is checked sentence by sentence under the language model (`check`).
        """
        if isinstance(answers, str):
            return self.check(question, answers, context=context, timeout=timeout)
        asked, samples = checked_question(question, context), given_samples(answers)
        try:
            with limited(Limit(timeout)):
                return self._score(asked, samples, evidence or {})
        except (ArithmeticError, ValueError) as error:  # what a stranger's numbers make of the arithmetic
            raise BadQuestion(f"the answers cannot be measured: {type(error).__name__}: {error}") from error

    def _score(self, asked: Question, samples: tuple[Sample, ...], evidence: Mapping[str, Any]) -> Result:
        inputs, given = with_evidence(inputs_of(samples), evidence), self.changed(method=GIVEN, calibration=NONE)
        measured = measure(inputs, asked, given.measures, self.measuring_models(), also={"clusters"})
        clusters = measured.inputs.clusters or tuple(range(len(samples)))
        notes = () if measured.inputs.clusters else (NOT_COMPARED,)
        sampled = numbered(Sampled(samples, (), Cost(), notes), clusters)
        return given.result_of(asked, sampled, measured)

    def with_likelihoods(
        self, question: Question, answers: Sequence[str | GivenAnswer | Mapping[str, Any] | Sample]
    ) -> tuple[Sample, ...]:
        """Return given answers with their log-probabilities under the language model, as `score` takes them."""
        samples, model = given_samples(answers), self.models.language_model
        if not model.capabilities.scores_texts:
            raise NotSupported(f"{model.name} cannot compute the likelihood of given answers")
        prompt = model.prompt(question, self.options.prompt)
        generations = model.score(prompt, [sample.text for sample in samples]).generations
        return tuple(
            Sample(generation, tuple(token_texts(generation.token_ids, model.text)), cluster=sample.cluster)
            for generation, sample in zip(generations, samples, strict=True)
        )

    # -- the steps, which experiments call one by one -------------------------------------------------------------

    def sample(self, question: Question, *, answer: InitialAnswer | None = None, watch: Watch = ignore) -> Sampled:
        """Return the method's sequences, from an initial answer that is known already if there is one."""

        return pick("method", SAMPLERS, self.method)(replace(self._request(question, watch), answer=answer))

    def _request(self, question: Question, watch: Watch) -> SamplingRequest:
        def observe(
            stage: str, text: str, generation: Generation | None = None, substitution: Substitution | None = None
        ) -> None:
            check_limit()
            watch(Progress(stage, text, generation, substitution))

        models = self.models
        return SamplingRequest(question, models.language_model, models.later_nli, self.options, observe)

    def cluster(self, question: Question, sampled: Sampled, judge: Judge) -> Sampled:
        """Return the same samples and draws with the numbers of their clusters. Draws do not move the samples'."""
        started = time.perf_counter()
        texts = (*sampled.texts, *(draw.text for draw in sampled.draws_beside))
        clusters = cluster_answers(question.text, texts, judge, self.options.clustering, nli=self.models.nli_name)
        spent = clusters.cost + Cost(seconds={"clusters": time.perf_counter() - started})
        return replace(numbered(sampled, clusters.numbers), cost=sampled.cost + spent)

    # -- long answers ---------------------------------------------------------------------------------------------

    def check(
        self,
        question: str | Question,
        answer: str,
        *,
        context: str | None = None,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> Result:
        """Measure a text that somebody already has, sentence by sentence, as if the language model had said it."""
        asked = checked_question(question, context)
        if not answer.strip():
            raise BadQuestion("the answer is empty: there is nothing to check")
        if not is_unicode(answer):
            raise BadQuestion("the answer holds half a surrogate pair, which is no character")
        with limited(Limit(timeout)):
            show = watch or self._watch
            model, options = self.models.language_model, self.options
            check_reads_texts(model)
            pipeline = self.changed(method=DEFAULT_METHOD, unit="sentences")
            request = pipeline._request(asked, show)
            started = time.perf_counter()
            read = model.read(request.prompt(), answer.strip(), alternatives_above=options.min_probability)
            if not read.generations[0].text:
                raise BadQuestion("the answer has only control tokens: there is nothing to check")
            cost = read.cost + Cost(seconds={"answer": time.perf_counter() - started})
            is_other = read.generations[0].text != answer.strip()
            initial = InitialAnswer(read.generations[0], cost, (READ_OTHERWISE,) if is_other else (), was_read=True)
            sentences = sentences_of(model, initial.generation, options)
            return measure_sentences(pipeline, request, initial, sentences, show)

    # -- the result -----------------------------------------------------------------------------------------------

    def measured(self, question: Question, sampled: Sampled) -> Result:
        """Cluster and measure what was sampled."""
        return self.measured_meanings(question, self.cluster(question, sampled, self.models.nli.judge))

    def measured_meanings(self, question: Question, sampled: Sampled) -> Result:
        """Measure what was sampled and clustered."""
        told = counted(sampled, self.options)
        measured = measure(inputs_of(told.samples, told.draws), question, self.measures, self.measuring_models())
        return self.result_of(question, sampled, measured)

    def result_of(self, question: Question, sampled: Sampled, measured: Measurements) -> Result:
        """Put together what was sampled, clustered and measured: arithmetic only."""
        started, inputs = time.perf_counter(), inputs_of(sampled.samples)
        weights = sample_weights(inputs)
        told = counted(sampled, self.options)
        estimates = {SEMANTIC_ENTROPY: semantic_entropy(inputs_of(told.samples))}
        if told.draws is not None:
            estimates[SHARE_ENTROPY] = share_entropy_estimate(told.samples, told.draws)
        result = Result(
            question=question,
            model=None if self.method == GIVEN else self.models.model_name,
            nli=self.models.nli_name or None,
            method=self.method,
            preset=self.preset,
            clusters=meanings_of(inputs, sampled),
            estimates={**measured.estimates, **estimates},
            unavailable=measured.reasons,
            coverage=None if inputs.logprobs is None else explored_mass(inputs),
            words=words_with_meanings(sampled.words, sampled.samples),
            samples=tuple(replace(s, weight=w) for s, w in zip(sampled.samples, weights, strict=True)),
            draws=sampled.draws_beside,
            candidates=_best_of_each_position(sampled.candidates),
            options=self.options,
            setup=self.setup,
            cost=sampled.cost + measured.cost + Cost(seconds={"estimates": time.perf_counter() - started}),
            notes=(*sampled.notes, *self._notes()),
            evidence=evidence_dict(measured.inputs) if self.measures and told == sampled else {},
        )
        return self.calibrations.applied_to(result)

    def _notes(self) -> list[str]:
        """What a reader must know of the models."""
        if self.method == GIVEN:
            return []
        judge = [self.models.nli.note] if isinstance(self.models.nli, LanguageModelJudge) else []
        shortcomings = self.models.language_model.capabilities.shortcomings
        return [*shortcomings, *judge]

    def measuring_models(self) -> MeasuringModels:
        """Return what measures may ask."""
        return self.models.for_measures(self.options.prompt, self.options.clustering)

    # -- closing --------------------------------------------------------------------------------------------------

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max(self.in_flight, 1), thread_name_prefix="sdlg")

    def close(self) -> None:
        """End threads, connections and model servers that were started for this pipeline."""
        if threads := self.__dict__.pop("_threads", None):
            threads.shutdown(cancel_futures=True)
        self.models.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _method(name: str) -> str:
    method = name.replace("-", "_")
    if method != GIVEN:
        pick("method", SAMPLERS, method)
    return method


def _best_of_each_position(candidates: Sequence[Substitution]) -> tuple[Substitution, ...]:
    """Return the best few of each position, in the order of their ranks."""
    counts: dict[int, int] = {}
    found = []
    for candidate in candidates:
        counts[candidate.position] = counts.get(candidate.position, 0) + 1
        if counts[candidate.position] <= _CANDIDATES:
            found.append(candidate)
    return tuple(found)
