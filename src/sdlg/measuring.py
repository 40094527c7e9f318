"""Measuring samples: what the chosen measures need is gathered, then each is computed, or the reason is told.

In: samples, the question, names of measures, the models that may be asked. Out: per measure an estimate or a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass

from .estimators.base import Measure, Samples
from .estimators.table import Unavailable, all_measures, find_measure, measure_all
from .evidence import Sources, gather
from .records import Cost, Estimate, Question

NLI_FIELDS = frozenset({"clusters", "entailment", "contradiction"})
SIMILARITY_FIELDS = frozenset({"similarity", "embeddings", "relevance"})


@dataclass(frozen=True, slots=True)
class Measured:
    """The samples with all that was gathered, and the measures."""

    samples: Samples
    measures: dict[str, Estimate | str]  # a text is the reason why there is no number
    cost: Cost


def chosen_measures(names: Many[str]) -> Mapping[str, Measure]:
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


def measure(samples: Samples, question: Question, measures: Mapping[str, Measure], sources: Sources) -> Measured:
    """Gather, then compute."""
    gathered = gather(samples, question, needed_fields(measures.values()), sources)
    found = measure_all(gathered.samples, measures)
    told: dict[str, Estimate | str] = {}
    for name, value in found.items():
        if isinstance(value, Unavailable):
            told[name] = explained(value, measures[name], gathered.reasons)
        else:
            told[name] = value
    return Measured(gathered.samples, told, gathered.cost)
