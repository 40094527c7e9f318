"""Candidate substitutions: which tokens could stand in the answer instead (Algorithm 2).

In: the initial answer with the alternatives of every step. Out: candidates, one per position and token; all endings of
the answer at a position count as one.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..models.base import LanguageModel
from ..models.stopping import find_stop
from ..options import Scoring
from ..records import Alternative, Generation, StopRule
from .alignment import (
    Span,
    is_complete,
    starts_unit,
    surface_in_context,
    token_spans,
    visible_start,
    word_at,
    word_spans,
)

_END = "end of the answer"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could replace the answer's token at `position`."""

    position: int
    token_id: int
    surface: str  # as the reader would see it, with its leading space
    logprob: float
    mass: float  # its probability; of an ending, that of all tokens that end the answer here
    ends_answer: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A position at which the answer may change: its token's span, and its word's."""

    position: int
    span: Span
    word: Span


def normalised(surface: str) -> str:
    """The form by which two spellings count as the same word."""
    return unicodedata.normalize("NFKC", surface).strip().casefold()


def find_places(model: LanguageModel, answer: Generation, options: Scoring) -> list[Place]:
    """Word beginnings, decided on the text, or all tokens that show something; after what was given.

    An empty answer has one place.
    """
    if not answer.text:
        return [Place(0, (0, 0), (0, 0))] if answer.alternatives else []
    words = word_spans(answer.text)
    places: list[Place] = []
    for position, span in enumerate(token_spans(answer.token_ids, model.text)):
        at = visible_start(answer.text, span)
        if position < answer.given or at is None:
            continue
        if options.positions == "word_starts" and not starts_unit(answer.text, at):
            continue
        shown = (at, span[1])
        if places and places[-1].span == shown:  # a later byte of the same character
            continue
        word = word_at(words, at)
        places.append(Place(position, shown, words[word] if word is not None else shown))
    return places


def find_candidates(
    model: LanguageModel, answer: Generation, places: list[Place], stop: StopRule, options: Scoring
) -> list[Candidate]:
    """All candidates of all places."""
    return [found for place in places for found in _at(model, answer, place, stop, options)]


def _at(model: LanguageModel, answer: Generation, place: Place, stop: StopRule, options: Scoring) -> list[Candidate]:
    taken = {normalised(answer.text[slice(*span)]) for span in (place.span, place.word)} if answer.text else set()
    found: dict[object, Candidate] = {}
    for candidate in _possible(model, answer, place.position, stop, options):
        word = normalised(candidate.surface)
        if not candidate.ends_answer and (word in taken or (not word and is_complete(candidate.surface))):
            continue
        key = _END if candidate.ends_answer else candidate.token_id
        first = found.setdefault(key, candidate)
        if first is not candidate:  # alternatives come likeliest first: the first ending represents the others
            found[key] = replace(first, mass=first.mass + candidate.mass)
    return list(found.values())


def _possible(
    model: LanguageModel, answer: Generation, position: int, stop: StopRule, options: Scoring
) -> Iterator[Candidate]:
    before = answer.token_ids[:position]
    original = answer.token_ids[position] if position < len(answer.token_ids) else None
    for alternative in _alternatives(answer, position):
        token, probability = alternative.token_id, math.exp(alternative.logprob)
        if token == original or probability <= options.min_probability:
            continue
        if options.banned == "format" and _is_format(model, before, token, stop):
            continue
        if find_stop(stop, (*before, token), model.text):
            if position > 0:
                yield Candidate(position, token, "", alternative.logprob, probability, ends_answer=True)
        elif not model.is_special(token):
            surface = surface_in_context(before, token, model.text)
            yield Candidate(position, token, surface, alternative.logprob, probability)


def _is_format(model: LanguageModel, before: tuple[int, ...], token: int, stop: StopRule) -> bool:
    """What the authors' code bans: the end of the text, a new line, and the Q of the next question. The full stop that
    ends an answer stays a candidate."""
    if token in stop.token_ids or model.is_special(token):
        return True
    surface = surface_in_context(before, token, model.text)
    return "\n" in surface or surface.strip() == "Q"


def _alternatives(answer: Generation, position: int) -> tuple[Alternative, ...]:
    return answer.alternatives[position] if position < len(answer.alternatives) else ()
