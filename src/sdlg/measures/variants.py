"""Semantic entropy in every variant, as measures. The arithmetic is in `semantic`; here are the names.

A name says how the cluster masses m_c are made, then the logarithm:

proper_{counted,unique}_{total,length_normalised}   m_c = Σ p(y), duplicates counted (Eq. 19) or once (Eq. 21)
importance_{total,length_normalised}                m_c = Σ w p(y), w = p(y_t) of the branch (Eq. 8, 13)
merged_importance_…                                 the same, w with the mass of the candidates merged into it (ours)
importance_only                                     m_c = (1/N) Σ w: Eq. 8 to the letter
branch_mass                                         m_c = Σ W, W = p(y_≤t): shares of all probability
…_unnormalised_log                                  −Σ (m/Σm) log m instead of H(m/Σm)

Where the logarithm is normalised the scale of the weights cancels, so L1-normalised and raw weights are one measure
with two names; where it is not they differ, and both are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from . import semantic
from .base import Array, Measure, MeasureInputs, given

CLUSTERED = "N sampled answers + NLI of pairs of distinct answers"
BRANCHED = "N answers by SDLG + NLI of pairs of distinct answers"

# -- cluster masses, each computed once for all measures of the same samples ------------------------------------


@lru_cache(maxsize=16)
def plain_masses(samples: MeasureInputs, likelihood: str, duplicates: str) -> Array:
    """log Σ p(y)."""
    return semantic.cluster_log_masses(samples, semantic.LIKELIHOODS[likelihood](samples), duplicates=duplicates)


@lru_cache(maxsize=16)
def weighted_masses(samples: MeasureInputs, likelihood: str, weighting: str) -> Array:
    """log Σ w p(y), w raw."""
    terms = log_weights(samples, weighting) + semantic.LIKELIHOODS[likelihood](samples)
    return semantic.cluster_log_masses(samples, terms)


def normalised_weighted_masses(samples: MeasureInputs, likelihood: str, weighting: str) -> Array:
    """log Σ w p(y), Σw = 1."""
    weights = log_weights(samples, weighting)
    masses: Array = weighted_masses(samples, likelihood, weighting) - np.logaddexp.reduce(weights)
    return masses


def importance_masses(samples: MeasureInputs) -> Array:
    """log (1/N) Σ w."""
    return semantic.cluster_log_masses(samples, log_weights(samples)) - math.log(len(samples))


def branch_masses(samples: MeasureInputs) -> Array:
    """log ΣW."""
    weights = semantic.branch_log_masses(samples) if is_one_tree(samples) else _unknown(samples)
    return semantic.cluster_log_masses(samples, weights)


def log_weights(samples: MeasureInputs, weighting: str = "importance") -> Array:
    """log w of one answer and its branches."""
    return semantic.IMPORTANCES[weighting](samples) if is_one_tree(samples) else _unknown(samples)


def is_one_tree(samples: MeasureInputs) -> bool:
    """Whether all answers but one are branches. If not, they were sampled in another way and weights mean nothing."""
    return sum(branching is None for branching in given(samples.branchings)) == 1


def _unknown(samples: MeasureInputs) -> Array:
    return np.full(len(samples), math.nan)


def _entropy(
    samples: MeasureInputs, masses: Callable[[MeasureInputs], Array], formula: Callable[[Array], float]
) -> float:
    return formula(masses(samples))


# -- the measures -----------------------------------------------------------------------------------------------

_LIKELIHOODS = {"total": "p(y)", "length_normalised": "p(y)^(1/T)"}
_DUPLICATES = {"counted": "over all answers", "unique": "over distinct answers"}
_PAPER = {
    "improper": "Improper: a mean over clusters, not an expectation (Kuhn et al.), as the paper's baseline.",
    "proper": "Proper, logarithm of the mass itself: the paper's SE* of multinomial or diverse beam search answers.",
    "importance": "SDLG's importance weights, L1-normalised, logarithm of the mass itself: the paper's SE* of SDLG.",
}


def _measure(
    name: str,
    function: Callable[[MeasureInputs], float],
    needs: frozenset[str],
    summary: str,
    equation: str,
    *,
    low: float = 0.0,
    cost: str = CLUSTERED,
    aliases: tuple[str, ...] = (),
) -> Measure:
    return Measure(
        f"semantic_entropy_{name}",
        function,
        needs,
        unit="nats",
        higher_is_less_certain=True,
        low=low,
        high=math.inf,
        summary=summary,
        equation=equation,
        cost=cost,
        aliases=aliases,
    )


def _normalised(
    name: str,
    masses: Callable[[MeasureInputs], Array],
    needs: frozenset[str],
    summary: str,
    mass: str,
    *,
    cost: str = CLUSTERED,
    aliases: tuple[str, ...] = (),
) -> Measure:
    function = partial(_entropy, masses=masses, formula=semantic.proper_entropy)
    return _measure(name, function, needs, summary, f"H(m/Σm), m_c = {mass}", cost=cost, aliases=aliases)


def _unnormalised(
    name: str,
    masses: Callable[[MeasureInputs], Array],
    needs: frozenset[str],
    summary: str,
    mass: str,
    *,
    cost: str = CLUSTERED,
    aliases: tuple[str, ...] = (),
) -> Measure:
    function = partial(_entropy, masses=masses, formula=semantic.unnormalised_entropy)
    equation = f"−Σ_c (m_c/Σm) log m_c, m_c = {mass}"
    return _measure(
        f"{name}_unnormalised_log", function, needs, summary, equation, low=-math.inf, cost=cost, aliases=aliases
    )


def _improper() -> list[Measure]:
    return [
        _measure(
            f"improper_{likelihood}",
            partial(
                _entropy,
                masses=partial(plain_masses, likelihood=likelihood, duplicates="counted"),
                formula=semantic.improper_entropy,
            ),
            frozenset({"logprobs", "clusters"}),
            _PAPER["improper"],
            f"−(1/M) Σ_c log m_c, m_c = Σ {chance} over all answers (Eq. 19, 20)",
            low=-math.inf,
            aliases=("SE_MS",) if likelihood == "length_normalised" else (),
        )
        for likelihood, chance in _LIKELIHOODS.items()
    ]


def _proper() -> list[Measure]:
    found = []
    for duplicates, which in _DUPLICATES.items():
        # Eq. 21 divides by the draws' own shares, which leaves each answer once; Eq. 19 sums over all draws.
        equation = "Eq. 21" if duplicates == "unique" else "Eq. 19"
        needs = frozenset({"logprobs", "clusters"} | ({"identities"} if duplicates == "unique" else set()))
        for likelihood, chance in _LIKELIHOODS.items():
            name, mass = f"proper_{duplicates}_{likelihood}", f"Σ {chance} {which} ({equation} in Eq. 7)"
            masses = partial(plain_masses, likelihood=likelihood, duplicates=duplicates)
            published = (duplicates, likelihood) == ("counted", "length_normalised")
            found += [
                _normalised(name, masses, needs, "Proper: an expectation over the clusters' shares.", mass),
                _unnormalised(
                    name,
                    masses,
                    needs,
                    _PAPER["proper"] if published else "Proper, logarithm of the mass itself.",
                    mass,
                    aliases=("SE*_MS", "SE*_DBS") if published else (),
                ),
            ]
    return found


_WEIGHTS = {
    "importance": ("SDLG's importance weights", "w = p(y_t) of the branch, 1 of the answer (Eq. 8, 13)"),
    "merged_importance": (
        "SDLG's importance weights with merged candidates (ours)",
        "w = Σ p of the candidates merged into the branch's token, 1 of the answer",
    ),
}


def _importance(weighting: str) -> list[Measure]:
    return [measure for likelihood in _LIKELIHOODS for measure in _weighted(weighting, likelihood)]


def _weighted(weighting: str, likelihood: str) -> list[Measure]:
    """Three measures of one kind of weights and likelihoods: by the share, and by the mass with w scaled and raw."""
    needs = frozenset({"logprobs", "clusters", "branchings"})
    words, weights = _WEIGHTS[weighting]
    mass = f"Σ w {_LIKELIHOODS[likelihood]}, {weights}"
    raw = partial(weighted_masses, likelihood=likelihood, weighting=weighting)
    scaled = partial(normalised_weighted_masses, likelihood=likelihood, weighting=weighting)
    both = tuple(f"semantic_entropy_{weighting}_{scale}_{likelihood}" for scale in ("l1", "raw"))
    published = (weighting, likelihood) == ("importance", "length_normalised")
    return [
        _normalised(f"{weighting}_{likelihood}", raw, needs, f"{words}.", mass, cost=BRANCHED, aliases=both),
        _unnormalised(
            f"{weighting}_l1_{likelihood}",
            scaled,
            needs,
            _PAPER["importance"] if published else f"{words}, L1-normalised, logarithm of the mass itself.",
            f"{mass}, Σw = 1",
            cost=BRANCHED,
            aliases=("SE*_SDLG",) if published else (),
        ),
        _unnormalised(
            f"{weighting}_raw_{likelihood}",
            raw,
            needs,
            f"{words} as they are, logarithm of the mass itself.",
            mass,
            cost=BRANCHED,
        ),
    ]


def _weights_alone() -> list[Measure]:
    eq8 = (
        importance_masses,
        frozenset({"clusters", "branchings"}),
        "Importance weights only: Eq. 8 to the letter.",
        "(1/N) Σ w, w = p(y_t) of the branch, 1 of the answer (Eq. 8, 13)",
    )
    branch = (
        branch_masses,
        frozenset({"logprobs", "clusters", "branchings"}),
        "Branch mass (ours): each branch stands for all outputs that begin as it does.",
        "Σ W, W = p(y_≤t) of the branch, p(y¹) of the answer",
    )
    return [
        make(name, *parts, cost=BRANCHED)
        for name, parts in (("importance_only", eq8), ("branch_mass", branch))
        for make in (_normalised, _unnormalised)
    ]


MEASURES = (
    _measure(
        "frequency",
        semantic.frequency_entropy,
        frozenset({"clusters"}),
        "Entropy of the clusters' shares of the answers; needs no likelihoods. For multinomial samples.",
        "H(N_c/N) (Eq. 6 in Eq. 7)",
        aliases=("DSE",),
    ),
    *_improper(),
    *_proper(),
    *_importance("importance"),
    *_importance("merged_importance"),
    *_weights_alone(),
)
