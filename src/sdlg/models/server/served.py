"""A model behind `/v1/completions` (vLLM, llama-server, many others) or, where there is only that, a chat endpoint.

In: a prompt and prefixes. Out: continuations; each prefix is one request, and a server with a prefix cache computes
what they share once. Servers that take and send token ids can do all that SDLG needs; others draw whole answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ...errors import BadOption, BadQuestion, NotSupported, ServerFailed
from ...options import BEAMS, STRATEGIES, Decoding
from ...records import Cost, Prompt, Question, StopRule
from ..base import (
    COMPLETE,
    NO_STOPS,
    Capabilities,
    Decoded,
    DecodeRequest,
    Done,
    Scored,
    nobody,
    one_by_one,
    path_generator,
    tell_all,
    tell_complete,
)
from ..prompts import check_fits
from .address import parse_address
from .capabilities import ServerCapabilities, probe_server
from .connection import BadReply, Connection, Json, Refused
from .replies import Step, truncation_notes
from .requests import PathReply, RequestPath, request_body
from .tokenizers import LlamaPrompts, ServedTokenizer, load_own_tokenizer, text_tokenizer

IN_FLIGHT = {"vllm": 16}  # questions at once that fill it; docs/results/engines.md has the measurements
# llama-server's slots compute their prompts separately: branches one after the other, in the slot that has the prompt,
# were 10 times as fast on long prompts and no slower on short ones (docs/results/engines.md).
_WIDTH = {"llama.cpp": 1}
# A server lists a few tokens of each step, and codes need them all: it draws by seeds instead.
_STRATEGIES = frozenset(STRATEGIES) - {"arithmetic"}
_ONE_QUESTION = (400, 413, 422)  # refusals that another question may not meet


def connect(name: str, *, tokenizer: str | None = None, retry_seconds: float = 120.0) -> ServedModel:
    """Connect to `http://127.0.0.1:8000/v1#name`, or `server#name` for the address in OPENAI_BASE_URL.

    `tokenizer` is a folder or hub name, where the server does not name its own. `retry_seconds` is how many seconds a
    server that is silent or fails is waited for.
    """
    address = parse_address(name)
    connection = Connection(address, retry_seconds=checked_patience(retry_seconds))
    try:
        server = connection.run(probe_server(connection))
        if server.slots:
            connection.allow_requests(server.slots)
        full_name = f"{address.url}#{address.model or server.model}"
        chosen = choose_tokenizer(connection, server, full_name, tokenizer)
        return ServedModel(connection, server, chosen, name=full_name)
    except BadReply as fault:
        connection.close()
        raise ServerFailed(f"{address.url} {connection.describe(fault)}") from None
    except BaseException:
        connection.close()
        raise


def checked_patience(retry_seconds: float) -> float:
    """Return for how many seconds to try again, if it can be."""
    if not retry_seconds > 0:
        raise BadOption(f"retry_seconds must be more than 0 seconds, not {retry_seconds}")
    return retry_seconds


def choose_tokenizer(
    connection: Connection, server: ServerCapabilities, name: str, tokenizer: str | None
) -> ServedTokenizer:
    """Return a tokenizer that was named, the server's own, or one that learns from what replies spell."""
    own = None if tokenizer is None else load_own_tokenizer(tokenizer, name)
    if not server.exact:
        return text_tokenizer(name, own, chat=server.endpoint == "chat")
    if own is None and server.kind == "llama.cpp":
        prompts = LlamaPrompts(connection, name, has_template=server.has_template, ending=server.ending)
        return ServedTokenizer(prompts.prompt)
    own = own or load_own_tokenizer(server.tokenizer or server.model, name)
    # Without log-probabilities an answer is one token, its text: known by its spelling.
    return ServedTokenizer(own.prompt, own if server.usable_logprobs else None)


class ServedModel:
    """A model on a server. Any number of threads may use it."""

    def __init__(
        self, connection: Connection, server: ServerCapabilities, tokenizer: ServedTokenizer, *, name: str
    ) -> None:
        self.connection, self.server, self.tokenizer, self._name = connection, server, tokenizer, name
        self.width: int | None = _WIDTH.get(server.kind)  # requests of one call at once; None: all of them
        self.extras: Callable[[], Json] = dict  # further fields of a request, for experiments

    def close(self) -> None:
        """Take back what is under way and close the connection. It closes by itself when nobody holds it."""
        self.connection.close()

    @property
    def name(self) -> str:
        """What users call it."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What the server can do."""
        server = self.server
        return Capabilities(
            frozenset(_STRATEGIES if server.exact and server.usable_logprobs else ("greedy", "multinomial")),
            continues_prefixes=server.exact,
            alternatives=server.usable_logprobs,
            context_tokens=server.context_tokens,
            in_flight=IN_FLIGHT.get(server.kind, server.slots or 4),
            shortcomings=server.shortcomings,
        )

    def prompt(self, question: Question, style: str, stop: StopRule = NO_STOPS) -> Prompt:
        """Return a question in the model's own format."""
        with _refusals_of_one_question():
            prompt = self.tokenizer.prompt(question, style, stop)
        check_fits(self.name, len(prompt.token_ids), self.server.context_tokens)
        return prompt

    def decode(self, request: DecodeRequest) -> Decoded:
        """Send one request per prefix, all at once; by beam search one per hypothesis and token."""
        decoding, able = request.decoding, self.capabilities
        if decoding.strategy not in able.strategies:
            raise NotSupported(f"{self.name} cannot decode by {decoding.strategy}")
        if (any(request.prefixes) or request.prompt.said) and not able.continues_prefixes:
            raise NotSupported(f"{self.name} takes no token ids, so it cannot go on from the beginning of an answer")
        room = decoding.max_tokens
        if self.server.context_tokens is not None:
            room = min(room, self.server.context_tokens - len(request.prompt.token_ids) - len(request.prompt.said))
        with _refusals_of_one_question():
            if decoding.strategy not in BEAMS:
                return self._continue(request, room)
            decoded = self._search(replace(request, decoding=replace(decoding, max_tokens=room)))
        tell_all(request.ended, decoded.continuations)
        return decoded

    def decode_all(self, requests: Sequence[DecodeRequest], done: Done = nobody) -> list[Decoded]:
        """One after the other; the server's own prefix cache holds what they share."""
        return one_by_one(self.decode, requests, done)

    def _continue(self, request: DecodeRequest, room: int) -> Decoded:
        """Continue each prefix on its own; one that is as long as an answer may be stays as it is."""
        paths = [
            RequestPath(index, prefix, room - len(prefix), int(path_generator(request.seed, index).integers(2**31)))
            for index, prefix in enumerate(request.prefixes)
        ]
        growing = [path for path in paths if path.room > 0]
        tell_complete(request, [path.index for path in paths if path.room <= 0])
        replies = self.connection.run(self._replies(request, growing))
        grown = {path.index: reply.continuation for path, reply in zip(growing, replies, strict=True)}
        continuations = tuple(grown.get(path.index, COMPLETE) for path in paths)
        notes = truncation_notes([step for reply in replies for step in reply.steps], request.alternatives_above)
        silent = () if self.server.exact else silence_notes([reply.silent_end for reply in replies])
        return Decoded(continuations, _cost(request.prompt, replies), (*notes, *silent))

    def _search(self, request: DecodeRequest) -> Decoded:
        from .search import search_served  # torch is only needed here

        prompt, prefixes, decoding = request.prompt, request.prefixes, request.decoding
        replies: list[PathReply] = []
        rounds = 0

        def next_steps(paths: Sequence[tuple[int, ...]]) -> list[Step]:
            nonlocal rounds
            rounds += 1
            asked = DecodeRequest(prompt, paths, Decoding(), alternatives_above=0.0)
            growing = [RequestPath(k, path, 1, 0) for k, path in enumerate(paths)]
            now = self.connection.run(self._replies(asked, growing))
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

    async def _replies(self, request: DecodeRequest, paths: list[RequestPath]) -> list[PathReply]:
        """Return every path's reply, in the order of the paths."""
        order = sorted(paths, key=lambda path: -len(path.prefix))  # the longest shared beginning first
        turns = asyncio.Semaphore(self.width or len(paths) or 1)
        endpoint = "chat/completions" if self.server.endpoint == "chat" else "completions"

        async def reply_to(path: RequestPath) -> PathReply:
            async with turns:
                reply = await self.connection.complete(
                    endpoint,
                    lambda: {**request_body(path, request, self.server), **self.extras()},
                    lambda: PathReply(path, request, self.server, self.tokenizer),
                )
            if request.ended is not None:
                request.ended(path.index, reply.continuation)
            return reply

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {path.index: group.create_task(reply_to(path)) for path in order}
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        return [tasks[path.index].result() for path in paths]

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """Refuse: servers compute the likelihood of given texts without their prefix cache, if at all."""
        raise NotSupported(f"{self.name} cannot score given texts")

    def read(self, prompt: Prompt, text: str, *, alternatives_above: float) -> Scored:
        """Refuse, as `score` does."""
        raise NotSupported(f"{self.name} cannot read given texts")

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text exactly as decoded."""
        return self.tokenizer.text(token_ids)

    def is_special(self, token_id: int) -> bool:
        """Whether it is a control token."""
        return self.tokenizer.is_special(token_id)


@contextmanager
def _refusals_of_one_question() -> Iterator[None]:
    """Make `BadQuestion` of a refusal that another question may not meet."""
    try:
        yield
    except Refused as refusal:
        if refusal.status not in _ONE_QUESTION:
            raise
        raise BadQuestion(str(refusal)) from None


def silence_notes(ends: Sequence[str | None]) -> tuple[str, ...]:
    """Return a note on answers that are empty, by why they ended (None: they are not); raise if nothing was said."""
    why = sorted({end for end in ends if end is not None})
    if not why:
        return ()
    silent = f"{len([end for end in ends if end is not None])} of {len(ends)} answers are empty ({', '.join(why)})"
    if "length" in why:
        silent += "; a model that thinks before it answers needs room for both: raise max_tokens"
    if None not in ends and "stop" not in why:
        raise BadQuestion(f"the server says nothing: {silent}")
    return (silent,)


def _cost(prompt: Prompt, replies: Sequence[PathReply]) -> Cost:
    """Return the cost as the server counted it, where it did."""
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
