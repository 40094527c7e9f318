"""The flow, on one page: question → answer → scores → branches → clusters → estimates → result. Nothing reaches back.

`ask` is the one call; `Pipeline` is the same with models that are loaded once and used for many questions. Threads may
share a pipeline; `ask_async` is `ask` in one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from .clustering import cluster_answers
from .concurrency.in_flight import in_thread, run_in_flight
from .concurrency.limits import Limit, check_limit, limited
from .formats.answers import evidence_dict
from .formats.questions import checked_question
from .formats.results import Result
from .measures import Measure, inputs_of
from .measures.headline import HEADLINE, estimate_all, headline_measure, sample_weights
from .measures.inputs import InputModels
from .measures.meanings import meanings_of, numbered
from .measures.measuring import SIMILARITY_FIELDS, Measured, asked_measures, measure, needed_fields
from .measures.semantic import coverage
from .measures.shares import share_entropy
from .measures.wavering import wavering_words
from .models import LanguageModel, checked_name, engine_of, load_model, load_scorer
from .nli import NliModel, is_language_model, load_nli
from .nli.language_model_judge import LanguageModelJudge
from .options import (
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    DEFAULT_NLI,
    DEFAULT_SIMILARITY,
    PACKAGED,
    EngineOptions,
    Options,
    engine_options,
    options_from,
    pick,
    several,
)
from .records import Cost, Generation, Question, Sampled, Setup, Substitution
from .risk import CalibrationSource, calibrations_for, given_calibration
from .sampling import SAMPLERS, SamplingRequest
from .similarity import SimilarityModel, load_similarity

ModelSource = str | Path | LanguageModel | Sequence[Any]
NliSource = str | Path | NliModel | Sequence[Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done: a stage (load, answer, scores, branches, clusters) and something to show for it.

    `generation` is one that was just finished: the answer in stage scores, a branch or sample in stage branches.
    """

    stage: str
    text: str
    generation: Generation | None = None
    substitution: Substitution | None = None


Watch = Callable[[Progress], None]


def _ignore(_: Progress) -> None:
    """Nobody is watching."""


class Pipeline:
    """Both models and the options. Use it for many questions."""

    def __init__(
        self,
        model: ModelSource = DEFAULT_MODEL,
        nli: NliSource = DEFAULT_NLI,
        *,
        gradients: str = DEFAULT_NLI,
        method: str = DEFAULT_METHOD,
        preset: str = "default",
        device: str | None = None,
        dtype: str | None = None,
        tokenizer: str | None = None,
        retry_seconds: float | None = None,
        engine: str | EngineOptions = "auto",
        measures: Sequence[str] = (),
        similarity_model: str | SimilarityModel | None = DEFAULT_SIMILARITY,
        other_models: Sequence[ModelSource] = (),
        calibration: CalibrationSource = PACKAGED,
        watch: Watch = _ignore,
        **options: object,
    ) -> None:
        self.method, self.preset = method.replace("-", "_"), preset
        self.options = options_from(preset, options)  # wrong options are told before models are loaded
        self._sampler = pick("method", SAMPLERS, self.method)
        self._calibration, self._own_measures = given_calibration(calibration), several(measures)
        asked_measures(self._own_measures, ())  # as are unknown measures
        self._watch = watch
        others = several(other_models)
        self._named: dict[str, Any] = {"dtype": dtype, "tokenizer": tokenizer}
        self._named |= {"similarity_model": _name_of(similarity_model), "other_models": (*map(_name_of, others),)}
        self._named["gradients"] = gradients if isinstance(nli, str) and is_language_model(nli) else None
        watch(Progress("load", f"language model {checked_name(model) if isinstance(model, str) else ''}"))
        self.model = load_model(
            model, device=device, dtype=dtype, tokenizer=tokenizer, retry_seconds=retry_seconds,
            **asdict(engine_options(engine)),
        )
        self._named["engine"] = engine_of(self.model)
        watch(Progress("load", f"NLI model {nli if isinstance(nli, str) else ''}"))
        self.nli = load_nli(nli, device=device, language_model=self.model, gradients=gradients)
        self._similarity = cache(lambda: load_similarity(similarity_model, device=device) if similarity_model else None)
        loaded = tuple(load_scorer(other, device=device, dtype=dtype) for other in others)
        self._calibrate()
        prompt, clustering = self.options.prompt, self.options.clustering
        similarity = self._similarity_for(self.measures)
        self.input_models = InputModels(self.model, self.nli, similarity, loaded, prompt, clustering)
        self._embedding_map = self._fit_map() if self.options.scoring.embeddings == "mapped" else None

    def changed(
        self, *, method: str | None = None, preset: str | None = None, measures: Sequence[str] = (), **options: object
    ) -> Pipeline:
        """A pipeline with the same models, other options and further measures, made in no time."""
        other = copy(self)
        other.__dict__.pop("_threads", None)
        other.method = (method or self.method).replace("-", "_")
        other.preset = preset or self.preset
        other._sampler = pick("method", SAMPLERS, other.method)
        other.options = options_from(preset, options) if preset else self.options.updated(**options)
        other._own_measures = (*self._own_measures, *several(measures))
        other._calibrate()
        other.input_models = replace(
            self.input_models,
            prompt=other.options.prompt,
            clustering=other.options.clustering,
            similarity=self._similarity_for(other.measures),
        )
        mapped = other.options.scoring.embeddings == "mapped"
        other._embedding_map = (self._embedding_map or other._fit_map()) if mapped else None
        return other

    def input_models_of(self, measures: Mapping[str, Measure]) -> InputModels:
        """All models that these measures may ask."""
        return replace(self.input_models, similarity=self._similarity_for(measures))

    def _similarity_for(self, measures: Mapping[str, Measure]) -> SimilarityModel | None:
        return self._similarity() if needed_fields(measures.values()) & SIMILARITY_FIELDS else None

    def _calibrate(self) -> None:
        """Find the calibration; an error where one was named that says nothing of these answers."""
        self.calibrations = calibrations_for(self._calibration, *self._setup)
        self.calibrations.check_setup(*self._setup)
        self.measures = asked_measures(self._own_measures, self.calibrations.measure_names)

    @property
    def _setup(self) -> tuple[str, str, str, Options]:
        return self.model.name, self.nli.name, self.method, self.options

    def _judge_note(self) -> list[str]:
        """Where clusters and gradients come from two models."""
        return [self.nli.note] if isinstance(self.nli, LanguageModelJudge) else []

    def _fit_map(self) -> Any:
        from .scoring.mapping import fit_embedding_map

        return fit_embedding_map(self.model, self.nli)

    @property
    def in_flight(self) -> int:
        """How many questions at once this pipeline is best asked."""
        return self.model.capabilities.in_flight

    def ask(
        self,
        question: str | Question,
        *,
        context: str | None = None,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> Result:
        """Answer one question and say how sure the model is of what it means. `timeout` is in seconds."""
        with limited(Limit(timeout)):
            return self._ask(checked_question(question, context), watch or self._watch)

    async def ask_async(
        self,
        question: str | Question,
        *,
        context: str | None = None,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> Result:
        """The same for `await`. Cancelling it stops the work at its next step. `watch` is called in a thread.

        `timeout` counts from this call, also while others are answered first.
        """
        work = partial(self.ask, question, context=context, watch=watch)
        return await in_thread(work, self._threads, seconds=timeout)

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max(self.in_flight, 1), thread_name_prefix="sdlg")

    def ask_many(self, questions: Iterable[str | Question], *, in_flight: int | None = None) -> Iterator[Result]:
        """One result after the other, in the questions' order; what the prompts share is only read once."""
        for _, answered in run_in_flight(self.ask, questions, self.in_flight if in_flight is None else in_flight):
            yield answered.result()

    def _ask(self, question: Question, watch: Watch) -> Result:
        def observe(
            stage: str, text: str, generation: Generation | None = None, substitution: Substitution | None = None
        ) -> None:
            check_limit()
            watch(Progress(stage, text, generation, substitution))

        sampled = self._sampler(
            SamplingRequest(question, self.model, self.nli, self.options, self._embedding_map, observe)
        )
        observe("clusters", "")
        started = time.perf_counter()
        # Draws last: they do not move the samples' clusters.
        texts = (*sampled.texts, *(draw.text for draw in sampled.draws_beside))
        clusters = cluster_answers(question.text, texts, self.nli.judge, self.options.clustering, nli=self.nli.name)
        clustered = Cost(seconds={"clusters": time.perf_counter() - started})
        sampled = numbered(sampled, clusters.numbers)
        measured = measure(inputs_of(sampled.samples), question, self.measures, self.input_models)
        cost = sampled.cost + clusters.cost + clustered + measured.cost
        return self._result(question, replace(sampled, cost=cost), measured)

    def _result(self, question: Question, sampled: Sampled, measured: Measured) -> Result:
        """Put together what was sampled, clustered and measured: arithmetic only."""
        started, estimation = time.perf_counter(), self.options.estimation
        inputs, able = inputs_of(sampled.samples), self.model.capabilities
        weights = sample_weights(inputs, estimation)
        estimates = {**estimate_all(inputs, estimation), **measured.estimates}
        if sampled.draws is not None:
            score = {headline_measure(self.method, estimation): estimates[HEADLINE]} if inputs.logprobs else {}
            estimates = {**estimates, HEADLINE: share_entropy(sampled.samples, sampled.draws), **score}
        reasons = [f"{name}: {reason}" for name, reason in measured.reasons.items()]
        notes = (
            *sampled.notes,
            *reasons,
            *able.shortcomings,
            *self._judge_note(),
            *self.calibrations.differences(question, *self._setup),
        )
        result = Result(
            question=question,
            model=self.model.name,
            nli=self.nli.name,
            method=self.method,
            preset=self.preset,
            options=self.options,
            words=wavering_words(sampled.words, sampled.samples),
            samples=tuple(replace(s, weight=w) for s, w in zip(sampled.samples, weights, strict=True)),
            clusters=meanings_of(inputs, sampled, estimation),
            estimates=estimates,
            coverage=None if inputs.logprobs is None else coverage(inputs),
            cost=sampled.cost + Cost(seconds={"estimates": time.perf_counter() - started}),
            notes=notes,
            setup=chosen_setup(self.measures, self.calibrations.fingerprint, **self._named),
            evidence=evidence_dict(measured.inputs) if self.measures else {},
            candidates=sampled.candidates,
            draws=sampled.draws_beside,
        )
        return replace(result, risk=self.calibrations.risk_of(result))


def chosen_setup(
    measures: Mapping[str, Measure], calibration: str | None, *, similarity_model: str | None, **named: Any
) -> Setup:
    """What shapes results besides models, method and options. Whatever does not matter here is left out."""
    compares = bool(needed_fields(measures.values()) & SIMILARITY_FIELDS)
    return Setup(tuple(measures), calibration, similarity_model if compares else None, **named)


def _name_of(model: object) -> str | None:
    """What was asked for by name, or what a loaded model calls itself."""
    return str(model) if isinstance(model, str | Path) else getattr(model, "name", None)
