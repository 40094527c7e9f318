"""The meanings of a result: clusters with the model's probability of each, its interval, and the score's share.

In: samples and draws with their clusters. Out: `Cluster` records, the answer's own first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..options import Estimation
from ..records import Cluster, Sample, Sampled
from .base import MeasureInputs
from .headline import cluster_probabilities
from .shares import EVENNESS, share_interval, shares_of, tally_of


def numbered(sampled: Sampled, numbers: Sequence[int]) -> Sampled:
    """Samples and draws with their clusters."""
    left = iter(numbers)
    samples = tuple(replace(sample, cluster=next(left)) for sample in sampled.samples)
    if sampled.draws is None:
        return replace(sampled, samples=samples)
    beside = sampled.draws.beside
    drawn = tuple(replace(draw, cluster=next(left)) for draw in sampled.draws.samples) if beside else samples
    return replace(sampled, samples=samples, draws=replace(sampled.draws, samples=drawn))


def meanings_of(inputs: MeasureInputs, sampled: Sampled, estimation: Estimation) -> tuple[Cluster, ...]:
    """The meanings: first those that the samples found, then those that only draws have."""
    draws, drawn = sampled.draws, sampled.draws_beside
    clusters = [
        Cluster(number, None, _places(sampled.samples, number), score_share=share, draws=_places(drawn, number))
        for number, share in enumerate(cluster_probabilities(inputs, estimation))
    ]
    further = sorted({draw.cluster for draw in drawn if draw.cluster is not None} - {one.id for one in clusters})
    clusters += [Cluster(number, None, (), draws=_places(drawn, number)) for number in further]
    if draws is None:
        return tuple(clusters)
    tally = tally_of(sampled.samples if draws.beside else (), draws)
    intervals = [share_interval(tally, cluster.id, EVENNESS[draws.by]) for cluster in clusters]
    return tuple(
        replace(cluster, probability=float(share), low=low, high=high)
        for cluster, share, (low, high) in zip(clusters, shares_of(tally), intervals, strict=True)
    )


def _places(samples: Sequence[Sample], number: int) -> tuple[int, ...]:
    return tuple(place for place, sample in enumerate(samples) if sample.cluster == number)
