"""The four stages of one question: generate → cluster → measure → judge. Each is a function of the records before it.

They depend on nothing but the plan, its models and the item, so the rows are the same in whatever order, process or
machine they are made. Sampling, clustering and measuring are those of `sdlg ask` and `sdlg score`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..clustering import PairMemory, cluster_answers
from ..correctness import Metric, judge
from ..datasets import Item
from ..errors import BadQuestion, PromptTooLong
from ..measures import Measure, MeasureInputs, inputs_of
from ..measures.inputs import ComputedInputs, InputModels, compute_inputs
from ..measures.measuring import explained, needed_fields
from ..measures.table import Unavailable, measure_all
from ..records import Estimate, Sample, Sampled
from ..sampling import SAMPLERS, InitialAnswer, SamplingRequest, initial_answer
from ..sampling.request import as_sample
from .plan import ALL_PAIRS, AT_HAND, Method, Plan, seeded
from .rows import ANSWER, Clustered, Generated, JudgedAnswer, MeasuredSamples, MethodClusters
from .run_models import RunModels

Counts = list[dict[str, Estimate | Unavailable]]  # measures with 1, 2, …, N samples

# -- generate ---------------------------------------------------------------------------------------------------


def generate(item: Item, models: RunModels) -> Generated:
    """The initial answer, and every method's samples; or why there are none."""
    question = item.question.text
    if item.fault:
        return Generated(question, skipped=item.fault)
    try:
        return _generated(item, models)
    except (PromptTooLong, BadQuestion) as error:
        return Generated(question, skipped=str(error))


def _generated(item: Item, models: RunModels) -> Generated:
    plan, model = models.plan, models.language_model
    methods = [seeded(method, plan.options.seed, item.id) for method in plan.all_methods]
    lowest = min(method.options.scoring.min_probability for method in methods)
    options = plan.options.updated(seed=methods[0].options.seed, min_probability=lowest)
    prompt = model.prompt(item.question, options.prompt, options.decoding.stop_rule)
    models.announce("answering")
    started = time.perf_counter()
    initial = initial_answer(model, prompt, options, lambda *_: None)
    sampled, seconds = {}, {ANSWER: time.perf_counter() - started}
    for method in methods:
        started = time.perf_counter()
        sampled[method.name] = _sampled(item, method, initial, models)
        seconds[method.name] = time.perf_counter() - started
    return Generated(
        question=item.question.text,
        answer=as_sample(model, initial.generation),
        methods=sampled,
        cost=initial.cost.from_cold(),
        parameters={"model": model.capabilities.parameters, "nli": models.nli.parameters},
        seconds=seconds,
    )


def _sampled(item: Item, method: Method, initial: InitialAnswer, models: RunModels) -> Sampled:
    models.announce(f"sampling by {method.name}")
    mapped = models.embedding_map if method.options.scoring.embeddings == "mapped" else None
    options = method.options.updated(draws=0)  # measures are of the samples; draws beside them would only cost
    request = SamplingRequest(item.question, models.language_model, models.nli, options, mapped, answer=initial)
    sampled = SAMPLERS[method.sampler](request)
    return replace(sampled, cost=sampled.cost.from_cold())


# -- cluster ----------------------------------------------------------------------------------------------------


def cluster(item: Item, generated: Generated, models: RunModels) -> Clustered:
    """The clusters, and what the NLI model says of the pairs that they and the measures need."""
    models.announce("comparing meanings")
    started = time.perf_counter()
    question, plan, memory = item.question.text, models.plan, PairMemory(models.nli.judge)
    methods = {}
    for name, sampled in generated.methods.items():
        if plan.needs_all_pairs(name):
            memory.judge_all(question, sampled.texts)
        clusters = cluster_answers(question, sampled.texts, memory.judge, plan.options.clustering, nli=plan.nli)
        methods[name] = MethodClusters(memory.table(sampled.texts), clusters.numbers)
    return Clustered(methods, len(memory.known), time.perf_counter() - started)


# -- measure ----------------------------------------------------------------------------------------------------


def missing_measures(plan: Plan, method: str, had: Mapping[str, object]) -> dict[str, dict[str, Measure]]:
    """Suffix of a clustering → the measures that are still to be made with it."""
    missing = {}
    for suffix in plan.all_clusterings:
        wanted = {
            name: measure
            for name, measure in plan.measures_of(method).items()
            if f"{name}{suffix}" not in had and (not suffix or "clusters" in measure.needs)
        }
        if wanted:
            missing[suffix] = wanted
    return missing


def measure(
    item: Item, generated: Generated, clustered: Clustered, had: MeasuredSamples, models: RunModels
) -> MeasuredSamples | None:
    """Every measure of every method with the first 1, 2, …, N samples; only those that are not there yet."""
    models.announce("measuring")
    values, reasons, p_true = {}, {}, None
    memory = PairMemory(lambda *asked: models.nli.judge(*asked))
    for name, sampled in generated.methods.items():
        clustered.methods[name].table.remembered_in(memory, sampled.texts)
    for name, sampled in generated.methods.items():
        if missing := missing_measures(models.plan, name, had.values.get(name, {})):
            measuring = _Measuring(item, generated, sampled, clustered.methods[name], models, memory, p_true)
            values[name], reasons[name] = measuring.all(missing)
            p_true = measuring.p_true
    return MeasuredSamples(values, reasons) if values else None


class _Measuring:
    """One method's samples, measured."""

    def __init__(
        self,
        item: Item,
        generated: Generated,
        sampled: Sampled,
        clusters: MethodClusters,
        models: RunModels,
        memory: PairMemory,
        p_true: float | None,
    ) -> None:
        self._question, self._models, self._memory = item.question, models, memory
        self.p_true = p_true  # of the answer, so of all methods, once it is known
        self._texts = sampled.texts
        self._inputs = replace(inputs_of(sampled.samples), clusters=clusters.clusters)
        assert generated.answer is not None
        self._about_answer = self._beginning_with(generated.answer, sampled.samples)

    def _beginning_with(self, answer: Sample, samples: Sequence[Sample]) -> MeasureInputs:
        """The initial answer, which is the one that is judged, and as many samples as make N with it.

        Where it is the first sample already, that is all samples, with everything that is known of them.
        """
        if samples[0].generation.identity == answer.generation.identity:
            return self._inputs
        return replace(inputs_of([answer, *samples[:-1]]), clusters=None)

    def all(self, missing: Mapping[str, Mapping[str, Measure]]) -> tuple[dict[str, list[float | None]], dict[str, str]]:
        """Values for each number of samples, and why some measures have none."""
        values: dict[str, list[float | None]] = {}
        reasons: dict[str, str] = {}
        for suffix, wanted in missing.items():
            for inputs, clusters, measures in self._parts(suffix, wanted):
                computed = self._compute(inputs, clusters, measures)
                counts = self._counts(computed.inputs, clusters, measures)
                for name, measure in measures.items():
                    values[f"{name}{suffix}"] = [_value(at_count[name]) for at_count in counts]
                    last = counts[-1][name]
                    if isinstance(last, Unavailable):
                        reasons[f"{name}{suffix}"] = explained(last, measure, computed.reasons)
        return values, reasons

    def _parts(
        self, suffix: str, wanted: Mapping[str, Measure]
    ) -> list[tuple[MeasureInputs, list[tuple[int, ...]] | None, dict[str, Measure]]]:
        """Measures of the samples and of the answer, each with what they are about and its clusters, if they matter."""
        parts = []
        found: dict[tuple[str, ...], list[tuple[int, ...]]] = {}  # of SDLG the answer is the first sample
        for inputs, of_answer in ((self._inputs, False), (self._about_answer, True)):
            measures = {name: measure for name, measure in wanted.items() if measure.of_answer == of_answer}
            texts = inputs.texts or ()
            if "clusters" in needed_fields(measures.values()) and texts not in found:
                found[texts] = self._clusters_by_count(texts, suffix)
            if measures:
                parts.append((inputs, found.get(texts), measures))
        return parts

    def _clusters_by_count(self, texts: Sequence[str], suffix: str) -> list[tuple[int, ...]]:
        """Clusters of the first 1, 2, … answers. Not the beginning of all clusters: a later answer may join two."""
        plan, judge = self._models.plan, self._memory.judge  # it asks no pair again
        clustering = plan.all_clusterings[suffix]
        return [
            cluster_answers(self._question.text, texts[:n], judge, clustering, nli=plan.nli).numbers
            for n in range(1, len(texts) + 1)
        ]

    def _compute(
        self, inputs: MeasureInputs, clusters: list[tuple[int, ...]] | None, measures: Mapping[str, Measure]
    ) -> ComputedInputs:
        """What these measures need, under these clusters: an assessment is about them."""
        needed, plan = needed_fields(measures.values()), self._models.plan
        model = self._models.language_model if needed - AT_HAND else None
        inputs = replace(inputs, clusters=clusters[-1] if clusters else None)
        if needed & ALL_PAIRS:
            inputs = self._with_all_pairs(inputs)
        models = InputModels(model, None, self._models.similarity, (), plan.options.prompt)
        computed = compute_inputs(replace(inputs, p_true=self.p_true), self._question, needed, models)
        self.p_true = computed.inputs.p_true
        return computed

    def _with_all_pairs(self, inputs: MeasureInputs) -> MeasureInputs:
        """With what the NLI model says of every two answers, asked where it is not known yet."""
        texts = inputs.texts or ()
        self._memory.judge_all(self._question.text, texts)
        table = self._memory.table(texts)
        return replace(
            inputs,
            entailment=table.of_answers(table.entailment),
            contradiction=table.of_answers(table.contradiction),
        )

    def _counts(
        self, inputs: MeasureInputs, clusters: list[tuple[int, ...]] | None, measures: Mapping[str, Measure]
    ) -> Counts:
        counts: Counts = []
        for n in range(1, len(self._texts) + 1):
            part = inputs.first(n)
            counts.append(measure_all(replace(part, clusters=clusters[n - 1]) if clusters else part, measures))
        return counts + [counts[-1]] * (self._models.plan.options.samples - len(counts))


def _value(value: Estimate | Unavailable) -> float | None:
    return value.value if isinstance(value, Estimate) else None


# -- judge ------------------------------------------------------------------------------------------------------


def judge_answer(item: Item, generated: Generated, metrics: Sequence[Metric]) -> JudgedAnswer:
    """How right the initial answer is."""
    assert generated.answer is not None
    answer, every = generated.answer.text, (*item.references, *item.stock_references)
    without_stock = None
    if item.stock_references and item.references:
        without_stock = judge(answer, item.references, item.false_references, metrics, question=item.question.text)
    scores = judge(answer, every, item.false_references, metrics, question=item.question.text)
    return JudgedAnswer(scores, every[0], without_stock)
