"""From samples to what measures read of them: the one way, whether they were sampled here, stored or given.

In: samples. Out: `MeasureInputs`. A field that only some samples have is as good as unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..records import Sample
from .base import MeasureInputs


def inputs_of(samples: Sequence[Sample]) -> MeasureInputs:
    """All that the samples themselves tell."""
    generations = [sample.generation for sample in samples]
    steps = tuple(generation.decision_logprobs for generation in generations)
    entropies = tuple(generation.entropies for generation in generations)
    branched = len(samples) == 1 or any(sample.branching for sample in samples)
    return MeasureInputs(
        logprobs=steps if all(steps) else None,
        identities=_identities(samples),
        clusters=_clusters(samples),
        branchings=tuple(sample.branching for sample in samples) if branched else None,
        proposals=_proposals(samples),
        texts=tuple(generation.text for generation in generations),
        tokens=_tokens(samples),
        token_entropies=entropies if all(entropies) else None,
    )


def _identities(samples: Sequence[Sample]) -> tuple[Hashable, ...]:
    """Token ids tell apart what looks alike; of texts alone only the texts are known."""
    generations = [sample.generation for sample in samples]
    if all(generation.token_ids or not generation.text for generation in generations):
        return tuple(generation.identity for generation in generations)
    return tuple(generation.text for generation in generations)


def _proposals(samples: Sequence[Sample]) -> tuple[float, ...] | None:
    proposals = [sample.generation.proposal_logprob for sample in samples]
    if any(proposal is None for proposal in proposals):
        return None
    return tuple(proposal for proposal in proposals if proposal is not None)


def _clusters(samples: Sequence[Sample]) -> tuple[int, ...] | None:
    numbers = [sample.cluster for sample in samples]
    if any(number is None for number in numbers):
        return None
    return tuple(number for number in numbers if number is not None)


def _tokens(samples: Sequence[Sample]) -> tuple[tuple[str, ...], ...] | None:
    if all(sample.tokens or not sample.text for sample in samples):
        return tuple(sample.tokens for sample in samples)
    return None
