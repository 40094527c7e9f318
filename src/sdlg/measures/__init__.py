"""Estimates from samples: the headline, and those that any set of samples gives. No model, no input or output."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..options import Estimation
from ..records import Estimate, Generation, Substitution
from . import semantic
from .base import Branching, MeasureInputs
from .table import measure_all

__all__ = ["Samples", "cluster_probabilities", "estimate_all", "samples_of"]

HEADLINE = "semantic_entropy"
FREE = (
    "semantic_entropy_branch_mass",
    "semantic_entropy_improper_length_normalised",
    "semantic_entropy_frequency",
    "predictive_entropy",
    "length_normalised_predictive_entropy",
    "number_of_clusters",
)


def samples_of(
    generations: tuple[Generation, ...],
    substitutions: tuple[Substitution | None, ...],
    clusters: tuple[int, ...],
    tokens: tuple[tuple[str, ...], ...] | None = None,
) -> MeasureInputs:
    """What the estimators need to know of sampled sequences. A merged candidate carries its whole mass."""
    answer = generations[0].logprobs
    branched = len(generations) == 1 or any(substitutions)
    entropies = tuple(generation.entropies for generation in generations)
    steps = tuple(generation.decision_logprobs for generation in generations)
    return MeasureInputs(
        logprobs=steps if all(steps) else None,
        identities=tuple((generation.token_ids, generation.stop_reason) for generation in generations),
        clusters=clusters,
        branchings=tuple(None if s is None else _branching(answer, s) for s in substitutions) if branched else None,
        texts=tuple(generation.text for generation in generations),
        tokens=tokens,
        token_entropies=entropies if all(entropies) else None,
    )


def _branching(answer: tuple[float, ...], substitution: Substitution) -> Branching:
    return Branching(math.fsum(answer[: substitution.position]), math.log(substitution.importance))


def cluster_probabilities(samples: MeasureInputs, options: Estimation) -> list[float]:
    """The headline's probability of each cluster; how often it came, where likelihoods are not known."""
    if samples.logprobs is None:
        return [float(share) for share in semantic.frequencies(samples)]
    terms = semantic.log_terms(samples, options.weighting, options.likelihood)
    return [float(share) for share in semantic.shares(semantic.cluster_log_masses(samples, terms))]


def estimate_all(samples: MeasureInputs, options: Estimation) -> dict[str, Estimate]:
    """The headline first, then the measures that these samples give at no further cost."""
    free = measure_all(samples, FREE)
    return {
        HEADLINE: _semantic_entropy(samples, options),
        **{name: found for name, found in free.items() if isinstance(found, Estimate)},
    }


def _semantic_entropy(samples: MeasureInputs, options: Estimation) -> Estimate:
    if samples.logprobs is None:
        return Estimate(semantic.frequency_entropy(samples), "nats", True, {"weighting": "frequency"})
    terms = semantic.log_terms(samples, options.weighting, options.likelihood)
    value = semantic.LOGARITHMS[options.logarithm](semantic.cluster_log_masses(samples, terms))
    likelihood: Mapping[str, str] = {} if options.weighting == "branch_mass" else {"likelihood": options.likelihood}
    variant = {"weighting": options.weighting, "logarithm": options.logarithm, "duplicates": "counted", **likelihood}
    return Estimate(value, "nats", True, variant)
