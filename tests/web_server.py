"""What the tests of `sdlg serve` share: scripted models that can be held, and a server in a thread on a real socket."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg import Models, Pipeline, ScriptedModel
from sdlg.concurrency.limits import check_limit
from sdlg.serving.app import create_app
from sdlg.serving.listening import open_socket, server_of
from sdlg.serving.settings import Settings

QUESTION = "What is the capital of France?"
ASKED = {"question": QUESTION}
CHAT = {"messages": [{"role": "user", "content": QUESTION}]}


class Talking(ScriptedModel):
    """Reports every token, as real models do; takes its time, or waits at a gate."""

    def __init__(self, script=CAPITAL, *, pause=0.0, in_flight=1, **named):
        super().__init__(script, **named)
        self.pause, self.gate, self.begun, self.stopped = pause, threading.Event(), threading.Semaphore(0), 0
        self.gate.set()
        able = self.capabilities
        self.capabilities = type(able)(able.strategies, continues_prefixes=True, alternatives=None, in_flight=in_flight)

    def decode(self, request):
        self.begun.release()
        try:
            while not self.gate.wait(0.01):
                check_limit()
            decoded = super().decode(request)
            for path, continuation in enumerate(decoded.continuations):
                for token in continuation.token_ids if request.watch else ():
                    time.sleep(self.pause)
                    request.watch(path, token)
        except Exception:
            self.stopped += 1
            raise
        return decoded


class SlowNli(FakeNli):
    """Judges long answers for as long as its gate is closed; looks at its limit between batches."""

    def __init__(self, *args, step=0.01, **named):
        super().__init__(*args, **named)
        self.step, self.gate, self.begun, self.stopped = step, threading.Event(), threading.Event(), threading.Event()

    def judge(self, question, pairs):
        if pairs and len(pairs[0][0]) > 100:
            self.begun.set()
            try:
                while not self.gate.is_set():
                    check_limit()
                    time.sleep(self.step)
            except Exception:
                self.stopped.set()
                raise
        return super().judge(question, pairs)


def scripted(model=None, nli=None, **options):
    return Pipeline(models=Models(model or Talking(), nli or FakeNli(MEANINGS)), **{"samples": 4, **options})


def running(model=None, settings=None, nli=None, **options):
    return Running(create_app(scripted(model, nli, **options), settings or Settings()))


class Running:
    """A server in a thread, its address, its admission."""

    def __init__(self, app):
        self.app, self.admission = app, app.state.admission
        self.listener = open_socket("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = server_of(app, lambda: None)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.server.started)
        return self

    def __exit__(self, *_):
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(20)
        self.admission.close()
        assert not self.thread.is_alive()

    @property
    def counts(self):
        """(running, waiting)."""
        return self.admission.running, self.admission.waiting

    def post(self, path, body, **named):
        return httpx2.post(f"{self.url}{path}", json=body, timeout=30, **named)

    def get(self, path, **named):
        return httpx2.get(f"{self.url}{path}", timeout=30, **named)

    def metric(self, name):
        return float(re.search(rf"(?m)^{name} (\S+)$", self.get("/metrics").text)[1])

    def events(self, path, body):
        """(events, comments) of a stream; the last event is [DONE]."""
        with httpx2.stream("POST", f"{self.url}{path}", json={**body, "stream": True}, timeout=30) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in response.iter_lines() if line]
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert data[-1] == "[DONE]"
        return [json.loads(text) for text in data[:-1]], [line for line in lines if line.startswith(":")]

    def raw(self, request: bytes, *, to_the_end=False):
        """What comes back for these bytes: the first response, or all until the server closes."""
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=10)) as connection:
            connection.sendall(request)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
                head, _, body = received.partition(b"\r\n\r\n")
                size = re.search(rb"(?i)content-length: (\d+)", head)
                if size and len(body) >= int(size[1]) and not to_the_end:
                    break
        return received

    @contextmanager
    def client(self, body):
        """A client that goes away at the end of the block."""
        with closing(socket.create_connection(("127.0.0.1", self.port))) as connection:
            connection.sendall(posted(json.dumps(body).encode()))
            yield connection


def posted(body: bytes) -> bytes:
    """A whole request, as it goes over the wire."""
    head = "POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def wait_until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


@contextmanager
def held(server, model):
    """Requests that are being answered, until the model's gate opens: yields a function that sends one more."""
    model.gate.clear()
    with ThreadPoolExecutor(64) as pool:
        try:
            yield lambda body=ASKED: pool.submit(server.post, "/v1/uncertainty", body)
        finally:
            model.gate.set()


def error_of(response):
    error = response.json()["error"]
    assert set(error) == {"message", "type", "code"}
    return error


@pytest.fixture(scope="module", autouse=True)
def no_proxies():
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.lower().endswith("_proxy")}
    yield
    os.environ.update(kept)


_COMMAND = """
import sys
sys.path.insert(0, {tests!r})
from fakes import CAPITAL, MEANINGS
from sdlg import Models
from sdlg.cli import main
from web_server import SlowNli, Talking
load = lambda model, nli, loading: Models(Talking(CAPITAL, pause={pause}), SlowNli(MEANINGS, step={step}), loading)
sys.exit(main(["serve", "--port", "0", "--limit", "grace={grace}"], load))
"""


@contextmanager
def command(*, pause=0.0, step=0.01, grace=30):
    """`sdlg serve` as a process of its own: (process, address)."""
    code = _COMMAND.format(tests=str(Path(__file__).parent), pause=pause, step=step, grace=grace)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, re.search(r"http://\S+", line)[0]
    finally:
        process.kill()
        process.communicate()
