"""A long answer, sentence by sentence: question → answer → sentences → sample, cluster and measure each → result."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .measures import inputs_of
from .measures.measuring import Measurements, measure
from .measures.shares import counted, numbered
from .options import NONE
from .progress import Progress, Watch
from .records import Cost, Estimate, Sampled, Sentence, Word
from .result import MEAN_SENTENCE_ENTROPY, SEMANTIC_ENTROPY, Result
from .sampling import InitialAnswer, SamplingRequest, as_sample, cut_note
from .sampling.sentences import SentenceOfAnswer, sample_sentences
from .scoring.alignment import word_spans

if TYPE_CHECKING:
    from .pipeline import Pipeline

_OF_SENTENCE = ("clusters", "estimates", "coverage", "words", "samples", "draws", "candidates", "notes")


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
            found = _result_of(plain, request, one, replace(sampled, cost=replace(sampled.cost, seconds={})))
            cost = cost + found.cost
            sentence = replace(sentence, **{name: getattr(found, name) for name in _OF_SENTENCE})
        measured.append(sentence)
        watch(Progress("sentence", sentence.text, sentence=sentence))
    return _whole(plain, request, initial, cost, tuple(measured))


def _result_of(plain: Pipeline, request: SamplingRequest, one: SentenceOfAnswer, sampled: Sampled) -> Result:
    asked = one.asked(request.question)
    sampled = plain.cluster(asked, sampled, plain.models.nli.judge)
    told = counted(sampled, plain.options)
    inputs = inputs_of(told.samples, told.draws)
    return plain.result_of(asked, sampled, measure(inputs, asked, plain.measures, plain.measuring_models()))


def _whole(
    plain: Pipeline, request: SamplingRequest, initial: InitialAnswer, cost: Cost, measured: tuple[Sentence, ...]
) -> Result:
    """Return the answer as one sample of one meaning, with its sentences."""
    answer = initial.generation
    words = tuple(Word(answer.text[start:end], start, end, None) for start, end in word_spans(answer.text))
    notes = (*cut_note(answer, request.options), *initial.notes)
    sampled = numbered(Sampled((as_sample(request.model, answer),), words, cost, notes), (0,))
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
