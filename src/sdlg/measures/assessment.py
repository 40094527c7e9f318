"""Measures newer than the paper: the model's opinion of itself, confidence × consistency, and unseen meanings.

In: `MeasureInputs`. Out: floats. "The answer" is the first one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from .base import Array, Measure, MeasureInputs, given
from .graph import eigenvalue_sum
from .tokens import answer_logprob, answer_mean_logprob, mean_token_entropy

# -- the model asked about its answers --------------------------------------------------------------------------


def probability_not_true(samples: MeasureInputs) -> float:
    """1 − P(True) (Kadavath et al., arXiv 2207.05221)."""
    return 1.0 - given(samples.p_true)


def assessment_entropy(samples: MeasureInputs) -> float:
    """H of the model's probabilities for the clusters, offered to it as options."""
    return -math.fsum(share * math.log(share) for share in given(samples.assessment) if share > 0) + 0.0


def assessment_against_answer(samples: MeasureInputs) -> float:
    """1 − the model's probability for the answer's own cluster. Options are in the order of cluster numbers."""
    clusters = given(samples.clusters)
    return 1.0 - given(samples.assessment)[sorted(set(clusters)).index(clusters[0])]


# -- CoCoA: confidence × consistency (arXiv 2502.04964) ---------------------------------------------------------


def dissimilarity_to_answer(samples: MeasureInputs) -> float:
    """Mean of 1 − s(answer, other) over the other answers. Without others: undefined."""
    others = given(samples.similarity)[0, 1:]
    return float(1.0 - others.mean()) if len(others) else math.nan


def disagreement(samples: MeasureInputs) -> float:
    """Share of the other answers that mean something else than the answer. Without others: undefined.

    Of answers drawn at temperature 1 it estimates how often the model would mean something else than it said.
    """
    own, *others = given(samples.clusters)
    return sum(other != own for other in others) / len(others) if others else math.nan


def _unlikeliness(samples: MeasureInputs) -> float:
    return -answer_logprob(samples)


def _mean_unlikeliness(samples: MeasureInputs) -> float:
    return -answer_mean_logprob(samples)


def cocoa(samples: MeasureInputs, unconfidence: Callable[[MeasureInputs], float]) -> float:
    """How unsure the model was of the answer, times how little the other answers agree with it."""
    return unconfidence(samples) * dissimilarity_to_answer(samples) + 0.0


# -- unseen meanings (McCabe et al., arXiv 2509.14478) ----------------------------------------------------------


def cluster_counts(samples: MeasureInputs) -> Array:
    """Answers per cluster."""
    _, counts = np.unique(np.array(given(samples.clusters)), return_counts=True)
    return counts.astype(np.float64)


def chao_shen_entropy(samples: MeasureInputs) -> float:
    """Chao and Shen (2003) with Good-Turing coverage C = 1 − f₁/N; all singletons: f₁ = N − 1, as is usual."""
    counts = cluster_counts(samples)
    singletons = min(float((counts == 1).sum()), counts.sum() - 1)
    return _coverage_adjusted(counts, 1.0 - singletons / counts.sum())


def semantic_alphabet_size(samples: MeasureInputs) -> float:
    """The larger of Good-Turing's M·N / (N − f₁) and the eigenvalue sum; that sum alone if all are singletons."""
    counts = cluster_counts(samples)
    repeated = counts.sum() - (counts == 1).sum()  # N − f₁
    spectral = eigenvalue_sum(samples, "entailment")
    return spectral if repeated == 0 else max(len(counts) * float(counts.sum() / repeated), spectral)


def coverage_adjusted_entropy(samples: MeasureInputs) -> float:
    """Chao and Shen's entropy with coverage M / alphabet size. All singletons may "cover" more than 1, as published."""
    counts = cluster_counts(samples)
    return _coverage_adjusted(counts, len(counts) / semantic_alphabet_size(samples))


def _coverage_adjusted(counts: Array, coverage: float) -> float:
    """−Σ q log q / (1 − (1 − q)^N), q = coverage · share: each term divided by its chance of having been seen."""
    shares = np.minimum(coverage * counts / counts.sum(), 1.0)
    return float(-(shares * np.log(shares) / (1.0 - (1.0 - shares) ** counts.sum())).sum()) + 0.0


# -- the measures -----------------------------------------------------------------------------------------------

_PAIRS = "N sampled answers + N−1 similarities"
_CLUSTERED = "N sampled answers + NLI of pairs of distinct answers"


def _cocoa(short: str, unconfidence: Callable[[MeasureInputs], float], need: str, unit: str, formula: str) -> Measure:
    spelled = {"MSP": "log_likelihood", "PPL": "log_perplexity", "MTE": "token_entropy"}[short]
    return Measure(
        f"cocoa_{spelled}",
        partial(cocoa, unconfidence=unconfidence),
        frozenset({need, "similarity"}),
        unit=unit,
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Confidence × consistency (arXiv 2502.04964). Undefined for one answer.",
        equation=f"{formula} · mean_{{n>1}} (1 − s(y¹, y^n))",
        cost=_PAIRS,
        aliases=(f"CoCoA_{short}",),
        of_answer=True,
    )


MEASURES = (
    Measure(
        "probability_not_true",
        probability_not_true,
        frozenset({"p_true"}),
        unit="probability",
        higher_is_less_certain=True,
        low=0.0,
        high=1.0,
        summary="1 − the model's own probability that its answer is true.",
        equation="1 − P(True)",
        cost="the answer + 1 call of the model",
        aliases=("P(True)",),
        of_answer=True,
    ),
    Measure(
        "disagreement",
        disagreement,
        frozenset({"clusters"}),
        unit="probability",
        higher_is_less_certain=True,
        low=0.0,
        high=1.0,
        summary="Share of the other answers that mean something else than the answer. For drawn answers.",
        equation="mean_{n>1} [c(y^n) ≠ c(y¹)]",
        cost=_CLUSTERED,
        of_answer=True,
    ),
    Measure(
        "clustered_self_assessment",
        assessment_against_answer,
        frozenset({"assessment", "clusters"}),
        unit="probability",
        higher_is_less_certain=True,
        low=0.0,
        high=1.0,
        summary="1 − the model's probability for the answer's cluster among all clusters (arXiv 2606.03846).",
        equation="1 − P(option of the cluster of y¹)",
        cost=f"{_CLUSTERED} + 1 call of the model",
        aliases=("CSA",),
        of_answer=True,
    ),
    Measure(
        "clustered_self_assessment_entropy",
        assessment_entropy,
        frozenset({"assessment"}),
        unit="nats",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Entropy of the model's probabilities for the clusters as options (ours, on the same call).",
        equation="H(P(option))",
        cost=f"{_CLUSTERED} + 1 call of the model",
    ),
    _cocoa("MSP", _unlikeliness, "logprobs", "nats", "−log p(y¹)"),
    _cocoa("PPL", _mean_unlikeliness, "logprobs", "nats per token", "−(log p(y¹) / T_1)"),
    _cocoa("MTE", mean_token_entropy, "token_entropies", "nats per token", "mean token entropy of y¹"),
    Measure(
        "semantic_entropy_chao_shen",
        chao_shen_entropy,
        frozenset({"clusters"}),
        unit="nats",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="Frequency entropy corrected for unseen meanings, Good-Turing coverage. For multinomial samples.",
        equation="−Σ_c q log q / (1 − (1−q)^N), q = C N_c/N, C = 1 − f₁/N",
        cost=_CLUSTERED,
        aliases=("Chao-Shen",),
    ),
    Measure(
        "semantic_entropy_coverage_adjusted",
        coverage_adjusted_entropy,
        frozenset({"clusters", "entailment"}),
        unit="nats",
        higher_is_less_certain=True,
        low=0.0,
        high=math.inf,
        summary="The same with coverage M / alphabet size (hybrid, arXiv 2509.14478). For multinomial samples.",
        equation="−Σ_c q log q / (1 − (1−q)^N), q = (M/A) N_c/N, A = semantic alphabet size",
        cost="N sampled answers + NLI of all ordered pairs",
        aliases=("Hybrid DSE",),
    ),
    Measure(
        "semantic_alphabet_size",
        semantic_alphabet_size,
        frozenset({"clusters", "entailment"}),
        unit="clusters",
        higher_is_less_certain=True,
        low=1.0,
        high=math.inf,
        summary="Estimated number of meanings, unseen ones included (arXiv 2509.14478). For multinomial samples.",
        equation="max(M N / (N − f₁), eigenvalue sum); eigenvalue sum if f₁ = N",
        cost="N sampled answers + NLI of all ordered pairs",
    ),
)
