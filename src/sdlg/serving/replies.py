"""Results as OpenAI's clients expect them, whole or as the chunks of a stream, with the `uncertainty` object."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import asdict
from secrets import token_hex

from ..progress import Progress
from ..records import Generation, Sample, Sentence
from ..result import Result
from ..schema import adapter
from ..scoring.alignment import surface_in_context, token_texts
from ..views.brief import sentence_dict
from ..views.reading import reading
from .bodies import Detail
from .completions import Completion
from .failures import Json


def uncertainty_dict(result: Result, detail: Detail) -> Json:
    """Return the `uncertainty` object of a completion, as much of it as the client asked for."""
    entropy = result.share_entropy
    headline = {
        "semantic_entropy": result.semantic_entropy,
        "share_entropy": entropy and {"value": entropy.value, "low": entropy.low, "high": entropy.high},
        "reading": reading(result),
        "risk": result.risk and asdict(result.risk),
    }
    if detail == "headline":
        return headline
    sentences = [sentence_dict(one) for one in result.sentences]
    if detail == "sentences":
        return {**headline, "mean_sentence_entropy": result.mean_sentence_entropy, "sentences": sentences}
    summary = {
        **headline,
        "sentences": sentences,
        "clusters": [{**asdict(one), "share": one.share} for one in result.clusters if not sentences],
        "alternatives": [_alternative(sample) for sample in result.samples[1:]],
        "measures": {name: estimate.value for name, estimate in result.estimates.items()},
        "unavailable": dict(result.unavailable),
        "coverage": result.coverage,
        "notes": list(result.notes),
    }
    return summary if detail == "summary" else {**summary, "result": result.to_dict()}


def _alternative(sample: Sample) -> Json:
    """`probability` is the model's for this very text, its ending included; NaN, null in JSON, if it is not known."""
    change = sample.substitution
    return {
        "text": sample.text,
        "probability": math.exp(sample.generation.logprob),
        "cluster": sample.cluster,
        "original": change and change.original,
        "replacement": change and change.replacement,
    }


def generation_dict(generation: Generation) -> Json:
    """Return a generation as results have it."""
    made: Json = adapter(Generation).dump_python(generation, mode="json", exclude={"alternatives"})
    return made


def branch_dict(progress: Progress) -> Json:
    """Return a branch that was just finished."""
    assert progress.generation is not None
    change = None if progress.substitution is None else asdict(progress.substitution)
    return {**generation_dict(progress.generation), "substitution": change}


class Reply:
    """What is said to one completion; all chunks of a stream have its id."""

    answer_first = True  # samples that are finished before the answer is known wait for it

    def __init__(self, completion: Completion, model: str) -> None:
        self._completion = completion
        prefix, kind = ("chatcmpl", "chat.completion") if completion.is_chat else ("cmpl", "text_completion")
        self._head = {"id": f"{prefix}-{token_hex(12)}", "object": kind, "created": int(time.time()), "model": model}
        self._text_of = completion.asked.pipeline.models.language_model.text

    def whole(self, result: Result) -> Json:
        """Return the answer in one piece."""
        answer = result.answer
        said: Json = {"text": answer.text}
        if self._completion.is_chat:
            said = {"message": {"role": "assistant", "content": answer.text, "refusal": None}}
        choice = {"index": 0, **said, "logprobs": self._logprobs(answer), **_ended(answer)}
        reply = {**self._head, "choices": [choice], "usage": usage_of(result)}
        return {**reply, **self._uncertainty(result)}

    def opening(self) -> Iterable[Json]:
        """Return the first chunk of a chat, which names the role."""
        return [self._chunk({"delta": {"role": "assistant", "content": ""}})] if self._completion.is_chat else []

    def piece(self, text: str) -> Json:
        """Return some of the answer."""
        return self._chunk({"delta": {"content": text}} if self._completion.is_chat else {"text": text})

    def ending(self, answer: Generation) -> Json:
        """Return the end of the answer. The log-probabilities come here: only now is it known which tokens are kept."""
        said: Json = {"delta": {}} if self._completion.is_chat else {"text": ""}
        return self._chunk({**said, "logprobs": self._logprobs(answer), **_ended(answer)})

    def branch(self, progress: Progress) -> Iterable[Json]:
        """Return a finished branch, for those who want more than the headline."""
        if self._completion.detail in ("none", "headline"):
            return []
        return [{**self._chunk(), "uncertainty": {"type": "branch", **branch_dict(progress)}}]

    def sentence(self, sentence: Sentence) -> Iterable[Json]:
        """Return a sentence that was just measured, for those who want more than the headline."""
        if self._completion.detail in ("none", "headline"):
            return []
        return [{**self._chunk(), "uncertainty": {"type": "sentence", **sentence_dict(sentence)}}]

    def last(self, result: Result) -> Iterable[Json]:
        """Return the estimate, and what it cost."""
        uncertainty = self._uncertainty(result)
        usage = {"usage": usage_of(result)} if self._completion.usage_in_stream else {}
        return [{**self._chunk(), **uncertainty, **usage}] if uncertainty or usage else []

    def error(self, error: Json) -> Json:
        """Return an error as OpenAI's clients raise it."""
        return {"error": error}

    def _uncertainty(self, result: Result) -> Json:
        detail = self._completion.detail
        return {} if detail == "none" else {"uncertainty": uncertainty_dict(result, detail)}

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
        """Return the likeliest tokens of a step, spelled as they would stand there: alone they may lose a space."""
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
    """Return the tokens of the answer itself; `result.cost` has what its alternatives cost."""
    prompt, answer = result.cost.prompt_tokens, len(result.answer.token_ids)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
