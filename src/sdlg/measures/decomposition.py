"""Total = aleatoric + epistemic (Eq. 3), with other models as a stand-in for the posterior.

In: `MeasureInputs` with log p(y) of each answer under this model and under each other one, and clusters.
Out: nats.

Each model's p(c) is its likelihoods (total), summed within clusters over distinct answers and normalised over the
answers that were sampled: all three numbers are about these answers only.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from .base import CLUSTERED, PAPER, Array, MeasureInputs, as_measure, given
from .semantic import cluster_log_masses, proper_entropy
from .tokens import total_logprobs

_OWN = frozenset({"logprobs", "identities", "clusters"})
_COST = "N sampled answers + NLI of pairs + each other model scores the N answers"
_UNDEFINED = "there is no other model, or one gives these answers no probability"


@as_measure(needs=_OWN, equation="H(p(c; w)) (Eq. 3, 4)", cost=CLUSTERED, reference=PAPER)
def aleatoric_semantic_uncertainty(inputs: MeasureInputs) -> float:
    """What this model leaves open: semantic entropy of distinct answers."""
    return proper_entropy(_own(inputs))


@as_measure(
    needs=_OWN | {"other_logprobs"}, equation="mean_w̃ KL(p(c; w) ‖ p(c; w̃)) (Eq. 3)", cost=_COST,
    undefined=_UNDEFINED, reference=PAPER,
)  # fmt: skip
def epistemic_semantic_uncertainty(inputs: MeasureInputs) -> float:
    """How much other models disagree with this one about the meanings."""
    own = _own(inputs)
    return _mean([divergence(own, other) for other in _others(inputs)])


@as_measure(
    needs=_OWN | {"other_logprobs"}, equation="mean_w̃ CE(p(c; w), p(c; w̃)) (Eq. 3)", cost=_COST,
    undefined=_UNDEFINED, reference=PAPER,
)  # fmt: skip
def total_semantic_uncertainty(inputs: MeasureInputs) -> float:
    """Aleatoric + epistemic."""
    own = _own(inputs)
    return _mean([cross_entropy(own, other) for other in _others(inputs)])


def cross_entropy(log_p: Array, log_q: Array) -> float:
    """Return −Σ p log q."""
    possible = np.isfinite(log_p)
    return _expectation(log_p[possible], -log_q[possible])


def divergence(log_p: Array, log_q: Array) -> float:
    """Return Σ p log(p/q). Infinite where q rules out what p does not."""
    possible = np.isfinite(log_p)
    return _expectation(log_p[possible], log_p[possible] - log_q[possible])


def _expectation(log_p: Array, values: Array) -> float:
    """Infinite if any value is: p may have underflowed, but is not 0."""
    return math.inf if np.isposinf(values).any() else float((np.exp(log_p) * values).sum()) + 0.0


def _own(inputs: MeasureInputs) -> Array:
    return _log_shares(inputs, total_logprobs(inputs))


def _others(inputs: MeasureInputs) -> list[Array]:
    return [_log_shares(inputs, np.array(row)) for row in given(inputs.other_logprobs)]


def _log_shares(inputs: MeasureInputs, logprobs: Array) -> Array:
    """log p(c) over distinct sampled answers. NaN if none of them is possible."""
    first: dict[Hashable, int] = {}
    for n, identity in enumerate(given(inputs.identities)):
        first.setdefault(identity, n)
    masses = cluster_log_masses(inputs, logprobs, first.values())
    with np.errstate(invalid="ignore"):
        shares: Array = masses - np.logaddexp.reduce(masses)
    return shares


def _mean(values: list[float]) -> float:
    """No other model: undefined."""
    return sum(values) / len(values) if values else math.nan
