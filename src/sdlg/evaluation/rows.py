"""What each stage of a run makes of a question, as records and as the rows in which a run keeps them.

A run's files hold one JSON object per question and stage; samples are written as results write them. Rows of older
runs are read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from ..clustering import PairTable
from ..errors import BadQuestion, RunError
from ..formats.codec import cost_dict, read_cost, read_sampled, read_samples, sample_dict, sampled_dict
from ..records import Cost, Sample, Sampled

ANSWER = "answer"  # among the seconds; no method is called so
StageRow = dict[str, Any]
Values = Mapping[str, Mapping[str, list[float | None]]]  # method → measure → its value with 1, 2, …, N samples
Reasons = Mapping[str, Mapping[str, str]]  # method → measure → why it has no value


@dataclass(frozen=True, slots=True)
class Generated:
    """The initial answer and every method's samples; or why the question was skipped."""

    question: str
    answer: Sample | None = None
    methods: Mapping[str, Sampled] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)  # of the initial answer
    parameters: Mapping[str, int | None] = field(default_factory=dict)
    skipped: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)  # of the answer, and of each method's samples


@dataclass(frozen=True, slots=True)
class MethodClusters:
    """What the NLI model says of a method's answers, and the clusters that this makes under the run's own options."""

    table: PairTable
    clusters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Clustered:
    """The clusters of every method's samples."""

    methods: Mapping[str, MethodClusters]
    nli_pairs: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuredSamples:
    """Measures of every method's samples. Later ones add to earlier ones."""

    values: Values = field(default_factory=dict)
    reasons: Reasons = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """How right the initial answer is, by each metric. Later metrics add to earlier ones."""

    scores: Mapping[str, float]
    reference: str
    scores_without_stock: Mapping[str, float] | None = None  # None: there are no stock references


# -- rows of records --------------------------------------------------------------------------------------------


def generated_row(generated: Generated) -> StageRow:
    """For generate.jsonl."""
    if generated.answer is None:
        return {"question": generated.question, "skipped": generated.skipped}
    answer = generated.answer
    return {
        "question": generated.question,
        "answer": {**sample_dict(answer), "truncated_mass": list(answer.generation.truncated_mass)},
        "cost": cost_dict(generated.cost),
        "parameters": dict(generated.parameters),
        "methods": {name: sampled_dict(sampled) for name, sampled in generated.methods.items()},
        "seconds": dict(generated.seconds),
    }


def clustered_row(clustered: Clustered) -> StageRow:
    """For cluster.jsonl."""
    methods = {
        name: {
            "distinct": list(method.table.distinct),
            "entailment": [list(row) for row in method.table.entailment],
            "contradiction": [list(row) for row in method.table.contradiction],
            "clusters": list(method.clusters),
        }
        for name, method in clustered.methods.items()
    }
    return {"methods": methods, "nli_pairs": clustered.nli_pairs, "seconds": clustered.seconds}


def measured_row(measured: MeasuredSamples) -> StageRow:
    """For measure.jsonl."""
    return {
        "values": {method: dict(values) for method, values in measured.values.items()},
        "reasons": {method: dict(reasons) for method, reasons in measured.reasons.items()},
    }


def judged_row(judged: JudgedAnswer) -> StageRow:
    """For judge.jsonl."""
    row: StageRow = {"scores": dict(judged.scores), "reference": judged.reference}
    if judged.scores_without_stock is not None:
        row["scores_without_stock"] = dict(judged.scores_without_stock)
    return row


Read = TypeVar("Read")


def _told(read: Callable[[StageRow], Read]) -> Callable[[StageRow], Read]:
    """A row that cannot be what was written is told with what to do, whatever is wrong with it."""

    @wraps(read)
    def read_or_tell(row: StageRow) -> Read:
        try:
            return read(row)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, BadQuestion) as error:
            raise RunError(
                f"a row of question {row.get('id')!r} is damaged ({type(error).__name__}: {error}); remove its lines "
                "and resume the run to make them again"
            ) from error

    return read_or_tell


# -- records of rows --------------------------------------------------------------------------------------------


@_told
def read_generated(row: StageRow) -> Generated:
    """What `generated_row` wrote."""
    if "skipped" in row:
        return Generated(row["question"], skipped=row["skipped"])
    return Generated(
        question=row["question"],
        answer=read_samples([row["answer"]])[0],
        methods={name: read_sampled(sampled) for name, sampled in row["methods"].items()},
        cost=read_cost(row.get("cost") or {}),
        parameters=row.get("parameters", {}),
        seconds=seconds if isinstance(seconds := row.get("seconds"), dict) else {},  # once it was only their sum
    )


@_told
def read_clustered(row: StageRow) -> Clustered:
    """What `clustered_row` wrote."""
    methods = {
        name: MethodClusters(
            PairTable(tuple(method["distinct"]), _matrix(method["entailment"]), _matrix(method["contradiction"])),
            tuple(method["clusters"]),
        )
        for name, method in row["methods"].items()
    }
    return Clustered(methods, row.get("nli_pairs", 0), row.get("seconds", 0.0))


@_told
def read_measured(row: StageRow) -> MeasuredSamples:
    """What `measured_row` wrote, all rows of a question put together."""
    return MeasuredSamples(row.get("values", {}), row.get("reasons", {}))


@_told
def read_judged(row: StageRow) -> JudgedAnswer:
    """What `judged_row` wrote, all rows of a question put together."""
    return JudgedAnswer(row.get("scores", {}), row.get("reference", ""), row.get("scores_without_stock"))


def _matrix(rows: list[list[float | None]]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(map(tuple, rows))
