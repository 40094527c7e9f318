"""OpenAI's bodies as our questions. What we cannot do is refused (`bodies`); nothing is quietly left out.

The answer is greedy, as SDLG wants it, unless a temperature above 0 is given: then it is drawn (strategy multinomial),
from a fresh seed if none is named.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BadOption
from ..pipeline import Pipeline
from ..questions import checked_question
from ..records import Question
from .asked import Asked, asked_question
from .bodies import ChatBody, CompletionBody, Detail, Wanted
from .failures import Failure
from .settings import Settings

LOWEST_TEMPERATURE = 0.01  # of sdlg.Options; what is above 0 and below it is rounded up
_SEEDS = 2**63


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion that can be made: what is asked, and what the client wants to know."""

    asked: Asked
    detail: Detail
    stream: bool
    usage_in_stream: bool
    logprobs: int | None  # alternatives per token; None: no log-probabilities at all
    is_chat: bool


def chat_completion(pipeline: Pipeline, settings: Settings, body: ChatBody) -> Completion:
    """Check the body of `POST /v1/chat/completions`."""
    longest = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    asked = _asked(pipeline, settings, body, checked_question(None, messages=body.messages), longest, {})
    return _completion(body, asked, (body.top_logprobs or 0) if body.logprobs else None, is_chat=True)


def text_completion(pipeline: Pipeline, settings: Settings, body: CompletionBody) -> Completion:
    """Check the body of `POST /v1/completions`: the prompt goes to the model as it is."""
    prompt = body.prompt if isinstance(body.prompt, str) else body.prompt[0]
    asked = _asked(pipeline, settings, body, checked_question(prompt), body.max_tokens, {"prompt": "raw"})
    return _completion(body, asked, body.logprobs, is_chat=False)


def _asked(
    pipeline: Pipeline,
    settings: Settings,
    body: ChatBody | CompletionBody,
    question: Question,
    longest: int | None,
    fixed: Mapping[str, Any],
) -> Asked:
    name, wanted = pipeline.models.model_name, wanted_of(body)
    if body.model is not None and body.model != name:
        raise Failure(404, f"no model {body.model[:100]!r} here; this server has: {name}", "model_not_found")
    if twice := set(wanted.options or {}) & set(fixed):
        raise BadOption(f"{', '.join(sorted(twice))} cannot be chosen here")
    named = {
        "max_tokens": longest,
        "top_p": body.top_p,
        "stop_strings": body.stop if body.stop != [] else None,
        "samples": 1 if wanted.detail == "none" else wanted.samples,
        "draws": 0 if wanted.detail == "none" else None,
        "unit": {"none": "answer", "sentences": "sentences"}.get(wanted.detail),
        "stop_at": wanted.stop_at,
        **_drawing(body),
    }
    options = {name: value for name, value in named.items() if value is not None}
    return asked_question(
        pipeline, settings, question, method=wanted.method, preset=wanted.preset, measures=wanted.measures or (),
        options={**(wanted.options or {}), **options, **fixed},
    )  # fmt: skip


def _drawing(body: ChatBody | CompletionBody) -> dict[str, Any]:
    """Return how the answer is decoded."""
    seed = None if body.seed is None else body.seed % _SEEDS
    if not body.temperature:
        return {"seed": seed}
    return {
        "strategy": "multinomial",
        "temperature": max(body.temperature, LOWEST_TEMPERATURE),
        "seed": secrets.randbelow(2**31) if seed is None else seed,
    }


def wanted_of(body: ChatBody | CompletionBody) -> Wanted:
    """Return what the field `uncertainty` says; left out, it is a summary."""
    match body.uncertainty:
        case Wanted() as wanted:
            return wanted
        case False:
            return Wanted(detail="none")
        case None | True:
            return Wanted()
        case detail:
            return Wanted(detail=detail)


def _completion(body: ChatBody | CompletionBody, asked: Asked, logprobs: int | None, *, is_chat: bool) -> Completion:
    usage = bool(body.stream_options and body.stream_options.include_usage)
    return Completion(asked, wanted_of(body).detail, bool(body.stream), usage, logprobs, is_chat)
