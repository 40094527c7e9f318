"""Measuring samples: what the chosen measures need is gathered, then each is computed, or the reason is told.

In: samples, the question, names of measures, the models that may be asked. Out: per measure an estimate or a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..records import Cost, Estimate, Question
from .base import Measure, MeasureInputs
from .inputs import InputModels, compute_inputs
from .table import Unavailable, all_measures, find_measure, measure_all

NLI_FIELDS = frozenset({"clusters", "entailment", "contradiction"})
SIMILARITY_FIELDS = frozenset({"similarity", "embeddings", "relevance"})


@dataclass(frozen=True, slots=True)
class Measured:
    """The samples with all that was gathered, and the measures."""

    samples: MeasureInputs
    measures: dict[str, Estimate | str]  # a text is the reason why there is no number
    cost: Cost


def chosen_measures(names: Sequence[str]) -> Mapping[str, Measure]:
    """By the names or aliases that were asked for; none named means all."""
    return {name: find_measure(name) for name in names} if names else all_measures()


def needed_fields(measures: Iterable[Measure]) -> frozenset[str]:
    """What at least one of the measures needs. Self-assessment asks about clusters, relevance about likelihoods."""
    needs = frozenset().union(*(measure.needs for measure in measures))
    if "assessment" in needs:
        needs |= {"clusters"}
    return needs | {"logprobs"} if "relevance" in needs else needs


def explained(lack: Unavailable, measure: Measure, reasons: Mapping[str, str]) -> str:
    """Why a measure has no value, with the reasons why what it needs could not be gathered."""
    why = [reasons[field] for field in sorted(measure.needs) if field in reasons]
    return "; ".join([lack.reason, *dict.fromkeys(why)])


def measure(
    samples: MeasureInputs, question: Question, measures: Mapping[str, Measure], sources: InputModels
) -> Measured:
    """Gather, then compute."""
    computed = compute_inputs(samples, question, needed_fields(measures.values()), sources)
    found = measure_all(computed.samples, measures)
    told: dict[str, Estimate | str] = {}
    for name, value in found.items():
        if isinstance(value, Unavailable):
            told[name] = explained(value, measures[name], computed.reasons)
        else:
            told[name] = value
    return Measured(computed.samples, told, computed.cost)
