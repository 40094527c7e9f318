"""What servers reply, in one form. The shapes differ; each is told by what it looks like.

In: the choices of a reply's chunks. Out: one `Step` per decision of the model, with the alternatives it told.

- vLLM (`return_tokens_as_token_ids`): {"tokens": ["token_id:504"], "token_logprobs": [−0.9], "top_logprobs": [{…}]}
- llama-server, and chat: {"content": [{"id": 504, "bytes": [84], "logprob": −0.9, "top_logprobs": [{…}]}]}
- the first OpenAI form: as vLLM's, with spellings instead of ids
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...records import Alternative
from .connection import Nonsense
from .tokens import LearnedTokens, spelled

_ID = "token_id:"
_LOWEST = -1e4  # vLLM writes −9999 for −∞


@dataclass(frozen=True, slots=True)
class Step:
    """One decision: the token, its log-probability, and the likeliest tokens there."""

    token_id: int
    logprob: float
    top: tuple[Alternative, ...]


def read_steps(choice: Mapping[str, Any], tokens: LearnedTokens) -> list[Step]:
    """The decisions in one choice of a chunk."""
    told = choice.get("logprobs")
    try:
        if told is None:
            return []
        if told.get("content") is not None:
            return [_content_step(entry, tokens) for entry in told["content"]]
        return _legacy_steps(told, tokens)
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise Nonsense(f"sends log-probabilities that cannot be read ({type(fault).__name__}: {fault})") from fault


def _content_step(entry: Mapping[str, Any], tokens: LearnedTokens) -> Step:
    top = [_content_token(one, tokens) for one in entry.get("top_logprobs") or ()]
    chosen = _content_token(entry, tokens)
    return Step(chosen.token_id, chosen.logprob, _ordered(top))


def _content_token(entry: Mapping[str, Any], tokens: LearnedTokens) -> Alternative:
    told = entry.get("bytes")
    spelling = spelled(entry["token"]) if told is None else bytes(told)
    return Alternative(tokens.learn(spelling, entry.get("id")), _logprob(entry["logprob"]))


def _legacy_steps(told: Mapping[str, Any], tokens: LearnedTokens) -> list[Step]:
    names, logprobs = told["tokens"], told["token_logprobs"]
    tops = told.get("top_logprobs") or [{}] * len(names)
    if not len(names) == len(logprobs) == len(tops):
        raise Nonsense(f"sends {len(logprobs)} log-probabilities and {len(tops)} alternatives for {len(names)} tokens")
    return [
        Step(
            _named(name, tokens),
            _logprob(logprob),
            _ordered([Alternative(_named(other, tokens), _logprob(value)) for other, value in (top or {}).items()]),
        )
        for name, logprob, top in zip(names, logprobs, tops, strict=True)
    ]


def _named(name: str, tokens: LearnedTokens) -> int:
    return int(name[len(_ID) :]) if name.startswith(_ID) else tokens.learn(spelled(name))


def _logprob(value: Any) -> float:
    if not isinstance(value, (int, float)) or math.isnan(value) or value > 1e-3:
        raise Nonsense(f"sends {value!r} for a log-probability")
    return min(max(float(value), _LOWEST), 0.0)


def _ordered(top: list[Alternative]) -> tuple[Alternative, ...]:
    return tuple(sorted(set(top), key=lambda one: (-one.logprob, one.token_id)))
