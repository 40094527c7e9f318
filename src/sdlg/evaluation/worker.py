"""What a run makes of one question: generate (samples and their clusters) → measure → judge.

In: an item and the rows it has already. Out: the rows that are missing. Sampling, clustering and measuring are those
of `sdlg ask`. They depend on nothing but the plan, its models and the item, so the rows are the same in whatever order,
process or machine they are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..clustering import PairMemory, cluster_answers
from ..errors import BadQuestion, PromptTooLong
from ..loaded import Models
from ..measures import inputs_of
from ..measures.measuring import Measurements, measure, measure_all, needed_fields
from ..measures.shares import counted
from ..measures.table import find_measure
from ..options import DEFAULT_NLI, NONE
from ..pipeline import Pipeline
from ..records import Draws, Question, Sample, Sampled
from ..sampling import initial_answer
from ..sampling.request import as_sample
from .correctness import Metric, judge, load_metrics
from .datasets import Item
from .plan import Plan
from .store import ANSWER, CLUSTERS, STAGES, GeneratedRow, JudgedRow, MeasuredRow, QuestionRows

Announce = Callable[[str], None]  # what is being done


def silent(_: str) -> None:
    """Announce nothing."""


def is_complete(plan: Plan, rows: QuestionRows, stages: Sequence[str] = STAGES) -> bool:
    """Whether these stages have nothing left to do for a question."""
    if "generate" in rows and rows["generate"].skipped:
        return True
    lacks = {
        "generate": "generate" not in rows,
        "measure": bool(_missing_measures(plan, rows)),
        "judge": bool(_missing_metrics(plan, rows)),
    }
    return not any(lacks[stage] for stage in stages)


def _missing_measures(plan: Plan, rows: QuestionRows) -> dict[str, tuple[str, ...]]:
    """Method → measures that it does not have yet."""
    had = rows["measure"].values if "measure" in rows else {}
    missing = {
        name: tuple(measure for measure in plan.measures_of(name) if measure not in had.get(name, {}))
        for name in plan.methods
    }
    return {name: measures for name, measures in missing.items() if measures}


def _missing_metrics(plan: Plan, rows: QuestionRows) -> set[str]:
    return set(plan.metrics) - (rows["judge"].scores.keys() if "judge" in rows else set())


class Worker:
    """A plan and its models, for one question after the other, or for several threads."""

    def __init__(self, plan: Plan, models: Models | None = None, announce: Announce = silent) -> None:
        self.plan, self.announce = plan, announce
        self.models = models or Models(plan.model, plan.nli, plan.loading)
        self._pipeline = Pipeline(models=self.models, options=plan.options, calibration=NONE)

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """By which answers are judged."""
        nli = self.models.nli if self.plan.nli == DEFAULT_NLI else None  # another would be another judge of right
        return load_metrics(self.plan.metrics, bleurt=self.plan.bleurt, device=self.plan.loading.device, nli=nli)

    def work(self, item: Item, have: QuestionRows, stages: Sequence[str] = STAGES) -> QuestionRows:
        """Return the missing rows of an item."""
        new: QuestionRows = {}
        if "generate" in stages and "generate" not in have:
            new["generate"] = self._generate(item)
        generated = new.get("generate", have.get("generate"))
        if generated is None or generated.skipped:
            return new
        if "measure" in stages and (missing := _missing_measures(self.plan, have)):
            self.announce("measuring")
            new["measure"] = _Measuring(item.question, generated, self).all(missing)
        if "judge" in stages and (names := _missing_metrics(self.plan, have)):
            self.announce("judging")
            new["judge"] = judge_answer(item, generated, [metric for metric in self.metrics if metric.name in names])
        return new

    # -- generate -------------------------------------------------------------------------------------------------

    def _generate(self, item: Item) -> GeneratedRow:
        question = item.question.text
        if item.fault:
            return GeneratedRow(item.id, question, skipped=item.fault)
        try:
            return self._generated(item)
        except (PromptTooLong, BadQuestion) as error:
            return GeneratedRow(item.id, question, skipped=str(error))

    def _generated(self, item: Item) -> GeneratedRow:
        model, methods = self.models.language_model, self.plan.all_methods
        lowest = min(method.options.min_probability for method in methods)
        options = methods[0].for_question(item.id)
        options = self.plan.options.updated(seed=options.seed, min_probability=lowest)
        self.announce("answering")
        started = time.perf_counter()
        prompt = model.prompt(item.question, options.prompt, options.decoding.stop_rule)
        initial = initial_answer(model, prompt, options, lambda *_: None)
        seconds = {ANSWER: time.perf_counter() - started}
        memory, sampled, pairs = PairMemory(self.models.nli.judge), {}, {}
        for method in methods:
            self.announce(f"sampling by {method.name}")
            pipeline = self._pipeline.changed(method=method.sampler, options=method.for_question(item.id))
            started = time.perf_counter()
            made = pipeline.sample(item.question, answer=initial)
            seconds[method.name] = time.perf_counter() - started
            started = time.perf_counter()
            if self.plan.needs_all_pairs(method.name):
                memory.judge_all(item.question.text, made.texts)
            sampled[method.name] = _stored(pipeline.cluster(item.question, made, memory.judge))
            pairs[method.name] = memory.table(_all_texts(made))
            seconds[CLUSTERS] = seconds.get(CLUSTERS, 0.0) + time.perf_counter() - started
        return GeneratedRow(
            id=item.id,
            question=item.question.text,
            answer=_without_steps(as_sample(model, initial.generation)),
            methods=sampled,
            pairs=pairs,
            nli_pairs=len(memory.known),
            cost=initial.cost.from_cold(),
            parameters={"model": model.capabilities.parameters, "nli": self.models.nli.parameters},
            seconds=seconds,
        )


def _all_texts(sampled: Sampled) -> tuple[str, ...]:
    return (*sampled.texts, *(draw.text for draw in sampled.draws_beside))


def _stored(sampled: Sampled) -> Sampled:
    """Return what a run keeps: no alternatives, no candidates that were not tried, costs that depend on no order."""
    samples = tuple(map(_without_steps, sampled.samples))
    draws = sampled.draws
    if draws is not None:
        draws = replace(draws, samples=tuple(map(_without_steps, draws.samples)) if draws.beside else samples)
    return replace(sampled, samples=samples, draws=draws, candidates=(), cost=sampled.cost.from_cold())


def _without_steps(sample: Sample) -> Sample:
    return replace(sample, generation=replace(sample.generation, alternatives=()))


# -- measure ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """Answers to measure, and the measures."""

    samples: tuple[Sample, ...]
    draws: Draws | None
    measures: tuple[str, ...]


class _Measuring:
    """Every method of one question with the first 1, 2, …, N samples."""

    def __init__(self, question: Question, generated: GeneratedRow, worker: Worker) -> None:
        self._question, self._generated, self._plan = question, generated, worker.plan
        self._models = worker.models.for_measures(worker.plan.options.prompt, worker.plan.options.clustering)
        self._memory = PairMemory(lambda *asked: worker.models.nli.judge(*asked))  # loaded if a pair is new
        for name, sampled in generated.methods.items():
            generated.pairs[name].remembered_in(self._memory, _all_texts(sampled))
        self._nli = worker.models.nli_name
        self._p_true: float | None = None  # of the answer, so of all methods, once it is known

    def all(self, missing: Mapping[str, tuple[str, ...]]) -> MeasuredRow:
        """Measure what is missing: values for each number of samples, and why some measures have none."""
        values: dict[str, dict[str, tuple[float | None, ...]]] = {}
        reasons: dict[str, dict[str, str]] = {}
        for method, names in missing.items():
            values[method], reasons[method] = {}, {}
            for part in self._parts(self._generated.methods[method], names):
                counts = self._counts(part)
                for name in part.measures:
                    found = [at_count.estimates.get(name) for at_count in counts]
                    values[method][name] = tuple(None if one is None else one.value for one in found)
                reasons[method] |= counts[-1].reasons
        return MeasuredRow(self._generated.id, values, reasons)

    def _parts(self, sampled: Sampled, names: tuple[str, ...]) -> list[_Part]:
        """Some measures are about the answer: it then comes first, with as many samples as make N with it."""
        answer = self._generated.answer
        assert answer is not None
        sampled = counted(sampled, self._plan.options.clustering)
        if sampled.samples[0].generation.identity == answer.generation.identity:
            return [_Part(sampled.samples, sampled.draws, names)]
        about = tuple(name for name in names if find_measure(name).of_answer)
        others = tuple(name for name in names if name not in about)
        parts = [_Part(sampled.samples, sampled.draws, others), _Part((answer, *sampled.samples[:-1]), None, about)]
        return [part for part in parts if part.measures]

    def _counts(self, part: _Part) -> list[Measurements]:
        """With 1, 2, …, N samples. What models must be asked is asked of all N."""
        size, needed = len(part.samples), needed_fields(part.measures)
        texts = tuple(sample.text for sample in part.samples)
        inputs = replace(inputs_of(part.samples, part.draws), p_true=self._p_true, clusters=None)
        if "entailment" in needed:
            self._memory.judge_all(self._question.text, texts)
            table = self._memory.table(texts)
            inputs = replace(inputs, entailment=table.of_answers(table.entailment))
        clustered = [self._clustered(part, n) if "clusters" in needed else {} for n in range(1, size + 1)]
        whole = measure(replace(inputs, **clustered[-1]), self._question, part.measures, self._models)
        self._p_true = whole.inputs.p_true
        fewer = [measure_all(replace(whole.inputs.first(n), **clustered[n - 1]), part.measures) for n in range(1, size)]
        return [*fewer, *[whole] * (self._plan.options.samples - len(fewer))]

    def _clustered(self, part: _Part, count: int) -> dict[str, Any]:
        """Return clusters of the first answers and of the draws. Later answers may join two clusters."""
        beside = part.draws.samples if part.draws is not None and part.draws.beside else ()
        texts = [sample.text for sample in (*part.samples[:count], *beside)]
        judge, clustering = self._memory.judge, self._plan.options.clustering
        numbers = cluster_answers(self._question.text, texts, judge, clustering, nli=self._nli).numbers
        if part.draws is None or not beside:
            return {"clusters": numbers}
        drawn = tuple(replace(draw, cluster=n) for draw, n in zip(beside, numbers[count:], strict=True))
        return {"clusters": numbers[:count], "draws": replace(part.draws, samples=drawn)}


# -- judge ------------------------------------------------------------------------------------------------------


def judge_answer(item: Item, generated: GeneratedRow, metrics: Sequence[Metric]) -> JudgedRow:
    """Return how right the initial answer is."""
    assert generated.answer is not None
    answer, every = generated.answer.text, (*item.references, *item.stock_references)
    scores = judge(answer, every, item.false_references, metrics, question=item.question.text)
    without_stock = None
    if item.stock_references and item.references:
        without_stock = judge(answer, item.references, item.false_references, metrics, question=item.question.text)
    return JudgedRow(item.id, scores, without_stock)
