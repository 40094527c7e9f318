"""A long answer, sentence by sentence: question → answer → sentences → sample, cluster and measure each → result."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .clustering import cluster_answers
from .clustering.matters import relate
from .measures import inputs_of
from .measures.branches import explored_mass
from .measures.measuring import Measurements
from .measures.shares import meanings_of, numbered, without
from .measures.words import words_with_meanings
from .options import NONE
from .progress import Progress, Watch
from .records import OF_SENTENCE, Cluster, Cost, Estimate, Question, Sampled, Sentence
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
    answer, needed = initial.generation, pipeline.calibrations.measure_names("sentence")
    plain = pipeline.changed(calibration=NONE, measures=needed)
    request.observe("scores", answer.text, answer)
    measured = [Sentence(one.text, one.start, one.end, one.kind, measured_from=one.measured_from) for one in sentences]
    cost, unavailable, in_measuring = initial.cost, list[Mapping[str, str]](), 0.0
    for one in measured:
        if one.kind != "claim":
            watch(Progress("sentence", one.text, sentence=one))

    def finish(place: int, sampled: Sampled) -> None:
        nonlocal cost, in_measuring
        began = time.perf_counter()
        asked = sentences[place].asked(request.question)
        sampled = replace(sampled, cost=replace(sampled.cost, seconds={}))
        sentence, found = _measured(plain, asked, measured[place], sampled)
        risk = pipeline.calibrations.risk_of_sentence(request.question, found)
        measured[place] = replace(sentence, risk=risk)
        cost += found.cost
        unavailable.append(found.unavailable)
        watch(Progress("sentence", sentence.text, sentence=measured[place]))
        in_measuring += time.perf_counter() - began

    later: list[tuple[int, Sampled]] = []  # what asks the model waits until it has decoded everything
    take = (lambda *found: later.append(found)) if plain.models.ask_language_model(plain.measures) else finish
    started = time.perf_counter()
    decoding = sample_sentences(request, initial, sentences, take)
    cost += decoding + Cost(seconds={"branches": time.perf_counter() - started - in_measuring})
    for place, sampled in later:
        finish(place, sampled)
    whole = _whole(plain, request, initial, cost, tuple(measured))
    return pipeline.calibrations.applied_to(replace(whole, setup=pipeline.setup, unavailable=_of_none(unavailable)))


def _of_none(unavailable: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the measures that no sentence has a value of, with a reason."""
    first = unavailable[0] if unavailable else {}
    return {name: reason for name, reason in first.items() if all(name in one for one in unavailable)}


def _measured(plain: Pipeline, asked: Question, sentence: Sentence, sampled: Sampled) -> tuple[Sentence, Result]:
    """Return the sentence with its own meaning and those that contradict it, and these as a result of their own."""
    started = time.perf_counter()
    judge, every = plain.models.nli.judge, (*sampled.samples, *sampled.draws_beside)
    related = relate(
        sentence.text, [one.text for one in every], judge,
        about=sentence.text[: sentence.measured_from], asked=asked.text, nli=plain.models.nli_name,
    )  # fmt: skip
    rivals = [one.text for one, relation in zip(every, related.relations, strict=True) if relation == "contradicts"]
    clusters = cluster_answers(asked.text, rivals, judge, plain.options.clustering, nli=plain.models.nli_name)
    of_rivals = iter(clusters.numbers)
    meanings = [next(of_rivals) + 1 if relation == "contradicts" else 0 for relation in related.relations]
    is_elsewhere = [relation == "elsewhere" for relation in related.relations]
    spent = related.cost + clusters.cost + Cost(seconds={"clusters": time.perf_counter() - started})
    all_of_it = numbered(replace(sampled, cost=sampled.cost + spent), meanings)
    found = plain.measured_meanings(asked, without(all_of_it, is_elsewhere))
    of_result = {name: getattr(found, name) for name in OF_SENTENCE}
    # What leads elsewhere was looked at all the same, and says nothing against a word.
    of_result["words"] = words_with_meanings(sampled.words, all_of_it.samples)
    of_result["coverage"] = explored_mass(inputs_of(sampled.samples))
    elsewhere = _elsewhere(numbered(sampled, list(map(int, is_elsewhere))))
    return replace(sentence, **of_result, elsewhere=elsewhere), found


def _elsewhere(sampled: Sampled) -> Cluster | None:
    """Return what goes on to something else (1), as one meaning beside all that does not (0)."""
    found = meanings_of(inputs_of(sampled.samples), sampled)[1:]
    return replace(found[0], kind="elsewhere", members=(), draws=()) if found else None


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
    mean = math.fsum(entropies) / len(entropies) if entropies else math.nan
    estimates = {
        name: Estimate(value, "nats", True, {"of": "sentences", "by": by})
        for name, value, by in (
            (SEMANTIC_ENTROPY, max(entropies, default=math.nan), "greatest"),
            (MEAN_SENTENCE_ENTROPY, mean, "mean"),
        )
    }
    return replace(result, estimates=estimates, coverage=None, sentences=measured)
