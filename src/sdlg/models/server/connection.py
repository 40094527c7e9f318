"""HTTP to one server: retries, limits, cancellation.

Requests run on an event loop in a thread of its own, so any number of threads may use one connection. A call returns
when it has its reply, or as soon as the limit of its caller (`limits`) is over, and then takes its request back. What
counts as a sign of life is a token, or a whole document: bytes that say nothing are silence.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from ...concurrency.limits import wait_for
from ...errors import PromptTooLong, ServerFailed
from .address import Address

if TYPE_CHECKING:
    from .requests import PathReply

T = TypeVar("T")
Json = dict[str, Any]

_BACKOFF = wait_random_exponential(multiplier=0.1, max=8)  # full jitter: 0 to 0.1, 0.2, 0.4, … 8 s
_TEMPORARY = frozenset({408, 425, 429, 502, 503, 504})  # tried again for retry_seconds
_ALIVE = "is the server still running?"
_QUOTA = "is a quota used up? Ask for less at once (--set in_flight=1, --samples 5)"
_FEW_TRIES = 4  # of what may be a fault in the request itself: 500, broken replies
_TOO_LONG = re.compile(r"(?i)context.*(exceed|maximum|longer)|(exceed|maximum|longer).*context|too long.*token")
_REQUESTS = 256  # at once, as many as vLLM takes into a batch by default
_LONGEST_REPLY = 64 * 2**20  # bytes


class Refused(ServerFailed):
    """The server understood the request and refuses it: a status of 4xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)  # all of them, or it could not be unpickled
        self.status, self._message = status, message

    def __str__(self) -> str:
        return self._message


class BadReply(Exception):
    """A reply that cannot be what the server meant: broken JSON, too few numbers. `shown` is a piece of it."""

    def __init__(self, what: str, shown: str = "") -> None:
        super().__init__(what)
        self.shown = shown


class SendAgain(Exception):
    """A reader wants its request to be sent again, and differently."""


class _Temporary(Exception):
    """A fault that another try may not meet."""

    def __init__(self, message: str, *, after: float = 0.0, tries: float = math.inf, ask: str = _ALIVE) -> None:
        super().__init__(message)
        self.after, self.tries, self.ask = after, tries, ask


class Connection:
    """A server's address, and how long to wait for it. `end_reason` says why the server is gone for good, if it is."""

    def __init__(
        self, address: Address, *, retry_seconds: float = 120.0, end_reason: Callable[[], str | None] = lambda: None
    ) -> None:
        self.address, self._retry_seconds, self._silence = address, retry_seconds, retry_seconds / 2
        self._end_reason = end_reason
        key = address.key.reveal()
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(self._silence, connect=min(10.0, self._silence), pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=2.0),
        )
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="sdlg-connection", daemon=True)
        thread.start()
        self.allow_requests(_REQUESTS)
        self._waited_for: set[Future[Any]] = set()
        self.close = weakref.finalize(self, _close, self._loop, thread, self._client, self._waited_for)

    def allow_requests(self, count: int) -> None:
        """Send at most so many requests at once. More wait here, where waiting is not mistaken for silence."""
        self._turns = asyncio.Semaphore(count)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and wait for it."""
        try:
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is no more
            work.close()
            raise ServerFailed(f"the connection to {self.address.url} was closed") from None
        self._waited_for.add(running)
        running.add_done_callback(self._waited_for.discard)
        return wait_for(running)

    async def get(self, path: str) -> Any:
        """Return a JSON document."""
        return await self._persistently(lambda: self._document("GET", path, None))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON document that answers a JSON document."""
        return await self._persistently(lambda: self._document("POST", path, body))

    async def complete(self, path: str, new_body: Callable[[], Json], new_reader: Callable[[], PathReply]) -> PathReply:
        """Feed a reply to a reader, streamed if the body asks for it; begin again, with new ones, if it breaks."""
        return await self._persistently(lambda: self._completed(path, new_body(), new_reader()))

    async def _completed(self, path: str, body: Mapping[str, Any], reader: PathReply) -> PathReply:
        try:
            async with self._response("POST", path, body) as (response, patience):
                if "event-stream" in response.headers.get("Content-Type", ""):
                    await self._read_events(response, reader, patience)
                else:
                    reader.take(_parsed(await self._content(response)))
        except TimeoutError:
            if not reader.progress:
                raise
            with suppress(BadReply):  # all of the answer may be there, and only the counts are missing
                reader.end()
                return reader
            raise
        reader.end()
        return reader

    async def _read_events(self, response: httpx2.Response, reader: PathReply, patience: asyncio.Timeout) -> None:
        progress = reader.progress
        async with aclosing(_events(response)) as events:
            async for data in events:
                if data == "[DONE]" or reader.take(_parsed(data)):
                    return
                if reader.progress > progress:
                    progress = reader.progress
                    patience.reschedule(self._loop.time() + self._silence)

    async def _document(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        async with self._response(method, path, body) as (response, _):
            return _parsed(await self._content(response))

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> AsyncIterator[tuple[httpx2.Response, asyncio.Timeout]]:
        """Yield the response, and the timeout that ends it in silence."""
        url = f"{self.address.root if path.startswith('/') else f'{self.address.url}/'}{path}"
        async with (
            self._turns,
            asyncio.timeout(self._silence) as patience,
            self._client.stream(method, url, json=body) as response,
        ):
            if response.status_code >= 400:
                self._refuse(response.status_code, await self._content(response), response.headers)
            yield response, patience

    async def _content(self, response: httpx2.Response) -> str:
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > _LONGEST_REPLY:
                raise BadReply(f"sends more than {_LONGEST_REPLY >> 20} MB")
        return content.decode("utf-8", "replace")

    def _refuse(self, status: int, content: str, headers: httpx2.Headers) -> None:
        said = _failure_message(self.address.key.hidden_in(content))  # before anything is cut
        where = f"{self.address.url} answers {status}"
        if status in _TEMPORARY:
            ask = (
                "is a quota used up? Ask for less at once (--set in_flight=1, --samples 5)" if status == 429 else _ALIVE
            )
            raise _Temporary(f"{where}: {said}", after=_seconds_to_wait(headers.get("Retry-After")), ask=ask)
        if status >= 500 and status != 501:
            raise _Temporary(f"{where}: {said}", tries=_FEW_TRIES)
        if status in (401, 403):
            raise Refused(status, f"{where}: {said} Set OPENAI_API_KEY to the server's key.")
        if _TOO_LONG.search(said):
            raise PromptTooLong(f"{where}: {said} Shorten the question or its context.")
        raise Refused(status, f"{where}: {said}")

    async def _persistently(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Try again what may be temporary, within retry_seconds from the first fault on."""
        first_fault: list[float] = []

        def given_up(state: RetryCallState) -> bool:
            fault = _fault_of(state)
            if self._end_reason() is not None:
                return True
            first_fault[:] = first_fault or [time.monotonic()]
            waited = time.monotonic() - first_fault[0] + fault.after
            return waited > self._retry_seconds or state.attempt_number >= fault.tries

        try:
            async for trying in AsyncRetrying(
                retry=retry_if_exception_type(_Temporary), wait=_wait, stop=given_up, reraise=True
            ):
                with trying:
                    return await self._once(attempt)
        except _Temporary as fault:
            if reason := self._end_reason():
                raise ServerFailed(reason) from fault
            raise ServerFailed(f"{fault}. Tried again for a while; {fault.ask}") from fault
        raise AssertionError("unreachable")

    def describe(self, fault: BadReply) -> str:
        """Say what was wrong with a reply, with a piece of it, but without the key."""
        hidden = self.address.key.hidden_in
        return hidden(str(fault)) + (f": {hidden(fault.shown)[:80]!r}" if fault.shown else "")

    async def _once(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Try once; make `_Temporary` of all that another try may not meet."""
        where = self.address.url
        try:
            return await attempt()
        except BadReply as fault:
            raise _Temporary(f"{where} {self.describe(fault)}", tries=_FEW_TRIES) from None
        except SendAgain as fault:
            raise _Temporary(f"{where} {fault}") from None
        except (httpx2.TimeoutException, TimeoutError) as fault:
            raise _Temporary(f"{where} is silent for {self._silence:g} s: no token, no whole document") from fault
        except httpx2.ConnectError as fault:
            raise _Temporary(f"cannot reach {where}: {fault}") from fault
        except (httpx2.TransportError, httpx2.StreamError, httpx2.DecodingError, httpx2.SSEError) as fault:
            raise _Temporary(f"{where} broke off: {fault or type(fault).__name__}") from fault


def _close(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, client: httpx2.AsyncClient, waited_for: set[Future[Any]]
) -> None:
    """Take back what is under way, close the sockets, end the thread."""

    async def last() -> None:
        for future in list(waited_for):
            future.cancel()  # its task, which cancels what it has begun itself, in good order
        await asyncio.sleep(0)
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=4.0)
        await client.aclose()
        loop.stop()

    if not thread.is_alive():
        return
    asyncio.run_coroutine_threadsafe(last(), loop)
    if threading.current_thread() is not thread:
        thread.join(5.0)
        if not loop.is_running():
            loop.close()
    for future in list(waited_for):  # asked for too late to be begun
        future.cancel()


def _fault_of(state: RetryCallState) -> _Temporary:
    fault = state.outcome.exception() if state.outcome else None
    assert isinstance(fault, _Temporary)
    return fault


def _wait(state: RetryCallState) -> float:
    return float(_BACKOFF(state)) + _fault_of(state).after  # never all at once, whatever the server asks for


def _seconds_to_wait(retry_after: str | None) -> float:
    """Return Retry-After in seconds; dates are passed over for our own backoff."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), 60.0) if math.isfinite(seconds) else 0.0


async def _events(response: httpx2.Response) -> AsyncGenerator[str, None]:
    async for event in httpx2.EventSource(response):
        if event.data:
            yield event.data


def _parsed(data: str) -> Any:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise BadReply("sends what is not JSON", data[:10_000]) from fault
    if isinstance(document, dict) and document.get("error") and not document.get("choices"):
        raise BadReply("breaks off with an error", _failure_message(json.dumps(document), 10_000))
    return document


def _failure_message(content: str, longest: int = 300) -> str:
    """Return what an error's body says, in one line."""
    text = content
    with suppress(ValueError, RecursionError):
        said: Any = json.loads(content)
        said = said.get("error", said) if isinstance(said, dict) else said
        said = said.get("message") or said.get("detail") or said if isinstance(said, dict) else said
        text = said if isinstance(said, str) else json.dumps(said)
    return " ".join(text.split())[:longest] or "no reason given"
