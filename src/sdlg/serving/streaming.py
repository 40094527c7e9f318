"""Server-sent events: what a worker thread reports, sent to a client at the client's pace.

The thread never waits for a client: what it reports is queued, which a request's own limits bound. A client that does
not read for too long is given up, and so is its work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ..progress import Progress, Watch
from ..result import Result
from .admission import Admission, Slot
from .events import Events
from .failures import Json, encoded, failure_of
from .settings import Settings

log = logging.getLogger("sdlg.serving")


class EventStream(StreamingResponse):
    """The response: work in a place of its own, reported as it goes on."""

    def __init__(
        self, admission: Admission, slot: Slot, work: Callable[[Watch], Result], events: Events, settings: Settings
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        self._slot, self._events, self._settings = slot, events, settings
        self._news, loop = asyncio.Queue[Progress | None](), asyncio.get_running_loop()

        def report(progress: Progress) -> None:
            loop.call_soon_threadsafe(self._news.put_nowait, progress)

        self._work = asyncio.ensure_future(admission.run(slot, lambda: work(report)))
        self._work.add_done_callback(lambda _: self._news.put_nowait(None))
        super().__init__(self._lines(), headers=headers, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until it is done or nobody listens."""

        async def send_soon(message: Message) -> None:
            async with asyncio.timeout(self._settings.client_seconds):
                await send(message)

        with self._slot:
            try:
                await super().__call__(scope, receive, send_soon)
            except (OSError, TimeoutError):  # the client is gone, or does not read
                log.info("a client stopped reading its stream")
            finally:
                await stopped(self._work)

    async def _lines(self) -> AsyncIterator[bytes]:
        for said in self._events.form.opening():
            yield _line(said)
        while True:
            try:
                async with asyncio.timeout(self._settings.heartbeat):
                    progress = await self._news.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if progress is None:
                break
            for said in self._events.progress(progress):
                yield _line(said)
        yield self._ending()
        yield b"data: [DONE]\n\n"

    def _ending(self) -> bytes:
        try:
            return b"".join(map(_line, self._events.result(self._work.result())))
        except Exception as error:
            failure = failure_of(error)
            if failure.status_code == 500:
                log.exception("a stream failed", exc_info=error)
            return _line(self._events.form.error(failure.to_dict()["error"]))


def _line(said: Json) -> bytes:
    return b"data: " + encoded(said) + b"\n\n"


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def stopped(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what is not done, and wait for it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
