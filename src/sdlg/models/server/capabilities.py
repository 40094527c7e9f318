"""What a server can do, found out by asking it: a few requests for one token each, once.

In: a connection. Out: `ServerCapabilities`, from which everything else follows; `sdlg models check` prints them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ServerFailed, UnknownName
from .connection import Connection, Json, Refused
from .replies import Step, read_chunk, read_steps, tells_ids
from .tokens import LearnedTokens

MOST_ALTERNATIVES = 100  # of one step: more is hardly ever likelier than the default --min-probability together
_TRIED = (MOST_ALTERNATIVES, 20, 10, 5, 2, 1)
_QUESTION = "Q: What is the capital of France? A: The capital of France is"
_LONG = " ".join(["one two three four"] * 100)  # some hundred tokens: caches work in blocks
_NO_SUCH_PATH = (404, 405, 501)
_WITH_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}


@dataclass(frozen=True, slots=True)
class ServerCapabilities:
    """One model on one server."""

    kind: str  # vllm, llama.cpp or other
    version: str
    model: str  # its name there
    endpoint: str  # completions, or chat where there is nothing else
    takes_ids: bool  # prompts may be token ids
    tells_ids: bool  # replies have token ids
    top_logprobs: int  # how many alternatives per step it tells; 0: no log-probabilities at all
    raw_logprobs: bool | None  # before temperature and top-p; None: not known
    context_tokens: int | None
    prefix_cache: bool | None  # a prompt that was there before is not computed again; None: it does not say
    slots: int | None = None  # llama-server: prompts it holds at once
    tokenizer: str | None = None  # where the server has its tokenizer from
    has_template: bool = False
    ending: str | None = None  # how the server spells the token that ends an answer

    @property
    def usable_logprobs(self) -> int:
        """How many alternatives per step there are to work with: those after temperature are none."""
        return self.top_logprobs if self.raw_logprobs is not False else 0

    @property
    def exact(self) -> bool:
        """Whether branches begin with the very tokens they are meant to begin with."""
        return self.takes_ids and self.tells_ids

    @property
    def shortcomings(self) -> tuple[str, ...]:
        """What makes results from this server less than those of a local model, for every result's notes."""
        found = []
        if self.top_logprobs and self.raw_logprobs is False:
            found.append(
                "the server's log-probabilities change with the temperature, so they are not used; "
                "start vLLM with --logprobs-mode raw_logprobs"
            )
        elif not self.top_logprobs:
            found.append("the server tells no log-probabilities: answers count by how often they come")
        if self.endpoint == "completions" and self.top_logprobs and not self.exact:
            found.append("approximate: the server takes and tells text only, so its tokens are known by their spelling")
        return tuple(found)


async def probe_server(connection: Connection) -> ServerCapabilities:
    """Ask a server what it can do."""
    listed = await _listed(connection)
    entry = _chosen(listed, connection.address.model, connection.address.url)
    kind = {"vllm": "vllm", "llamacpp": "llama.cpp"}.get(str(entry.get("owned_by")), "other")
    props = await _optional(connection, "/props") if kind == "llama.cpp" else {}
    version = (await _optional(connection, "/version")).get("version", "") if kind == "vllm" else ""
    probe = _Probe(connection, entry["id"], kind)
    return await probe.server(
        version=str(version or props.get("build_info", "")),
        context_tokens=_whole(entry.get("max_model_len") or _settings(props).get("n_ctx")),
        slots=_whole(props.get("total_slots")),
        tokenizer=entry.get("root") if isinstance(entry.get("root"), str) else None,
        ending=props.get("eos_token") if isinstance(props.get("eos_token"), str) else None,
        has_template=bool(props.get("chat_template")),
    )


async def _listed(connection: Connection) -> list[Json]:
    try:
        found = await connection.get("models")
    except Refused as refusal:
        if refusal.status not in _NO_SUCH_PATH:
            raise
        return []  # some have no list; then the name must be right
    rows = found.get("data") if isinstance(found, dict) else None
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
        found = await connection.get(path)
    except ServerFailed:
        return {}
    return found if isinstance(found, dict) else {}


def _settings(props: Json) -> Json:
    found = props.get("default_generation_settings")
    return found if isinstance(found, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


class _Probe:
    """A few small requests about one model."""

    def __init__(self, connection: Connection, model: str, kind: str) -> None:
        self._connection, self._model, self._kind = connection, model, kind

    async def server(self, **known: Any) -> ServerCapabilities:
        """Try what is best first."""
        named = {"kind": self._kind, "model": self._model, **known}
        try:
            top, extras, steps = await self._completion()
        except Refused as refusal:
            if refusal.status not in _NO_SUCH_PATH:
                raise
            return await self._chat_facts(named)
        tells_ids = bool(steps) and self._tells_ids
        return ServerCapabilities(
            **named,
            endpoint="completions",
            takes_ids=await self._takes_ids(),
            tells_ids=tells_ids,
            top_logprobs=top if steps else 0,
            raw_logprobs=await self._is_raw({"prompt": _QUESTION, "logprobs": top, **extras}) if steps else None,
            prefix_cache=await self._caches(),
        )

    async def _completion(self) -> tuple[int, Mapping[str, Any], list[Step]]:
        """The most log-probabilities it gives, and what to ask for to get ids."""
        refusal: Refused | None = None
        for extras in (_WITH_IDS, {}):
            for top in _TRIED:
                try:
                    steps = self._steps(await self._post({"prompt": _QUESTION, "logprobs": top, **extras}))
                    return (
                        min([top, *(len(step.top) for step in steps)]),
                        extras,
                        steps,
                    )  # some give fewer and say nothing
                except Refused as fault:
                    refusal = fault
                    if fault.status in (401, 403, *_NO_SUCH_PATH):
                        raise
        try:
            await self._post({"prompt": _QUESTION})
        except Refused:
            raise (refusal or ServerFailed("unreachable")) from None
        return 0, {}, []

    def _steps(self, reply: Json) -> list[Step]:
        choice = (reply.get("choices") or [None])[0]
        steps = read_steps(choice, LearnedTokens())
        self._tells_ids = tells_ids(choice)
        return steps

    async def _takes_ids(self) -> bool:
        ids = list(range(11, 18))
        try:
            reply = await self._post({"prompt": ids})
        except ServerFailed:
            return False
        usage = read_chunk(reply, LearnedTokens(), wants_steps=False).usage
        return len(reply["choices"]) == 1 and (usage is None or usage.prompt in (None, len(ids)))

    async def _is_raw(self, body: Json, path: str = "completions") -> bool:
        """Whether log-probabilities are the same at another temperature."""
        told = []
        for temperature in (1.0, 0.5):
            steps = self._steps(await self._post({**body, "temperature": temperature, "seed": 0}, path))
            if not steps:
                return False
            told.append({one.token_id: one.logprob for one in steps[0].top} or {steps[0].token_id: steps[0].logprob})
        common = told[0].keys() & told[1].keys()
        return bool(common) and all(math.isclose(told[0][i], told[1][i], abs_tol=0.02) for i in common)

    async def _caches(self) -> bool | None:
        for _ in range(2):
            reply = await self._post({"prompt": _LONG})
        usage = read_chunk(reply, LearnedTokens(), wants_steps=False).usage
        return None if usage is None or usage.cached is None else usage.cached > 0

    async def _chat_facts(self, named: dict[str, Any]) -> ServerCapabilities:
        body = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}
        top, raw, asked = 0, None, {**body, "logprobs": True, "top_logprobs": 5}
        try:
            if self._steps(await self._post(asked, "chat/completions")):
                top, raw = 5, await self._is_raw(asked, "chat/completions")
        except Refused as fault:
            if fault.status in (401, 403, *_NO_SUCH_PATH):
                raise
            await self._post(body, "chat/completions")
        return ServerCapabilities(
            **{**named, "has_template": True}, endpoint="chat", takes_ids=False, tells_ids=False, top_logprobs=top,
            raw_logprobs=raw, prefix_cache=None,
        )  # fmt: skip

    async def _post(self, body: Mapping[str, Any], path: str = "completions") -> Json:
        found = await self._connection.post(path, {"model": self._model, "max_tokens": 1, "temperature": 0, **body})
        if not isinstance(found, dict):
            raise ServerFailed(f"{self._connection.address.url} answers with {type(found).__name__}, not an object")
        return found
