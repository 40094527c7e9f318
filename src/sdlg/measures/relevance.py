"""Shifting attention to relevance (SAR, Duan et al., arXiv 2307.01379): tokens and sentences that matter weigh more.

In: `MeasureInputs` with log-probabilities and, as needed, each token's relevance and similarities between answers.
Out: floats in nats, in log space throughout.

token SAR of one answer   Σ_t −log p(y_t) R_t / ΣR
SAR                       −mean_n log(p_n + Σ_{m≠n} s_nm p_m / τ),  p_n = exp(−token SAR of n),  τ = 0.001
sentence SAR              the same with p_n = p(y^n)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .base import Array, Measure, MeasureInputs, given
from .semantic import total_logprobs

TEMPERATURE = 0.001  # τ of the authors


def token_sars(samples: MeasureInputs) -> Array:
    """Token SAR of each answer."""
    rows = zip(given(samples.logprobs), given(samples.relevance), strict=True)
    return np.array([_token_sar(steps, relevance) for steps, relevance in rows])


def _token_sar(steps: Sequence[float], relevance: Sequence[float]) -> float:
    """Where no token is relevant, each counts alike: a plain mean. Rounding below 0 is no relevance."""
    weights = [max(weight, 0.0) for weight in relevance]
    total = math.fsum(weights)
    if total == 0.0:
        return -math.fsum(steps) / max(len(steps), 1) + 0.0
    return -math.fsum(step * (weight / total) for step, weight in zip(steps, weights, strict=True)) + 0.0


def token_sar(samples: MeasureInputs) -> float:
    """The mean over answers."""
    return float(token_sars(samples).mean())


def sar(samples: MeasureInputs) -> float:
    """Sentence relevance on likelihoods shifted by token relevance."""
    return _shifted_to_sentences(samples, -token_sars(samples))


def sentence_sar(samples: MeasureInputs) -> float:
    """Sentence relevance on plain likelihoods."""
    return _shifted_to_sentences(samples, total_logprobs(samples))


def _shifted_to_sentences(samples: MeasureInputs, logprobs: Array) -> float:
    """An answer that resembles likely others is likelier than it looks."""
    similarity = given(samples.similarity)
    factors = np.full_like(similarity, -np.inf)  # (N, N): log(s_nm / τ), and log 1 for the answer itself
    np.log(similarity, out=factors, where=similarity > 0)
    factors -= math.log(TEMPERATURE)
    np.fill_diagonal(factors, 0.0)
    return float(-np.logaddexp.reduce(factors + logprobs[None, :], axis=1).mean())


_TOKEN_COST = "N sampled answers + one similarity per token"
_SENTENCE_COST = "N sampled answers + similarities of all pairs"

MEASURES = (
    Measure(
        "token_sar",
        token_sar,
        frozenset({"logprobs", "relevance"}),
        unit="nats per token",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Negative log-likelihood per token, weighted by what each token means for the answer.",
        equation="mean_n Σ_t −log p(y^n_t) R_nt / Σ_t R_nt (plain mean where ΣR = 0)",
        cost=_TOKEN_COST,
        aliases=("tokenSAR",),
    ),
    Measure(
        "sentence_sar",
        sentence_sar,
        frozenset({"logprobs", "similarity"}),
        unit="nats",
        higher_is_less_certain=True,
        low=-math.inf,
        high=math.inf,
        summary="Negative log-likelihood, lower for answers that resemble likely others.",
        equation="−mean_n log(p(y^n) + Σ_{m≠n} s_nm p(y^m) / 0.001)",
        cost=_SENTENCE_COST,
        aliases=("sentSAR",),
    ),
    Measure(
        "sar",
        sar,
        frozenset({"logprobs", "relevance", "similarity"}),
        unit="nats",
        higher_is_less_certain=True,
        low=-math.inf,
        high=math.inf,
        summary="Sentence SAR on token SAR: the SAR of the paper's main table.",
        equation="−mean_n log(p_n + Σ_{m≠n} s_nm p_m / 0.001), p_n = exp(−token SAR of y^n)",
        cost=f"{_SENTENCE_COST} + one similarity per token",
        aliases=("SAR",),
    ),
)
