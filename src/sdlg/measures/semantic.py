"""Entropies over sequences and over clusters of meaning: arithmetic only, in log space and float64 (method.md §6).

In: `MeasureInputs`. Out: floats in nats; higher is less certain.

ℓ_n = log p(y^n), total or length-normalised; w_n weights; m_c = Σ_{n∈c} w_n exp ℓ_n.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from ..records import Branching
from .base import Array, MeasureInputs, given


def total_logprobs(samples: MeasureInputs) -> Array:
    """log p(y) of each sequence."""
    return np.array([math.fsum(steps) for steps in given(samples.logprobs)])


def mean_logprobs(samples: MeasureInputs) -> Array:
    """log p(y) / |y| of each sequence; 0 for one without decisions."""
    return np.array([math.fsum(steps) / max(len(steps), 1) for steps in given(samples.logprobs)])


LIKELIHOODS = {"total": total_logprobs, "length_normalised": mean_logprobs}


# -- weights ----------------------------------------------------------------------------------------------------


def uniform_log_weights(samples: MeasureInputs) -> Array:
    """w = 1."""
    return np.zeros(len(samples))


def importance_log_weights(samples: MeasureInputs) -> Array:
    """Eq. (13): p(y)/q(y) = p(y_t | y_<t), the likelihood of the exchanged token; 1 for the initial answer."""
    return np.array([0.0 if branching is None else branching.logprob for branching in _branchings(samples)])


def merged_importance_log_weights(samples: MeasureInputs) -> Array:
    """The same with the mass of all candidates that were merged into the exchanged token (ours)."""
    return np.array([0.0 if branching is None else math.log(branching.mass) for branching in _branchings(samples)])


IMPORTANCES = {"importance": importance_log_weights, "merged_importance": merged_importance_log_weights}


def _branchings(samples: MeasureInputs) -> tuple[Branching | None, ...]:
    return samples.branchings or (None,) * len(samples)


def branch_log_masses(samples: MeasureInputs) -> Array:
    """log W_n: p(y_≤t) for a branch, p(y) for the initial answer. Disjoint shares of all probability mass."""
    return np.array(
        [
            math.fsum(steps) if branching is None else branching.shared_logprob + math.log(branching.mass)
            for steps, branching in zip(given(samples.logprobs), _branchings(samples), strict=True)
        ]
    )


def drawn_log_weights(samples: MeasureInputs) -> Array:
    """log w = log p(y) − log q(y): what an answer that was drawn from q counts under the model (steered sampling)."""
    weights: Array = total_logprobs(samples) - np.array(given(samples.proposals))
    return weights


def l1_normalised(log_weights: Array) -> Array:
    """The same weights with Σw = 1."""
    normal: Array = log_weights - np.logaddexp.reduce(log_weights)
    return normal


# -- clusters ---------------------------------------------------------------------------------------------------


def cluster_log_masses(samples: MeasureInputs, log_terms: Array, *, duplicates: str = "counted") -> Array:
    """log m_c of each cluster, in the order of their numbers. `duplicates="unique"` counts equal sequences once."""
    if duplicates == "unique":
        first_of: dict[Hashable, int] = {}
        for n, identity in enumerate(given(samples.identities)):
            first_of.setdefault(identity, n)
        kept = sorted(first_of.values())
    else:
        kept = list(range(len(log_terms)))
    members: dict[int, list[float]] = {}
    for n in kept:
        members.setdefault(given(samples.clusters)[n], []).append(float(log_terms[n]))
    return np.array([np.logaddexp.reduce(members[cluster]) for cluster in sorted(members)])


def shares(log_masses: Array) -> Array:
    """m / Σm."""
    share: Array = np.exp(log_masses - np.logaddexp.reduce(log_masses))
    return share


def proper_entropy(log_masses: Array) -> float:
    """H(m/Σm) (SE*, Eq. 7 on normalised masses)."""
    logs = log_masses - np.logaddexp.reduce(log_masses)
    return float(-(np.exp(logs) * np.where(np.isfinite(logs), logs, 0.0)).sum()) + 0.0


def unnormalised_entropy(log_masses: Array) -> float:
    """−Σ (m/Σm) log m = H(m/Σm) − log Σm: the logarithm of the mass itself, as the authors found better."""
    return proper_entropy(log_masses) - float(np.logaddexp.reduce(log_masses))


def improper_entropy(log_masses: Array) -> float:
    """−(1/M) Σ_c log m_c (Kuhn et al., appendix Eq. 19, 20): a mean over clusters, not an expectation."""
    return float(-log_masses.mean())


def frequency_entropy(samples: MeasureInputs) -> float:
    """H of the clusters' shares of the samples (Eq. 6 in Eq. 7): Monte Carlo."""
    return proper_entropy(np.log(frequencies(samples)))


def frequencies(samples: MeasureInputs) -> Array:
    """Each cluster's share of the samples."""
    _, counts = np.unique(np.array(given(samples.clusters)), return_counts=True)
    share: Array = counts / counts.sum()
    return share


LOGARITHMS = {"normalised": proper_entropy, "unnormalised": unnormalised_entropy}


# -- without clusters -------------------------------------------------------------------------------------------


def predictive_entropy(samples: MeasureInputs) -> float:
    """PE = −mean log p(y)."""
    return float(-total_logprobs(samples).mean())


def length_normalised_predictive_entropy(samples: MeasureInputs) -> float:
    """LN-PE = −mean log p(y)/|y|."""
    return float(-mean_logprobs(samples).mean())


def coverage(samples: MeasureInputs) -> float:
    """ΣW: the share of all probability mass that the sequences stand for; equal sequences stand for it once."""
    keys = zip(given(samples.identities), _branchings(samples), strict=True)
    of_each = dict(zip(keys, branch_log_masses(samples), strict=True))
    return float(min(np.exp(np.logaddexp.reduce(list(of_each.values()))), 1.0))
