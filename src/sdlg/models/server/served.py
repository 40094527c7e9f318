"""A model behind `/v1/completions` (vLLM, llama-server, many others) or, where there is only that, a chat endpoint.

In: a prompt and prefixes. Out: continuations; each prefix is one request, and a server with a prefix cache computes
what they share once. Where an answer ends is decided here, token by token as they stream in, by the same rules as for a
local model; a request that has reached its end is taken back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...errors import NotSupported, PromptTooLong
from ...options import STRATEGIES, Decoding
from ...records import Alternative, Cost, Prompt, Question, StopRule
from ..base import NO_STOPS, Capabilities, Continuation, Decoded, Ended, Scored, Seed, Watcher, finished, path_generator
from ..stopping import Stop, find_stop
from .connection import Connection, Json, Nonsense
from .facts import ServerFacts
from .replies import Step, read_steps
from .words import TextPrompt, Words

IN_FLIGHT = {"vllm": 16}  # questions at once that fill it; docs/engines.md has the measurements
# llama-server's slots compute their prompts separately: branches one after the other, in the slot that has the prompt,
# were 10 times as fast on long prompts and no slower on short ones (docs/engines.md).
_WIDTH = {"llama.cpp": 1}
_STOP_STRINGS = 4  # as many as OpenAI takes
_BEAMS = ("beam", "diverse_beam")
_NOTHING = Continuation((), (), "length", None, 0)


@dataclass(slots=True)
class _Path:
    """One prefix that is to be continued."""

    index: int
    prefix: tuple[int, ...]
    room: int  # tokens that it may grow
    seed: int
    told: int = 0  # tokens that were shown to the watcher; a request that is begun again does not show them twice


class ServedModel:
    """A model on a server. Any number of threads may use it."""

    def __init__(self, connection: Connection, facts: ServerFacts, words: Words, *, name: str) -> None:
        self.connection, self.facts, self.words, self._name = connection, facts, words, name
        self.width: int | None = _WIDTH.get(facts.kind)  # requests of one call at once; None: all of them
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
        facts = self.facts
        return Capabilities(
            frozenset(STRATEGIES if facts.exact and facts.usable_logprobs else ("greedy", "multinomial")),
            continues_prefixes=facts.endpoint == "completions",
            alternatives=facts.usable_logprobs,
            context_tokens=facts.context_tokens,
            in_flight=IN_FLIGHT.get(facts.kind, facts.slots or 4),
            shortcomings=facts.shortcomings,
            approximate=not facts.exact,
        )

    def prompt(self, question: Question, style: str, stop: StopRule = NO_STOPS) -> Prompt:
        """In the model's own format."""
        prompt = self.words.prompt(question, style, stop)
        limit = self.facts.context_tokens
        if limit is not None and len(prompt.token_ids) >= limit:
            raise PromptTooLong(
                f"the prompt has {len(prompt.token_ids)} tokens, but {self.name} reads at most {limit} with its "
                "answer; shorten the question or its context"
            )
        return prompt

    def decode(
        self,
        prompt: Prompt,
        prefixes: Many[tuple[int, ...]],
        decoding: Decoding,
        *,
        seed: Seed = 0,
        alternatives_above: float | None = None,
        watch: Watcher | None = None,
        ended: Ended | None = None,
    ) -> Decoded:
        """One request per prefix, all at once; by beam search one per hypothesis and token."""
        if decoding.strategy not in self.capabilities.strategies:
            raise NotSupported(f"{self.name} cannot decode by {decoding.strategy}")
        room = self._room(prompt, decoding)
        if decoding.strategy in _BEAMS:
            found = self._search(prompt, prefixes, replace(decoding, max_tokens=room), alternatives_above)
            if ended is not None:
                for place, continuation in enumerate(found.continuations):
                    ended(place, continuation)
            return found
        paths = [
            _Path(index, prefix, room - len(prefix), int(path_generator(seed, index).integers(2**31)))
            for index, prefix in enumerate(prefixes)
        ]
        growing = [path for path in paths if path.room > 0]
        work = _Work(self, prompt, decoding, alternatives_above, watch, ended)
        replies = self.connection.run(work.all(growing))
        grown = {path.index: reply.continuation for path, reply in zip(growing, replies, strict=True)}
        continuations = tuple(grown.get(path.index, _NOTHING) for path in paths)
        return Decoded(continuations, _cost(prompt, replies), self._notes(prompt, replies))

    def _search(
        self, prompt: Prompt, prefixes: Many[tuple[int, ...]], decoding: Decoding, min_probability: float | None
    ) -> Decoded:
        from .search import search_served  # torch is only needed here

        replies: list[_Reply] = []
        rounds = 0

        def next_steps(paths: Many[tuple[int, ...]]) -> list[Step]:
            nonlocal rounds
            rounds += 1
            work = _Work(self, prompt, Decoding(), 0.0)
            now = self.connection.run(work.all([_Path(k, path, 1, 0) for k, path in enumerate(paths)]))
            replies.extend(now)
            return [reply.first_step for reply in now]

        unfinished = [prefix for prefix in prefixes if len(prefix) < decoding.max_tokens]
        found = iter(
            search_served(
                next_steps, unfinished, decoding, prompt.stop, self.text,
                told=self.facts.usable_logprobs, min_probability=min_probability,
            )
            if unfinished
            else ()
        )  # fmt: skip
        whole = [next(found, None) if len(prefix) < decoding.max_tokens else _NOTHING for prefix in prefixes]
        cost = replace(_cost(prompt, replies), decode_steps=rounds)
        return Decoded(tuple(one for one in whole if one is not None), cost)

    def _notes(self, prompt: Prompt, replies: Many[_Reply]) -> tuple[str, ...]:
        """What the server did not tell, or may have understood otherwise."""
        return (*_untold(replies), *self._retokenised(prompt, replies))

    def _retokenised(self, prompt: Prompt, replies: Many[_Reply]) -> tuple[str, ...]:
        """In text mode: whether the server read the branches as the tokens they were meant to be."""
        if not isinstance(prompt, TextPrompt) or not prompt.text:
            return ()
        for reply in replies:
            if not reply.prefix and reply.prompt_tokens is not None:
                self._prompt_sizes[prompt.text] = reply.prompt_tokens
        size = self._prompt_sizes.get(prompt.text)
        branches = [reply for reply in replies if reply.prefix]
        if branches and (size is None or any(reply.prompt_tokens is None for reply in branches)):
            return ("approximate: the server does not say into how many tokens it cuts a branch's beginning",)
        other = [
            reply
            for reply in branches
            if reply.prompt_tokens != (size or 0) + len(reply.prefix) or not self.words.tokens.is_whole(reply.prefix)
        ]
        if not other:
            return ()
        return (
            f"approximate: the server read the beginnings of {len(other)} of {len(branches)} branches as other tokens",
        )

    def _room(self, prompt: Prompt, decoding: Decoding) -> int:
        limit = self.facts.context_tokens
        return decoding.max_tokens if limit is None else min(decoding.max_tokens, limit - len(prompt.token_ids))

    def score(self, prompt: Prompt, texts: Many[str], *, ended: Many[bool] | None = None) -> Scored:
        """Servers compute the likelihood of given texts without their prefix cache, if at all."""
        raise NotSupported(f"{self.name} cannot score given texts")

    def text(self, token_ids: Many[int]) -> str:
        """Exactly as decoded."""
        return self.words.text(token_ids)

    def is_special(self, token_id: int) -> bool:
        """Control tokens."""
        return self.words.is_special(token_id)

    def token_embeddings(self, token_ids: Many[int]) -> NDArray[np.float32]:
        """A server keeps them to itself."""
        raise NotSupported(f"{self.name} does not tell its embeddings; use --embeddings nli")

    def vocabulary(self) -> list[tuple[int, str]]:
        """A server keeps it to itself."""
        raise NotSupported(f"{self.name} does not tell its vocabulary; use --embeddings nli")


def _untold(replies: Many[_Reply]) -> tuple[str, ...]:
    """Whether there may be alternatives that are likely enough and that the server did not tell."""
    cut = sum(reply.cut_steps for reply in replies)
    if not cut:
        return ()
    steps = sum(reply.decisions for reply in replies)
    return (
        f"at {cut} of {steps} steps the server tells too few tokens to see all that are likely enough; "
        "what it does not tell is in answer.unseen; start vLLM with --max-logprobs 100",
    )


def _cost(prompt: Prompt, replies: Many[_Reply]) -> Cost:
    """As the server counted, where it did."""
    prompt_tokens = len(prompt.token_ids) or max((reply.prompt_tokens or 0 for reply in replies), default=0)
    sent = sum(reply.prompt_tokens or len(prompt.token_ids) + len(reply.prefix) for reply in replies)
    decisions = sum(reply.decisions for reply in replies)
    cached = sum(reply.cached_tokens for reply in replies)
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
    prompt: Prompt
    decoding: Decoding
    floor: float | None  # of alternatives; None: none are wanted
    watch: Watcher | None = None
    ended: Ended | None = None

    async def all(self, paths: list[_Path]) -> list[_Reply]:
        """Every path's reply, in the order of the paths."""
        order = sorted(paths, key=lambda path: -len(path.prefix))  # the longest shared beginning first
        turns = asyncio.Semaphore(self.model.width or len(paths) or 1)

        async def one(path: _Path) -> _Reply:
            async with turns:
                reply = await self._one(path)
            if self.ended is not None:
                self.ended(path.index, reply.continuation)
            return reply

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {path.index: group.create_task(one(path)) for path in order}
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        return [tasks[path.index].result() for path in paths]

    async def _one(self, path: _Path) -> _Reply:
        chat = self.model.facts.endpoint == "chat"
        return await self.model.connection.complete(
            "chat/completions" if chat else "completions",
            self._body(path),
            lambda: _Reply(path, self.prompt.stop, self.model, self.floor, self.watch),
        )

    def _body(self, path: _Path) -> Json:
        facts, decoding = self.model.facts, self.decoding
        greedy = decoding.strategy == "greedy"
        body: Json = {
            "model": facts.model,
            "max_tokens": path.room,
            "temperature": 0.0 if greedy else decoding.temperature,
            "top_p": 1.0 if greedy else max(decoding.top_p, 1e-6),  # 0 keeps the likeliest; servers want more
            "seed": path.seed,
        }
        if isinstance(self.prompt, TextPrompt):
            return {**body, **self._text_body(self.prompt, path)}
        if facts.usable_logprobs:
            body["logprobs"] = 1 if self.floor is None else facts.usable_logprobs
        ids = [*self.prompt.token_ids, *path.prefix]
        return {**body, **_OWN_WORDS.get(facts.kind, {}), "prompt": ids, "stream": True, **self.model.extras()}

    def _text_body(self, prompt: TextPrompt, path: _Path) -> Json:
        """Nothing but what every server knows."""
        most = self.model.facts.usable_logprobs
        body: Json = {}
        if prompt.stop.strings:
            body["stop"] = list(prompt.stop.strings[:_STOP_STRINGS])
        if prompt.messages:
            body["messages"] = [{"role": role, "content": content} for role, content in prompt.messages]
            return {**body, "logprobs": True} if most else body
        body["prompt"] = prompt.text + self.model.text(path.prefix)
        return {**body, "logprobs": 1 if self.floor is None else most} if most else body


# What the OpenAI protocol has no word for: no sampling but what was asked for, ids in the reply.
_OWN_WORDS: dict[str, Json] = {
    "vllm": {
        "return_token_ids": True, "return_tokens_as_token_ids": True, "skip_special_tokens": False,
        "add_special_tokens": False, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
        "stream_options": {"include_usage": True},
    },
    "llama.cpp": {"samplers": ["temperature", "top_p"], "cache_prompt": True},
}  # fmt: skip


class _Reply:
    """Reads one reply, until the answer ends."""

    def __init__(
        self, path: _Path, rule: StopRule, model: ServedModel, floor: float | None, watch: Watcher | None
    ) -> None:
        self._path, self._rule, self._words, self._floor, self._watch = path, rule, model.words, floor, watch
        self._wants_tokens = model.facts.usable_logprobs > 0
        self._spells = not model.facts.exact
        self._steps: list[Step] = []
        self._stop: Stop | None = None
        self._finish: str | None = None
        self._text = ""
        self._usage: Json = {}

    @property
    def prefix(self) -> tuple[int, ...]:
        """What is continued."""
        return self._path.prefix

    def take(self, chunk: Json) -> bool:
        """Tokens as they come; enough when the answer has ended."""
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        if not choices:
            return False
        choice = choices[0]
        self._text += choice.get("text") or (choice.get("message") or {}).get("content") or ""
        self._finish = choice.get("finish_reason") or self._finish
        for step in read_steps(choice, self._words.tokens) if self._wants_tokens else ():
            self._steps.append(step)
            self._stop = find_stop(self._rule, self._ids, self._words.text)
            if self._stop is not None:
                return True
            self._show(step.token_id)
        return False

    def _show(self, token: int) -> None:
        if self._watch is not None and len(self._steps) > self._path.told:
            self._path.told = len(self._steps)
            self._watch(self._path.index, token)

    @property
    def _ids(self) -> tuple[int, ...]:
        return (*self.prefix, *(step.token_id for step in self._steps))

    def end(self) -> None:
        """A reply without an ending is torn; tokens that do not spell the text are no use."""
        if self._stop is None and self._finish is None:
            raise Nonsense("broke off in the middle of an answer")
        if not self._wants_tokens:
            return
        if self._text.strip() and not self._steps:
            raise Nonsense("sends text without log-probabilities")
        spelled = self._words.text([step.token_id for step in self._steps])
        if self._spells and not (spelled.strip().startswith(self._text.strip()) or "\ufffd" in spelled):
            raise Nonsense(f"sends tokens that spell {spelled[:40]!r} for the text {self._text[:40]!r}")

    @property
    def cut_steps(self) -> int:
        """At how many steps a token above the floor may not have been told."""
        floor = self._floor
        if floor is None:
            return 0
        return sum(
            bool(step.top) and min(math.exp(step.top[-1].logprob), _unseen(step)) > floor for step in self._steps
        )

    @property
    def first_step(self) -> Step:
        """The first decision."""
        return self._steps[0]

    @property
    def continuation(self) -> Continuation:
        """What was decoded, cut at its stop."""
        if not self._wants_tokens:
            return self._text_alone()
        ids = tuple(step.token_id for step in self._steps)
        logprobs = tuple(step.logprob for step in self._steps)
        told = () if self._floor is None else tuple(map(self._likely, self._steps))
        unseen = () if self._floor is None else tuple(map(_unseen, self._steps))
        stop, size = self._stop, len(self._ids)
        if stop is None and self._finish != "length" and ids and self._words.is_special(ids[-1]):
            stop = Stop("eos", size - 1, size)  # an ending that we did not know
        if stop is None and self._finish != "length":  # it ended, but does not say with what
            return Continuation(ids, logprobs, "eos", None, self.decisions, 0, told, unseen=unseen)
        return finished(self.prefix, ids, logprobs, stop, told, unseen=unseen)

    def _text_alone(self) -> Continuation:
        """Without log-probabilities an answer is one token of which nothing is known but its text."""
        ids = (self._words.tokens.learn(self._text.encode()),)
        return Continuation(ids, (), "length" if self._finish == "length" else "eos", None, self.decisions)

    def _likely(self, step: Step) -> tuple[Alternative, ...]:
        floor = self._floor or 0.0
        return tuple(one for one in step.top if math.exp(one.logprob) > floor)

    @property
    def decisions(self) -> int:
        """How many tokens were decoded, the ending included."""
        return len(self._steps) or int(self._usage.get("completion_tokens") or 0)

    @property
    def prompt_tokens(self) -> int | None:
        """As the server counted them; None: it did not say."""
        found = self._usage.get("prompt_tokens")
        return found if isinstance(found, int) else None

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that the server had computed before, as far as it says."""
        found = (self._usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return found if isinstance(found, int) else 0


def _unseen(step: Step) -> float:
    """The probability of all tokens that the server did not tell."""
    seen = {one.token_id: one.logprob for one in step.top} | {step.token_id: step.logprob}
    return max(1.0 - math.fsum(map(math.exp, seen.values())), 0.0)
