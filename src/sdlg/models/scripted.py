"""A language model that follows a script: every test of what lies downstream is cheap, exact and needs no weights.

    model = ScriptedModel({"": {"Paris": 0.7, "Lyon": 0.3}, "Paris": {" .": 1.0}})

The script maps the text so far to the next tokens and their probabilities; a text it does not mention ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import NotSupported
from ..records import Alternative, Cost, Prompt, Question, StopRule
from .base import (
    NO_STOPS,
    Capabilities,
    Continuation,
    Decoded,
    DecodeRequest,
    Done,
    PathRandom,
    Scored,
    finished,
    nobody,
    one_by_one,
    path_randoms,
    tell_all,
)
from .codes import choose_by_code
from .stopping import find_stop

END = "<end>"


class ScriptedModel:
    """See the module's docstring."""

    def __init__(
        self, script: Mapping[str, Mapping[str, float]], *, name: str = "scripted", stops: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        strategies = frozenset({"greedy", "multinomial", "arithmetic"})
        self.capabilities = Capabilities(strategies, continues_prefixes=True, alternatives=None)
        self._script = script
        self.tokens = [END, *sorted({token for options in script.values() for token in options if token != END})]
        self._stop = StopRule(frozenset({0}), stops)

    def token_id(self, token: str) -> int:
        """The id of a token of the script."""
        return self.tokens.index(token)

    def prompt(self, question: Question, style: str, stop: StopRule = NO_STOPS) -> Prompt:
        """One token per word of the question; their ids do not matter."""
        return Prompt(tuple(range(len(question.text.split()))), self._stop | stop)

    def next_tokens(self, text: str) -> list[Alternative]:
        """The script's distribution after a text, likeliest first."""
        options = self._script.get(text, {END: 1.0})
        alternatives = [Alternative(self.token_id(token), math.log(p)) for token, p in options.items() if p > 0]
        return sorted(alternatives, key=lambda option: (-option.logprob, option.token_id))

    def decode(self, request: DecodeRequest) -> Decoded:
        """One path after the other."""
        prompt, decoding = request.prompt, request.decoding
        if decoding.strategy not in self.capabilities.strategies:
            raise NotSupported(f"{self.name} cannot decode by {decoding.strategy}")
        continuations = [
            self._continue(prefix, random, request)
            for prefix, random in zip(request.prefixes, path_randoms(request), strict=True)
        ]
        tell_all(request.ended, continuations)
        generated = sum(continuation.decisions for continuation in continuations)
        return Decoded(tuple(continuations), Cost(prompt_tokens=len(prompt.token_ids), generated_tokens=generated))

    def decode_all(self, requests: Sequence[DecodeRequest], done: Done = nobody) -> list[Decoded]:
        """One after the other."""
        return one_by_one(self.decode, requests, done)

    def _continue(self, prefix: tuple[int, ...], random: PathRandom, request: DecodeRequest) -> Continuation:
        ids: list[int] = []
        logprobs: list[float] = []
        alternatives: list[tuple[Alternative, ...]] = []
        entropies: list[float] = []
        floor, stop = request.alternatives_above, None
        while stop is None and len(prefix) + len(ids) < random.decoding.max_tokens:
            options = self.next_tokens(self.text((*request.prompt.said, *prefix, *ids)))
            chosen = options[0] if random.decoding.strategy == "greedy" else _draw(options, random)
            ids.append(chosen.token_id)
            logprobs.append(chosen.logprob)
            entropies.append(-sum(math.exp(option.logprob) * option.logprob for option in options))
            if floor is not None:
                alternatives.append(tuple(option for option in options if math.exp(option.logprob) > floor))
            stop = find_stop(request.prompt.stop, (*prefix, *ids), self.text)
        return finished(prefix, tuple(ids), tuple(logprobs), stop, tuple(alternatives), tuple(entropies))

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """A script has no tokenizer."""
        raise NotSupported(f"{self.name} cannot score given texts")

    def read(self, prompt: Prompt, text: str, *, alternatives_above: float) -> Scored:
        """A script has no tokenizer."""
        raise NotSupported(f"{self.name} cannot read given texts")

    def text(self, token_ids: Sequence[int]) -> str:
        """Tokens side by side."""
        return "".join(self.tokens[i] for i in token_ids if i)

    def is_special(self, token_id: int) -> bool:
        """Only the end."""
        return token_id == 0


def _draw(options: Sequence[Alternative], random: PathRandom) -> Alternative:
    weights = np.array([option.logprob for option in options]) / random.decoding.temperature
    shares = np.exp(weights - weights.max())
    shares /= shares.sum()
    if random.code is not None:
        return options[choose_by_code(shares, random.code, random.decoding.top_p)]
    return options[int(random.generator.choice(len(options), p=shares))]
