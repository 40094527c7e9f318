"""The headline of a result under its options: semantic entropy, the clusters' shares, and the samples' weights.

In: what is known of the samples. Out: numbers that a measure of the table has, too: `headline_measure` names it. Only
SDLG's branches have weights; an answer that was drawn as a whole stands for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..options import Estimation
from ..records import Estimate
from . import semantic
from .base import Array, MeasureInputs
from .drawn import self_normalised_entropy
from .table import measure_all

HEADLINE = "semantic_entropy"
FREE = (
    "semantic_entropy_branch_mass",
    "semantic_entropy_improper_length_normalised",
    "semantic_entropy_frequency",
    "predictive_entropy",
    "length_normalised_predictive_entropy",
    "number_of_clusters",
)


# What a sequence stands for by itself, whatever its likelihood: a share of probability already.
_WHOLE_MASSES: Mapping[str, Callable[[MeasureInputs], Array]] = {
    "branch_mass": semantic.branch_log_masses,
    "drawn": semantic.drawn_log_weights,
}


def estimate_all(inputs: MeasureInputs, options: Estimation) -> dict[str, Estimate]:
    """The headline first, then the measures that these samples give at no further cost."""
    free = measure_all(inputs, FREE)
    return {
        HEADLINE: _semantic_entropy(inputs, options),
        **{name: value for name, value in free.items() if isinstance(value, Estimate)},
    }


def cluster_probabilities(inputs: MeasureInputs, options: Estimation) -> list[float]:
    """The headline's probability of each cluster; how often it came, where likelihoods are not known."""
    if inputs.logprobs is None:
        return [float(share) for share in semantic.frequencies(inputs)]
    masses = semantic.cluster_log_masses(inputs, log_terms(inputs, options))
    return [float(share) for share in semantic.shares(masses)]


def sample_weights(inputs: MeasureInputs, options: Estimation) -> Sequence[float]:
    """The weights of the samples, Σw = 1; equal ones where likelihoods are not known, or nothing branched."""
    weighting = _weighting(inputs, options.weighting)
    if weighting in _WHOLE_MASSES and inputs.logprobs is not None:
        return [float(weight) for weight in semantic.shares(_WHOLE_MASSES[weighting](inputs))]
    weigh = semantic.IMPORTANCES.get(weighting, semantic.uniform_log_weights)
    return [float(weight) for weight in np.exp(semantic.l1_normalised(weigh(inputs)))]


def headline_measure(sampler: str, options: Estimation) -> str:
    """The measure that a result's semantic entropy is, by its name in the table."""
    if sampler == "steered":
        return "semantic_entropy_self_normalised"
    weighting = options.weighting if sampler == "sdlg" else "uniform"
    unnormalised = options.logarithm == "unnormalised"
    return f"semantic_entropy_{_MASSES[weighting](options)}{'_unnormalised_log' if unnormalised else ''}"


def _semantic_entropy(inputs: MeasureInputs, options: Estimation) -> Estimate:
    if inputs.logprobs is None:
        return Estimate(semantic.frequency_entropy(inputs), "nats", True, {"weighting": "frequency"})
    weighting = _weighting(inputs, options.weighting)
    if weighting == "drawn":
        return Estimate(self_normalised_entropy(inputs), "nats", True, {"weighting": "self_normalised"})
    value = semantic.LOGARITHMS[options.logarithm](semantic.cluster_log_masses(inputs, log_terms(inputs, options)))
    likelihood: Mapping[str, str] = {} if weighting == "branch_mass" else {"likelihood": options.likelihood}
    variant = {"weighting": weighting, "logarithm": options.logarithm, "duplicates": "counted", **likelihood}
    return Estimate(value, "nats", True, variant)


def _weighting(inputs: MeasureInputs, asked: str) -> str:
    """Where nothing branched every answer stands for itself, or for what the model would have drawn more often."""
    if inputs.proposals is not None:
        return "drawn"
    return "uniform" if inputs.branchings is None else asked


def log_terms(inputs: MeasureInputs, options: Estimation) -> Array:
    """What each sequence adds to its cluster's mass."""
    weighting = _weighting(inputs, options.weighting)
    if weighting in _WHOLE_MASSES:
        return _WHOLE_MASSES[weighting](inputs)
    likelihoods = semantic.LIKELIHOODS[options.likelihood](inputs)
    if weighting == "uniform":
        return likelihoods
    terms: Array = semantic.l1_normalised(semantic.IMPORTANCES[weighting](inputs)) + likelihoods
    return terms


def _importance(options: Estimation) -> str:
    return f"{options.weighting}_{'l1_' if options.logarithm == 'unnormalised' else ''}{options.likelihood}"


def _proper(options: Estimation) -> str:
    return f"proper_counted_{options.likelihood}"


_MASSES: Mapping[str, Callable[[Estimation], str]] = {
    "branch_mass": lambda _: "branch_mass",
    "importance": _importance,
    "merged_importance": _importance,
    "uniform": _proper,
}
