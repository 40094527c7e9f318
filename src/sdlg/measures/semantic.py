"""Entropies over clusters of meaning of sampled answers, in log space and float64.

In: `MeasureInputs` with clusters. Out: nats; higher is less certain. Equation numbers are the paper's.

m_c is the mass of a cluster: Σ_{n∈c} p(y^n)^(1/T_n), duplicates counted, unless a measure says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from . import graph
from .base import CLUSTERED, OURS, PAPER, Array, MeasureInputs, as_measure, given
from .tokens import mean_logprobs

_MCCABE = "McCabe et al. 2025, arXiv 2509.14478"

# -- clusters ---------------------------------------------------------------------------------------------------


def cluster_log_masses(inputs: MeasureInputs, log_terms: Array, kept: Iterable[int] | None = None) -> Array:
    """Return log Σ exp(term) of each cluster, in the order of their numbers; of the kept answers, or of all."""
    members: dict[int, list[float]] = {}
    for n in range(len(log_terms)) if kept is None else kept:
        members.setdefault(given(inputs.clusters)[n], []).append(float(log_terms[n]))
    return np.array([np.logaddexp.reduce(members[cluster]) for cluster in sorted(members)])


def shares(log_masses: Array) -> Array:
    """Return m / Σm."""
    share: Array = np.exp(log_masses - np.logaddexp.reduce(log_masses))
    return share


def proper_entropy(log_masses: Array) -> float:
    """Return H(m/Σm) (SE*, Eq. 7 on normalised masses)."""
    logs = log_masses - np.logaddexp.reduce(log_masses)
    return float(-(np.exp(logs) * np.where(np.isfinite(logs), logs, 0.0)).sum()) + 0.0


def unnormalised_entropy(log_masses: Array) -> float:
    """Return −Σ (m/Σm) log m = H(m/Σm) − log Σm: the logarithm of the mass itself, as the authors found better."""
    return proper_entropy(log_masses) - float(np.logaddexp.reduce(log_masses))


def cluster_counts(inputs: MeasureInputs) -> Array:
    """Return the number of answers in each cluster."""
    _, counts = np.unique(np.array(given(inputs.clusters)), return_counts=True)
    return counts.astype(np.float64)


def frequencies(inputs: MeasureInputs) -> Array:
    """Return each cluster's share of the answers."""
    counts = cluster_counts(inputs)
    share: Array = counts / counts.sum()
    return share


# -- semantic entropy -------------------------------------------------------------------------------------------


@as_measure("DSE", needs={"clusters"}, equation="H(N_c/N) (Eq. 6 in Eq. 7)", cost=CLUSTERED,
            reference="Farquhar et al. 2024, Nature 630")  # fmt: skip
def discrete_semantic_entropy(inputs: MeasureInputs) -> float:
    """Entropy of how often each meaning was sampled; needs no likelihoods."""
    return proper_entropy(np.log(frequencies(inputs)))


@as_measure(
    "SE*_MS", "SE*_DBS", needs={"logprobs", "clusters"}, cost=CLUSTERED, low=-math.inf, reference=PAPER,
    equation="−Σ_c (m_c/Σm) log m_c, m_c = Σ p(y)^(1/T) over all answers (Eq. 19 in Eq. 7)",
)  # fmt: skip
def semantic_entropy_proper(inputs: MeasureInputs) -> float:
    """The paper's estimate for other samplers: logarithm of the mass."""
    return unnormalised_entropy(cluster_log_masses(inputs, mean_logprobs(inputs)))


@as_measure(
    needs={"logprobs", "clusters"}, cost=CLUSTERED, reference=PAPER,
    equation="H(m/Σm), m_c = Σ p(y)^(1/T) over all answers (Eq. 19 in Eq. 7)",
)  # fmt: skip
def semantic_entropy_proper_normalised(inputs: MeasureInputs) -> float:
    """The same with the logarithm of the share: an entropy."""
    return proper_entropy(cluster_log_masses(inputs, mean_logprobs(inputs)))


@as_measure(
    "SE_MS", needs={"logprobs", "clusters"}, cost=CLUSTERED, low=-math.inf,
    equation="−(1/M) Σ_c log m_c, m_c = Σ p(y)^(1/T) over all answers (Eq. 19, 20)",
    reference="Kuhn et al. 2023, arXiv 2302.09664",
)  # fmt: skip
def semantic_entropy_improper(inputs: MeasureInputs) -> float:
    """As first published: a mean over clusters, not an expectation."""
    return float(-cluster_log_masses(inputs, mean_logprobs(inputs)).mean())


# -- counting meanings ------------------------------------------------------------------------------------------


@as_measure(
    "NumSets", needs={"clusters"}, equation="M", cost=CLUSTERED, unit="clusters", low=1.0,
    reference="Lin et al. 2024, arXiv 2305.19187",
)  # fmt: skip
def number_of_clusters(inputs: MeasureInputs) -> float:
    """How many different meanings were seen."""
    return float(len(set(given(inputs.clusters))))


@as_measure(
    needs={"clusters"}, equation="mean_{n>1} [c(y^n) ≠ c(y¹)]", cost=CLUSTERED, unit="probability", high=1.0,
    of_answer=True, undefined="one answer has no other to compare with", reference=OURS,
)  # fmt: skip
def disagreement(inputs: MeasureInputs) -> float:
    """Share of the other answers that mean something else than the answer.

    Of answers drawn at temperature 1 it estimates how often the model would mean something else than it said.
    """
    own, *others = given(inputs.clusters)
    return sum(other != own for other in others) / len(others) if others else math.nan


@as_measure(
    needs={"clusters", "entailment"}, cost="N sampled answers + NLI of all ordered pairs", unit="clusters", low=1.0,
    equation="max(M N / (N − f₁), eigenvalue sum); eigenvalue sum if f₁ = N", reference=_MCCABE,
)  # fmt: skip
def semantic_alphabet_size(inputs: MeasureInputs) -> float:
    """Number of meanings, unseen ones included; of independent samples."""
    counts = cluster_counts(inputs)
    repeated = counts.sum() - (counts == 1).sum()  # N − f₁
    spectral = graph.eigenvalue_sum(inputs)
    return spectral if repeated == 0 else max(len(counts) * float(counts.sum() / repeated), spectral)


@as_measure(
    "Hybrid DSE", needs={"clusters", "entailment"}, cost="N sampled answers + NLI of all ordered pairs",
    equation="−Σ_c q log q / (1 − (1−q)^N), q = (M/A) N_c/N, A = semantic alphabet size", reference=_MCCABE,
)  # fmt: skip
def coverage_adjusted_entropy(inputs: MeasureInputs) -> float:
    """DSE corrected for unseen meanings; of independent samples.

    Each term is divided by its chance of having been seen. If all clusters are singletons, M/A may exceed 1, as
    published.
    """
    counts = cluster_counts(inputs)
    coverage = len(counts) / semantic_alphabet_size(inputs)
    seen = np.minimum(coverage * counts / counts.sum(), 1.0)
    return float(-(seen * np.log(seen) / (1.0 - (1.0 - seen) ** counts.sum())).sum()) + 0.0
