"""Shares p(c | question) at temperature 1 with their intervals, their entropy, and the clusters that have them.

In: answers of exactly known mass that were fixed before (the answer, its branches), and unbiased draws. Out: numbers,
and `Cluster` records.

    p(c) = Σ_{known in c} p(y) + R · (draws in c) / M,     R = 1 − Σ_known p(y)

over the M draws that are none of the known answers. Where some answers are left out (they decline, or speak of
something else) all of it is divided by what the others have together, by the same sum. Shares are not scores: SDLG's
weights find meanings and rank questions, and only draws tell how often the model would say something.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import not_

import numpy as np

from ..clustering.declining import declines
from ..options import Clustering
from ..records import Cluster, Draws, Estimate, Generation, MeaningKind, Sample, Sampled
from .base import OURS, Array, MeasureInputs, as_measure, given
from .headline import cluster_score_shares

EVENNESS = {"arithmetic": 1.5, "multinomial": 1.0}  # how many independent draws one is worth; fitted (docs/results)
_LEVEL, _Z = 0.95, 1.959963984540054
_SAME_LOGPROB = 0.05  # nats: the same answer, computed in another batch
_POSTERIOR_SIZE, _POSTERIOR_SEED = 2000, 20230
_UNDRAWN = 0.01  # of all probability: so much may lie beyond all draws before an entropy has no interval


@dataclass(frozen=True, eq=False)
class Tally:
    """What is known of each cluster, by its number."""

    exact: Array  # Σ p(y) of the known answers
    counts: Array  # draws that are none of them
    rest: float  # probability of all answers but the known ones
    floor: Array  # Σ p(y) over distinct answers, known or drawn: the share is at least this

    @property
    def draws(self) -> float:
        """How many draws count."""
        return float(self.counts.sum())


def tally_of(known: Sequence[Sample], draws: Draws) -> Tally:
    """Count draws and known masses; a known answer that comes twice has its mass once."""
    size = 1 + max(sample.cluster or 0 for sample in [*known, *draws.samples])
    known = _distinct(known)
    masses = _masses(known)
    outside = [draw for draw in draws.samples if not any(_is_same(draw, answer) for answer in known)]
    exact: Array = np.zeros(size)
    np.add.at(exact, [sample.cluster or 0 for sample in known], masses)
    counts = np.bincount([draw.cluster or 0 for draw in outside], minlength=size).astype(float)
    floor = np.zeros(size)
    found = _distinct(sorted([*known, *outside], key=lambda sample: bool(sample.generation.ending_logprobs)))
    np.add.at(floor, [sample.cluster or 0 for sample in found], _masses(found))
    floor = np.maximum(floor, exact)
    whole = max(1.0 - draws.left_out, float(floor.sum())) if draws.left_out else 1.0
    return Tally(exact / whole, counts, max(whole - math.fsum(masses), 0.0) / whole, floor / whole)


def _distinct(samples: Sequence[Sample]) -> list[Sample]:
    found: list[Sample] = []
    for sample in samples:
        if not any(_is_same(sample, other) for other in found):
            found.append(sample)
    return found


def _masses(samples: Sequence[Sample]) -> list[float]:
    """p(y); 0 where it is not known."""
    logprobs = [sample.generation.logprob for sample in samples]
    return [0.0 if math.isnan(logprob) else math.exp(min(logprob, 0.0)) for logprob in logprobs]


def _is_same(draw: Sample, answer: Sample) -> bool:
    """Whether the answer's probability holds the draw's: the same tokens with the same ending.

    One text can end in several ways, each with a probability of its own. That of a sentence, after which anything may
    come, holds all of them.
    """
    one, other = draw.generation, answer.generation
    if one.token_ids != other.token_ids or not other.ending_logprobs:
        return one.token_ids == other.token_ids
    return one.stop_reason == other.stop_reason and abs(_ending(one) - _ending(other)) < _SAME_LOGPROB


def _ending(generation: Generation) -> float:
    return math.fsum(generation.ending_logprobs)


# -- shares -----------------------------------------------------------------------------------------------------


def shares_of(tally: Tally) -> Array:
    """Return exact masses, and the frequencies of the draws on the rest. (clusters,)

    Unbiased, up to here. A frequency may lie below what was found of a meaning for certain: then it is raised to that,
    and what the others have beyond their own floors is scaled down. Where answers are long, floors are next to 0.
    """
    masses = tally.exact + (tally.rest * tally.counts / tally.draws if tally.draws else 0.0)
    if masses.sum() <= 0:  # nothing was drawn, and what is known is too unlikely for a float: all may be the answer's
        masses = np.eye(1, len(masses))[0]
    masses = masses / masses.sum()
    above, left = np.maximum(masses - tally.floor, 0.0), max(1.0 - float(tally.floor.sum()), 0.0)
    shares: Array = tally.floor + left * above / above.sum() if above.sum() > 0 else tally.floor
    normalised: Array = shares / shares.sum()
    return normalised


def share_interval(tally: Tally, cluster: int, evenness: float) -> tuple[float, float]:
    """Return the interval of a share at 95 %: Wilson's for the draws, scaled to the rest, cut by what is certain.

    Certain are: at least the mass of all distinct answers of the cluster, at most 1 − that of all in the others.
    """
    surest_low = min(float(tally.floor[cluster]), 1.0)
    surest_high = max(min(1.0 - (float(tally.floor.sum()) - float(tally.floor[cluster])), 1.0), surest_low)
    if not tally.draws:
        return surest_low, surest_high
    low, high = wilson(evenness * float(tally.counts[cluster]), evenness * tally.draws)
    exact, share = float(tally.exact[cluster]), float(shares_of(tally)[cluster])
    low, high = max(exact + tally.rest * low, surest_low), min(exact + tally.rest * high, surest_high)
    return min(low, share), max(high, share)


def wilson(hits: float, trials: float) -> tuple[float, float]:
    """Return Wilson's score interval at 95 %."""
    share = hits / trials
    middle = (share + _Z * _Z / (2 * trials)) / (1 + _Z * _Z / trials)
    half = _Z / (1 + _Z * _Z / trials) * math.sqrt(share * (1 - share) / trials + _Z * _Z / (4 * trials * trials))
    return max(middle - half, 0.0), min(middle + half, 1.0)


# -- clusters ---------------------------------------------------------------------------------------------------


def numbered(sampled: Sampled, numbers: Sequence[int]) -> Sampled:
    """Return samples and draws with their clusters."""
    left = iter(numbers)
    samples = tuple(replace(sample, cluster=next(left)) for sample in sampled.samples)
    if sampled.draws is None:
        return replace(sampled, samples=samples)
    beside = sampled.draws.beside
    drawn = tuple(replace(draw, cluster=next(left)) for draw in sampled.draws.samples) if beside else samples
    return replace(sampled, samples=samples, draws=replace(sampled.draws, samples=drawn))


def counted(sampled: Sampled, options: Clustering) -> Sampled:
    """Return what the estimates are made from: all, or only what answers, if the first sample does."""
    if options.declining == "meaning" or declines(sampled.samples[0].text):
        return sampled
    left_out = [declines(one.text) for one in (*sampled.samples, *sampled.draws_beside)]
    kept = without(sampled, left_out)
    numbers = [one.cluster for one in (*kept.samples, *kept.draws_beside)]
    places = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
    return numbered(kept, [places[number] for number in numbers])


def without(sampled: Sampled, left_out: Sequence[bool]) -> Sampled:
    """Return what was sampled and drawn but for some of it, by place: the samples first, then the draws beside them."""
    if not any(left_out):
        return sampled
    samples = tuple(compress(sampled.samples, map(not_, left_out)))
    if sampled.draws is None:
        return replace(sampled, samples=samples)
    beside = sampled.draws.beside
    drawn = compress(sampled.draws.samples, map(not_, left_out[len(sampled.samples) :])) if beside else samples
    beyond, before = _share_left_out(sampled, left_out), sampled.draws.left_out
    draws = replace(sampled.draws, samples=tuple(drawn), left_out=before + (1 - before) * beyond)
    return replace(sampled, samples=samples, draws=draws)


def _share_left_out(sampled: Sampled, left_out: Sequence[bool]) -> float:
    """The share of what is left out. Where no draw is kept it is as if half a one were: nothing is certain then."""
    parted = numbered(sampled, list(map(int, left_out)))
    assert parted.draws is not None
    tally = tally_of(parted.samples if parted.draws.beside else (), parted.draws)
    kept = max(tally.counts[0], 0.5) / tally.draws if tally.draws else 1.0
    return float(tally.exact[1] + tally.rest * (1 - min(kept, 1.0)))


def meanings_of(inputs: MeasureInputs, sampled: Sampled) -> tuple[Cluster, ...]:
    """Return the clusters: first those that the samples found, the answer's own first, then those of draws alone."""
    draws, shares = sampled.draws, cluster_score_shares(inputs)
    further = {draw.cluster for draw in sampled.draws_beside if draw.cluster is not None} - set(range(len(shares)))
    clusters = [_cluster(sampled, number, share) for number, share in enumerate(shares)]
    clusters += [_cluster(sampled, number, 0.0) for number in sorted(further)]
    if draws is None:
        return tuple(clusters)
    tally = tally_of(sampled.samples if draws.beside else (), draws)
    intervals = [share_interval(tally, cluster.id, EVENNESS[draws.by]) for cluster in clusters]
    return tuple(
        replace(cluster, probability=float(share), low=low, high=high)
        for cluster, share, (low, high) in zip(clusters, shares_of(tally), intervals, strict=True)
    )


def _cluster(sampled: Sampled, number: int, score_share: float) -> Cluster:
    members, draws = _places(sampled.samples, number), _places(sampled.draws_beside, number)
    texts = [*(sampled.samples[k].text for k in members), *(sampled.draws_beside[k].text for k in draws)]
    wordings = tuple(dict.fromkeys(texts))
    kind: MeaningKind = "declines" if all(map(declines, wordings)) else "answer"
    return Cluster(number, wordings[0], wordings, None, members, score_share=score_share, draws=draws, kind=kind)


def _places(samples: Sequence[Sample], number: int) -> tuple[int, ...]:
    return tuple(place for place, sample in enumerate(samples) if sample.cluster == number)


# -- measures ---------------------------------------------------------------------------------------------------


@as_measure(
    needs={"samples", "draws", "clusters"}, unit="probability", high=1.0, of_answer=True,
    equation="1 − p(c¹), p as shown to users", reference=OURS, cost="N answers by SDLG + some draws + NLI of pairs",
)  # fmt: skip
def share_beyond_answer(inputs: MeasureInputs) -> float:
    """1 − the share of the answer's own meaning, as users see it."""
    known, draws = _known_and_drawn(inputs)
    return 1.0 - float(shares_of(tally_of(known, draws))[given(inputs.clusters)[0]])


@as_measure(
    needs={"samples", "draws", "clusters"}, equation="Chao and Shen's H(p(c))", reference=OURS,
    cost="N answers by SDLG + some draws + NLI of pairs",
)  # fmt: skip
def share_entropy(inputs: MeasureInputs) -> float:
    """Entropy of the meanings' percentages (Chao and Shen)."""
    return chao_shen_entropy(tally_of(*_known_and_drawn(inputs)))


def _known_and_drawn(inputs: MeasureInputs) -> tuple[Sequence[Sample], Draws]:
    """Return the samples of known mass, and the draws; the samples themselves where they were drawn."""
    numbers = given(inputs.clusters)
    samples = [replace(one, cluster=n) for one, n in zip(given(inputs.samples), numbers, strict=True)]
    draws = given(inputs.draws)
    return (samples, draws) if draws.beside else ((), replace(draws, samples=tuple(samples)))


# -- entropy ----------------------------------------------------------------------------------------------------


def share_entropy_estimate(samples: Sequence[Sample], draws: Draws) -> Estimate:
    """Return Chao and Shen's entropy of the shares, with a 95 % interval."""
    known = samples if draws.beside else ()
    value = chao_shen_entropy(tally_of(known, draws))
    # With many known clusters that no draw has hit the posterior is too narrow: the answer alone is known to it.
    tally = tally_of(known[:1] if draws.knows_answer else (), draws)
    low: float | None = None
    high: float | None = None
    if tally.draws or tally.rest < _UNDRAWN:
        posterior = posterior_entropies(tally, np.random.default_rng(_POSTERIOR_SEED))
        ends = np.quantile(posterior, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
        low, high = min(float(ends[0]), value), max(float(ends[1]), value)
    options = {"estimator": "chao_shen", "draws": str(len(draws.samples)), "drawn_by": draws.by}
    return Estimate(value, "nats", True, options, low, high)


def chao_shen_entropy(tally: Tally) -> float:
    """Return the entropy: of the part that was drawn by Good-Turing coverage and Horvitz-Thompson weights (2003).

    Clusters of exactly known mass are certain to be seen, so they are not weighted.
    """
    m = tally.draws
    if not m:
        return _entropy(shares_of(tally))
    once = float(((tally.counts == 1) & (tally.exact == 0)).sum())
    coverage = 1 - (once if once < m else once - 1) / m
    outside = coverage * tally.counts / m  # of the rest
    masses = tally.exact + tally.rest * outside
    included = np.where(tally.exact > 0, 1.0, 1 - (1 - outside) ** m)
    seen = masses > 0
    return float(-(masses[seen] * np.log(masses[seen]) / included[seen]).sum()) + 0.0


def _entropy(shares: Array) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum()) + 0.0


# -- the entropy's interval: a Dirichlet process of unknown concentration -----------------------------------------

_CONCENTRATIONS: Array = np.exp(np.linspace(math.log(0.1), math.log(1000.0), 41))
_STICKS = 40
_EULER = 0.5772156649015329


def posterior_entropies(tally: Tally, random: np.random.Generator, size: int = _POSTERIOR_SIZE) -> Array:
    """Return entropies of p(c) given the draws. (size,)

    Given α, the clusters drawn have Dirichlet(counts) shares of the rest, and all others together Beta(α, M) of it,
    broken like a DP(α) again. α is log-uniform before the draws: p(α | K clusters) ∝ α^K Γ(α)/Γ(α + M).
    """
    if not tally.draws or tally.rest <= 0:
        return np.full(size, _entropy(shares_of(tally)))
    counts = tally.counts
    logs: Array = np.count_nonzero(counts) * np.log(_CONCENTRATIONS)
    logs = logs + _log_gamma(_CONCENTRATIONS) - _log_gamma(_CONCENTRATIONS + tally.draws)
    weights = np.exp(logs - logs.max())
    alphas = random.choice(_CONCENTRATIONS, size=size, p=weights / weights.sum())  # (size,)
    pieces = random.gamma(np.maximum(counts, 1e-12), size=(size, len(counts))) * (counts > 0)
    unseen = random.gamma(alphas)
    total = pieces.sum(axis=1) + unseen
    shares = np.maximum(tally.exact + tally.rest * pieces / total[:, None], 1e-300)
    news = np.maximum(tally.rest * unseen / total, 1e-300)
    found: Array = -(shares * np.log(shares)).sum(axis=1) + news * (_stick_entropies(alphas, random) - np.log(news))
    return found


def _stick_entropies(alphas: Array, random: np.random.Generator) -> Array:
    """Entropies of Dirichlet processes: the first sticks drawn, the rest at its mean ψ(α+1) − ψ(1). (size,)"""
    broken = random.beta(1.0, alphas[:, None], size=(len(alphas), _STICKS))
    left = np.cumprod(1 - broken, axis=1)
    sticks = np.maximum(broken * np.concatenate([np.ones((len(alphas), 1)), left[:, :-1]], axis=1), 1e-300)
    rest = np.maximum(left[:, -1], 1e-300)
    entropies: Array = -(sticks * np.log(sticks)).sum(axis=1) + rest * (_digamma(alphas + 1) + _EULER - np.log(rest))
    return entropies


def _log_gamma(values: Array) -> Array:
    return np.array([math.lgamma(value) for value in values])


def _digamma(values: Array) -> Array:
    """ψ for values above 0: six steps up, then the asymptotic series."""
    shifted = values + 6.0
    series = np.log(shifted) - 1 / (2 * shifted) - 1 / (12 * shifted**2) + 1 / (120 * shifted**4)
    return series - 1 / (252 * shifted**6) - sum(1 / (values + step) for step in range(6))
