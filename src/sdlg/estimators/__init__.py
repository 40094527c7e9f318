"""Estimates from samples: the headline, and those that any set of samples gives. No model, no input or output."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..options import Estimation
from ..records import Estimate, Sequence, Substitution
from . import semantic
from .base import Branching, Samples, given

__all__ = ["Samples", "cluster_probabilities", "estimate_all", "samples_of"]

HEADLINE = "semantic_entropy"


def samples_of(
    sequences: tuple[Sequence, ...],
    substitutions: tuple[Substitution | None, ...],
    clusters: tuple[int, ...],
    tokens: tuple[tuple[str, ...], ...] | None = None,
) -> Samples:
    """What the estimators need to know of sampled sequences. A merged candidate carries its whole mass."""
    answer = sequences[0].logprobs
    branched = len(sequences) == 1 or any(substitutions)
    entropies = tuple(sequence.entropies for sequence in sequences)
    return Samples(
        logprobs=tuple(sequence.decision_logprobs for sequence in sequences),
        identities=tuple((sequence.token_ids, sequence.stop_reason) for sequence in sequences),
        clusters=clusters,
        branchings=tuple(None if s is None else _branching(answer, s) for s in substitutions) if branched else None,
        texts=tuple(sequence.text for sequence in sequences),
        tokens=tokens,
        token_entropies=entropies if all(entropies) else None,
    )


def _branching(answer: tuple[float, ...], substitution: Substitution) -> Branching:
    return Branching(math.fsum(answer[: substitution.position]), math.log(substitution.importance))


def cluster_probabilities(samples: Samples, options: Estimation) -> list[float]:
    """The headline's probability of each cluster."""
    terms = semantic.log_terms(samples, options.weighting, options.likelihood)
    return [float(share) for share in semantic.shares(semantic.cluster_log_masses(samples, terms))]


def estimate_all(samples: Samples, options: Estimation) -> dict[str, Estimate]:
    """The headline first, then what else these samples tell at no further cost."""
    likelihoods = semantic.LIKELIHOODS[options.likelihood](samples)
    improper = semantic.improper_entropy(semantic.cluster_log_masses(samples, likelihoods))
    found = {
        HEADLINE: _semantic_entropy(samples, options),
        "semantic_entropy_improper": _nats(
            improper, weighting="uniform", likelihood=options.likelihood, duplicates="counted"
        ),
        "semantic_entropy_frequency": _nats(semantic.frequency_entropy(samples), weighting="frequency"),
        "predictive_entropy": _nats(semantic.predictive_entropy(samples), likelihood="total"),
        "length_normalised_predictive_entropy": _nats(
            semantic.length_normalised_predictive_entropy(samples), likelihood="length_normalised"
        ),
        "number_of_clusters": Estimate(float(len(set(given(samples.clusters)))), "clusters", True, {}),
    }
    if samples.branchings is not None:
        mass = semantic.cluster_log_masses(samples, semantic.branch_log_masses(samples))
        found["semantic_entropy_branch_mass"] = _nats(
            semantic.proper_entropy(mass), weighting="branch_mass", logarithm="normalised", duplicates="counted"
        )
    return found


def _semantic_entropy(samples: Samples, options: Estimation) -> Estimate:
    terms = semantic.log_terms(samples, options.weighting, options.likelihood)
    value = semantic.LOGARITHMS[options.logarithm](semantic.cluster_log_masses(samples, terms))
    likelihood: Mapping[str, str] = {} if options.weighting == "branch_mass" else {"likelihood": options.likelihood}
    return _nats(value, weighting=options.weighting, logarithm=options.logarithm, duplicates="counted", **likelihood)


def _nats(value: float, **options: str) -> Estimate:
    return Estimate(value, "nats", True, options)
