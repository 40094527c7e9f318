"""Results as OpenAI's clients expect them: whole answers, and the chunks of a stream."""

from __future__ import annotations

import time
from collections.abc import Iterable
from secrets import token_hex
from typing import Any

from ..formats.results import Result
from ..pipeline import Progress
from ..records import Generation
from ..scoring.alignment import surface_in_context, token_texts
from .chat import Completion
from .uncertainty import branch_dict, told

Json = dict[str, Any]


class Reply:
    """What is said to one completion; all chunks of a stream have its id."""

    def __init__(self, completion: Completion, model: str) -> None:
        self._completion = completion
        prefix, kind = ("chatcmpl", "chat.completion") if completion.is_chat else ("cmpl", "text_completion")
        self._head = {"id": f"{prefix}-{token_hex(12)}", "object": kind, "created": int(time.time()), "model": model}
        self._text_of = completion.ask.pipeline.model.text

    def whole(self, result: Result) -> Json:
        """The answer in one piece."""
        answer = result.answer
        said: Json = {"text": answer.text}
        if self._completion.is_chat:
            said = {"message": {"role": "assistant", "content": answer.text, "refusal": None}}
        choice = {"index": 0, **said, "logprobs": self._logprobs(answer), **_ended(answer)}
        reply = {**self._head, "choices": [choice], "usage": usage_of(result)}
        return {**reply, **self._uncertainty(result)}

    def opening(self) -> Iterable[Json]:
        """The first chunk of a chat names the role."""
        return [self._chunk({"delta": {"role": "assistant", "content": ""}})] if self._completion.is_chat else []

    def piece(self, text: str) -> Json:
        """Some of the answer."""
        return self._chunk({"delta": {"content": text}} if self._completion.is_chat else {"text": text})

    def ending(self, answer: Generation) -> Json:
        """The answer is complete. The log-probabilities come here: only now is it known which tokens are kept."""
        said: Json = {"delta": {}} if self._completion.is_chat else {"text": ""}
        return self._chunk({**said, "logprobs": self._logprobs(answer), **_ended(answer)})

    def branch(self, progress: Progress) -> Iterable[Json]:
        """A finished branch, for those who want more than a score."""
        if self._completion.detail in ("none", "score"):
            return []
        return [{**self._chunk(), "uncertainty": {"type": "branch", **branch_dict(progress)}}]

    def last(self, result: Result) -> Iterable[Json]:
        """The estimate, and what it cost."""
        uncertainty = self._uncertainty(result)
        usage = {"usage": usage_of(result)} if self._completion.usage_in_stream else {}
        return [{**self._chunk(), **uncertainty, **usage}] if uncertainty or usage else []

    def _uncertainty(self, result: Result) -> Json:
        detail = self._completion.detail
        return {} if detail == "none" else {"uncertainty": told(result, detail)}

    def _chunk(self, choice: Json | None = None) -> Json:
        kind = "chat.completion.chunk" if self._completion.is_chat else "text_completion"
        choices = [] if choice is None else [{"index": 0, "logprobs": None, "finish_reason": None, **choice}]
        return {**self._head, "object": kind, "choices": choices}

    def _logprobs(self, answer: Generation) -> Json | None:
        if self._completion.logprobs is None or not answer.logprobs:
            return None
        tokens = token_texts(answer.token_ids, self._text_of)
        tops = [self._top(answer, place) for place in range(min(len(tokens), len(answer.alternatives)))]
        tops = tops or [[] for _ in tokens]
        steps = list(zip(tokens, answer.logprobs, tops, strict=False))
        return _chat_logprobs(steps) if self._completion.is_chat else _text_logprobs(steps)

    def _top(self, answer: Generation, place: int) -> list[tuple[str, float]]:
        """The likeliest tokens of a step, each spelled as it would stand there (method.md: never on its own)."""
        before, step = answer.token_ids[:place], answer.alternatives[place]
        return [
            (surface_in_context(before, option.token_id, self._text_of), option.logprob)
            for option in step[: self._completion.logprobs]
        ]


Step = tuple[str, float, list[tuple[str, float]]]  # a token, its log-probability, the likeliest ones


def _chat_logprobs(steps: list[Step]) -> Json:
    return {
        "content": [
            {**_token(text, logprob), "top_logprobs": [_token(*option) for option in top]}
            for text, logprob, top in steps
        ],
        "refusal": None,
    }


def _token(text: str, logprob: float) -> Json:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}


def _text_logprobs(steps: list[Step]) -> Json:
    texts = [text for text, _, _ in steps]
    return {
        "tokens": texts,
        "token_logprobs": [logprob for _, logprob, _ in steps],
        "top_logprobs": [dict(top) for _, _, top in steps],
        "text_offset": [sum(map(len, texts[:n])) for n in range(len(texts))],
    }


def _ended(answer: Generation) -> Json:
    return {"finish_reason": "length" if answer.stop_reason == "length" else "stop"}


def usage_of(result: Result) -> Json:
    """Of the answer itself; `result.cost` has what its alternatives cost."""
    prompt, answer = result.cost.prompt_tokens, len(result.answer.token_ids)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
