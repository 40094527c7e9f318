"""A long answer, sentence by sentence: question → answer → sentences → sample, cluster and measure each → result."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .measures import inputs_of
from .measures.measuring import Measurements
from .measures.shares import numbered
from .options import NONE
from .progress import Progress, Watch
from .records import OF_SENTENCE, Cost, Estimate, Sampled, Sentence
from .result import MEAN_SENTENCE_ENTROPY, SEMANTIC_ENTROPY, Result
from .sampling import InitialAnswer, SamplingRequest, as_sample, cut_note, plain_words
from .sampling.sentences import SentenceOfAnswer, sample_sentences

if TYPE_CHECKING:
    from .pipeline import Pipeline


def measure_sentences(
    pipeline: Pipeline,
    request: SamplingRequest,
    initial: InitialAnswer,
    sentences: Sequence[SentenceOfAnswer],
    watch: Watch,
) -> Result:
    """Return the result of a long answer. Its semantic entropy is the greatest of its sentences."""
    answer, plain = initial.generation, pipeline.changed(calibration=NONE)
    request.observe("scores", answer.text, answer)
    measured: list[Sentence] = []
    started = time.perf_counter()
    samples = sample_sentences(request, answer, sentences)
    cost = initial.cost + Cost(seconds={"branches": time.perf_counter() - started})  # side by side: counted once
    for one, sampled in zip(sentences, samples, strict=True):
        sentence = Sentence(one.text, one.start, one.end, one.kind)
        if sampled is not None:
            sampled = replace(sampled, cost=replace(sampled.cost, seconds={}))
            found = plain.measured(one.asked(request.question), sampled)
            cost = cost + found.cost
            sentence = replace(sentence, **{name: getattr(found, name) for name in OF_SENTENCE})
        measured.append(sentence)
        watch(Progress("sentence", sentence.text, sentence=sentence))
    return _whole(plain, request, initial, cost, tuple(measured))


def _whole(
    plain: Pipeline, request: SamplingRequest, initial: InitialAnswer, cost: Cost, measured: tuple[Sentence, ...]
) -> Result:
    """Return the answer as one sample of one meaning, with its sentences."""
    answer = initial.generation
    notes = (*cut_note(answer, request.options), *initial.notes)
    alone = Sampled((as_sample(request.model, answer),), plain_words(answer.text), cost, notes)
    sampled = numbered(alone, (0,))
    result = plain.result_of(request.question, sampled, Measurements(inputs_of(sampled.samples), {}, {}))
    entropies = [one.semantic_entropy for one in measured if one.semantic_entropy is not None]
    mean = math.fsum(entropies) / len(entropies) if entropies else 0.0
    estimates = {
        name: Estimate(value, "nats", True, {"of": "sentences", "by": by})
        for name, value, by in (
            (SEMANTIC_ENTROPY, max(entropies, default=0.0), "greatest"),
            (MEAN_SENTENCE_ENTROPY, mean, "mean"),
        )
    }
    return replace(result, estimates=estimates, coverage=None, sentences=measured)
