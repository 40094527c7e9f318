"""Measures of one answer and its branches (SDLG).

In: `MeasureInputs` with branchings. Out: floats. Equation numbers are the paper's.

w_n  importance weight: p(y_t | y_<t) of the token that a branch left with, 1 of the answer (Eq. 8, 13)
W_n  branch mass: p(y_≤t) of a branch, which stands for all outputs that begin as it does; p(y¹) of the answer
"""

from __future__ import annotations

import math

import numpy as np

from ..records import Branching
from .base import OURS, PAPER, Array, MeasureInputs, as_measure, given
from .semantic import cluster_log_masses, proper_entropy, unnormalised_entropy
from .tokens import mean_logprobs

BRANCHED = "N answers by SDLG + NLI of pairs of distinct answers"
_WEIGHT = "w = p(y_t) of the branch, 1 of the answer (Eq. 8, 13)"
_MASS = "W = p(y_≤t) of the branch, p(y¹) of the answer"
_NO_TREE = "the answers are not one answer and its branches"

# -- weights ----------------------------------------------------------------------------------------------------


def importance_log_weights(inputs: MeasureInputs) -> Array:
    """Return log w of each answer; 0 where nothing branched."""
    return np.array([0.0 if branching is None else branching.logprob for branching in _branchings(inputs)])


def branch_log_masses(inputs: MeasureInputs) -> Array:
    """Return log W of each answer: disjoint shares of all probability."""
    return np.array(
        [
            math.fsum(steps) if branching is None else branching.shared_logprob + math.log(branching.mass)
            for steps, branching in zip(given(inputs.logprobs), _branchings(inputs), strict=True)
        ]
    )


def l1_normalised(log_weights: Array) -> Array:
    """Return the same weights with Σw = 1."""
    normal: Array = log_weights - np.logaddexp.reduce(log_weights)
    return normal


def explored_mass(inputs: MeasureInputs) -> float:
    """Return ΣW: the share of all probability that the answers stand for; equal answers stand for it once."""
    return _distinct_mass(inputs, range(len(inputs)))


def _distinct_mass(inputs: MeasureInputs, places: range | list[int]) -> float:
    """ΣW over distinct answers in these places, at most 1."""
    identities, branchings, log_masses = given(inputs.identities), _branchings(inputs), branch_log_masses(inputs)
    of_each = {(identities[n], branchings[n]): log_masses[n] for n in places}
    return float(min(np.exp(np.logaddexp.reduce(list(of_each.values()))), 1.0))


def _branchings(inputs: MeasureInputs) -> tuple[Branching | None, ...]:
    return inputs.branchings or (None,) * len(inputs)


def _is_tree(inputs: MeasureInputs) -> bool:
    """Whether all answers but one are branches. If not, they were sampled in another way and weights mean nothing."""
    return sum(branching is None for branching in given(inputs.branchings)) == 1


def _root(inputs: MeasureInputs) -> int:
    """The place of the answer among its branches."""
    return given(inputs.branchings).index(None)


# -- semantic entropy -------------------------------------------------------------------------------------------


def _weighted_log_masses(inputs: MeasureInputs) -> Array:
    """log Σ w p(y)^(1/T) of each cluster."""
    return cluster_log_masses(inputs, importance_log_weights(inputs) + mean_logprobs(inputs))


@as_measure(
    "SE*_SDLG", needs={"logprobs", "clusters", "branchings"}, cost=BRANCHED, low=-math.inf, undefined=_NO_TREE,
    equation=f"−Σ_c (m_c/Σm) log m_c, m_c = Σ w p(y)^(1/T), {_WEIGHT}, Σw = 1",
    reference=PAPER,
)  # fmt: skip
def semantic_entropy_sdlg(inputs: MeasureInputs) -> float:
    """The paper's estimate: weighted likelihoods, logarithm of the mass."""
    if not _is_tree(inputs):
        return math.nan
    total = np.logaddexp.reduce(importance_log_weights(inputs))
    return unnormalised_entropy(_weighted_log_masses(inputs) - total)


@as_measure(
    needs={"logprobs", "clusters", "branchings"}, cost=BRANCHED, undefined=_NO_TREE, reference=PAPER,
    equation=f"H(m/Σm), m_c = Σ w p(y)^(1/T), {_WEIGHT}",
)  # fmt: skip
def semantic_entropy_sdlg_normalised(inputs: MeasureInputs) -> float:
    """The same with the logarithm of the share: an entropy."""
    return proper_entropy(_weighted_log_masses(inputs)) if _is_tree(inputs) else math.nan


@as_measure(
    needs={"logprobs", "clusters", "branchings"}, cost=BRANCHED, undefined=_NO_TREE, reference=OURS,
    equation=f"H(m/Σm), m_c = Σ W, {_MASS}",
)  # fmt: skip
def semantic_entropy_branch_mass(inputs: MeasureInputs) -> float:
    """Entropy of the probability that branches stand for, by meaning."""
    return proper_entropy(cluster_log_masses(inputs, branch_log_masses(inputs))) if _is_tree(inputs) else math.nan


# -- agreement with the answer ----------------------------------------------------------------------------------


@as_measure(
    "own mass", needs={"logprobs", "identities", "clusters", "branchings"}, cost=BRANCHED, unit="probability",
    high=1.0, of_answer=True, undefined=_NO_TREE, reference=OURS,
    equation=f"1 − Σ_{{c(y) = c(y¹)}} W over distinct answers, {_MASS}",
)  # fmt: skip
def mass_beyond_answer(inputs: MeasureInputs) -> float:
    """Probability that is not known to mean the same as the answer."""
    if not _is_tree(inputs):
        return math.nan
    clusters, root = given(inputs.clusters), _root(inputs)
    return 1.0 - _distinct_mass(inputs, [n for n in range(len(inputs)) if clusters[n] == clusters[root]])


@as_measure(
    needs={"logprobs", "clusters", "branchings"}, cost=BRANCHED, unit="probability", high=1.0, undefined=_NO_TREE,
    equation=f"1 − W(c¹)/ΣW, {_MASS}", reference=OURS,
)  # fmt: skip
def branch_disagreement(inputs: MeasureInputs) -> float:
    """Share of the explored probability that means something else."""
    if not _is_tree(inputs):
        return math.nan
    clusters, log_masses = np.array(given(inputs.clusters)), branch_log_masses(inputs)
    means_another = clusters != clusters[_root(inputs)]
    if not means_another.any():
        return 0.0
    return float(np.exp(np.logaddexp.reduce(log_masses[means_another]) - np.logaddexp.reduce(log_masses)))


@as_measure(
    "CoCoA_SDLG", needs={"logprobs", "clusters", "branchings"}, cost=BRANCHED, unit="nats per token",
    undefined=_NO_TREE, equation="−log p(y¹)/T · (1 − W(c¹)/ΣW)",
    reference="this package, after Vashurin et al. 2025, arXiv 2502.04964",
)  # fmt: skip
def cocoa_sdlg(inputs: MeasureInputs) -> float:
    """Unlikeliness of the answer × branch disagreement."""
    if not _is_tree(inputs):
        return math.nan
    return -float(mean_logprobs(inputs)[_root(inputs)]) * branch_disagreement(inputs) + 0.0


@as_measure(
    needs={"logprobs", "identities", "branchings"}, cost="N answers by SDLG", unit="probability", high=1.0,
    higher_is_less_certain=False, undefined=_NO_TREE, reference=OURS,
    equation=f"Σ W over distinct answers, {_MASS}",
)  # fmt: skip
def coverage(inputs: MeasureInputs) -> float:
    """Share of all probability that answer and branches stand for."""
    return explored_mass(inputs) if _is_tree(inputs) else math.nan
