"""Running the application: a socket, uvicorn, and an end that leaves nobody without an answer.

The first Ctrl-C (or SIGTERM) drains: running requests have a few seconds (`grace`) to end and then get a 503, as do,
while the socket still listens, all that wait or come. The second stops at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import BadOption
from .admission import Admission
from .guards import HEAD_BYTES

HEAD_SECONDS = 10.0  # for a request's first line and headers
# The event loop takes the interpreter's lock from the thread that decodes, several times per request, and may wait this
# long each time. Python's default is 5 ms. Chosen by this reasoning; what it gains or costs is not measured yet.
SWITCH_SECONDS = 0.0005
_LAST_WORDS = 1  # seconds that answers on their way may take to be read when all work is done
_LAST_STEP = 0.7  # seconds that work which was cut off may take to its next step; then it ends with the process


class _Protocol(H11Protocol):
    """uvicorn's, but whoever connects must send a whole head within a while, also the second time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, self._look, None)

    def _look(self, seen: object) -> None:
        """Look again and again: a connection without a new request since the last time is closed."""
        if self.transport.is_closing():
            return
        if self.cycle is seen and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()
        else:
            self.loop.call_later(HEAD_SECONDS, self._look, self.cycle)


class _Server(uvicorn.Server):
    """uvicorn's, but it lets requests end before it stops to listen, and ends without raising the signal again."""

    def __init__(self, config: uvicorn.Config, admission: Admission, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._admission, self._started = admission, started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None
        self.signals = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.signals += 1
        if self.signals > 1:
            logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # it would log every request that is cut off
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            self.should_exit = self.force_exit = True
        elif self._loop is None:
            self.should_exit = True
        else:
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._admission.drain()
        self._draining = asyncio.ensure_future(self._stop_when_idle())

    async def _stop_when_idle(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._admission.grace + _LAST_STEP):
                await self._admission.idle()
        self.should_exit = True


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise an error that says why not. Who connects while models load waits for them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError, OverflowError) as error:
        raise BadOption(f"cannot listen on {host} port {port}: {error}. Choose another with --port") from error


def server_of(app: FastAPI, started: Callable[[], None]) -> _Server:
    """Return uvicorn with our limits: no headers of its own, no trust in proxies, no websockets."""
    config = uvicorn.Config(
        app, http=_Protocol, ws="none", lifespan="off", log_level="error", access_log=False, server_header=False,
        proxy_headers=False, h11_max_incomplete_event_size=HEAD_BYTES, timeout_graceful_shutdown=_LAST_WORDS,
    )  # fmt: skip
    return _Server(config, app.state.admission, started)


def serve(app: FastAPI, listener: socket.socket, started: Callable[[], None]) -> bool:
    """Serve until a signal. Return whether everybody who was being served got an answer."""
    server = server_of(app, started)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        server.run(sockets=[listener])
    finally:
        app.state.admission.close()
    return not server.force_exit


def end_process(code: int) -> NoReturn:
    """End at once. Python would wait for the threads, whose steps may take long, and take torch apart, which takes
    seconds on a busy machine.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
