"""OpenAI's bodies as our questions. What we cannot do is refused with the reason; nothing is quietly left out.

The answer is greedy, as SDLG wants it, unless a temperature above 0 is given: then it is drawn (strategy multinomial),
from a fresh seed if none is named.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..records import Question
from .engine import Ask, Engine
from .failures import Failure, bad_request
from .schemas import ChatBody, CompletionBody, Detail, Message, Wanted

LOWEST_TEMPERATURE = 0.01  # of sdlg.Options; what is above 0 and below it is rounded up
_SEEDS = 2**63


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion that can be made: what is asked, and what the client wants to be told."""

    ask: Ask
    detail: Detail
    stream: bool
    usage_in_stream: bool
    logprobs: int | None  # alternatives per token; None: no log-probabilities at all
    is_chat: bool


def chat_completion(engine: Engine, body: ChatBody) -> Completion:
    """From `POST /v1/chat/completions`."""
    _refuse_common(engine, body)
    _refuse("tools", bool(body.tools), "this server calls no tools")
    _refuse("functions", bool(body.functions), "this server calls no functions")
    kind = (body.response_format or {}).get("type", "text")
    _refuse("response_format", kind != "text", "answers are plain text")
    _refuse("modalities", set(body.modalities or ["text"]) != {"text"}, "answers are plain text")
    longest = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    ask = _ask(engine, body, question_of(body.messages), longest, {})
    return _completion(body, ask, (body.top_logprobs or 0) if body.logprobs else None, is_chat=True)


def text_completion(engine: Engine, body: CompletionBody) -> Completion:
    """From `POST /v1/completions`: the prompt goes to the model as it is."""
    _refuse_common(engine, body)
    _refuse("echo", bool(body.echo), "only the answer is returned")
    _refuse("suffix", bool(body.suffix), "the model writes on from the prompt, not up to a suffix")
    _refuse("best_of", body.best_of not in (None, 1), "there is one answer; its alternatives are in `uncertainty`")
    prompt = body.prompt[0] if isinstance(body.prompt, list) and len(body.prompt) == 1 else body.prompt
    if not isinstance(prompt, str):
        raise bad_request("prompt must be one text; ask for several, or for token ids, in requests of their own")
    ask = _ask(engine, body, Question(prompt), body.max_tokens, {"prompt": "raw"})
    return _completion(body, ask, body.logprobs, is_chat=False)


def question_of(messages: list[Message]) -> Question:
    """Instructions first, then pairs of user and assistant, then what the user asks now."""
    turns = [(message.role, _text(message, number)) for number, message in enumerate(messages)]
    instructions: list[str] = []
    while turns and turns[0][0] in ("system", "developer"):
        instructions.append(turns.pop(0)[1])
    expected = ["user", "assistant"] * (len(turns) // 2) + ["user"]
    if [role for role, _ in turns] != expected:
        roles = ", ".join(role[:20] for role, _ in turns[:12]) or "none"
        raise bad_request(
            "messages must be instructions (system), then user and assistant in turns, then a last one of the user; "
            f"after the instructions there were: {roles}"
        )
    texts = [text for _, text in turns]
    shots = tuple(zip(texts[:-1:2], texts[1:-1:2], strict=True))
    return Question(texts[-1], shots=shots, system="\n\n".join(instructions) if instructions else None)


def _text(message: Message, number: int) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = message.content or []
    if not parts:
        raise bad_request(f"messages[{number}] has no content; calls of tools and functions are not understood")
    for part in parts:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise bad_request(f"messages[{number}] holds content that is no text; this server reads only text")
    return "".join(part["text"] for part in parts)


def _refuse_common(engine: Engine, body: ChatBody | CompletionBody) -> None:
    if body.model is not None and body.model != engine.name:
        raise Failure(404, f"no model {body.model[:100]!r} here; this server has: {engine.name}", "model_not_found")
    _refuse("n", body.n not in (None, 1), "there is one answer; its alternatives are in `uncertainty`")
    _refuse("presence_penalty", bool(body.presence_penalty), "it would change the model's probabilities")
    _refuse("frequency_penalty", bool(body.frequency_penalty), "it would change the model's probabilities")
    _refuse("logit_bias", bool(body.logit_bias), "it would change the model's probabilities")


def _refuse(name: str, is_used: bool, why: str) -> None:
    if is_used:
        raise bad_request(f"{name} is not supported: {why}. Leave it out", "unsupported_parameter")


def _ask(
    engine: Engine, body: ChatBody | CompletionBody, question: Question, longest: int | None, fixed: Mapping[str, Any]
) -> Ask:
    preferences = wanted_of(body)
    if twice := set(preferences.options or {}) & set(fixed):
        raise bad_request(f"{', '.join(sorted(twice))} cannot be chosen here")
    stops = [body.stop] if isinstance(body.stop, str) else body.stop
    named = {
        "max_tokens": longest,
        "top_p": body.top_p,
        "stop_strings": stops or None,
        "samples": 1 if preferences.detail == "none" else preferences.samples,
        "stop_at": preferences.stop_at,
        **_drawing(body),
    }
    settings = {name: value for name, value in named.items() if value is not None}
    return engine.ask(
        question, method=preferences.method, preset=preferences.preset, measures=preferences.measures or (),
        options={**(preferences.options or {}), **settings, **fixed},
    )  # fmt: skip


def _drawing(body: ChatBody | CompletionBody) -> dict[str, Any]:
    """How the answer is decoded."""
    seed = None if body.seed is None else body.seed % _SEEDS
    if not body.temperature:
        return {"seed": seed}
    return {
        "strategy": "multinomial",
        "temperature": max(body.temperature, LOWEST_TEMPERATURE),
        "seed": secrets.randbelow(2**31) if seed is None else seed,
    }


def wanted_of(body: ChatBody | CompletionBody) -> Wanted:
    """What the field `uncertainty` says; left out, it is a summary."""
    match body.uncertainty:
        case Wanted() as preferences:
            return preferences
        case False:
            return Wanted(detail="none")
        case None | True:
            return Wanted()
        case detail:
            return Wanted(detail=detail)


def _completion(body: ChatBody | CompletionBody, ask: Ask, logprobs: int | None, *, is_chat: bool) -> Completion:
    usage = bool(body.stream_options and body.stream_options.include_usage)
    return Completion(ask, wanted_of(body).detail, bool(body.stream), usage, logprobs, is_chat)
