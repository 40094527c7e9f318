"""What the model thinks of its own answer, and how far other answers agree with it.

In: `MeasureInputs`. Out: floats. "The answer" is the first one.
"""

from __future__ import annotations

import math

from .base import CLUSTERED, MeasureInputs, as_measure, given
from .tokens import mean_logprobs, total_logprobs

_VASHURIN = "Vashurin et al. 2025, arXiv 2502.04964"
_PAIRS = "N sampled answers + N−1 similarities"
_ALONE = "one answer has no other to compare with"


@as_measure(
    "P(True)", needs={"p_true"}, equation="1 − P(True)", cost="the answer + 1 call of the model", unit="probability",
    high=1.0, of_answer=True, reference="Kadavath et al. 2022, arXiv 2207.05221",
)  # fmt: skip
def probability_not_true(inputs: MeasureInputs) -> float:
    """1 − the model's own probability that its answer is true."""
    return 1.0 - given(inputs.p_true)


@as_measure(
    "CSA", needs={"assessment", "clusters"}, equation="1 − P(option of the cluster of y¹)",
    cost=f"{CLUSTERED} + 1 call of the model", unit="probability", high=1.0, of_answer=True,
    reference="arXiv 2606.03846",
)  # fmt: skip
def clustered_self_assessment(inputs: MeasureInputs) -> float:
    """1 − the model's probability for the answer's meaning as an option."""
    clusters = given(inputs.clusters)
    return 1.0 - given(inputs.assessment)[sorted(set(clusters)).index(clusters[0])]  # options by cluster number


@as_measure(
    "CoCoA_MSP", needs={"logprobs", "similarity"}, equation="−log p(y¹) · mean_{n>1} (1 − s(y¹, y^n))", cost=_PAIRS,
    of_answer=True, undefined=_ALONE, reference=_VASHURIN,
)  # fmt: skip
def cocoa_log_likelihood(inputs: MeasureInputs) -> float:
    """Unlikeliness of the answer × how little the others resemble it."""
    return -float(total_logprobs(inputs)[0]) * _dissimilarity_to_answer(inputs) + 0.0


@as_measure(
    "CoCoA_PPL", needs={"logprobs", "similarity"}, equation="−(log p(y¹) / T_1) · mean_{n>1} (1 − s(y¹, y^n))",
    cost=_PAIRS, unit="nats per token", of_answer=True, undefined=_ALONE, reference=_VASHURIN,
)  # fmt: skip
def cocoa_log_perplexity(inputs: MeasureInputs) -> float:
    """The same with the unlikeliness per token."""
    return -float(mean_logprobs(inputs)[0]) * _dissimilarity_to_answer(inputs) + 0.0


def _dissimilarity_to_answer(inputs: MeasureInputs) -> float:
    """Mean of 1 − s(answer, other) over the other answers. Without others: undefined."""
    others = given(inputs.similarity)[0, 1:]
    return float(1.0 - others.mean()) if len(others) else math.nan
