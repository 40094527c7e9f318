"""A model behind `/v1/completions` (vLLM, llama-server, many others) or, where there is only that, a chat endpoint.

In: a prompt and prefixes. Out: continuations; each prefix is one request, and a server with a prefix cache computes
what they share once. Where an answer ends is decided here, token by token as they stream in, by the same rules as for a
local model; a request that has reached its end is taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...errors import BadQuestion, NotSupported
from ...options import BEAMS, STRATEGIES, Decoding
from ...records import Cost, Prompt, Question, StopRule
from ..base import (
    COMPLETE,
    NO_STOPS,
    Capabilities,
    Decoded,
    DecodeRequest,
    Scored,
    path_generator,
    tell_all,
    tell_complete,
)
from ..prompts import check_fits
from .capabilities import ServerCapabilities
from .connection import Connection, Json, Refused
from .paths import PathReply, RequestPath
from .replies import Step, truncation_notes
from .text_sides import ServedTextSide, TextPrompt

IN_FLIGHT = {"vllm": 16}  # questions at once that fill it; docs/engines.md has the measurements
# llama-server's slots compute their prompts separately: branches one after the other, in the slot that has the prompt,
# were 10 times as fast on long prompts and no slower on short ones (docs/engines.md).
_WIDTH = {"llama.cpp": 1}
_STOP_STRINGS = 4  # as many as OpenAI takes
# A server tells a few tokens of each step, and codes need them all: it draws by seeds instead.
_STRATEGIES = frozenset(STRATEGIES) - {"arithmetic"}
_ONE_QUESTION = (400, 413, 422)  # refusals that another question may not meet
_PROMPTS = 1_000  # text prompts whose size is remembered


class ServedModel:
    """A model on a server. Any number of threads may use it."""

    def __init__(
        self, connection: Connection, server: ServerCapabilities, text_side: ServedTextSide, *, name: str
    ) -> None:
        self.connection, self.server, self.text_side, self._name = connection, server, text_side, name
        self.width: int | None = _WIDTH.get(server.kind)  # requests of one call at once; None: all of them
        self.extras: Callable[[], Json] = dict  # further fields of a request, for experiments
        self._prompt_sizes: dict[str, int] = {}  # tokens of text prompts, as the server counted them

    def close(self) -> None:
        """Take back what is under way and close the connection. It closes by itself when nobody holds it."""
        self.connection.close()

    @property
    def name(self) -> str:
        """What users call it."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What the server said."""
        server = self.server
        return Capabilities(
            frozenset(_STRATEGIES if server.exact and server.usable_logprobs else ("greedy", "multinomial")),
            continues_prefixes=server.endpoint == "completions",
            alternatives=server.usable_logprobs,
            context_tokens=server.context_tokens,
            in_flight=IN_FLIGHT.get(server.kind, server.slots or 4),
            shortcomings=server.shortcomings,
            approximate=not server.exact,
        )

    def prompt(self, question: Question, style: str, stop: StopRule = NO_STOPS) -> Prompt:
        """In the model's own format."""
        with _refusals_of_one_question():
            prompt = self.text_side.prompt(question, style, stop)
        check_fits(self.name, len(prompt.token_ids), self.server.context_tokens)
        return prompt

    def decode(self, request: DecodeRequest) -> Decoded:
        """One request per prefix, all at once; by beam search one per hypothesis and token."""
        prompt, decoding = request.prompt, request.decoding
        if decoding.strategy not in self.capabilities.strategies:
            raise NotSupported(f"{self.name} cannot decode by {decoding.strategy}")
        room = self._room(prompt, decoding)
        with _refusals_of_one_question():
            if decoding.strategy not in BEAMS:
                return self._continue(request, room)
            decoded = self._search(replace(request, decoding=replace(decoding, max_tokens=room)))
        tell_all(request.ended, decoded.continuations)
        return decoded

    def _continue(self, request: DecodeRequest, room: int) -> Decoded:
        """Each prefix on its own; one that is as long as an answer may be stays as it is."""
        paths = [
            RequestPath(index, prefix, room - len(prefix), int(path_generator(request.seed, index).integers(2**31)))
            for index, prefix in enumerate(request.prefixes)
        ]
        growing = [path for path in paths if path.room > 0]
        tell_complete(request, [path.index for path in paths if path.room <= 0])
        replies = self.connection.run(_Work(self, request).all(growing))
        grown = {path.index: reply.continuation for path, reply in zip(growing, replies, strict=True)}
        continuations = tuple(grown.get(path.index, COMPLETE) for path in paths)
        return Decoded(continuations, _cost(request.prompt, replies), self._notes(request.prompt, replies))

    def _search(self, request: DecodeRequest) -> Decoded:
        from .search import search_served  # torch is only needed here

        prompt, prefixes, decoding = request.prompt, request.prefixes, request.decoding
        replies: list[PathReply] = []
        rounds = 0

        def next_steps(paths: Sequence[tuple[int, ...]]) -> list[Step]:
            nonlocal rounds
            rounds += 1
            work = _Work(self, DecodeRequest(prompt, paths, Decoding(), alternatives_above=0.0))
            now = self.connection.run(work.all([RequestPath(k, path, 1, 0) for k, path in enumerate(paths)]))
            replies.extend(now)
            return [reply.steps[0] for reply in now]

        unfinished = [prefix for prefix in prefixes if len(prefix) < decoding.max_tokens]
        if not unfinished:
            return Decoded((COMPLETE,) * len(prefixes), Cost())
        hypotheses, taken = search_served(
            next_steps, unfinished, decoding, prompt.stop, self.text,
            available=self.server.usable_logprobs, min_probability=request.alternatives_above,
        )  # fmt: skip
        left = iter(hypotheses)
        whole = [next(left, None) if len(prefix) < decoding.max_tokens else COMPLETE for prefix in prefixes]
        cost = replace(_cost(prompt, replies), decode_steps=rounds)
        return Decoded(
            tuple(one for one in whole if one is not None), cost, truncation_notes(taken, request.alternatives_above)
        )

    def _notes(self, prompt: Prompt, replies: Sequence[PathReply]) -> tuple[str, ...]:
        """What the server did not tell, or may have understood otherwise."""
        steps = [step for reply in replies for step in reply.steps]
        return (*truncation_notes(steps, replies[0].floor if replies else None), *self._retokenised(prompt, replies))

    def _retokenised(self, prompt: Prompt, replies: Sequence[PathReply]) -> tuple[str, ...]:
        """In text mode: whether the server read the branches as the tokens they were meant to be."""
        if not isinstance(prompt, TextPrompt) or not prompt.text:
            return ()
        for reply in replies:
            if not reply.path.prefix and reply.usage.prompt is not None:
                self._prompt_sizes[prompt.text] = reply.usage.prompt
        while len(self._prompt_sizes) > _PROMPTS:
            self._prompt_sizes.pop(next(iter(self._prompt_sizes)), None)
        size = self._prompt_sizes.get(prompt.text)
        branches = [reply for reply in replies if reply.path.prefix]
        if branches and (size is None or any(reply.usage.prompt is None for reply in branches)):
            return ("approximate: the server does not say into how many tokens it cuts a branch's beginning",)
        other = [
            reply
            for reply in branches
            if reply.usage.prompt != (size or 0) + len(reply.path.prefix)
            or not self.text_side.tokens.is_whole(reply.path.prefix)
        ]
        if not other:
            return ()
        return (
            f"approximate: the server read the beginnings of {len(other)} of {len(branches)} branches as other tokens",
        )

    def _room(self, prompt: Prompt, decoding: Decoding) -> int:
        limit = self.server.context_tokens
        return decoding.max_tokens if limit is None else min(decoding.max_tokens, limit - len(prompt.token_ids))

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """Servers compute the likelihood of given texts without their prefix cache, if at all."""
        raise NotSupported(f"{self.name} cannot score given texts")

    def text(self, token_ids: Sequence[int]) -> str:
        """Exactly as decoded."""
        return self.text_side.text(token_ids)

    def is_special(self, token_id: int) -> bool:
        """Control tokens."""
        return self.text_side.is_special(token_id)

    def token_embeddings(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """A server keeps them to itself."""
        raise NotSupported(f"{self.name} does not tell its embeddings; use --embeddings nli")

    def vocabulary(self) -> list[tuple[int, str]]:
        """A server keeps it to itself."""
        raise NotSupported(f"{self.name} does not tell its vocabulary; use --embeddings nli")


@contextmanager
def _refusals_of_one_question() -> Iterator[None]:
    """What the server will not have of this question it may have of another one."""
    try:
        yield
    except Refused as refusal:
        if refusal.status not in _ONE_QUESTION:
            raise
        raise BadQuestion(str(refusal)) from None


def _cost(prompt: Prompt, replies: Sequence[PathReply]) -> Cost:
    """As the server counted, where it did."""
    prompt_tokens = len(prompt.token_ids) or max((reply.usage.prompt or 0 for reply in replies), default=0)
    sent = sum(reply.usage.prompt or len(prompt.token_ids) + len(reply.path.prefix) for reply in replies)
    decisions = sum(reply.decisions for reply in replies)
    cached = sum(reply.usage.cached or 0 for reply in replies)
    return Cost(
        prompt_tokens=prompt_tokens,
        generated_tokens=decisions,
        forward_tokens=sent - cached + decisions - len(replies),  # the last token of each is not run
        reused_tokens=cached,
        decode_steps=max((reply.decisions for reply in replies), default=0),
        requests=len(replies),
    )


@dataclass(slots=True)
class _Work:
    """One call of `decode`."""

    model: ServedModel
    request: DecodeRequest

    async def all(self, paths: list[RequestPath]) -> list[PathReply]:
        """Every path's reply, in the order of the paths."""
        order = sorted(paths, key=lambda path: -len(path.prefix))  # the longest shared beginning first
        turns = asyncio.Semaphore(self.model.width or len(paths) or 1)

        async def one(path: RequestPath) -> PathReply:
            async with turns:
                reply = await self._one(path)
            if self.request.ended is not None:
                self.request.ended(path.index, reply.continuation)
            return reply

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {path.index: group.create_task(one(path)) for path in order}
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        return [tasks[path.index].result() for path in paths]

    async def _one(self, path: RequestPath) -> PathReply:
        chat = self.model.server.endpoint == "chat"
        return await self.model.connection.complete(
            "chat/completions" if chat else "completions",
            lambda: self._body(path),
            lambda: PathReply(path, self.request, self.model.server, self.model.text_side),
        )

    def _body(self, path: RequestPath) -> Json:
        server, decoding = self.model.server, self.request.decoding
        greedy = decoding.strategy == "greedy"
        body: Json = {
            "model": server.model,
            "max_tokens": path.room - len(path.kept_steps),
            "temperature": 0.0 if greedy else decoding.temperature,
            "top_p": 1.0 if greedy else max(decoding.top_p, 1e-6),  # 0 keeps the likeliest; servers want more
            "seed": path.seed,
        }
        if isinstance(self.request.prompt, TextPrompt):
            return {**body, **self._text_body(self.request.prompt, path)}
        if server.usable_logprobs:
            body["logprobs"] = 1 if self.request.alternatives_above is None else server.usable_logprobs
        ids = [*self.request.prompt.token_ids, *path.prefix, *(step.token_id for step in path.kept_steps)]
        streamed = {"stream": True, "stream_options": {"include_usage": True}}
        return {**body, **server.request_fields, "prompt": ids, **streamed, **self.model.extras()}

    def _text_body(self, prompt: TextPrompt, path: RequestPath) -> Json:
        """Nothing but what every server knows."""
        most, alternatives = self.model.server.usable_logprobs, self.request.alternatives_above is not None
        body: Json = {}
        if prompt.stop.strings:
            body["stop"] = list(prompt.stop.strings[:_STOP_STRINGS])
        if prompt.messages:
            body["messages"] = [{"role": role, "content": content} for role, content in prompt.messages]
            logprobs: Json = {"logprobs": True, **({"top_logprobs": most} if alternatives else {})}
        else:
            body["prompt"] = prompt.text + self.model.text(path.prefix)
            logprobs = {"logprobs": most if alternatives else 1}
        return {**body, **logprobs} if most else body
