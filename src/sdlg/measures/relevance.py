"""Shifting attention to relevance (SAR): tokens and sentences that matter weigh more.

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

from .base import Array, MeasureInputs, as_measure, given
from .tokens import total_logprobs

TEMPERATURE = 0.001  # τ of the authors
_DUAN = "Duan et al. 2024, arXiv 2307.01379"


def token_sars(inputs: MeasureInputs) -> Array:
    """Return token SAR of each answer."""
    rows = zip(given(inputs.logprobs), given(inputs.relevance), strict=True)
    return np.array([_token_sar(steps, relevance) for steps, relevance in rows])


def _token_sar(steps: Sequence[float], relevance: Sequence[float]) -> float:
    """Where no token is relevant, each counts alike: a plain mean. Rounding below 0 is no relevance."""
    weights = [max(weight, 0.0) for weight in relevance]
    total = math.fsum(weights)
    if total == 0.0:
        return -math.fsum(steps) / max(len(steps), 1) + 0.0
    return -math.fsum(step * (weight / total) for step, weight in zip(steps, weights, strict=True)) + 0.0


def _shifted_to_sentences(inputs: MeasureInputs, logprobs: Array) -> float:
    """Count an answer that resembles likely others as likelier than it looks."""
    similarity = given(inputs.similarity)
    factors = np.full_like(similarity, -np.inf)  # (N, N): log(s_nm / τ), and log 1 for the answer itself
    np.log(similarity, out=factors, where=similarity > 0)
    factors -= math.log(TEMPERATURE)
    np.fill_diagonal(factors, 0.0)
    return float(-np.logaddexp.reduce(factors + logprobs[None, :], axis=1).mean())


@as_measure(
    "SAR", needs={"logprobs", "relevance", "similarity"}, low=-math.inf, reference=_DUAN,
    cost="N sampled answers + similarities of all pairs + one similarity per token",
    equation="−mean_n log(p_n + Σ_{m≠n} s_nm p_m / 0.001), p_n = exp(−token SAR of y^n)",
)  # fmt: skip
def sar(inputs: MeasureInputs) -> float:
    """Sentence SAR on token SAR: the SAR of the paper's main table."""
    return _shifted_to_sentences(inputs, -token_sars(inputs))


@as_measure(
    "tokenSAR", needs={"logprobs", "relevance"}, unit="nats per token", reference=_DUAN,
    cost="N sampled answers + one similarity per token",
    equation="mean_n Σ_t −log p(y^n_t) R_nt / Σ_t R_nt (plain mean where ΣR = 0)",
)  # fmt: skip
def token_sar(inputs: MeasureInputs) -> float:
    """Negative log-likelihood, tokens weighted by their relevance."""
    return float(token_sars(inputs).mean())


@as_measure(
    "sentSAR", needs={"logprobs", "similarity"}, low=-math.inf, reference=_DUAN,
    cost="N sampled answers + similarities of all pairs",
    equation="−mean_n log(p(y^n) + Σ_{m≠n} s_nm p(y^m) / 0.001)",
)  # fmt: skip
def sentence_sar(inputs: MeasureInputs) -> float:
    """Negative log-likelihood, lower for answers like likely others."""
    return _shifted_to_sentences(inputs, total_logprobs(inputs))
