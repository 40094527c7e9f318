"""What stands before the application: size, key and type of every request are checked before it is parsed.

Every response gets the headers that keep a browser from being misused. Foreign host names (DNS rebinding) and other
pages (CORS) are Starlette's own middleware (`app`).
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .failures import Failure, failed
from .settings import Settings

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
HEAD_BYTES = 16_384  # of address and headers
_FREE = {"/v1/settings"}  # the only path below /v1 that needs no key


class Guards:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, settings: Settings, check_room: Callable[[], None]) -> None:
        self._app, self._settings, self._check_room = app, settings, check_room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Turn away, or hand on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send, headers = _with_security_headers(send), Headers(scope=scope)
        try:
            check_head(scope, headers)
            check_key(headers, scope["path"], self._settings.key)
            if scope["method"] == "POST":
                check_content_type(headers)
                if int(headers.get("content-length", "0")) > self._settings.body_bytes:
                    raise self._too_large()
                receive = self._bounded(receive)
        except Failure as failure:
            await failed(failure)(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # like GET; uvicorn leaves the body out
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)

    def _bounded(self, receive: Receive) -> Receive:
        """Bound the body's size and time. When all of it is there, see whether there is room, before it is parsed."""
        end, size, arrived = asyncio.get_running_loop().time() + self._settings.client_seconds, 0, False

        async def bounded() -> Message:
            nonlocal size, arrived
            if arrived:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError as error:
                raise Failure(408, "the body did not arrive in time", "too_slow", {"Connection": "close"}) from error
            size += len(message.get("body", b""))
            if size > self._settings.body_bytes:
                raise self._too_large()
            arrived = not message.get("more_body", False)
            if arrived and message["type"] == "http.request":
                self._check_room()
            return message

        return bounded

    def _too_large(self) -> Failure:
        largest = self._settings.body_bytes
        return Failure(413, f"the body is larger than {largest} bytes", "body_too_large", {"Connection": "close"})


def check_head(scope: Scope, headers: Headers) -> None:
    """Raise if the head is too large, or leaves open where the request ends."""
    size = sum(len(name) + len(value) for name, value in headers.raw)
    if size + len(scope["raw_path"]) + len(scope["query_string"]) > HEAD_BYTES:
        raise Failure(431, f"address and headers are larger than {HEAD_BYTES} bytes", "head_too_large")
    if "content-length" in headers and "transfer-encoding" in headers:
        # A proxy may read it otherwise: what follows on this connection could be another one's request.
        raise Failure(
            400, "a body has a Content-Length or a Transfer-Encoding, not both", "two_lengths", {"Connection": "close"}
        )


def check_key(headers: Headers, path: str, key: str | None) -> None:
    """Raise if the key is missing or wrong. Compares in constant time: how long it takes says nothing of the key."""
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
    """Raise unless it is JSON: a browser must ask before it sends that to another site, forms of other pages fail."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or headers.get("content-encoding", "identity").lower() != "identity":
        raise Failure(
            415, "send JSON that is not compressed, with the header `Content-Type: application/json`",
            "unsupported_media_type",
        )  # fmt: skip


def _with_security_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return guarded
