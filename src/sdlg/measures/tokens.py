"""Measures of likelihood alone: no clusters, no similarity.

In: `MeasureInputs` with log-probabilities or token entropies. Out: floats. "The answer" is the first one; its measures
cost one decoding and no samples.
"""

from __future__ import annotations

import math

import numpy as np

from .base import Array, MeasureInputs, as_measure, given

ANSWER = "the answer alone"
_MALININ = "Malinin and Gales 2021, arXiv 2002.07650"
_FOMICHEVA = "Fomicheva et al. 2020, arXiv 2005.10608"


def total_logprobs(inputs: MeasureInputs) -> Array:
    """Return log p(y) of each answer."""
    return np.array([math.fsum(steps) for steps in given(inputs.logprobs)])


def mean_logprobs(inputs: MeasureInputs) -> Array:
    """Return log p(y) / T of each answer; 0 for one without decisions."""
    return np.array([math.fsum(steps) / max(len(steps), 1) for steps in given(inputs.logprobs)])


@as_measure(
    "PPL", needs={"logprobs"}, equation="exp(−log p(y¹) / T_1)", reference=_FOMICHEVA, cost=ANSWER, unit="tokens",
    low=1.0, of_answer=True,
)  # fmt: skip
def perplexity(inputs: MeasureInputs) -> float:
    """Perplexity of the answer."""
    with np.errstate(over="ignore"):
        return float(np.exp(-mean_logprobs(inputs)[0]))


@as_measure(
    "G-NLL", needs={"logprobs"}, equation="−log p(y¹)", reference="Aichberger et al. 2024, arXiv 2412.15176",
    cost=ANSWER, of_answer=True,
)  # fmt: skip
def greedy_negative_log_likelihood(inputs: MeasureInputs) -> float:
    """Negative log-likelihood of the answer, decoded greedily."""
    return -float(total_logprobs(inputs)[0]) + 0.0


@as_measure(
    "MTE", needs={"token_entropies"}, equation="mean_t H(p(· given y¹_<t))", reference=_FOMICHEVA,
    cost="the answer alone, with whole distributions", unit="nats per token", of_answer=True,
    undefined="the answer has no tokens",
)  # fmt: skip
def mean_token_entropy(inputs: MeasureInputs) -> float:
    """Mean entropy of the model's distribution at the answer's tokens."""
    entropies = given(inputs.token_entropies)[0]
    return math.fsum(entropies) / len(entropies) if entropies else math.nan


@as_measure("PE", needs={"logprobs"}, equation="−mean_n log p(y^n)", reference=_MALININ)
def predictive_entropy(inputs: MeasureInputs) -> float:
    """Mean negative log-likelihood of the answers."""
    return float(-total_logprobs(inputs).mean())


@as_measure(
    "LN-PE", needs={"logprobs"}, equation="−mean_n (log p(y^n) / T_n)", reference=_MALININ, unit="nats per token"
)
def length_normalised_predictive_entropy(inputs: MeasureInputs) -> float:
    """Mean negative log-likelihood of the answers, per token."""
    return float(-mean_logprobs(inputs).mean())
