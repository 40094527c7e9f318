"""Semantic entropy of answers that were drawn from q in the model's place (steered sampling).

In: log p(y) and log q(y) of each answer, and clusters. Out: nats. p(c) = Σ_c w / Σ w, w = p(y)/q(y).
"""

from __future__ import annotations

import math

from . import semantic
from .base import Measure, MeasureInputs


def self_normalised_entropy(samples: MeasureInputs) -> float:
    """H(m/Σm), m_c = Σ p(y)/q(y)."""
    return semantic.proper_entropy(semantic.cluster_log_masses(samples, semantic.drawn_log_weights(samples)))


MEASURES = (
    Measure(
        "semantic_entropy_self_normalised",
        self_normalised_entropy,
        frozenset({"logprobs", "clusters", "proposals"}),
        unit="nats",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Self-normalised importance sampling, for answers of steered sampling.",
        equation="H(m/Σm), m_c = Σ p(y)/q(y)",
        cost="N answers by steered sampling + NLI of pairs of distinct answers",
        aliases=("SE_steered",),
    ),
)
