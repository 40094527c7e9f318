"""At each word of the answer: how likely the model goes on to another meaning, and what no branch has explored.

In: the answer's words and all samples with their clusters. Out: the same words with two probabilities.

At a word of the tokens a … b the model says the very word with probability Π p(y_t). It leaves it at token t with
another one, v, with probability Π_{a ≤ s < t} p(y_s) · p(v); a branch shows what then is meant. Of words that were
given nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..records import Sample, Word


def words_with_meanings(words: Sequence[Word], samples: Sequence[Sample]) -> tuple[Word, ...]:
    """Return the words with `other_meaning` and `unexplored`; as they are if nothing branched or p is unknown."""
    answer = samples[0]
    has_branches = any(sample.branching for sample in samples[1:])
    if not has_branches or not answer.tokens or len(answer.tokens) != len(answer.generation.logprobs):
        return tuple(words)
    places, given = _tokens_of_words(words, answer.tokens), answer.generation.given
    return tuple(
        _with_meanings(word, tokens, samples) if tokens and tokens[0] >= given else word
        for word, tokens in zip(words, places, strict=True)
    )


def _with_meanings(word: Word, tokens: Sequence[int], samples: Sequence[Sample]) -> Word:
    steps = samples[0].generation.logprobs
    other = explored = 0.0
    for sample in samples[1:]:
        change = sample.substitution
        if change is None or sample.branching is None or change.position not in tokens:
            continue
        mass = math.exp(math.fsum(steps[tokens[0] : change.position])) * sample.branching.mass
        explored += mass
        other += mass if sample.cluster != samples[0].cluster else 0.0
    same = math.exp(math.fsum(steps[tokens[0] : tokens[-1] + 1]))
    return replace(word, other_meaning=min(other, 1.0), unexplored=max(1.0 - same - explored, 0.0))


def _tokens_of_words(words: Sequence[Word], tokens: Sequence[str]) -> list[list[int]]:
    """Find the tokens of each word: those whose visible part begins in it; blank ones belong to what follows."""
    places: list[list[int]] = [[] for _ in words]
    at, number = 0, 0
    for position, token in enumerate(tokens):
        start = at + len(token) - len(token.lstrip())
        at += len(token)
        while number < len(words) and start >= words[number].end:
            number += 1
        if number < len(words):
            places[number].append(position)
    return places
