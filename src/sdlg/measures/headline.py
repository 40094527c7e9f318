"""The semantic entropy of a result, its clusters' shares and its samples' weights, as in the paper.

In: what is known of the samples. Out: numbers.

m_c = Σ_{n∈c} w_n p(y^n)^(1/T_n),   SE = −Σ_c (m_c/Σm) log m_c

w are SDLG's importance weights with Σw = 1; where nothing branched, each answer counts alike. Where likelihoods are not
known, SE is the entropy of how often each meaning came.
"""

from __future__ import annotations

import numpy as np

from ..records import Estimate
from .base import Array, MeasureInputs
from .branches import importance_log_weights, l1_normalised
from .semantic import cluster_log_masses, discrete_semantic_entropy, frequencies, shares, unnormalised_entropy
from .tokens import mean_logprobs


def semantic_entropy(inputs: MeasureInputs) -> Estimate:
    """Return the paper's estimate; its options name the measure that it is."""
    if inputs.logprobs is None:
        return Estimate(discrete_semantic_entropy(inputs), "nats", True, {"variant": "discrete_semantic_entropy"})
    variant = "semantic_entropy_proper" if inputs.branchings is None else "semantic_entropy_sdlg"
    return Estimate(unnormalised_entropy(_log_masses(inputs)), "nats", True, {"variant": variant})


def cluster_score_shares(inputs: MeasureInputs) -> list[float]:
    """Return m/Σm of each cluster; how often it came, where likelihoods are not known."""
    found = frequencies(inputs) if inputs.logprobs is None else shares(_log_masses(inputs))
    return [float(share) for share in found]


def sample_weights(inputs: MeasureInputs) -> list[float]:
    """Return the weights w of the samples, Σw = 1."""
    return [float(weight) for weight in np.exp(l1_normalised(importance_log_weights(inputs)))]


def _log_masses(inputs: MeasureInputs) -> Array:
    terms = mean_logprobs(inputs)
    if inputs.branchings is not None:
        terms = l1_normalised(importance_log_weights(inputs)) + terms
    return cluster_log_masses(inputs, terms)
