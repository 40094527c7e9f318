"""What stands before the application: every request passes here before a byte of it is parsed.

Hosts that are not ours (DNS rebinding), callers without the key, bodies that are too large, too slow, too deep or no
JSON are turned away; every response gets the headers that keep a browser from being talked into anything.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
from collections.abc import Callable, Mapping

import numpy as np
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .failures import Failure, failure_of
from .settings import Limits, Settings
from .wire import failed

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
log = logging.getLogger("sdlg.serving")

HEADER_BYTES, ADDRESS_BYTES = 16_384, 4_096
_FREE = {"/v1/settings"}  # of all paths below /v1 the one that needs no key
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Guards:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, settings: Settings, limits: Limits, check_room: Callable[[], None]) -> None:
        self._app, self._settings, self._limits, self._check_room = app, settings, limits, check_room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Turn away, or hand on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_security_headers(send)
        try:
            headers = Headers(scope=scope)
            check_head(scope)
            check_host(headers, self._settings.hosts)
            check_key(headers, scope["path"], self._settings.key)
            if scope["method"] == "POST":
                body = await self._body(headers, receive)
                self._check_room()  # refusing must cost little: nothing is parsed for it
                check_json(body, self._limits.json_depth)
                receive = _replayed(body, receive)
        except Failure as failure:
            await failed(failure)(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # the same as GET, without the body
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        await self._handed_on(scope, receive, send)

    async def _handed_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Our own bugs are told as 500, without their details."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            log.exception("a request failed")
            if started:
                raise
            await failed(failure_of(error))(scope, receive, send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        check_content_type(headers)
        largest = self._limits.body_bytes
        too_large = Failure(413, f"the body is larger than {largest} bytes", "body_too_large", {"Connection": "close"})
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > 18 or int(declared) > largest:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.client_seconds):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > largest:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as error:
            raise Failure(408, "the body did not arrive in time", "too_slow", {"Connection": "close"}) from error
        raise Failure(400, "the client went away before its body had arrived", "gone")


def check_head(scope: Scope) -> None:
    """The version of HTTP, and the size of address and headers."""
    if scope["http_version"] not in ("1.0", "1.1", "2"):
        raise Failure(400, "speak HTTP/1.1", "unknown_protocol")
    if len(scope["raw_path"]) + len(scope["query_string"]) > ADDRESS_BYTES:
        raise Failure(414, f"the address is longer than {ADDRESS_BYTES} bytes", "address_too_long")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BYTES:
        raise Failure(431, f"the headers are larger than {HEADER_BYTES} bytes", "headers_too_large")
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        # Whoever stands between may read it otherwise: what follows on this connection could be another one's request.
        raise Failure(
            400, "a body has a Content-Length or a Transfer-Encoding, not both", "two_lengths", {"Connection": "close"}
        )


def check_host(headers: Headers, allowed: tuple[str, ...]) -> None:
    """A page of another site whose name was made to point at us still sends its own name."""
    if not allowed:
        return
    hosts = headers.getlist("host")
    name = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(?::\d{1,5})?", hosts[0]) if len(hosts) == 1 else None
    if name is None or name[1].lower().rstrip(".") not in allowed:
        raise Failure(421, f"this server only answers to: {', '.join(allowed)}", "unknown_host")


def check_key(headers: Headers, path: str, key: str | None) -> None:
    """In constant time: how long it takes tells nothing of the key."""
    if key is None or path in _FREE or not (path.startswith("/v1") or path == "/metrics"):
        return
    credentials = headers.getlist("authorization")
    scheme, _, token = credentials[0].partition(" ") if len(credentials) == 1 else ("", "", "")
    right = hmac.compare_digest(token.strip().encode("latin-1", "replace"), key.encode())
    if scheme.lower() != "bearer" or not right:
        raise Failure(
            401, "this server needs its key: send the header `Authorization: Bearer KEY`", "invalid_api_key",
            {"WWW-Authenticate": "Bearer"},
        )  # fmt: skip


def check_content_type(headers: Headers) -> None:
    """Only JSON. A browser must ask before it sends that to another site, so forms of other pages end here."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or headers.get("content-encoding", "identity").lower() != "identity":
        raise Failure(
            415, "send JSON that is not compressed, with the header `Content-Type: application/json`",
            "unsupported_media_type",
        )  # fmt: skip


def check_json(body: bytes, deepest: int) -> None:
    """Valid, UTF-8, and not deeper than any request needs to be."""
    if _depth(body) > deepest:
        raise Failure(400, f"the JSON is nested deeper than {deepest} levels", "too_deep")
    try:
        json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:200].encode("ascii", "replace").decode()
        raise Failure(400, f"the body is not valid JSON: {reason}", "invalid_json") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _depth(body: bytes) -> int:
    """How deep brackets are nested, outside of strings. A megabyte takes milliseconds."""
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    steps = np.isin(np.frombuffer(brackets, dtype=np.uint8), list(b"[{")) * 2 - 1
    return int(steps.cumsum().max(initial=0))


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever comes."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


def _with_security_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return guarded


def _without_body(send: Send) -> Send:
    async def silent(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return silent
