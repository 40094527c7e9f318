"""How much of all probability SDLG looked at, and how much of that agrees with the answer.

In: one answer and its branches, as `MeasureInputs`. Out: floats. A branch stands for all outputs that begin as it does,
W = p(y_≤t), and the answer for itself, W = p(y¹) (method.md §6, branch mass).
"""

from __future__ import annotations

import math

import numpy as np

from . import semantic
from .base import Measure, MeasureInputs, given
from .variants import BRANCHED, is_one_tree


def coverage(samples: MeasureInputs) -> float:
    """ΣW: how much of all probability was looked at."""
    return semantic.coverage(samples) if is_one_tree(samples) else math.nan


def branch_disagreement(samples: MeasureInputs) -> float:
    """1 − W(c¹)/ΣW: of the probability that was looked at, the share that means something else than the answer."""
    if not is_one_tree(samples):
        return math.nan
    clusters, log_masses = np.array(given(samples.clusters)), semantic.branch_log_masses(samples)
    means_another = clusters != clusters[_root(samples)]
    if not means_another.any():
        return 0.0
    return float(np.exp(np.logaddexp.reduce(log_masses[means_another]) - np.logaddexp.reduce(log_masses)))


def cocoa_branch_mass(samples: MeasureInputs) -> float:
    """How unsure the model was of the answer's words, times how much of what was looked at disagrees with it."""
    if not is_one_tree(samples):
        return math.nan
    return -float(semantic.mean_logprobs(samples)[_root(samples)]) * branch_disagreement(samples) + 0.0


def _root(samples: MeasureInputs) -> int:
    """The place of the answer among its branches."""
    return given(samples.branchings).index(None)


MEASURES = (
    Measure(
        "coverage",
        coverage,
        frozenset({"logprobs", "identities", "branchings"}),
        unit="probability",
        higher_is_less_certain=False,
        low=0.0,
        high=1.0,
        summary="Share of all probability that the answer and its branches stand for: how much to trust branch mass.",
        equation="Σ W over distinct answers, W = p(y_≤t) of the branch, p(y¹) of the answer",
        cost="N answers by SDLG",
    ),
    Measure(
        "branch_disagreement",
        branch_disagreement,
        frozenset({"logprobs", "clusters", "branchings"}),
        unit="probability",
        higher_is_less_certain=True,
        low=0.0,
        high=1.0,
        summary="Of the probability that SDLG looked at, the share that means something else than the answer (ours).",
        equation="1 − W(c¹)/ΣW, W = p(y_≤t) of the branch, p(y¹) of the answer",
        cost=BRANCHED,
    ),
    Measure(
        "cocoa_branch_mass",
        cocoa_branch_mass,
        frozenset({"logprobs", "clusters", "branchings"}),
        unit="nats per token",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Confidence × consistency (CoCoA), the consistency by branch mass (ours).",
        equation="−log p(y¹)/T · (1 − W(c¹)/ΣW)",
        cost=BRANCHED,
        aliases=("CoCoA_SDLG",),
    ),
)
