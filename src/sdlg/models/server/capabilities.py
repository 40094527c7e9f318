"""What a server can do, found out by asking it: a few requests for one token each, once.

In: a connection. Out: `ServerCapabilities`, from which everything else follows; `sdlg models check` prints them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ServerFailed, UnknownName
from .connection import Connection, Json, Refused
from .replies import Step, first_choice, read_chunk, read_steps, tells_ids
from .tokenizers import TokenSpellings

MOST_ALTERNATIVES = 100  # of one step: more is hardly ever likelier than the default min_probability together
_TRIED = (MOST_ALTERNATIVES, 20, 10, 5, 2)
_TRIED_IN_CHAT = (20, 10, 5, 2, 1)  # OpenAI's own endpoint tells 20
_QUESTION = "Q: What is the capital of France? A: The capital of France is"
_LONG = " ".join(["one two three four"] * 100)  # some hundred tokens: caches work in blocks
_NO_SUCH_PATH = (404, 405, 501)
_LIMIT = "max_tokens"
# What some hosted models refuse to be told, in the order in which it is given up where a refusal names several.
_REFUSABLE = ("top_p", "seed", "temperature", _LIMIT)
# What the OpenAI protocol has no word for: ids in the reply, and no sampling but what is asked for.
_WITH_IDS: Json = {"return_token_ids": True, "return_tokens_as_token_ids": True}
_VLLM: Json = {**_WITH_IDS, "add_special_tokens": False, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
_LLAMA: Json = {"samplers": ["temperature", "top_p"], "cache_prompt": True}
# Best first. Who stands before a server may give it another owner, so all that are no llama-server are tried as a vLLM.
_FIELDS: dict[str, tuple[Json, ...]] = {"llama.cpp": (_LLAMA, {}), "vllm": (_VLLM, _WITH_IDS, {})}


@dataclass(frozen=True, slots=True)
class ServerCapabilities:
    """One model on one server."""

    kind: str  # vllm, llama.cpp or other
    version: str
    model: str  # its name there
    endpoint: str  # completions, or chat where there is nothing else
    takes_ids: bool  # prompts may be token ids
    tells_ids: bool  # replies have token ids
    top_logprobs: int  # how many alternatives per step it lists; 0: no log-probabilities at all
    raw_logprobs: bool | None  # before temperature and top-p; None: not known
    context_tokens: int | None
    prefix_cache: bool | None  # a prompt that was there before is not computed again; None: it does not say
    slots: int | None = None  # llama-server: prompts it holds at once
    tokenizer: str | None = None  # where the server has its tokenizer from
    has_template: bool = False
    ending: str | None = None  # how the server spells the token that ends an answer
    request_fields: Mapping[str, Any] = field(default_factory=dict)  # with which it sent ids; sent with every request
    left_out: tuple[str, ...] = ()  # fields that it refuses, as hosted models do

    @property
    def usable_logprobs(self) -> int:
        """How many alternatives per step can be used: those after temperature cannot."""
        return self.top_logprobs if self.raw_logprobs is not False else 0

    @property
    def exact(self) -> bool:
        """Whether branches can begin with given tokens, as SDLG needs (vLLM, llama-server)."""
        return self.takes_ids and self.tells_ids

    @property
    def shortcomings(self) -> tuple[str, ...]:
        """What makes results from this server less than those of a local model, for every result's notes."""
        shortcomings = []
        if self.top_logprobs and self.raw_logprobs is False:
            shortcomings.append(
                "the server's log-probabilities change with the temperature, so they are not used; "
                "start vLLM with --logprobs-mode raw_logprobs"
            )
        elif not self.top_logprobs:
            shortcomings.append("the server tells no log-probabilities: answers count by how often they come")
        if unsettled := [name for name in self.left_out if name != _LIMIT]:
            shortcomings.append(f"the server takes no {' and no '.join(unsettled)}: it draws as it chooses")
        return tuple(shortcomings)


def accepted_fields(body: Json, left_out: Sequence[str]) -> Json:
    """Return a request's body without what the server refuses; who refuses `max_tokens` knows it by its later name."""
    kept = {name: value for name, value in body.items() if name not in left_out}
    return kept | {"max_completion_tokens": body[_LIMIT]} if _LIMIT in left_out else kept


async def probe_server(connection: Connection) -> ServerCapabilities:
    """Ask a server what it can do."""
    listed = await _listed(connection)
    entry = _chosen(listed, connection.address.model, connection.address.url)
    kind = {"vllm": "vllm", "llamacpp": "llama.cpp"}.get(str(entry.get("owned_by")), "other")
    props = await _optional(connection, "/props") if kind == "llama.cpp" else {}
    version = (await _optional(connection, "/version")).get("version", "") if kind == "vllm" else ""
    listed_facts: Json = {
        "version": str(version),
        "context_tokens": _whole(entry.get("max_model_len")),
        "tokenizer": entry.get("root") if isinstance(entry.get("root"), str) else None,
        "has_template": bool(props.get("chat_template")),
    }
    if kind == "llama.cpp":
        listed_facts |= {name: value for name, value in _props_facts(props).items() if value}
    return await _Probe(connection, entry["id"], kind).capabilities(**listed_facts)


async def known_llama_server(connection: Connection, *, has_template: bool) -> ServerCapabilities:
    """Return what a llama-server that we started ourselves can do: as `probe_server` finds it, without probing.

    It gives a chat template to every model; whether the model has one of its own is for the caller to say.
    """
    return ServerCapabilities(
        kind="llama.cpp", model=connection.address.model, endpoint="completions", takes_ids=True, tells_ids=True,
        top_logprobs=MOST_ALTERNATIVES, raw_logprobs=True, prefix_cache=True, has_template=has_template,
        request_fields=_LLAMA, **_props_facts(await connection.get("/props")),
    )  # fmt: skip


def _props_facts(props: Json) -> Json:
    """Return what a llama-server says of itself."""
    settings, ending = props.get("default_generation_settings"), props.get("eos_token")
    return {
        "version": str(props.get("build_info", "")),
        "context_tokens": _whole(settings.get("n_ctx")) if isinstance(settings, dict) else None,
        "slots": _whole(props.get("total_slots")),
        "ending": ending if isinstance(ending, str) else None,
    }


async def _listed(connection: Connection) -> list[Json]:
    try:
        listing = await connection.get("models")
    except Refused as refusal:
        if refusal.status not in _NO_SUCH_PATH:
            raise
        return []  # some have no list; then the name must be right
    rows = listing.get("data") if isinstance(listing, dict) else None
    return [
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("id"), str)
    ]


def _chosen(listed: list[Json], name: str, url: str) -> Json:
    names = [row["id"] for row in listed]
    if not listed and name:
        return {"id": name}
    if not listed:
        raise ServerFailed(f"{url} lists no models; name one: {url}#name")
    if not name and len(listed) == 1:
        return listed[0]
    if not name:
        raise UnknownName(f"{url} has several models; choose one: " + ", ".join(f"{url}#{one}" for one in names))
    for row in listed:
        if name in (row["id"], *(row.get("aliases") or ())):
            return row
    raise UnknownName(f"{url} has no model {name!r}; choose from: {', '.join(names)}")


async def _optional(connection: Connection, path: str) -> Json:
    try:
        document = await connection.get(path)
    except ServerFailed:
        return {}
    return document if isinstance(document, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


@dataclass(frozen=True, slots=True)
class _LogprobReply:
    """A request for log-probabilities that was not refused, and what came of it."""

    body: Json
    steps: tuple[Step, ...]
    tells_ids: bool

    @property
    def fields(self) -> Json:
        """What the body has beside the question."""
        return {name: value for name, value in self.body.items() if name not in ("prompt", "logprobs")}

    def top(self, count: int) -> int:
        """How many alternatives of a step it tells: some tell fewer than they are asked for and say nothing."""
        return min([count, *(len(step.top) for step in self.steps)]) if self.steps else 0


class _Probe:
    """A few small requests about one model."""

    def __init__(self, connection: Connection, model: str, kind: str) -> None:
        self._connection, self._model, self._kind = connection, model, kind
        self._left_out: tuple[str, ...] = ()

    async def capabilities(self, **listed: Any) -> ServerCapabilities:
        """Try what is best first."""
        named = {"kind": self._kind, "model": self._model, **listed}
        try:
            reply = await self._completion()
        except Refused as refusal:
            if refusal.status not in (400, *_NO_SUCH_PATH):
                raise
            try:
                return await self._chat(named)
            except Refused as other:
                raise refusal if refusal.status == 400 and other.status in _NO_SUCH_PATH else other from None
        top = 0 if reply is None else reply.top(reply.body["logprobs"])
        tells_ids = reply is not None and reply.tells_ids
        return ServerCapabilities(
            **named,
            endpoint="completions",
            takes_ids=await self._takes_ids(),
            tells_ids=tells_ids,
            top_logprobs=top,
            raw_logprobs=await self._is_raw({**reply.body, "logprobs": top}) if reply and reply.steps else None,
            prefix_cache=await self._caches(),
            request_fields=reply.fields if reply and tells_ids else {},
        )

    async def _completion(self) -> _LogprobReply | None:
        """The reply with the most that it gives: ids, if any words make it tell them, and log-probabilities."""
        question: Json = {"prompt": _QUESTION, "logprobs": 1}
        accepted = await self._accepted(
            [{**question, **fields} for fields in _FIELDS.get(self._kind, _FIELDS["vllm"])], "completions"
        )
        if accepted is None:  # not with log-probabilities; without?
            await self._post({"prompt": _QUESTION})
            return None
        bodies = [{**accepted.body, "logprobs": top} for top in _TRIED]
        return await self._accepted(bodies, "completions") or accepted

    async def _accepted(self, bodies: Sequence[Json], path: str) -> _LogprobReply | None:
        """The reply to the first of these that is not refused; None: all of them are."""
        for body in bodies:
            try:
                return self._read(body, await self._post(body, path))
            except Refused as refusal:
                if refusal.status in (401, 403, *_NO_SUCH_PATH):
                    raise
        return None

    def _read(self, body: Json, reply: Json) -> _LogprobReply:
        choice = first_choice(reply)
        return _LogprobReply(body, tuple(read_steps(choice, TokenSpellings())), tells_ids(choice))

    async def _takes_ids(self) -> bool:
        ids = list(range(11, 18))
        try:
            reply = await self._post({"prompt": ids})
        except ServerFailed:
            return False
        usage = read_chunk(reply, TokenSpellings(), wants_steps=False).usage
        return len(reply["choices"]) == 1 and (usage is None or usage.prompt in (None, len(ids)))

    async def _is_raw(self, body: Json, path: str = "completions") -> bool:
        """Whether log-probabilities are the same at another temperature."""
        logprobs = []
        for temperature in (1.0, 0.5):
            tempered = {**body, "temperature": temperature, "seed": 0}
            steps = self._read(tempered, await self._post(tempered, path)).steps
            if not steps:
                return False
            first = steps[0]
            logprobs.append({one.token_id: one.logprob for one in first.top} or {first.token_id: first.logprob})
        one, other = logprobs
        common = one.keys() & other.keys()
        return bool(common) and all(math.isclose(one[i], other[i], abs_tol=0.02) for i in common)

    async def _caches(self) -> bool | None:
        for _ in range(2):
            reply = await self._post({"prompt": _LONG})
        usage = read_chunk(reply, TokenSpellings(), wants_steps=False).usage
        return None if usage is None or usage.cached is None else usage.cached > 0

    async def _chat(self, named: Json) -> ServerCapabilities:
        """A chat endpoint is all there is."""
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        path, body = "chat/completions", {"messages": messages, "temperature": 1.0, "top_p": 1.0, "seed": 0}
        await self._leave_out(body, path)
        reply = await self._accepted([{**body, "logprobs": True, "top_logprobs": top} for top in _TRIED_IN_CHAT], path)
        return ServerCapabilities(
            **{**named, "has_template": True}, endpoint="chat", takes_ids=False, tells_ids=False,
            top_logprobs=0 if reply is None else reply.top(reply.body["top_logprobs"]),
            raw_logprobs=await self._is_raw(reply.body, path) if reply and reply.steps else None, prefix_cache=None,
            left_out=self._left_out,
        )  # fmt: skip

    async def _leave_out(self, body: Json, path: str) -> None:
        """Find which fields the model refuses, by its words, until it takes a request for a draw."""
        while True:
            try:
                await self._post(body, path)
                return
            except Refused as refusal:
                left = [name for name in _REFUSABLE if name not in self._left_out and name in str(refusal)]
                if refusal.status not in (400, 422) or not left:
                    raise
                self._left_out += (left[0],)

    async def _post(self, body: Mapping[str, Any], path: str = "completions") -> Json:
        whole = {"model": self._model, _LIMIT: 1, "temperature": 0, **body}
        reply = await self._connection.post(path, accepted_fields(whole, self._left_out))
        if not isinstance(reply, dict):
            raise ServerFailed(f"{self._connection.address.url} answers with {type(reply).__name__}, not an object")
        return reply
