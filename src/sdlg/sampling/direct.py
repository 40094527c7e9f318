"""Sampling without an initial answer to branch from: multinomial, arithmetic, beam search, diverse beam search.

In: a question. Out: N sequences from one prefill, decoded together. Multinomial samples are independent draws; the
first of a beam search is its best hypothesis.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..models.base import Continuation, DecodeRequest
from ..options import Strategy
from ..records import Cost, Sample, Sampled
from .draws import own_draws, plan_draws
from .request import SamplingRequest, as_sample, check_strategies, cut_note, plain_words, whole_generation


def sample_multinomial(request: SamplingRequest) -> Sampled:
    """N independent draws (temperature, top-p)."""
    return _sample("multinomial", request)


def sample_arithmetic(request: SamplingRequest) -> Sampled:
    """N even draws, each with its probability: arithmetic sampling (temperature, top-p)."""
    return _sample("arithmetic", request)


def sample_beam(request: SamplingRequest) -> Sampled:
    """The N best hypotheses of one beam search."""
    return _sample("beam", request)


def sample_diverse_beam(request: SamplingRequest) -> Sampled:
    """N hypotheses from groups that avoid each other's tokens (groups, diversity penalty)."""
    return _sample("diverse_beam", request)


def _sample(strategy: Strategy, request: SamplingRequest) -> Sampled:
    model, options = request.model, request.options
    check_strategies(model, {strategy})
    title = f"{options.samples} by {strategy}"
    request.observe("branches", title)
    started = time.perf_counter()

    def watch(_: int, token: int) -> None:
        request.observe("branches", title)

    def ended(_: int, grown: Continuation) -> None:
        generation = whole_generation(model, grown)
        request.observe("branches", generation.text, generation)

    prefixes, decoding = [()] * options.samples, replace(options.decoding, strategy=strategy)
    decoded = model.decode(DecodeRequest(request.prompt(), prefixes, decoding, options.seed, watch=watch, ended=ended))
    samples = tuple(as_sample(model, whole_generation(model, grown)) for grown in decoded.continuations)
    return sampled_directly(request, samples, strategy, decoded.cost, decoded.notes, started)


def sampled_directly(
    request: SamplingRequest, samples: tuple[Sample, ...], method: str, cost: Cost, notes: Sequence[str], started: float
) -> Sampled:
    """What a method without branches made, with the draws that weigh it: its own samples, or some beside them."""
    options = request.options
    notes = [*cut_note(samples[0].generation, options), *notes]
    if len(samples) < options.samples:
        notes.append(f"{len(samples)} of {options.samples} sequences: {method} search found no more")
    draws = own_draws(method, samples, options) if method in ("multinomial", "arithmetic") else None
    plan = plan_draws(request.model, options, None)
    if draws is None and plan is not None:
        drawn = request.model.decode(plan.alone(request.prompt()))
        draws = plan.of(drawn.continuations)
        cost, notes = cost + drawn.cost.without_prompt(), [*notes, *drawn.notes]
    cost = cost + Cost(seconds={"samples": time.perf_counter() - started})
    return Sampled(samples, plain_words(samples[0].text), cost, tuple(notes), draws=draws)
