"""Measures of likelihood alone: no clusters, no similarity.

In: `MeasureInputs` with log-probabilities or token entropies. Out: floats. "The answer" is the first one; those
measures cost one decoding and no samples.
"""

from __future__ import annotations

import math

import numpy as np

from .base import Measure, MeasureInputs, given
from .semantic import length_normalised_predictive_entropy, predictive_entropy

SAMPLES = "N sampled answers"
ANSWER = "the answer alone"


def answer_logprob(samples: MeasureInputs) -> float:
    """Log p(y) of the answer."""
    return math.fsum(given(samples.logprobs)[0])


def answer_mean_logprob(samples: MeasureInputs) -> float:
    """Log p(y) / |y| of the answer; 0 for one without decisions."""
    steps = given(samples.logprobs)[0]
    return math.fsum(steps) / max(len(steps), 1)


def greedy_negative_log_likelihood(samples: MeasureInputs) -> float:
    """G-NLL = −log p(y) of the answer (arXiv 2412.15176), which must have been decoded greedily to deserve the name."""
    return -answer_logprob(samples) + 0.0


def max_sequence_probability(samples: MeasureInputs) -> float:
    """p(y) of the answer. Below exp(−745) a float is 0: rank by G-NLL instead."""
    return math.exp(answer_logprob(samples))


def perplexity(samples: MeasureInputs) -> float:
    """exp(−mean log p) of the answer."""
    with np.errstate(over="ignore"):
        return float(np.exp(-answer_mean_logprob(samples)))


def mean_token_entropy(samples: MeasureInputs) -> float:
    """Mean entropy of the model's distribution over the answer's decisions. Without decisions: undefined."""
    entropies = given(samples.token_entropies)[0]
    return math.fsum(entropies) / len(entropies) if entropies else math.nan


_LOGPROBS = frozenset({"logprobs"})

MEASURES = (
    Measure(
        "predictive_entropy",
        predictive_entropy,
        _LOGPROBS,
        unit="nats",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Mean negative log-likelihood of the answers.",
        equation="−mean_n log p(y^n)",
        cost=SAMPLES,
        aliases=("PE",),
    ),
    Measure(
        "length_normalised_predictive_entropy",
        length_normalised_predictive_entropy,
        _LOGPROBS,
        unit="nats per token",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="The same per token (Malinin and Gales).",
        equation="−mean_n (log p(y^n) / T_n)",
        cost=SAMPLES,
        aliases=("LN-PE",),
    ),
    Measure(
        "greedy_negative_log_likelihood",
        greedy_negative_log_likelihood,
        _LOGPROBS,
        unit="nats",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Negative log-likelihood of the answer, decoded greedily (arXiv 2412.15176).",
        equation="−log p(y¹)",
        cost=ANSWER,
        aliases=("G-NLL",),
        of_answer=True,
    ),
    Measure(
        "max_sequence_probability",
        max_sequence_probability,
        _LOGPROBS,
        unit="probability",
        higher_is_less_certain=False,
        low=0.0,
        high=1.0,
        summary="Probability of the answer; higher is more certain.",
        equation="p(y¹)",
        cost=ANSWER,
        aliases=("MSP",),
        of_answer=True,
    ),
    Measure(
        "perplexity",
        perplexity,
        _LOGPROBS,
        unit="tokens",
        higher_is_less_certain=True,
        low=1.0,
        high=math.inf,
        summary="Perplexity of the answer.",
        equation="exp(−log p(y¹) / T_1)",
        cost=ANSWER,
        aliases=("PPL",),
        of_answer=True,
    ),
    Measure(
        "mean_token_entropy",
        mean_token_entropy,
        frozenset({"token_entropies"}),
        unit="nats per token",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Mean entropy of the model's distribution at the answer's tokens.",
        equation="mean_t H(p(· given y¹_<t))",
        cost=f"{ANSWER}, with whole distributions",
        aliases=("MTE",),
        of_answer=True,
    ),
)
