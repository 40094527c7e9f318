"""The seam: what every language model engine offers, and what it says it can do.

In: a prompt and the prefixes to go on from (none for an initial answer, `answer[:i] + (v,)` for a branch, N times
nothing for N samples). Out: one continuation per prefix, in order, and what they cost. That is all SDLG needs, so a
local tree decoder, an HTTP server with a prefix cache and a scripted fake all fit behind `LanguageModel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ..options import Decoding
from ..records import Alternative, Cost, Generation, Prompt, Question, StopReason, StopRule
from .codes import Code, even_codes
from .stopping import Stop


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do. Asking for more raises `NotSupported` before any work is done."""

    strategies: frozenset[str]  # of `options.STRATEGIES`
    continues_prefixes: bool  # goes on from given answer tokens, as branches need
    alternatives: int | None  # how many alternatives per step it lists; None: all of them
    scores_texts: bool = False  # has `score`
    context_tokens: int | None = None  # prompt and answer together; None: not known
    parameters: int | None = None  # None: not known
    in_flight: int = 1  # how many questions at once keep it busy, unless one says otherwise
    shortcomings: tuple[str, ...] = ()  # what makes its results less than exact, for every result's notes


@dataclass(frozen=True, slots=True)
class Continuation:
    """What was decoded after a prefix. `decisions` counts every choice made, the ending included."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop_reason: StopReason
    ending_logprobs: tuple[float, ...]  # of the tokens that ended it; () when it was cut by length, or not known
    decisions: int
    dropped: int = 0  # tokens at the end of the prefix that belong to a stop string
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    entropies: tuple[float, ...] = ()  # nats, of the model's distribution at each decision
    truncated_mass: tuple[float, ...] = ()  # where alternatives are: the probability of the tokens not listed

    @property
    def stop_logprob(self) -> float | None:
        """Log-probability of the ending as a whole."""
        return math.fsum(self.ending_logprobs) if self.ending_logprobs else None


@dataclass(frozen=True, slots=True)
class Decoded:
    """All continuations of one call, in the order of their prefixes. Beam search may find fewer than were asked for."""

    continuations: tuple[Continuation, ...]
    cost: Cost
    notes: tuple[str, ...] = ()  # what the reader of a result must know of this call


def finished(
    prefix: tuple[int, ...],
    ids: tuple[int, ...],
    logprobs: tuple[float, ...],
    stop: Stop | None,
    alternatives: tuple[tuple[Alternative, ...], ...] = (),
    entropies: tuple[float, ...] = (),
    truncated_mass: tuple[float, ...] = (),
) -> Continuation:
    """Cut a continuation at its stop. A stop string may begin in the prefix."""
    if stop is None:
        return Continuation(ids, logprobs, "length", (), len(ids), 0, alternatives, entropies, truncated_mass)
    kept = max(stop.kept - len(prefix), 0)
    dropped = max(len(prefix) - stop.kept, 0)
    ending = logprobs[kept : max(stop.end - len(prefix), 0)]
    return Continuation(
        ids[:kept], logprobs[:kept], stop.reason, ending, len(ids), dropped,
        alternatives[: kept + 1], entropies[: kept + len(ending)], truncated_mass[: kept + 1],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scored:
    """Given answers with their likelihoods, and what that cost."""

    generations: tuple[Generation, ...]
    cost: Cost


NO_STOPS = StopRule()

# Seeds are numbers, or several that are one together.
Seed = int | tuple[int, ...]


def path_generator(seed: Seed, path: int) -> np.random.Generator:
    """Return the random numbers of one path."""
    return np.random.default_rng([*_numbers(seed), path])


def _numbers(seed: Seed) -> tuple[int, ...]:
    return seed if isinstance(seed, tuple) else (seed,)


_DRAWS = 0xD3A35  # keeps the codes of draws apart from those of the prefixes before them


@dataclass(slots=True)
class PathRandom:
    """What one path draws its tokens by: its code, or its own random numbers. Greedy decoding uses neither."""

    generator: np.random.Generator
    code: Code | None = None
    decoding: Decoding = field(default_factory=Decoding)


# Called with (prefix index, token id) for each token chosen by greedy or multinomial decoding.
Watcher = Callable[[int, int], None]
# Called with (prefix index, its continuation) when a prefix has come to its end.
Ended = Callable[[int, Continuation], None]

# Called with (request index, its continuations, which carry no cost) when all of its prefixes have come to their ends.
Done = Callable[[int, Decoded], None]


def tell_all(ended: Ended | None, continuations: Sequence[Continuation]) -> None:
    """Report continuations that came to their ends together."""
    if ended is not None:
        for place, continuation in enumerate(continuations):
            ended(place, continuation)


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """What shall be continued, and how. `max_tokens` counts prefix and continuation together.

    Equal prefixes get different continuations: so many samples, or so many of the best hypotheses.
    """

    prompt: Prompt
    prefixes: Sequence[tuple[int, ...]]
    decoding: Decoding
    seed: Seed = 0
    draws: int = 0  # the last so many prefixes are drawn by even codes at temperature 1, whatever `decoding` says
    excluded_mass: float = 0.0  # of the draws: the probability of the greedy answer, where it shall not be drawn
    alternatives_above: float | None = None  # list the alternatives of every step that are likelier; None: none
    watch: Watcher | None = None
    ended: Ended | None = None


def path_randoms(request: DecodeRequest) -> list[PathRandom]:
    """Return what each prefix of a request draws by. The codes of one request are spread evenly together."""
    size, decoding = len(request.prefixes), request.decoding
    generators = [path_generator(request.seed, path) for path in range(size)]
    own = size - request.draws
    codes = even_codes(own, request.seed) if decoding.strategy == "arithmetic" else [None] * own
    drawn = even_codes(request.draws, (*_numbers(request.seed), _DRAWS), request.excluded_mass)
    plain = replace(decoding, strategy="arithmetic", temperature=1.0, top_p=1.0)
    return [
        PathRandom(generator, code, decoding if path < own else plain)
        for path, (generator, code) in enumerate(zip(generators, (*codes, *drawn), strict=True))
    ]


# What comes after a prefix that is as long as an answer may be.
COMPLETE = Continuation((), (), "length", (), 0)


def tell_complete(request: DecodeRequest, places: Sequence[int]) -> None:
    """Report prefixes that are complete as they are."""
    if request.ended is not None:
        for place in places:
            request.ended(place, COMPLETE)


def nobody(_: int, __: Decoded) -> None:
    """Tell nobody."""


def one_by_one(
    decode: Callable[[DecodeRequest], Decoded], requests: Sequence[DecodeRequest], done: Done
) -> list[Decoded]:
    """Decode requests one after the other."""
    found = []
    for place, request in enumerate(requests):
        found.append(decode(request))
        done(place, replace(found[-1], cost=Cost()))
    return found


class LanguageModel(Protocol):
    """An engine: `LlamaModel`, `TransformersModel`, `ServedModel`, `ScriptedModel`. Threads may share it."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def prompt(self, question: Question, style: str, stop: StopRule = NO_STOPS) -> Prompt:
        """Put a question into the form this model reads: auto, chat, plain or raw. `stop` adds to its own stops."""

    def decode(self, request: DecodeRequest) -> Decoded:
        """Continue the prompt and each prefix."""

    def decode_all(self, requests: Sequence[DecodeRequest], done: Done = nobody) -> list[Decoded]:
        """Decode several requests of one prompt, which differ in what was said before; together where possible.

        `done` is told of each one as soon as it is there, while others may still grow; it must not use this model.
        """

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """The likelihood of given answers, with their ending where they ended. Only if `capabilities.scores_texts`."""

    def read(self, prompt: Prompt, text: str, *, alternatives_above: float) -> Scored:
        """A given answer as if it had been decoded, with the alternatives of every step. Only if it `scores_texts`."""

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of these answer tokens, special tokens left out, exactly as decoded."""

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a control token rather than text."""
