"""What servers reply, in one form. The shapes differ; each is recognised by its fields, all else is a `BadReply`.

In: the chunks of a reply. Out: `Chunk`s with one `Step` per decision of the model, and the alternatives it listed.

- vLLM (`return_tokens_as_token_ids`): {"tokens": ["token_id:504"], "token_logprobs": [−0.9], "top_logprobs": [{…}]}
- llama-server, and chat: {"content": [{"id": 504, "bytes": [84], "logprob": −0.9, "top_logprobs": [{…}]}]}
- the first OpenAI form: as vLLM's, with spellings instead of ids
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...records import Alternative
from .connection import BadReply
from .tokenizers import TokenSpellings

_ID = "token_id:"
_BYTES = re.compile(r"\\x([0-9a-f]{2})")
_LOWEST = -1e4  # vLLM writes −9999 for −∞


@dataclass(frozen=True, slots=True)
class Step:
    """One decision: the token, its log-probability, and the likeliest tokens there."""

    token_id: int
    logprob: float
    top: tuple[Alternative, ...]

    @property
    def truncated_mass(self) -> float:
        """The probability of all tokens that the server did not list."""
        listed = {one.token_id: one.logprob for one in self.top} | {self.token_id: self.logprob}
        return max(1.0 - math.fsum(map(math.exp, listed.values())), 0.0)

    def likely(self, floor: float) -> tuple[Alternative, ...]:
        """Return the listed tokens that are likelier than this."""
        return tuple(one for one in self.top if math.exp(one.logprob) > floor)

    def hides_some(self, floor: float) -> bool:
        """Whether a token likelier than the floor may be missing. A drawn token is listed in any case."""
        others = [one for one in self.top if one.token_id != self.token_id] or self.top
        return bool(others) and min(math.exp(others[-1].logprob), self.truncated_mass) > floor


def truncation_notes(steps: Sequence[Step], floor: float | None) -> tuple[str, ...]:
    """Return a note if alternatives that are likely enough may be missing."""
    hidden = 0 if floor is None else sum(step.hides_some(floor) for step in steps)
    if not hidden:
        return ()
    return (
        f"at {hidden} of {len(steps)} steps the server tells too few tokens to see all that are likely enough; "
        "what it does not tell is in answer.truncated_mass; start vLLM with --max-logprobs 100",
    )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them; None: it did not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a reply, or all of it."""

    text: str
    steps: tuple[Step, ...]
    finish: str | None
    usage: Usage | None
    id_count: int  # tokens whose ids are listed beside the log-probabilities


def first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the only choice that is asked for; None: there is none."""
    choices = reply.get("choices")
    if not isinstance(choices, list):
        raise BadReply("sends a reply without choices")
    return _object(choices[0], "a choice") if choices else None


def read_chunk(chunk: Any, spellings: TokenSpellings, *, wants_steps: bool = True) -> Chunk:
    """Read the first choice of a chunk."""
    fields = _object(chunk, "a chunk")
    choice, usage = first_choice(fields), _usage(fields.get("usage"))
    if choice is None:
        return Chunk("", (), None, usage, 0)
    message = choice.get("message")
    text = choice.get("text") if message is None else _said(_object(message, "a message"))
    finish, ids = choice.get("finish_reason"), choice.get("token_ids")
    if not isinstance(text, str | None) or not isinstance(finish, str | None) or not isinstance(ids, list | None):
        raise BadReply("sends a choice that cannot be read")
    steps = tuple(read_steps(choice, spellings)) if wants_steps else ()
    return Chunk(text or "", steps, finish, usage, len(ids or ()))


def _said(message: Mapping[str, Any]) -> Any:
    """Return a message's text: its content, that content's parts that are text, or why it refuses to answer."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(part for part in parts if isinstance(part, str))
    return content or message.get("refusal") or content


def read_steps(choice: Any, spellings: TokenSpellings) -> list[Step]:
    """Return the decisions in one choice of a chunk."""
    logprobs = _object(choice, "a choice").get("logprobs")
    if logprobs is None:
        return []
    logprobs = _object(logprobs, "log-probabilities")
    try:
        if logprobs.get("content") is not None:
            return [_content_step(entry, spellings) for entry in logprobs["content"]]
        return _legacy_steps(logprobs, spellings)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as fault:
        raise BadReply("sends log-probabilities that cannot be read", f"{type(fault).__name__}: {fault}") from None


def tells_ids(choice: Any) -> bool:
    """Whether the tokens of a choice come with their ids."""
    logprobs = _object(choice, "a choice").get("logprobs") or {}
    entries, names = logprobs.get("content") or (), logprobs.get("tokens") or ()
    return any("id" in entry for entry in entries) or any(str(name).startswith(_ID) for name in names)


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadReply(f"sends {what} that is no object")
    return value


def _usage(counts: Any) -> Usage | None:
    if not isinstance(counts, dict):
        return None
    details = counts.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")), _count(cached))


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _content_step(entry: Any, spellings: TokenSpellings) -> Step:
    top = [_content_token(one, spellings) for one in entry.get("top_logprobs") or ()]
    chosen = _content_token(entry, spellings)
    return Step(chosen.token_id, chosen.logprob, _ordered(top))


def _content_token(entry: Any, spellings: TokenSpellings) -> Alternative:
    codes, token_id = entry.get("bytes"), entry.get("id")
    if not isinstance(codes, list | None) or not (token_id is None or _count(token_id) is not None):
        raise BadReply("sends a token that is none", f"id {token_id!r}, bytes {codes!r}")
    spelling = _spelled(entry["token"]) if codes is None else bytes(codes)
    return Alternative(spellings.learn(spelling, token_id), _logprob(entry["logprob"]))


def _legacy_steps(fields: dict[str, Any], spellings: TokenSpellings) -> list[Step]:
    names, logprobs = fields["tokens"], fields["token_logprobs"]
    tops = fields.get("top_logprobs") or [{}] * len(names)
    if not len(names) == len(logprobs) == len(tops):
        raise BadReply(f"sends {len(logprobs)} log-probabilities and {len(tops)} alternatives for {len(names)} tokens")
    return [
        Step(
            _named(name, spellings),
            _logprob(logprob),
            _ordered([Alternative(_named(other, spellings), _logprob(value)) for other, value in (top or {}).items()]),
        )
        for name, logprob, top in zip(names, logprobs, tops, strict=True)
    ]


def _named(name: str, spellings: TokenSpellings) -> int:
    return int(name[len(_ID) :]) if name.startswith(_ID) else spellings.learn(_spelled(name))


def _spelled(token: str) -> bytes:
    """Return the bytes of a token given as text; OpenAI writes half a character as `bytes:\\xe2\\x80`."""
    if token.startswith("bytes:") and (pairs := _BYTES.findall(token)):
        return bytes(int(pair, 16) for pair in pairs)
    return token.encode("utf-8", "surrogatepass")


def _logprob(value: Any) -> float:
    if type(value) not in (int, float) or math.isnan(value) or value > 1e-3:
        raise BadReply("sends what is no log-probability", repr(value))
    return min(max(float(value), _LOWEST), 0.0)


def _ordered(top: list[Alternative]) -> tuple[Alternative, ...]:
    return tuple(sorted(set(top), key=lambda one: (-one.logprob, one.token_id)))
