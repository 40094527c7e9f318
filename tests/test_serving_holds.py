"""The server beside work that takes long: given answers, clients that go away, signals, requests of two lengths."""

from __future__ import annotations

import json
import re
import signal
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
from sdlg.formats.codec import read_samples

from fakes import MEANINGS, FakeNli
from sdlg.concurrency.limits import check_limit
from sdlg.measures import inputs_of
from sdlg.measures.measuring import chosen_measures, needed_fields
from sdlg.pipeline import Pipeline
from sdlg.records import Question
from sdlg.serving.app import create_app
from sdlg.serving.given_work import LONG_WORK, given_work
from sdlg.serving.settings import Limits, Settings
from test_serving import ASKED, Running, Talking, error_of, posted, running, wait_until

LARGE = {**ASKED, "answers": [{"text": f"{'word ' * 40}{n}"} for n in range(10)], "measures": ["number_of_clusters"]}


class SlowNli(FakeNli):
    """Judges for as long as its gate is closed when the answers are long; looks at its limit between batches."""

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


@contextmanager
def slowly(step=0.01, **settings):
    nli = SlowNli(MEANINGS, step=step)
    with Running(create_app(Pipeline(Talking(), nli, samples=4), Settings(**settings))) as server:
        try:
            yield server, nli
        finally:
            nli.gate.set()


@contextmanager
def client_of(server, body):
    """A client that goes away at the end."""
    with closing(socket.create_connection(("127.0.0.1", server.port))) as connection:
        connection.sendall(posted(json.dumps(body).encode()))
        yield connection


def metric(server, name):
    return float(re.search(rf"(?m)^{name} (\S+)$", server.get("/metrics").text)[1])


# --- work that nobody wants any more ---


def test_scoring_for_a_client_that_went_away_stops_and_counts_until_it_has():
    with slowly(step=0.5) as (server, nli):
        with client_of(server, LARGE):
            assert nli.begun.wait(10)
        time.sleep(0.1)
        assert metric(server, "sdlg_running") == 1  # a batch is still being computed
        assert nli.stopped.wait(5)
        wait_until(lambda: metric(server, "sdlg_running") == 0)
        assert server.post("/v1/uncertainty", ASKED).status_code == 200


def test_small_questions_are_answered_beside_large_given_answers():
    with slowly() as (server, nli), ThreadPoolExecutor(2) as pool:
        large = [pool.submit(server.post, "/v1/uncertainty", LARGE) for _ in range(2)]
        assert nli.begun.wait(10)
        wait_until(lambda: (server.admission.running, server.admission.waiting) == (1, 1))
        for _ in range(3):
            assert server.post("/v1/uncertainty", ASKED).status_code == 200
        assert not any(one.done() for one in large)
        nli.gate.set()
        assert [one.result().status_code for one in large] == [200, 200]


def test_large_work_that_would_miss_the_deadline_is_not_begun():
    with slowly() as (server, nli), ThreadPoolExecutor(1) as pool:
        large = pool.submit(server.post, "/v1/uncertainty", LARGE)
        assert nli.begun.wait(10)
        server.admission._pace = 100.0  # characters per second
        refused = server.post("/v1/uncertainty", LARGE)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 120
        assert server.post("/v1/uncertainty", ASKED).status_code == 200
        nli.gate.set()
        assert large.result().status_code == 200


def test_large_work_that_others_overtook_is_told_to_come_back():
    with slowly(deadline=1.5) as (server, nli), ThreadPoolExecutor(1) as pool:
        server.admission._pace = 1e6
        large = pool.submit(server.post, "/v1/uncertainty", LARGE)
        assert nli.begun.wait(10)
        assert server.post("/v1/uncertainty", ASKED).status_code == 200
        assert large.result().status_code == 503
        assert int(large.result().headers["retry-after"]) >= 1
        assert server.post("/v1/uncertainty", LARGE).status_code == 504  # alone it is the work itself


# --- how much work given answers may be ---


def work_of(texts, measures=(), **more):
    inputs = inputs_of(read_samples([{"text": text, **more} for text in texts]))
    return given_work(inputs, Question("Where?"), needed_fields(chosen_measures(measures).values()))


def test_given_answers_count_by_pairs_and_length():
    few, many, long = (["ab" * 10 + str(n) for n in range(5)], ["ab" * 10 + str(n) for n in range(9)], ["ab" * 20] * 5)
    names = ["number_of_clusters"]
    assert work_of(few, names) == 5 * 4 * 2 * (21 + 7)
    assert work_of(many, names) == 9 * 8 * 2 * (21 + 7)
    assert work_of(long, names) == 5 * 4 * 2 * (40 + 7)
    assert work_of(few, names, cluster=0) == 0  # known already
    assert work_of(["a" * 400], ["token_sar"]) > 10 * work_of(["a" * 100], ["token_sar"]) / 2  # tokens × length
    assert work_of(few, ["perplexity"], logprobs=[-1.0]) == 0


def test_fifty_long_answers_are_refused_with_the_limit():
    answers = [{"text": f"{'word ' * 90}{n}"} for n in range(50)]  # 22 KB: minutes of work
    with running() as server:
        refused = server.post("/v1/uncertainty", {**ASKED, "answers": answers})
        assert refused.status_code == 422
        assert "400000" in error_of(refused)["message"]
        assert error_of(refused)["code"] == "too_much_work"
        known = [{**answer, "cluster": 0, "logprobs": [-1.0]} for answer in answers]
        body = {**ASKED, "answers": known, "measures": ["SE_MS"]}
        assert server.post("/v1/uncertainty", body).status_code == 200
    with running(settings=Settings(limits=Limits(given_work=100))) as server:
        assert server.post("/v1/uncertainty", LARGE).status_code == 422


def test_the_large_request_of_these_tests_is_large():
    assert LONG_WORK < work_of([answer["text"] for answer in LARGE["answers"]], LARGE["measures"]) < 400_000


# --- signals ---

SERVING = """
import sys
sys.path.insert(0, {tests!r})
import sdlg.pipeline
from fakes import CAPITAL, MEANINGS
from test_serving import Talking
from test_serving_holds import SlowNli
sdlg.pipeline.load_model = lambda name, **_: Talking(CAPITAL, name=name)
sdlg.pipeline.load_nli = lambda name, **_: SlowNli(MEANINGS, name=name, step={step})
from sdlg.cli import main
sys.exit(main(["serve", "--port", "0", "--grace", "1"]))
"""


@pytest.mark.parametrize("step", [0.01, 60.0], ids=["short steps", "a step that does not end"])
def test_a_signal_ends_the_server_beside_large_work(step):
    code = SERVING.format(tests=str(Path(__file__).parent), step=step)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(httpx2.post, f"{address}/v1/uncertainty", json=LARGE, timeout=30)
            wait_until(lambda: "sdlg_running 1.0" in httpx2.get(f"{address}/metrics").text)
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert process.wait(10) == 0
            assert time.monotonic() - began < 4
            assert asked.result().status_code == 503
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


# --- requests of two lengths ---


def test_a_request_of_two_lengths_is_refused_and_its_connection_closed():
    head = "POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
    smuggled = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    request = f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}".encode()
    with running() as server, closing(socket.create_connection(("127.0.0.1", server.port), timeout=5)) as connection:
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65536):  # ends only when the server closes
            received += chunk
    assert received.startswith(b"HTTP/1.1 400")
    assert received.count(b"HTTP/1.1") == 1
    assert b"two_lengths" in received
