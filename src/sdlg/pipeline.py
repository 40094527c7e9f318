"""The flow, on one page: question → answer → scores → branches → clusters → estimates → result. Nothing reaches back.

`ask` is the one call; `Pipeline` is the same with models that are loaded once and used for many questions. Threads may
share a pipeline; `ask_async` is `ask` in one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

from .clustering import cluster_answers
from .concurrency.in_flight import in_thread, run_in_flight
from .concurrency.limits import Limit, check_limit, limited
from .errors import BadQuestion
from .formats.answers import inputs_dict
from .formats.results import Result
from .measures import cluster_probabilities, estimate_all, samples_of
from .measures.base import Measure
from .measures.inputs import InputModels
from .measures.measuring import SIMILARITY_FIELDS, Measured, chosen_measures, measure, needed_fields
from .measures.semantic import coverage, normalised_weights
from .models import LanguageModel, checked_name, full_name, load_model
from .nli import NliModel, load_nli
from .options import options_from, pick
from .records import Cluster, Cost, Estimate, Generation, Question, Sample, Substitution, is_unicode
from .risk import Risk
from .sampling import SAMPLERS, Request, Sampled
from .scoring.alignment import token_texts
from .similarity import MINILM, SimilarityModel, load_similarity

DEFAULT_MODEL, DEFAULT_NLI = "smollm2", "nli-minilm"

ModelSource = str | Path | LanguageModel | Sequence[Any]
NliSource = str | Path | NliModel | Sequence[Any]
CalibrationSource = str | Path | Risk | None  # a file of `sdlg calibrate`


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
        method: str = "sdlg",
        preset: str = "default",
        device: str | None = None,
        dtype: str | None = None,
        tokenizer: str | None = None,
        retry_seconds: float | None = None,
        measures: Sequence[str] = (),
        similarity_model: str | SimilarityModel | None = MINILM,
        other_models: Sequence[ModelSource] = (),
        calibration: CalibrationSource = None,
        watch: Watch = _ignore,
        **options: object,
    ) -> None:
        self.method, self.preset = method.replace("-", "_"), preset
        self.options = options_from(preset, options)  # wrong options are told before models are loaded
        self._sampler = pick("method", SAMPLERS, self.method)
        self.risk = calibration if isinstance(calibration, Risk | None) else Risk.load(calibration)
        asked_for = [*measures, *([self.risk.origin.measure_name] if self.risk else [])]
        self.measures = chosen_measures(asked_for) if asked_for else {}
        self._watch = watch
        watch(Progress("load", f"language model {checked_name(model) if isinstance(model, str) else ''}"))
        self.model = load_model(model, device=device, dtype=dtype, tokenizer=tokenizer, retry_seconds=retry_seconds)
        watch(Progress("load", f"NLI model {nli if isinstance(nli, str) else ''}"))
        self.nli = load_nli(nli, device=device)
        self._similarity = _Once(lambda: similarity_model and load_similarity(similarity_model, device=device))
        self.sources = InputModels(
            self.model,
            self.nli,
            self._similarity_for(self.measures),
            tuple(load_model(other, device=device, dtype=dtype) for other in other_models),
            self.options.prompt,
            self.options.clustering,
        )
        self._warnings = self._checked_calibration()
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
        other.measures = {**self.measures, **(chosen_measures(measures) if measures else {})}
        other.sources = replace(
            self.sources,
            prompt=other.options.prompt,
            clustering=other.options.clustering,
            similarity=self._similarity_for(other.measures),
        )
        other._warnings = other._checked_calibration()
        mapped = other.options.scoring.embeddings == "mapped"
        other._embedding_map = (self._embedding_map or other._fit_map()) if mapped else None
        return other

    def input_models(self, measures: Mapping[str, Measure]) -> InputModels:
        """All models that these measures may ask."""
        return replace(self.sources, similarity=self._similarity_for(measures))

    def _similarity_for(self, measures: Mapping[str, Measure]) -> SimilarityModel | None:
        return self._similarity() if needed_fields(measures.values()) & SIMILARITY_FIELDS else None

    def _checked_calibration(self) -> tuple[str, ...]:
        """What differs from what the calibration was made with; an error where it says nothing of these answers."""
        if self.risk is None:
            return ()
        return tuple(self.risk.check_setup(self.model.name, self.nli.name, self.method, self.options))

    def _format_warning(self, question: Question) -> list[str]:
        return self.risk.differing_format(question) if self.risk else []

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
            return self._ask(_checked(question, context), watch or self._watch)

    async def ask_async(
        self,
        question: str | Question,
        *,
        context: str | None = None,
        timeout: float | None = None,
        watch: Watch | None = None,
    ) -> Result:
        """The same for `await`. Cancelling it stops the work at its next step. `watch` is called in a thread."""
        work = partial(self.ask, question, context=context, timeout=timeout, watch=watch)
        return await in_thread(work, self._threads)

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max(self.in_flight, 1), thread_name_prefix="sdlg")

    def ask_many(self, questions: Iterable[str | Question], *, in_flight: int | None = None) -> Iterator[Result]:
        """One result after the other, in the questions' order; what the prompts share is only read once."""
        for _, answered in run_in_flight(self.ask, questions, self.in_flight if in_flight is None else in_flight):
            yield answered.result()

    def _ask(self, asked: Question, watch: Watch) -> Result:
        def report(
            stage: str, text: str, generation: Generation | None = None, substitution: Substitution | None = None
        ) -> None:
            check_limit()
            watch(Progress(stage, text, generation, substitution))

        sampled = self._sampler(Request(asked, self.model, self.nli, self.options, self._embedding_map, report))
        report("clusters", "")
        pairs, started = self.nli.pairs_run, time.perf_counter()
        clusters = cluster_answers(
            [generation.text for generation in sampled.generations],
            lambda asked_pairs: self.nli.judge(asked.text, asked_pairs),
            self.options.clustering,
        )
        spent = Cost(nli_pairs=self.nli.pairs_run - pairs, seconds={"clusters": time.perf_counter() - started})
        return self._result(asked, sampled, clusters, sampled.cost + spent)

    def _result(self, question: Question, sampled: Sampled, clusters: tuple[int, ...], cost: Cost) -> Result:
        started, able = time.perf_counter(), self.model.capabilities
        tokens = tuple(tuple(token_texts(generation.token_ids, self.model.text)) for generation in sampled.generations)
        drawn = samples_of(sampled.generations, sampled.substitutions, clusters, tokens)
        weights = normalised_weights(drawn, self.options.estimation.weighting)
        shares = cluster_probabilities(drawn, self.options.estimation)
        members = [tuple(n for n, c in enumerate(clusters) if c == number) for number in range(len(shares))]
        estimates: dict[str, Estimate] = estimate_all(drawn, self.options.estimation)
        measured = measure(drawn, question, self.measures, self.sources)
        estimates |= {name: found for name, found in measured.measures.items() if isinstance(found, Estimate)}
        reasons = [f"{name}: {found}" for name, found in measured.measures.items() if isinstance(found, str)]
        result = Result(
            question=question,
            model=self.model.name,
            nli=self.nli.name,
            method=self.method,
            preset=self.preset,
            options=self.options,
            words=sampled.words,
            samples=tuple(map(Sample, sampled.generations, clusters, weights, sampled.substitutions, tokens)),
            clusters=tuple(Cluster(number, share, members[number]) for number, share in enumerate(shares)),
            estimates=estimates,
            coverage=None if drawn.logprobs is None else coverage(drawn),
            evidence=inputs_dict(measured.samples) if self.measures else {},
            cost=cost + measured.cost + Cost(seconds={"estimates": time.perf_counter() - started - _spent(measured)}),
            notes=(
                *sampled.notes, *reasons, *able.shortcomings, *self._warnings, *self._format_warning(question)
            ),
            approximate=able.approximate,
            candidates=sampled.candidates,
        )  # fmt: skip
        return result if self.risk is None else replace(result, risk=self.risk.of(result))


class _Once:
    """Something that is made when it is first asked for, by whichever thread that is."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._turn = cache(make), Lock()

    def __call__(self) -> Any:
        with self._turn:
            return self._make()


def _spent(measured: Measured) -> float:
    return sum(measured.cost.seconds.values())


def _checked(question: str | Question, context: str | None) -> Question:
    asked = question if isinstance(question, Question) else Question(question)
    asked = asked if context is None else replace(asked, context=context)
    if not asked.text.strip():
        raise BadQuestion('the question is empty; type one, for example: sdlg ask "Who wrote Hamlet?"')
    if not is_unicode(f"{asked.text}{asked.context}"):
        raise BadQuestion("the question holds half a surrogate pair, which is no character")
    return asked


_loading = Lock()


@lru_cache(maxsize=1)
def _loaded(model: str, nli: str, **where: Any) -> tuple[LanguageModel, NliModel]:
    return load_model(model, **where), load_nli(nli, device=where["device"])


def ask(
    question: str | Question,
    *,
    model: ModelSource = DEFAULT_MODEL,
    nli: NliSource = DEFAULT_NLI,
    samples: int = 10,
    method: str = "sdlg",
    preset: str = "default",
    seed: int = 0,
    context: str | None = None,
    timeout: float | None = None,
    device: str | None = None,
    dtype: str | None = None,
    tokenizer: str | None = None,
    retry_seconds: float | None = None,
    measures: Sequence[str] = (),
    similarity_model: str | SimilarityModel = MINILM,
    other_models: Sequence[ModelSource] = (),
    calibration: CalibrationSource = None,
    **options: Any,
) -> Result:
    """Ask one question: `sdlg.ask("Who wrote Hamlet?")`. Models named as before stay loaded between calls.

    `samples` counts all sequences, the initial answer included. `timeout` is in seconds; `tokenizer` and
    `retry_seconds` are for models on servers. Further options are those of `sdlg.Options`, by name.
    """
    asked = _checked(question, context)
    options_from(preset, {"samples": samples, "seed": seed, **options})
    pick("method", SAMPLERS, method.replace("-", "_"))
    if isinstance(model, str) and isinstance(nli, str):
        with _loading:  # together, they would each load everything
            model, nli = _loaded(
                full_name(model), nli, device=device, dtype=dtype, tokenizer=tokenizer, retry_seconds=retry_seconds
            )
    pipeline = Pipeline(
        model, nli, method=method, preset=preset, device=device, dtype=dtype, measures=measures,
        similarity_model=similarity_model, other_models=other_models, calibration=calibration, samples=samples,
        seed=seed, **options,
    )  # fmt: skip
    return pipeline.ask(asked, timeout=timeout)


async def ask_async(question: str | Question, **named: Any) -> Result:
    """`ask` for `await`, with the same arguments: for servers and notebooks. Cancelling it stops the work."""
    return await in_thread(partial(ask, question, **named))
