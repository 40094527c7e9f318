"""A real browser for tests, which notices what must not happen, and a tiny server that plays the part of `sdlg serve`.

Import the fixtures by name: `from browser import chromium, open_page`. No chromium, no tests.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sdlg.browser import static_files
from sdlg.progress import Progress
from sdlg.result import Result
from sdlg.schema import finite
from sdlg.serving.events import OurForm

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SETTINGS: dict[str, Any] = {
    "model": "scripted",
    "nli": "fake-nli",
    "methods": ["sdlg", "multinomial"],
    "presets": ["default", "paper"],
    "defaults": {"method": "sdlg", "samples": 10, "max_tokens": 64, "seed": 0, "preset": "default"},
    "limits": {"samples": 50, "max_tokens": 512, "prompt_characters": 20000},
    "calibrated": False,
    "needs_key": False,
}
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}


# -- the browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a file: while it runs, Playwright's event loop runs in this thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no browser at {CHROMIUM}")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Seen:
    """What a page did that nobody wants. `expected` holds words of console errors that a test is about."""

    hosts: set[str]
    bad: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def watch(self, page: Any) -> None:
        page.on("console", lambda message: message.type in ("error", "warning") and self.note(message.text))
        page.on("pageerror", lambda error: self.note(f"uncaught: {error}"))
        page.on("dialog", lambda dialog: (self.note(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._host(request.url))

    def note(self, what: str) -> None:
        if not any(words in what for words in self.expected):
            self.bad.append(what)

    def _host(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc not in self.hosts:
            self.note(f"a foreign host: {url}")


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """`open_page(url)` gives a page whose errors, dialogs and foreign requests fail the test at its end.

    A CSP violation is a console error. Further arguments go to the browser's context; `context=` takes an open one.
    """
    opened: list[tuple[Any, Seen]] = []

    def opens(url: str, *, expected: tuple[str, ...] = (), context: Any = None, **settings: Any) -> Any:
        context = context or chromium.new_context(**settings)
        context.set_default_timeout(20_000)  # of a busy machine
        seen = Seen({urlsplit(url).netloc} - {""}, expected=expected)
        page = context.new_page()
        seen.watch(page)
        opened.append((context, seen))
        page.goto(url)
        return page

    yield opens
    for context, _ in opened:
        context.close()
    assert [what for _, seen in opened for what in seen.bad] == []


def accessibility_violations(page: Any, *rules: str) -> list[str]:
    """What axe-core objects to, in words; of all its rules if none is named."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe
    options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": list(rules)} if rules else {})}
    found = axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def overflow(page: Any) -> int:
    """Pixels that the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


# -- a server that plays a part ---------------------------------------------------------------------------------

Reply = Callable[["Handler", dict[str, Any]], None]


def refusal(status: int, message: str, **headers: str) -> Reply:
    """An error in OpenAI's shape."""
    return lambda handler, _: handler.send(
        status, json.dumps({"error": {"message": message, "type": "stub", "code": str(status)}}).encode(),
        "application/json", **headers,
    )  # fmt: skip


def streamed(result: Result, *, pause: float = 0.0, last: dict[str, Any] | None = None) -> Reply:
    """A result as it would be streamed; `last` takes the place of the result event, `{}` breaks off instead."""

    def reply(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin(200, "text/event-stream")
        for event in events_of(result, last):
            handler.wfile.write(event)
            handler.wfile.flush()
            time.sleep(pause)

    return reply


def events_of(result: Result, last: dict[str, Any] | None) -> Iterator[bytes]:
    form = OurForm()
    yield b": waiting\n\n"
    if result.method == "sdlg":
        yield from map(_event, map(form.piece, result.tokens))
        yield _event(form.ending(result.answer))
    for sample in result.samples[1:]:
        yield from map(_event, form.branch(Progress("branches", "", sample.generation, sample.substitution)))
    for sentence in result.sentences:
        yield from map(_event, form.sentence(sentence))
    if last == {}:
        return
    yield from map(_event, form.last(result) if last is None else [last])
    yield b"data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(finite(data))}\n\n".encode()


class Handler(BaseHTTPRequestHandler):
    server: StubServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        name = "index.html" if path == "/" else path.removeprefix("/static/")
        if path == "/v1/settings":
            time.sleep(self.server.slow_settings)
            self.send(200, json.dumps(self.server.settings).encode(), "application/json")
        elif name in self.server.files:
            self.send(200, self.server.files[name], TYPES[Path(name).suffix])
        else:
            refusal(404, f"there is no {path}")(self, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        self.server.keys.append(self.headers.get("Authorization"))
        try:
            self.server.reply(self, asked)
        except (BrokenPipeError, ConnectionResetError):
            self.server.left.set()

    def send(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.begin(status, kind, **headers)
        self.wfile.write(body)

    def begin(self, status: int, kind: str, **headers: str) -> None:
        self.send_response(status)
        all_headers = {"Content-Type": kind, "Content-Security-Policy": POLICY, "Connection": "close", **headers}
        for name, value in all_headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class StubServer(ThreadingHTTPServer):
    """Serves the page; `reply` is what `/v1/uncertainty` does; `asked` and `keys` are what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = static_files()
        self.settings = dict(SETTINGS)
        self.slow_settings = 0.0  # seconds
        self.reply: Reply = refusal(500, "no reply was set")
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.left = threading.Event()  # a client went away in the middle
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, *_: object) -> None:
        pass  # a client that went away


@pytest.fixture
def stub() -> Iterator[StubServer]:
    server = StubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
