"""Token scores: which substitutions would change the meaning most and are still likely.

In: the question and the initial answer with its alternatives. Out: ranked `Substitution`s and the answer's words with
their attribution. One NLI forward and backward pass; everything else is arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..models.base import LanguageModel
from ..nli.base import InputGradients, NliModel
from ..options import Scoring
from ..records import Cost, Generation, StopRule, Substitution, Word
from .alignment import overlapping, word_spans
from .candidates import Candidate, Place, find_candidates, find_places
from .scores import combined_rank, cosine_substitution, ranked_order, word_attribution

__all__ = ["ScoredAnswer", "score_answer"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """The ranking, best first, and the words for the reader."""

    substitutions: tuple[Substitution, ...]
    words: tuple[Word, ...]
    cost: Cost


def score_answer(
    question: str,
    answer: Generation,
    stop: StopRule,
    model: LanguageModel,
    nli: NliModel,
    options: Scoring,
) -> ScoredAnswer:
    """Score and rank all candidate substitutions (Algorithm 2). One-word answers are ranked by importance alone."""
    places = find_places(model, answer, options)
    candidates = find_candidates(model, answer, places, stop, options)
    if not answer.text:  # nothing to differentiate: ranked by importance alone
        return ScoredAnswer(_ranked(candidates, np.zeros((len(candidates), 2)), places, answer, options), (), Cost())
    input_gradients = nli.input_gradients(question, answer.text)
    gradients = input_gradients.premise_gradients
    spans = word_spans(answer.text)
    words = tuple(_word(answer.text, span, input_gradients, gradients) for span in spans)
    scores = np.zeros((len(candidates), 2))
    for place in places:
        mine = [k for k, candidate in enumerate(candidates) if candidate.position == place.position]
        scores[mine] = _score_place(answer, place, [candidates[k] for k in mine], input_gradients, nli)
    if len(spans) == 1:
        options = replace(options, attribution_weight=0.0, substitution_weight=0.0, importance_weight=1.0)
    return ScoredAnswer(_ranked(candidates, scores, places, answer, options), words, input_gradients.cost)


def _word(text: str, span: tuple[int, int], input_gradients: InputGradients, gradients: Array) -> Word:
    pieces = overlapping(span, input_gradients.spans)
    attribution = word_attribution(input_gradients.embeddings[pieces], gradients[pieces])
    return Word(text[slice(*span)], *span, attribution)


def _score_place(
    answer: Generation, place: Place, candidates: list[Candidate], input_gradients: InputGradients, nli: NliModel
) -> Array:
    """Return attribution and substitution of each candidate at one place: (candidates, 2)."""
    gradients = input_gradients.premise_gradients
    of_word, of_token = overlapping(place.word, input_gradients.spans), overlapping(place.span, input_gradients.spans)
    attribution = word_attribution(input_gradients.embeddings[of_word], gradients[of_word])
    scores = np.column_stack([np.full(len(candidates), attribution), np.zeros(len(candidates))])
    spelled = [k for k, candidate in enumerate(candidates) if not candidate.ends_answer]
    if not of_token or not spelled:
        return scores
    original = input_gradients.embeddings[of_token].mean(axis=0)
    before = _last_word(answer.text[: place.span[0]])
    replacements = nli.embed([(before, candidates[k].surface.strip()) for k in spelled])
    gradient = gradients[of_token].mean(axis=0)
    scores[spelled, 1] = cosine_substitution(original, replacements, gradient)
    scores[spelled, 1] *= np.any(replacements != 0, axis=1)  # half a character has no embedding, hence no score
    return scores


def _last_word(text: str) -> str:
    """The end of a text, from its last word on: all the context that a tokenizer looks at."""
    words = text.split()
    return text[text.rindex(words[-1]) :] if words else text


def _ranked(
    candidates: list[Candidate], scores: Array, places: list[Place], answer: Generation, options: Scoring
) -> tuple[Substitution, ...]:
    importance = np.array([candidate.mass for candidate in candidates])
    rank = combined_rank((scores[:, 0], scores[:, 1], importance), options.weights)
    order = ranked_order(rank, importance, [c.position for c in candidates], [c.token_id for c in candidates])
    originals = {place.position: answer.text[slice(*place.span)] for place in places}
    return tuple(
        Substitution(
            position=candidates[k].position,
            original=originals[candidates[k].position],
            replacement=candidates[k].surface.strip(),
            token_id=candidates[k].token_id,
            logprob=candidates[k].logprob,
            attribution=float(scores[k, 0]),
            substitution=float(scores[k, 1]),
            importance=candidates[k].mass,
            ends_answer=candidates[k].ends_answer,
            rank=place + 1,
        )
        for place, k in enumerate(order)
    )
