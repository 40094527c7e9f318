"""Total = aleatoric + epistemic (Eq. 3), with other models as a stand-in for the posterior.

In: `MeasureInputs` with log p(y) of each answer under this model and under each other one, and clusters.
Out: nats.

Each model's p(c) is its likelihoods (total), summed within clusters over distinct answers and normalised over the
answers that were sampled: all three numbers are about these answers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .base import Array, Measure, MeasureInputs, given
from .semantic import cluster_log_masses, proper_entropy, total_logprobs


def aleatoric(samples: MeasureInputs) -> float:
    """H(p(c|w))."""
    return proper_entropy(_log_shares(samples, total_logprobs(samples)))


def epistemic(samples: MeasureInputs) -> float:
    """Mean over other models of KL(p(c|w) ‖ p(c|w̃))."""
    own = _log_shares(samples, total_logprobs(samples))
    return _mean([divergence(own, other) for other in _others(samples)])


def total(samples: MeasureInputs) -> float:
    """Mean over other models of the cross-entropy of p(c|w) to p(c|w̃)."""
    own = _log_shares(samples, total_logprobs(samples))
    return _mean([cross_entropy(own, other) for other in _others(samples)])


def cross_entropy(log_p: Array, log_q: Array) -> float:
    """−Σ p log q."""
    possible = np.isfinite(log_p)
    return _expectation(log_p[possible], -log_q[possible])


def divergence(log_p: Array, log_q: Array) -> float:
    """Σ p log(p/q). Infinite where q rules out what p does not."""
    possible = np.isfinite(log_p)
    return _expectation(log_p[possible], log_p[possible] - log_q[possible])


def _expectation(log_p: Array, values: Array) -> float:
    """Infinite if any value is: p may have underflowed, but is not 0."""
    return math.inf if np.isposinf(values).any() else float((np.exp(log_p) * values).sum()) + 0.0


def _others(samples: MeasureInputs) -> list[Array]:
    return [_log_shares(samples, np.array(row)) for row in given(samples.other_logprobs)]


def _log_shares(samples: MeasureInputs, logprobs: Array) -> Array:
    """log p(c) over the sampled answers. NaN if none of them is possible."""
    masses = cluster_log_masses(samples, logprobs, duplicates="unique")
    with np.errstate(invalid="ignore"):
        shares: Array = masses - np.logaddexp.reduce(masses)
    return shares


def _mean(values: list[float]) -> float:
    """No other model: undefined."""
    return sum(values) / len(values) if values else math.nan


_OWN = frozenset({"logprobs", "identities", "clusters"})
_COST = "N sampled answers + NLI of pairs + each other model scores the N answers"


def _part(
    name: str, function: Callable[[MeasureInputs], float], needs: frozenset[str], summary: str, equation: str, cost: str
) -> Measure:
    return Measure(
        name,
        function,
        needs,
        unit="nats",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary=summary,
        equation=equation,
        cost=cost,
    )


MEASURES = (
    _part(
        "aleatoric_semantic_uncertainty",
        aleatoric,
        _OWN,
        "What this model itself leaves open: semantic entropy over distinct answers.",
        "H(p(c; w)) (Eq. 3, 4)",
        "N sampled answers + NLI of pairs of distinct answers",
    ),
    _part(
        "epistemic_semantic_uncertainty",
        epistemic,
        _OWN | {"other_logprobs"},
        "How much other models disagree with this one about the meanings.",
        "mean_w̃ KL(p(c; w) ‖ p(c; w̃)) (Eq. 3)",
        _COST,
    ),
    _part(
        "total_semantic_uncertainty",
        total,
        _OWN | {"other_logprobs"},
        "Aleatoric + epistemic.",
        "mean_w̃ CE(p(c; w), p(c; w̃)) (Eq. 3)",
        _COST,
    ),
)
