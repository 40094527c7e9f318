"""Measuring samples: needed fields → computed inputs → estimates, or the reason why there is none.

In: samples as `MeasureInputs`, the question, names of measures, the models that may be asked. Out: `Measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from ..records import Cost, Estimate, Question
from .base import FIELDS, Measure, MeasureInputs
from .inputs import MeasuringModels, compute_inputs
from .table import MEASURES, all_measures, find_measures


@dataclass(frozen=True, slots=True)
class Measurements:
    """Each measure, by the name it was asked for, is either in `estimates` or in `reasons`."""

    inputs: MeasureInputs  # what was known in the end
    estimates: dict[str, Estimate]
    reasons: dict[str, str]  # why a measure has no value
    cost: Cost = field(default_factory=Cost)


def measure(
    inputs: MeasureInputs,
    question: Question,
    measures: Iterable[str],
    models: MeasuringModels,
    *,
    also: AbstractSet[str] = frozenset(),
) -> Measurements:
    """Compute what the named measures need, and what is needed `also`; then the measures."""
    names = tuple(measures)
    computed = compute_inputs(inputs, question, needed_fields(names) | also, models)
    return replace(measure_all(computed.inputs, names), cost=computed.cost)


def needed_fields(names: Iterable[str]) -> frozenset[str]:
    """Return what at least one of the measures needs. An assessment is of clusters, relevance of decisions."""
    needs = frozenset().union(*(measure.needs for measure in find_measures(names).values()))
    if "assessment" in needs:
        needs |= {"clusters"}
    return needs | {"logprobs"} if "relevance" in needs else needs


def measure_all(inputs: MeasureInputs, names: Iterable[str] | None = None) -> Measurements:
    """Measure what is known by the named measures (all, if None), without asking any model."""
    measures = all_measures() if names is None else find_measures(names)
    estimates: dict[str, Estimate] = {}
    reasons: dict[str, str] = {}
    with np.errstate(all="ignore"):  # a value that is not finite gets a reason
        for name, each in measures.items():
            value = _value_of(each, inputs)
            if isinstance(value, str):
                reasons[name] = value
            else:
                variant = {} if name == each.name else {"variant": each.name}
                estimates[name] = Estimate(value, each.unit, each.higher_is_less_certain, variant)
    return Measurements(inputs, estimates, reasons)


def _value_of(measure: Measure, inputs: MeasureInputs) -> float | str:
    """A finite number, or the reason why there is none."""
    if missing := measure.needs - inputs.known:
        return _lacks(measure, missing, inputs)
    try:
        value = measure(inputs)
    except Exception as error:  # of a plug-in: it must not cost the other measures, nor the answers
        if measure.name in MEASURES:
            raise
        return f"its plug-in failed: {type(error).__name__}: {error}"
    if math.isnan(value):
        return f"undefined: {measure.undefined}"
    if math.isinf(value):
        return "infinite: an answer has probability 0, or the value is too large for a float"
    return value


def _lacks(measure: Measure, missing: frozenset[str], inputs: MeasureInputs) -> str:
    """What is missing, in the order of the fields, and why it could not be computed."""
    needs = f"needs {' and '.join(words for name, words in FIELDS.items() if name in missing)}"
    why = [inputs.unavailable[name] for name in sorted(measure.needs) if name in inputs.unavailable]
    return "; ".join([needs, *dict.fromkeys(why)])
