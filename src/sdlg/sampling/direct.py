"""Sampling without an initial answer to branch from: multinomial, beam search, diverse beam search.

In: a question. Out: N sequences from one prefill, decoded together. Multinomial samples are independent draws; the
first of a beam search is its best hypothesis.
"""

from __future__ import annotations

import time
from dataclasses import replace

from ..models.base import Continuation, DecodeRequest
from ..records import Cost, Word
from ..scoring.alignment import word_spans
from .record import Request, Sampled, check_strategies, cut_note, whole_generation


def sample_multinomial(request: Request) -> Sampled:
    """N independent draws (temperature, top-p)."""
    return _sample("multinomial", request)


def sample_beam(request: Request) -> Sampled:
    """The N best hypotheses of one beam search."""
    return _sample("beam", request)


def sample_diverse_beam(request: Request) -> Sampled:
    """N hypotheses from groups that avoid each other's tokens (groups, diversity penalty)."""
    return _sample("diverse_beam", request)


def _sample(strategy: str, request: Request) -> Sampled:
    model, options = request.model, request.options
    check_strategies(model, {strategy})
    prompt = request.prompt()
    request.report("branches", f"{options.samples} by {strategy}")
    started = time.perf_counter()
    decoding = replace(options.decoding, strategy=strategy)

    def ended(_: int, grown: Continuation) -> None:
        generation = whole_generation(model, grown)
        request.report("branches", generation.text, generation)

    decoded = model.decode(
        DecodeRequest(
        prompt, [()] * options.samples, decoding, seed=options.seed, ended=ended,
        watch=lambda path, token: request.report("branches", f"{options.samples} by {strategy}"),
    ))  # fmt: skip
    generations = tuple(whole_generation(model, continuation) for continuation in decoded.continuations)
    words = tuple(Word(generations[0].text[a:b], a, b, None) for a, b in word_spans(generations[0].text))
    notes = [*cut_note(generations[0], options), *decoded.notes]
    if len(generations) < options.samples:
        notes.append(f"{len(generations)} of {options.samples} sequences: {strategy} search found no more")
    cost = decoded.cost + Cost(seconds={"samples": time.perf_counter() - started})
    return Sampled(generations, (None,) * len(generations), words, cost, tuple(notes))
