"""A scripted model server on a free port of this machine: four dialects, any fault, and a record of what was asked.

    with FakeServer("llama", CAPITAL) as server:
        model = connect(server.url)
        server.inject(Answer(503), times=2)

Its model is a `ScriptedModel`, so the same script run locally says what should come out. `Twin` is that script with the
seeds that a served model sends. Dialects: vllm (ids, streamed), llama (ids and bytes, streamed), legacy (text only),
chat (messages only).
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event, Lock, Thread
from typing import Any

import numpy as np

from sdlg import ScriptedModel
from sdlg.models.base import Decoded, DecodeRequest, path_generator
from sdlg.models.scripted import END
from sdlg.options import Decoding
from sdlg.records import Cost, Prompt, StopRule

Json = dict[str, Any]
Script = Mapping[str, Mapping[str, float]]

BYTES = 1000  # the id of byte b, of which prompts are made, is BYTES + b; tokens of the script come before
ASSISTANT = "<|assistant|>"  # where a chat template ends
VERSION = "1.2.3"
LOWEST = {"vllm": -9999.0, "llama": -3.4028234663852886e38}  # how they write log 0


class Twin(ScriptedModel):
    """A script run locally that draws as the same script behind a server does: each path by a seed of its own."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.capabilities = replace(self.capabilities, strategies=frozenset({"greedy", "multinomial"}))

    def decode(self, request: DecodeRequest) -> Decoded:
        seeds = [int(path_generator(request.seed, k).integers(2**31)) for k in range(len(request.prefixes))]
        paths = [
            super(Twin, self).decode(replace(request, prefixes=[prefix], seed=seed, watch=None, ended=None))
            for prefix, seed in zip(request.prefixes, seeds, strict=True)
        ]
        grown = tuple(path.continuations[0] for path in paths)
        for k, continuation in enumerate(grown if request.ended else ()):
            request.ended(k, continuation)
        return Decoded(grown, Cost(generated_tokens=sum(path.cost.generated_tokens for path in paths)))


@dataclass(frozen=True)
class Traits:
    """What servers of one dialect differ in."""

    models: tuple[str, ...] = ("tiny",)
    owner: str | None = None  # whose it says it is; None: its maker's
    lists_models: bool = True
    others: Mapping[str, Script] = field(default_factory=dict)  # a word of a question → the script that answers it
    most: int = 100  # log-probabilities of a step; 0: none at all
    clamps: bool = False  # tells `most` of them to whoever asks for more, without a word
    raw: bool = True  # log-probabilities before temperature
    refuses: tuple[str, ...] = ()  # chat: fields that it will not have, as hosted models do
    caches: bool | None = None  # what usage says of cached tokens; None: nothing
    usage: bool = True  # whether it counts tokens
    recounts: int = 0  # tokens by which it counts a branch's prompt wrongly: as if cut into others
    template: bool = True  # llama: has a chat template
    end: str = "<|im_end|>"  # llama: the spelling of the token that ends a turn
    tells_end: bool = True  # legacy: the end is among the tokens
    root: str = "no-such-tokenizer"  # vllm: where its tokenizer is from
    context: int = 4096
    slots: int = 3  # llama


@dataclass
class Seen:
    """A request, as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json
    at: float = field(default_factory=time.monotonic)
    left: Event = field(default_factory=Event)  # the client hung up before it had its reply

    @property
    def generates(self) -> bool:
        """Whether tokens were asked for."""
        return self.path.endswith("/completions")

    @property
    def words(self) -> str:
        """All of the body, to look for something in it; ids of bytes as the text that they are."""
        prompt = self.body.get("prompt")
        ids = prompt if isinstance(prompt, list) else ()
        return json.dumps(self.body) + bytes(i - BYTES for i in ids if i >= BYTES).decode("utf-8", "replace")


# -- the model --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One token, and all that could have been there."""

    token: int
    logprob: float
    options: tuple[tuple[int, float], ...]


class Speaker:
    """Scripts with one vocabulary: text in, steps out."""

    def __init__(self, script: Script, others: Mapping[str, Script]) -> None:
        scripts = {"": script, **others}
        self.tokens = [END, *sorted({t for s in scripts.values() for row in s.values() for t in row} - {END})]
        self._scripts = {word: (ScriptedModel(one), _paths(ScriptedModel(one))) for word, one in scripts.items()}

    def spell(self, token: int) -> bytes:
        if token >= BYTES:
            return bytes([token - BYTES])
        return self.tokens[token].encode() if 0 < token < len(self.tokens) else b""

    def text(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.spell, ids)).decode("utf-8", "replace")

    def encode(self, text: str) -> list[int]:
        return [BYTES + byte for byte in text.encode()]

    def count(self, text: str) -> int:
        """Tokens of a prompt with an answer's beginning: bytes, then tokens of the script."""
        begun = self._begun(text)
        return len(text[: len(text) - len(begun)].encode()) + len(self._path(text, begun))

    def speak(self, text: str, temperature: float, seed: int, most: int) -> tuple[list[Step], str]:
        """The steps after a text, and why they end."""
        model, _ = self._script(text)
        prefix = self._path(text, self._begun(text))
        decoding = Decoding(
            strategy="multinomial" if temperature else "greedy",
            temperature=temperature or 1.0,
            max_tokens=len(prefix) + most,
        )
        rule = StopRule(frozenset({0}))
        decoded = model.decode(DecodeRequest(Prompt((), rule), [prefix], decoding, seed=seed, alternatives_above=0.0))
        grown = decoded.continuations[0]
        ids, logprobs = list(grown.token_ids), list(grown.logprobs)
        if grown.stop_reason == "eos":
            ids, logprobs = [*ids, 0], [*logprobs, grown.stop_logprob]
        names = model.tokens
        steps = [
            Step(self._id(names[i]), lp, tuple((self._id(names[a.token_id]), a.logprob) for a in told))
            for i, lp, told in zip(ids, logprobs, grown.alternatives, strict=True)
        ]
        return steps, "stop" if grown.stop_reason == "eos" else "length"

    def _id(self, token: str) -> int:
        return self.tokens.index(token)

    def _script(self, text: str) -> tuple[ScriptedModel, Mapping[str, tuple[int, ...]]]:
        return next((found for word, found in self._scripts.items() if word and word in text), self._scripts[""])

    def _begun(self, text: str) -> str:
        """The part of a prompt that the script said; a text it never says is all prompt."""
        mark = ASSISTANT if ASSISTANT in text else " A:"
        begun = text.rsplit(mark, 1)[1] if mark in text else ""
        return begun if begun in self._script(text)[1] else ""

    def _path(self, text: str, begun: str) -> tuple[int, ...]:
        return self._script(text)[1][begun]


def _paths(model: ScriptedModel, most: int = 10_000) -> dict[str, tuple[int, ...]]:
    """Every text that a script can say → its tokens."""
    found: dict[str, tuple[int, ...]] = {"": ()}
    waiting = [()]
    for path in waiting:
        for one in model.next_tokens(model.text(path)):
            longer = (*path, one.token_id)
            if one.token_id and len(found) < most and model.text(longer) not in found:
                found[model.text(longer)] = longer
                waiting.append(longer)
    return found


# -- dialects ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """What goes back: one document, or the events of a stream. A part that is a text is sent as it is."""

    parts: tuple[Json | str, ...]
    streamed: bool = False
    status: int = 200
    content_type: str | None = None

    @property
    def kind(self) -> str:
        return self.content_type or ("text/event-stream" if self.streamed else "application/json")


def problem(status: int, message: str) -> Reply:
    return Reply(
        ({"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}},), False, status
    )


class Dialect:
    """One kind of server. Subclasses say how they read prompts and how they write steps."""

    owner = "somebody"

    def __init__(self, speaker: Speaker, traits: Traits) -> None:
        self.speaker, self.traits = speaker, traits
        self._read: set[str] = set()  # prompts, for the cache

    def reply(self, seen: Seen) -> Reply:
        route = getattr(self, f"{seen.method.lower()}_{seen.path.strip('/').replace('/', '_').replace('-', '_')}", None)
        found = route(seen.body) if route else problem(404, f"there is no {seen.path}")
        return found if isinstance(found, Reply) else Reply((found,))

    def get_v1_models(self, _: Json) -> Json | Reply:
        if not self.traits.lists_models:
            return problem(404, "Not Found")
        rows = [
            {"id": name, "object": "model", "owned_by": self.traits.owner or self.owner, **self.described}
            for name in self.traits.models
        ]
        return {"object": "list", "data": rows}

    described: Json = {}  # noqa: RUF012 (never changed)

    def post_v1_completions(self, body: Json) -> Json | Reply:
        if refusal := self.refusal(body):
            return refusal
        text = body["prompt"] if isinstance(body["prompt"], str) else self.speaker.text(body["prompt"])
        steps, finish = self.steps(body, text)
        usage = self.usage(body["prompt"], text, len(steps))
        if not body.get("stream"):
            return {"object": "text_completion", "choices": [self.choice(body, steps, finish)], **usage}
        chunks = [{"choices": [self.choice(body, [step], None)]} for step in steps]
        return Reply((*chunks, *self.last_chunks(finish, usage)), streamed=True)

    def refusal(self, body: Json) -> Reply | None:
        if body.get("model") not in self.traits.models:
            return problem(404, f"The model `{body.get('model')}` does not exist.")
        if (body.get("logprobs") or 0) > self.traits.most > 0 and not self.traits.clamps:
            asked, most = body["logprobs"], self.traits.most
            return problem(400, f"Requested sample logprobs of {asked}, which is greater than max allowed: {most}")
        return None

    def steps(self, body: Json, text: str) -> tuple[list[Step], str]:
        temperature = float(body.get("temperature", 1.0))
        steps, finish = self.speaker.speak(text, temperature, body.get("seed", 0), body["max_tokens"])
        if self.traits.raw:
            return steps, finish
        return [_tempered(step, temperature or 1.0) for step in steps], finish

    def text(self, body: Json, steps: list[Step]) -> str:
        """What the steps spell, before the first of the stop strings."""
        text = self.speaker.text([step.token for step in steps])
        return text[: min([text.find(stop) for stop in body.get("stop", ()) if stop in text], default=len(text))]

    def told(self, step: Step, asked: int) -> list[tuple[int, float]]:
        """The likeliest so many; a vocabulary is never as small as a script, so what is left are unlikely bytes."""
        most = min(asked, self.traits.most)
        rest = ((BYTES + byte, LOWEST.get(self.name, -100.0)) for byte in range(128, 256))
        return [*step.options[:most], *islice(rest, max(most - len(step.options), 0))]

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def usage(self, prompt: str | list[int], text: str, completion: int) -> Json:
        if not self.traits.usage:
            return {}
        count = len(prompt) if isinstance(prompt, list) else self.speaker.count(text)
        begun = self.speaker.count(text) - self.speaker.count(text[: text.rfind(" A:") + 3]) if " A:" in text else 0
        usage: Json = {"prompt_tokens": count + (self.traits.recounts if begun else 0), "completion_tokens": completion}
        if self.traits.caches is not None:
            known = self.traits.caches and text in self._read
            usage["prompt_tokens_details"] = {"cached_tokens": count - 1 if known else 0}
        self._read.add(text)
        return {"usage": usage}

    def choice(self, body: Json, steps: list[Step], finish: str | None) -> Json:
        raise NotImplementedError

    def last_chunks(self, finish: str, usage: Json) -> list[Json]:
        raise NotImplementedError


class Vllm(Dialect):
    owner = "vllm"

    @property
    def described(self) -> Json:
        return {"root": self.traits.root, "max_model_len": self.traits.context}

    def get_version(self, _: Json) -> Json:
        return {"version": VERSION}

    def choice(self, body: Json, steps: list[Step], finish: str | None) -> Json:
        choice: Json = {"index": 0, "text": self.text(body, steps), "logprobs": None, "finish_reason": finish}
        if body.get("return_token_ids"):
            choice["token_ids"] = [step.token for step in steps]
        if body.get("logprobs") and self.traits.most:
            tops = [dict([*self.told(step, body["logprobs"]), (step.token, step.logprob)]) for step in steps]
            named = partial(self._named, as_ids=bool(body.get("return_tokens_as_token_ids")))
            choice["logprobs"] = {
                "text_offset": [0] * len(steps),
                "tokens": [named(step.token) for step in steps],
                "token_logprobs": [step.logprob for step in steps],
                "top_logprobs": [{named(i): value for i, value in top.items()} for top in tops],
            }
        return choice

    def _named(self, token: int, *, as_ids: bool) -> str:
        return f"token_id:{token}" if as_ids else self.speaker.spell(token).decode("utf-8", "replace")

    def last_chunks(self, finish: str, usage: Json) -> list[Json]:
        empty = {"index": 0, "text": "", "logprobs": None, "finish_reason": finish}
        return [{"choices": [empty]}, {"choices": [], **usage}]


class Llama(Dialect):
    owner = "llamacpp"

    def get_props(self, _: Json) -> Json:
        return {
            "default_generation_settings": {"n_ctx": self.traits.context},
            "total_slots": self.traits.slots,
            "chat_template": "{{ messages }}" if self.traits.template else "",
            "eos_token": self.traits.end,
            "build_info": VERSION,
        }

    def post_apply_template(self, body: Json) -> Json:
        turns = "".join(f"<|{message['role']}|>{message['content']}" for message in body["messages"])
        return {"prompt": f"{turns}{ASSISTANT}"}

    def post_tokenize(self, body: Json) -> Json:
        return {"tokens": [0] if body["content"] == self.traits.end else self.speaker.encode(body["content"])}

    def choice(self, body: Json, steps: list[Step], finish: str | None) -> Json:
        choice: Json = {"index": 0, "text": self.text(body, steps), "logprobs": None, "finish_reason": finish}
        if body.get("logprobs") and self.traits.most:
            choice["logprobs"] = {"content": [self._entry(step, body["logprobs"]) for step in steps]}
        return choice

    def _entry(self, step: Step, asked: int) -> Json:
        top = [self._token(i, logprob) for i, logprob in self.told(step, asked)]
        return {**self._token(step.token, step.logprob), "top_logprobs": top}

    def _token(self, token: int, logprob: float) -> Json:
        spelled = self.speaker.spell(token)
        return {"id": token, "token": spelled.decode("utf-8", "replace"), "bytes": list(spelled), "logprob": logprob}

    def last_chunks(self, finish: str, usage: Json) -> list[Json]:
        return [{"choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": finish}], **usage}]


class Legacy(Dialect):
    """Knows only what OpenAI's first completions knew, and refuses the rest."""

    known = frozenset(("model", "prompt", "max_tokens", "temperature", "top_p", "seed", "logprobs", "stop"))

    def refusal(self, body: Json) -> Reply | None:
        if unknown := body.keys() - self.known:
            return problem(400, f"Unrecognized request argument supplied: {min(unknown)}")
        if not isinstance(body["prompt"], str):
            return problem(400, "prompt must be a string")
        return super().refusal(body)

    def choice(self, body: Json, steps: list[Step], finish: str | None) -> Json:
        choice: Json = {"index": 0, "text": self.text(body, steps), "logprobs": None, "finish_reason": finish}
        if body.get("logprobs") and self.traits.most:
            if not self.traits.tells_end and finish == "stop":
                steps = steps[:-1]
            choice["logprobs"] = {
                "tokens": [self._spelled(step.token) for step in steps],
                "token_logprobs": [step.logprob for step in steps],
                "top_logprobs": [
                    {self._spelled(i): value for i, value in self.told(step, body["logprobs"])} for step in steps
                ],
            }
        return choice

    def _spelled(self, token: int) -> str:
        spelled = self.speaker.spell(token)
        if token == 0:
            return "</s>"
        return spelled.decode() if spelled.isascii() else "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)


class Chat(Dialect):
    """Messages in, one message out. With `most`, log-probabilities as chat has them."""

    post_v1_completions = None  # type: ignore[assignment]

    def __init__(self, speaker: Speaker, traits: Traits) -> None:
        super().__init__(speaker, traits)
        self._drawn = count()  # seeds of whoever sends none

    def post_v1_chat_completions(self, body: Json) -> Json | Reply:
        if body.get("model") not in self.traits.models:
            return problem(404, f"The model `{body.get('model')}` does not exist.")
        if body.get("logprobs") and not self.traits.most and not self.traits.clamps:
            return problem(400, "logprobs are not supported by this model")
        if refused := [name for name in self.traits.refuses if name in body]:
            return problem(400, f"Unsupported parameter: '{refused[0]}' is not supported with this model.")
        body = {"max_tokens": body.get("max_completion_tokens"), "seed": next(self._drawn), **body}
        prompt = body["messages"][-1]["content"] + ASSISTANT
        steps, finish = self.steps(body, prompt)
        message = {"role": "assistant", "content": self.text(body, steps)}
        choice: Json = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        if body.get("logprobs") and self.traits.most:
            shown = [step for step in steps if step.token]
            choice["logprobs"] = {"content": [self._entry(step, body.get("top_logprobs", 0)) for step in shown]}
        return {"object": "chat.completion", "choices": [choice], **self.usage(prompt, prompt, len(steps))}

    def _entry(self, step: Step, asked: int) -> Json:
        return {
            **self._token(step.token, step.logprob),
            "top_logprobs": [self._token(*one) for one in self.told(step, asked)],
        }

    def _token(self, token: int, logprob: float) -> Json:
        spelled = self.speaker.spell(token)
        return {"token": spelled.decode("utf-8", "replace"), "bytes": list(spelled), "logprob": logprob}


DIALECTS = {"vllm": Vllm, "llama": Llama, "legacy": Legacy, "chat": Chat}


def _tempered(step: Step, temperature: float) -> Step:
    values = np.array([logprob for _, logprob in step.options]) / temperature
    values = values - np.logaddexp.reduce(values)
    options = tuple((i, float(value)) for (i, _), value in zip(step.options, values, strict=True))
    return replace(step, logprob=dict(options)[step.token], options=options)


def save_tokenizer(script: Script, folder: Path, others: Mapping[str, Script] | None = None) -> str:
    """A tokenizer with the ids of a script's server: its tokens, and a token for each ASCII character."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    speaker = Speaker(script, others or {})
    vocabulary = {"</s>": 0} | {level.pre_tokenize_str(token)[0][0]: i for i, token in enumerate(speaker.tokens) if i}
    for byte in range(128):
        vocabulary.setdefault(level.pre_tokenize_str(chr(byte))[0][0], BYTES + byte)
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer, backend.decoder = level, decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>").save_pretrained(folder)
    return str(folder)


# -- faults -----------------------------------------------------------------------------------------------------


class Fault:
    """What happens to a request instead of its reply, or with it."""

    def happen(self, exchange: Exchange) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Answer(Fault):
    """Another reply: an error, a page, anything."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    def happen(self, exchange: Exchange) -> None:
        exchange.send_bytes(self.status, self.body, self.content_type, self.headers)


@dataclass(frozen=True)
class Change(Fault):
    """The reply with its parts changed: events of a stream, or the one document."""

    edit: Callable[[list[Any]], Sequence[Json | str]]

    def happen(self, exchange: Exchange) -> None:
        parts = json.loads(json.dumps(exchange.reply.parts))  # a copy to change
        exchange.send(replace(exchange.reply, parts=tuple(self.edit(parts))))


@dataclass(frozen=True)
class Typed(Fault):
    """The reply with another content type."""

    content_type: str

    def happen(self, exchange: Exchange) -> None:
        exchange.send(replace(exchange.reply, content_type=self.content_type))


@dataclass(frozen=True)
class Stall(Fault):
    """Nothing comes any more, from the start or after some events, until it is released."""

    after: int | None = None
    released: Event = field(default_factory=Event)

    def happen(self, exchange: Exchange) -> None:
        exchange.send(exchange.reply, pause_at=self.after or 0, pause=lambda: exchange.wait(self.released))


@dataclass(frozen=True)
class Trickle(Fault):
    """Bytes that say nothing, for ever, from the start or after some events."""

    after: int = 0

    def happen(self, exchange: Exchange) -> None:
        exchange.trickle(self.after)


@dataclass(frozen=True)
class HangUp(Fault):
    """The connection ends, before anything was sent or after some events."""

    after: int | None = None

    def happen(self, exchange: Exchange) -> None:
        if self.after is None:
            exchange.hang_up()
        else:
            exchange.send(exchange.reply, pause_at=self.after, pause=exchange.hang_up)


@dataclass(frozen=True)
class Redrawn(Fault):
    """Another draw than that of the seed that was asked for."""

    seed: int
    hangs_up_after: int | None = None

    def happen(self, exchange: Exchange) -> None:
        exchange.seen.body["seed"] = self.seed
        exchange.send(exchange.reply, pause_at=self.hangs_up_after, pause=exchange.hang_up)


@dataclass(frozen=True)
class Die(Fault):
    """The whole server is gone."""

    def happen(self, exchange: Exchange) -> None:
        exchange.server.kill()


class Together(Fault):
    """Replies wait for each other: there is none until so many have been asked for at once."""

    def __init__(self, count: int) -> None:
        self._barrier = Barrier(count)

    def happen(self, exchange: Exchange) -> None:
        try:
            self._barrier.wait(10.0)
        except BrokenBarrierError:
            exchange.send(problem(400, "the others never came"))
        else:
            exchange.send(exchange.reply)


@dataclass
class _Injected:
    fault: Fault
    when: Callable[[Seen], bool]
    at: int | None  # only the so-manieth that it would happen to, from 0
    times: int | None  # None: for ever
    met: int = 0

    def takes(self, seen: Seen) -> bool:
        if not self.when(seen):
            return False
        self.met += 1
        if self.at is not None:
            return self.met - 1 == self.at
        return self.times is None or self.met <= self.times


# -- the server -------------------------------------------------------------------------------------------------


@dataclass
class Exchange:
    """A request and the way back."""

    server: FakeServer
    seen: Seen
    handler: _Handler

    @cached_property
    def reply(self) -> Reply:
        return self.server.dialect.reply(self.seen)

    def send(self, reply: Reply, pause_at: int | None = None, pause: Callable[[], None] = lambda: None) -> None:
        """A document or a stream; with a pause before the headers (0) or after so many parts."""
        if pause_at == 0:
            pause()
        if not reply.streamed:
            (part,) = reply.parts
            body = part if isinstance(part, str) else json.dumps(part)
            self.send_bytes(reply.status, body.encode(), reply.kind)
            return
        self._head(reply.status, reply.kind, {"Transfer-Encoding": "chunked"})
        for number, part in enumerate((*reply.parts, "[DONE]"), start=1):
            event = f"data: {part if isinstance(part, str) else json.dumps(part)}\n\n".encode()
            self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            if pause_at == number:
                pause()
        self.handler.wfile.write(b"0\r\n\r\n")

    def trickle(self, after: int) -> None:
        """So many parts, then events (or spaces, before a document) that say nothing, until the client leaves."""
        self._head(200, self.reply.kind, {"Transfer-Encoding": "chunked"})
        events = [f"data: {json.dumps(part)}\n\n".encode() for part in self.reply.parts[:after]]
        nothing = b'data: {"choices": []}\n\n' if self.reply.streamed else b" "
        while not self.server.stopping.is_set():
            part = events.pop(0) if events else nothing
            self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            time.sleep(0.01)
        raise ConnectionResetError

    def send_bytes(self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
        self._head(status, kind, {"Content-Length": str(len(body)), **(headers or {})})
        self.handler.wfile.write(body)

    def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.handler.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()

    def wait(self, released: Event) -> None:
        """Until it is released, the client leaves, or the server stops."""
        line = self.handler.connection
        while not released.is_set():
            if self.server.stopping.is_set():
                raise ConnectionResetError
            if select.select([line], [], [], 0.01)[0] and not line.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError

    def hang_up(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)
        raise _HungUp


class _HungUp(Exception):
    """We did, not the client."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def setup(self) -> None:
        super().setup()
        with self.server.fake.lock:
            self.server.fake.lines.add(self.connection)

    def finish(self) -> None:
        with self.server.fake.lock:
            self.server.fake.lines.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with suppress(OSError):  # the other side, or we, closed the connection
            super().handle()

    def do_GET(self) -> None:
        self.server.fake.meet(self)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # they are waited for
    request_queue_size = 256
    fake: FakeServer


class FakeServer:
    """See the module's docstring. `requests` are all that came, `most_at_once` how many waited for tokens together."""

    def __init__(self, dialect: str, script: Script, *, port: int = 0, **traits: Any) -> None:
        self.traits = Traits(**traits)
        self.dialect = DIALECTS[dialect](Speaker(script, self.traits.others), self.traits)
        self.requests: list[Seen] = []
        self.most_at_once = 0
        self.lines: set[socket.socket] = set()
        self.lock = Lock()
        self.stopping = Event()
        self._at_once = 0
        self._injected: list[_Injected] = []
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.fake = self
        self.port: int = self._http.server_address[1]
        self._thread = Thread(target=self._accept, name="fake-server")

    def __enter__(self) -> FakeServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._thread.join()  # before those that it starts
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _accept(self) -> None:
        """As `serve_forever`, which looks around many times a second whether it shall end."""
        with suppress(OSError):  # we listen no more
            while True:
                self._http.process_request(*self._http.get_request())

    def kill(self) -> None:
        """Stop listening and drop everybody, as a process that dies does."""
        self.stopping.set()
        with suppress(OSError):  # it was killed before
            self._http.socket.shutdown(socket.SHUT_RDWR)
        self._http.socket.close()
        with self.lock:
            lines = list(self.lines)
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def inject(
        self,
        fault: Fault,
        *,
        when: Callable[[Seen], bool] = lambda seen: seen.generates,
        at: int | None = None,
        times: int | None = None,
    ) -> Fault:
        """Let something happen to requests from now on: to some, to one by its number, or to so many."""
        with self.lock:
            self._injected.append(_Injected(fault, when, at, times))
        return fault

    def heal(self) -> None:
        """No more faults; forget what was asked."""
        with self.lock:
            self._injected.clear()
            self.requests, self.most_at_once = [], 0

    @property
    def generations(self) -> list[Seen]:
        """Requests for tokens."""
        return [seen for seen in self.requests if seen.generates]

    def meet(self, handler: _Handler) -> None:
        """One request, from its body to its end."""
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        seen = Seen(handler.command, handler.path, dict(handler.headers.items()), json.loads(raw) if raw else {})
        with self.lock:
            self.requests.append(seen)
            fault = next((one.fault for one in self._injected if one.takes(seen)), None)
            self._at_once += seen.generates
            self.most_at_once = max(self.most_at_once, self._at_once)
        exchange = Exchange(self, seen, handler)
        try:
            if fault is None:
                exchange.send(exchange.reply)
            else:
                fault.happen(exchange)
        except _HungUp:
            pass
        except OSError:
            handler.close_connection = True
            if not self.stopping.is_set():
                seen.left.set()
        finally:
            with self.lock:
                self._at_once -= seen.generates
