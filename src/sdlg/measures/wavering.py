"""Where an answer wavers: at each word, how likely the model goes on to another meaning, and what was not looked at.

In: the answer's words and all samples with their clusters. Out: the same words with two numbers.

At a word of the tokens a … b the model says the very word with probability Π p(y_t). It leaves it at token t with
another one, v, with probability Π_{a ≤ s < t} p(y_s) · p(v); a branch tells what then is meant. `wavering` sums the
branches that mean something else; what no branch has looked at is told apart, not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..records import Sample, Word


def wavering_words(words: Sequence[Word], samples: Sequence[Sample]) -> tuple[Word, ...]:
    """The words with `wavering` and `not_looked_at`; without, where nothing was branched or likelihoods are unknown."""
    answer = samples[0]
    steps = answer.generation.logprobs
    has_branches = any(sample.branching for sample in samples[1:])
    if not has_branches or not answer.tokens or len(answer.tokens) != len(steps):
        return tuple(words)
    places = _tokens_of_words(words, answer.tokens)
    return tuple(
        word if not tokens else _wavering(word, tokens, samples) for word, tokens in zip(words, places, strict=True)
    )


def _wavering(word: Word, tokens: Sequence[int], samples: Sequence[Sample]) -> Word:
    steps = samples[0].generation.logprobs
    other = looked_at = 0.0
    for sample in samples[1:]:
        change = sample.substitution
        if change is None or sample.branching is None or change.position not in tokens:
            continue
        mass = math.exp(math.fsum(steps[tokens[0] : change.position])) * sample.branching.mass
        looked_at += mass
        other += mass if sample.cluster != samples[0].cluster else 0.0
    same = math.exp(math.fsum(steps[tokens[0] : tokens[-1] + 1]))
    return replace(word, wavering=min(other, 1.0), not_looked_at=max(1.0 - same - looked_at, 0.0))


def _tokens_of_words(words: Sequence[Word], tokens: Sequence[str]) -> list[list[int]]:
    """Which tokens make up each word: those whose visible part begins in it; blank ones belong to what follows."""
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
