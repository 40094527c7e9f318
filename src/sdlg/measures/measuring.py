"""Measuring samples: what the chosen measures need is computed, then each of them, or the reason is said.

In: samples, the question, names of measures, the models that may be asked. Out: per measure an estimate or a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..options import several
from ..records import Cost, Estimate, Question
from .base import Measure, MeasureInputs
from .inputs import InputModels, compute_inputs
from .table import Unavailable, all_measures, find_measure, measure_all

NLI_FIELDS = frozenset({"clusters", "entailment", "contradiction"})
SIMILARITY_FIELDS = frozenset({"similarity", "embeddings", "relevance"})


@dataclass(frozen=True, slots=True)
class Measured:
    """What was known in the end, and the measures."""

    inputs: MeasureInputs
    measures: dict[str, Estimate | str]  # a text is the reason why there is no number
    cost: Cost

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Those that have a value."""
        return {name: value for name, value in self.measures.items() if isinstance(value, Estimate)}

    @property
    def reasons(self) -> dict[str, str]:
        """Why the others have none."""
        return {name: value for name, value in self.measures.items() if isinstance(value, str)}


def chosen_measures(names: Sequence[str]) -> Mapping[str, Measure]:
    """By the names or aliases that were asked for; none named means all."""
    return {name: find_measure(name) for name in several(names)} if names else all_measures()


def asked_measures(names: Sequence[str], calibrated: Sequence[str]) -> Mapping[str, Measure]:
    """The measures of results: those that were named, and those that a calibration reads; else none."""
    wanted = [*several(names), *calibrated]
    return chosen_measures(wanted) if wanted else {}


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
    inputs: MeasureInputs, question: Question, measures: Mapping[str, Measure], models: InputModels
) -> Measured:
    """Compute what is needed, then the measures."""
    computed = compute_inputs(inputs, question, needed_fields(measures.values()), models)
    values: dict[str, Estimate | str] = {}
    for name, value in measure_all(computed.inputs, measures).items():
        if isinstance(value, Unavailable):
            values[name] = explained(value, measures[name], computed.reasons)
        else:
            values[name] = value
    return Measured(computed.inputs, values, computed.cost)
