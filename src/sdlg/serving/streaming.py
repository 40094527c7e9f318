"""Server-sent events: what a worker thread tells, sent to a client at the client's pace.

The thread never waits for a client: what it tells goes into a bounded buffer, in which only the newest text of the
growing answer is kept. A client that does not read for too long, or for whom too much is waiting, is given up, and so
is its work.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ..pipeline import Progress, Watch
from .admission import Admission, Slot
from .failures import failure_of
from .settings import Settings
from .wire import encoded

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

log = logging.getLogger("sdlg.serving")


class Teller(Protocol[T_contra]):
    """What is said of the work, as JSON objects."""

    def opening(self) -> Iterable[dict[str, Any]]:
        """Before anything is known."""

    def progress(self, progress: Progress) -> Iterable[dict[str, Any]]:
        """While it goes on."""

    def result(self, result: T_contra) -> Iterable[dict[str, Any]]:
        """When it is done."""

    def error(self, error: dict[str, Any]) -> dict[str, Any]:
        """When it failed."""


class Feed:
    """Progress on its way from a thread to the event loop."""

    def __init__(self, size: int) -> None:
        self._items: deque[Progress] = deque()
        self._size, self._loop, self._news = size, asyncio.get_running_loop(), asyncio.Event()
        self._over, self.too_slow = False, False

    @property
    def over(self) -> bool:
        """Whether all was taken, and nothing more will come."""
        return self._over and not self._items

    def tell(self, progress: Progress) -> None:
        """From any thread. Only what a client will see wakes the loop."""
        if progress.generation is not None or (progress.stage == "answer" and progress.text):
            self._loop.call_soon_threadsafe(self._put, progress)

    def end(self, *_: object) -> None:
        """Nothing more will come."""
        self._over = True
        self._news.set()

    def _put(self, progress: Progress) -> None:
        if progress.generation is None and self._items and self._items[-1].generation is None:
            self._items.pop()  # an older text of the same answer
        self._items.append(progress)
        self.too_slow = len(self._items) > self._size
        self._news.set()

    async def next(self, seconds: float) -> list[Progress]:
        """All that is new; empty after so many seconds of silence, or when it is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return []
        self._news.clear()
        items = list(self._items)
        self._items.clear()
        return items


class EventStream(Response, Generic[T]):
    """The response: a ticket's work, told as it goes on."""

    media_type = "text/event-stream"

    def __init__(
        self, admission: Admission, slot: Slot, work: Callable[[Watch], T], teller: Teller[T], settings: Settings
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._admission, self._slot, self._work, self._teller, self._settings = (
            admission,
            slot,
            work,
            teller,
            settings,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until it is done or nobody listens."""
        with self._slot:
            sending = asyncio.ensure_future(self._send_all(send))
            gone = asyncio.ensure_future(disconnected(receive))
            try:
                await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await stopped(gone, sending)
            if not sending.cancelled():
                sending.result()

    async def _send_all(self, send: Send) -> None:
        events = self._events()
        try:
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for event in events:
                await self._send(send, {"type": "http.response.body", "body": event, "more_body": True})
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})
        except (OSError, TimeoutError):  # the client is gone, or does not read
            log.info("a client stopped reading its stream")
        finally:
            await events.aclose()

    async def _send(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._settings.client_seconds):
            await send(message)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        feed = Feed(self._settings.buffered)
        work = asyncio.ensure_future(self._admission.run(self._slot, lambda: self._work(feed.tell)))
        work.add_done_callback(feed.end)
        try:
            for said in self._teller.opening():
                yield event(said)
            while not feed.over:
                news = await feed.next(self._settings.heartbeat)
                if feed.too_slow:
                    raise TimeoutError("too much is waiting for a slow reader")
                if not news and not feed.over:
                    yield f": {self._admission.before(self._slot)} before you\n\n".encode()
                for progress in news:
                    for said in self._teller.progress(progress):
                        yield event(said)
            yield self._ending(work)
            yield b"data: [DONE]\n\n"
        finally:
            await stopped(work)

    def _ending(self, work: asyncio.Future[T]) -> bytes:
        try:
            return b"".join(map(event, self._teller.result(work.result())))
        except Exception as error:
            failure = failure_of(error)
            if failure.status == 500:
                log.exception("a stream failed", exc_info=error)
            return event(self._teller.error(failure.to_dict()["error"]))


def event(said: dict[str, Any]) -> bytes:
    """One event."""
    return b"data: " + encoded(said) + b"\n\n"


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def stopped(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what is not done, and wait for it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
