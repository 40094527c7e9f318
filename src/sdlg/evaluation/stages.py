"""The four stages of one question: generate → cluster → measure → judge. Each reads the rows of those before it.

In: an item and the rows it has already. Out: the rows that are missing. A `Worker` depends on nothing but its plan and
the item, so the rows are the same in whatever order, process or machine they are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..clustering import Judge, answer_key, cluster_answers, distinct_answers
from ..correctness import Metric, judge, load_metrics
from ..datasets import Item
from ..errors import BadQuestion, PromptTooLong
from ..formats.answers import samples_from
from ..formats.results import generation_dict
from ..measures.base import Measure, MeasureInputs
from ..measures.inputs import InputModels, compute_inputs
from ..measures.measuring import SIMILARITY_FIELDS, explained, needed_fields
from ..measures.table import measure_all
from ..models import LanguageModel, load_model
from ..nli import NliModel, load_nli
from ..nli.base import NliProbabilities
from ..records import Cost, Estimate, Generation
from ..sampling import SAMPLERS, Answered, Request, Sampled, initial_answer
from ..scoring import EmbeddingMap
from ..scoring.alignment import token_texts
from ..scoring.mapping import fit_embedding_map
from ..similarity import SimilarityModel, load_similarity
from .plan import AT_HAND, Method, Plan, seeded
from .store import STAGES, StageRow, merged

StageRows = Mapping[str, StageRow]  # stage → row
Tell = Callable[[str], None]  # what is being done


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Where models run and how they are reached. Does not shape the rows, so it is not part of the plan."""

    device: str | None = None
    tokenizer: str | None = None  # the rest is for models on servers
    retry_seconds: float | None = None
    in_flight: int | None = None  # questions at once; None: what fills the model


def _silent(_: str) -> None:
    """Nobody is listening."""


class Worker:
    """A plan and its models, each loaded when it is first needed."""

    def __init__(self, plan: Plan, runtime: RuntimeConfig = RuntimeConfig(), tell: Tell = _silent) -> None:  # noqa: B008 (frozen)
        self.plan, self._runtime, self._tell = plan, runtime, tell

    # -- models -------------------------------------------------------------------------------------------------

    @cached_property
    def model(self) -> LanguageModel:
        """The language model."""
        self._tell(f"loading the language model {self.plan.model}")
        runtime = self._runtime
        return load_model(
            self.plan.model, device=runtime.device, dtype=self.plan.dtype, tokenizer=runtime.tokenizer,
            retry_seconds=runtime.retry_seconds,
        )  # fmt: skip

    @cached_property
    def nli(self) -> NliModel:
        """The NLI model."""
        self._tell(f"loading the NLI model {self.plan.nli}")
        return load_nli(self.plan.nli, device=self._runtime.device)

    @cached_property
    def _similarity(self) -> SimilarityModel | None:
        if not needed_fields(self.plan.all_measures.values()) & SIMILARITY_FIELDS:
            return None
        self._tell(f"loading the similarity model {self.plan.similarity_model}")
        return load_similarity(self.plan.similarity_model, device=self._runtime.device)

    @cached_property
    def _metrics(self) -> tuple[Metric, ...]:
        return load_metrics(self.plan.metrics, bleurt=self.plan.bleurt, device=self._runtime.device)

    @cached_property
    def _embedding_map(self) -> EmbeddingMap:
        return fit_embedding_map(self.model, self.nli)

    def load(self, stages: tuple[str, ...]) -> None:
        """Load now what these stages need: threads that came upon it together would each load it."""
        mapped = any(method.options.scoring.embeddings == "mapped" for method in self.plan.all_methods)
        needed = {
            "model": "generate" in stages,
            "nli": bool({"generate", "cluster"} & set(stages)),
            "_embedding_map": "generate" in stages and mapped,
            "_similarity": "measure" in stages,
            "_metrics": "judge" in stages,
        }
        for name in (name for name, is_needed in needed.items() if is_needed):
            getattr(self, name)

    # -- the work -----------------------------------------------------------------------------------------------

    def work(self, item: Item, have: StageRows, stages: tuple[str, ...] = STAGES) -> list[tuple[str, StageRow]]:
        """The missing rows of an item, stage by stage."""
        rows, new = dict(have), []
        for stage in stages:
            if any(needed not in rows for needed in NEEDS[stage]) or "skipped" in rows.get("generate", {}):
                break
            made = _WORK[stage](self, item, rows)
            if made is not None:
                new.append((stage, {"id": item.id, **made}))
                rows[stage] = merged(rows.get(stage, {}), made)
        return new

    def generate(self, item: Item, rows: StageRows) -> StageRow | None:
        """The initial answer, and every method's samples; or why there are none."""
        if "generate" in rows:
            return None
        asked = {"question": item.question.text}
        if item.fault:
            return {**asked, "skipped": item.fault}
        started = time.perf_counter()
        try:
            return {**asked, **self._generated(item), "seconds": time.perf_counter() - started}
        except (PromptTooLong, BadQuestion) as error:
            return {**asked, "skipped": str(error)}

    def _generated(self, item: Item) -> StageRow:
        methods = [seeded(method, self.plan.options.seed, item.id) for method in self.plan.all_methods]
        lowest = min(method.options.scoring.min_probability for method in methods)
        options = self.plan.options.updated(seed=methods[0].options.seed, min_probability=lowest)
        prompt = self.model.prompt(item.question, options.prompt, options.decoding.stop_rule)
        self._tell("answering")
        answered = initial_answer(self.model, prompt, options, lambda *_: None)
        found = {method.name: self._sampled(item, method, answered) for method in methods}
        sizes = {"model": self.model.capabilities.parameters, "nli": self.nli.parameters}
        return {
            "answer": {**self._generation(answered.generation), "unseen": list(answered.generation.truncated_mass)},
            "cost": _cost_dict(answered.cost),
            "parameters": sizes,
            "methods": found,
        }

    def _sampled(self, item: Item, method: Method, answered: Answered) -> StageRow:
        self._tell(f"sampling by {method.name}")
        mapped = self._embedding_map if method.options.scoring.embeddings == "mapped" else None
        request = Request(item.question, self.model, self.nli, method.options, mapped, answer=answered)
        sampled: Sampled = SAMPLERS[method.sampler](request)
        samples = [
            {**self._generation(generation), "substitution": None if change is None else asdict(change)}
            for generation, change in zip(sampled.generations, sampled.substitutions, strict=True)
        ]
        words = [asdict(word) for word in sampled.words]
        return {"samples": samples, "words": words, "cost": _cost_dict(sampled.cost), "notes": list(sampled.notes)}

    def _generation(self, generation: Generation) -> StageRow:
        return {**generation_dict(generation), "tokens": token_texts(generation.token_ids, self.model.text)}

    def cluster(self, item: Item, rows: StageRows) -> StageRow | None:
        """What the NLI model says of every ordered pair of distinct answers, and the clusters."""
        if "cluster" in rows:
            return None
        self._tell("comparing meanings")
        known: dict[tuple[str, str], NliProbabilities] = {}
        started = time.perf_counter()
        found = {
            name: self._clustered(item, [sample["text"] for sample in sampled["samples"]], known)
            for name, sampled in rows["generate"]["methods"].items()
        }
        return {"methods": found, "nli_pairs": len(known), "seconds": time.perf_counter() - started}

    def _clustered(self, item: Item, texts: list[str], known: dict[tuple[str, str], NliProbabilities]) -> StageRow:
        by_key = distinct_answers(texts)
        distinct, keys = list(by_key.values()), list(by_key)
        pairs = [(one, other) for one in distinct for other in distinct if one != other]
        asked = [pair for pair in pairs if pair not in known]
        known.update(zip(asked, self.nli.judge(item.question.text, asked), strict=True))
        row = {
            "distinct": [keys.index(answer_key(text)) for text in texts],
            "entailment": _matrix(distinct, known, "entailment"),
            "contradiction": _matrix(distinct, known, "contradiction"),
        }
        return {**row, "clusters": clusters_of(row, texts, self.plan)}

    def measure(self, item: Item, rows: StageRows) -> StageRow | None:
        """Every measure of every method with the first 1, 2, …, N samples; only those that are not there yet."""
        had = rows.get("measure", {}).get("values", {})
        self._tell("measuring")
        values: dict[str, StageRow] = {}
        reasons: dict[str, StageRow] = {}
        for name, sampled in rows["generate"]["methods"].items():
            missing = missing_measures(self.plan, name, had.get(name, {}))
            if missing:
                samples = known_samples(sampled, rows["cluster"]["methods"][name])
                values[name], reasons[name] = self._measured(item, samples, missing, rows, name)
        return {"values": values, "reasons": reasons} if values else None

    def _measured(
        self, item: Item, samples: MeasureInputs, missing: dict[str, dict[str, Measure]], rows: StageRows, method: str
    ) -> tuple[StageRow, StageRow]:
        every = {name: measure for wanted in missing.values() for name, measure in wanted.items()}
        needed = needed_fields(every.values())
        model = self.model if needed - AT_HAND else None
        sources = InputModels(model, None, self._similarity, (), self.plan.options.prompt, self.plan.options.clustering)
        computed = compute_inputs(samples, item.question, needed, sources)
        texts = [sample["text"] for sample in rows["generate"]["methods"][method]["samples"]]
        values: StageRow = {}
        reasons: StageRow = {}
        for suffix, wanted in missing.items():
            clusters = self._clusters(rows["cluster"]["methods"][method], texts, suffix)
            per_count = [
                measure_all(replace(computed.samples.first(n), clusters=clusters[n - 1]), wanted)
                for n in range(1, len(texts) + 1)
            ]
            per_count += [per_count[-1]] * (self.plan.options.samples - len(texts))
            for name in wanted:
                found = [at_count[name] for at_count in per_count]
                values[f"{name}{suffix}"] = [_number(one) for one in found]
                if not isinstance(found[-1], Estimate):
                    reasons[f"{name}{suffix}"] = explained(found[-1], every[name], computed.reasons)
        return values, reasons

    def _clusters(self, row: StageRow, texts: list[str], suffix: str) -> list[tuple[int, ...]]:
        """Clusters of the first 1, 2, … samples. Not the beginning of all clusters: a later answer may join two."""
        lookup, clustering = verdicts(row, texts), self.plan.all_clusterings[suffix]
        return [cluster_answers(texts[:n], lookup, clustering) for n in range(1, len(texts) + 1)]

    def judge(self, item: Item, rows: StageRows) -> StageRow | None:
        """How right the initial answer is, by every metric that is not there yet."""
        had = rows.get("judge", {}).get("scores", {})
        metrics = [metric for metric in self._metrics if metric.name not in had]
        if not metrics:
            return None
        self._tell("judging")
        answer = rows["generate"]["answer"]["text"]
        every = (*item.references, *item.stock_references)
        row: StageRow = {"scores": judge(answer, every, item.false_references, metrics), "reference": every[0]}
        if item.stock_references and item.references:
            row["scores_without_stock"] = judge(answer, item.references, item.false_references, metrics)
        return row


NEEDS: Mapping[str, tuple[str, ...]] = {
    "generate": (),
    "cluster": ("generate",),
    "measure": ("generate", "cluster"),
    "judge": ("generate",),
}
_WORK: Mapping[str, Callable[[Worker, Item, StageRows], StageRow | None]] = {
    "generate": Worker.generate,
    "cluster": Worker.cluster,
    "measure": Worker.measure,
    "judge": Worker.judge,
}


def missing_measures(plan: Plan, method: str, had: Mapping[str, Any]) -> dict[str, dict[str, Measure]]:
    """Suffix of a clustering → the measures that are still to be made with it."""
    found = {}
    for suffix in plan.all_clusterings:
        wanted = {
            name: measure
            for name, measure in plan.measures_of(method).items()
            if f"{name}{suffix}" not in had and (not suffix or "clusters" in measure.needs)
        }
        if wanted:
            found[suffix] = wanted
    return found


def is_complete(plan: Plan, rows: StageRows, stages: tuple[str, ...] = STAGES) -> bool:
    """Whether these stages have nothing left to do for a question."""
    if "skipped" in rows.get("generate", {}):
        return True
    values = rows.get("measure", {}).get("values", {})
    lacks = {
        "generate": "generate" not in rows,
        "cluster": "cluster" not in rows,
        "measure": any(missing_measures(plan, method, values.get(method, {})) for method in plan.methods),
        "judge": not set(plan.metrics) <= rows.get("judge", {}).get("scores", {}).keys(),
    }
    return not any(lacks[stage] for stage in stages)


# -- rows and records -------------------------------------------------------------------------------------------


def verdicts(row: StageRow, texts: list[str]) -> Judge:
    """A judge that looks up what the NLI model said when the answers were clustered."""
    place = dict(zip(map(answer_key, texts), row["distinct"], strict=True))

    def look_up(pairs: Any) -> list[NliProbabilities]:
        runtime = [(place[answer_key(one)], place[answer_key(other)]) for one, other in pairs]
        return [_verdict(row["entailment"][i][j], row["contradiction"][i][j]) for i, j in runtime]

    return look_up


def _verdict(entailment: float, contradiction: float) -> NliProbabilities:
    return NliProbabilities(contradiction, max(1.0 - entailment - contradiction, 0.0), entailment)


def clusters_of(row: StageRow, texts: list[str], plan: Plan) -> list[int]:
    """Cluster numbers under the run's own clustering."""
    return list(cluster_answers(texts, verdicts(row, texts), plan.options.clustering))


def known_samples(sampled: StageRow, clustered: StageRow) -> MeasureInputs:
    """All that the stores know of a method's samples."""
    answers = sampled["samples"]
    samples = samples_from(answers)
    rows = np.ix_(clustered["distinct"], clustered["distinct"])
    return replace(
        samples,
        identities=tuple((*answer["token_ids"], answer["stop_reason"]) for answer in answers),
        branchings=samples.branchings or ((None,) if len(samples) == 1 else None),
        clusters=tuple(clustered["clusters"]),
        entailment=np.array(clustered["entailment"], dtype=np.float64)[rows],
        contradiction=np.array(clustered["contradiction"], dtype=np.float64)[rows],
    )


def _matrix(texts: list[str], known: Mapping[tuple[str, str], NliProbabilities], label: str) -> list[list[float]]:
    same = 1.0 if label == "entailment" else 0.0
    return [[same if a == b else round(getattr(known[a, b], label), 7) for b in texts] for a in texts]


def _cost_dict(cost: Cost) -> StageRow:
    """As from a cold start: what was there already from earlier questions and methods counts, too."""
    return {
        "prompt_tokens": cost.prompt_tokens,
        "generated_tokens": cost.generated_tokens,
        "forward_tokens": cost.forward_tokens + cost.reused_tokens,
        "nli_gradients": cost.nli_gradients,
    }


def _number(found: object) -> float | None:
    return found.value if isinstance(found, Estimate) else None
