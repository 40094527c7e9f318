"""Who is served when: queue, deadlines, clients that leave, large work beside small, signals."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from fakes import MEANINGS
from sdlg.measures import inputs_of
from sdlg.measures.measuring import needed_fields
from sdlg.records import Question
from sdlg.schema import given_samples
from sdlg.serving.admission import LARGE, Admission
from sdlg.serving.asked import characters_read
from sdlg.serving.failures import Failure
from sdlg.serving.settings import Settings
from web_server import (  # noqa: F401
    ASKED,
    SlowNli,
    Talking,
    command,
    error_of,
    held,
    no_proxies,
    posted,
    running,
    wait_until,
)

LARGE_BODY = {**ASKED, "answers": [f"{'word ' * 40}{n}" for n in range(10)], "measures": ["number_of_clusters"]}


@pytest.fixture
def slow():
    """An NLI model that judges long answers until its gate is opened."""
    nli = SlowNli(MEANINGS)
    yield nli
    nli.gate.set()


# -- the queue ----------------------------------------------------------------------------------------------------


def test_beyond_the_queue_one_is_told_when_to_come_back():
    model = Talking()
    with running(model, Settings(queue=2)) as server, held(server, model) as ask:
        asked = [ask() for _ in range(3)]
        wait_until(lambda: server.counts == (1, 2))
        for body in (ASKED, {**ASKED, "stream": True}):
            refused = server.post("/v1/uncertainty", body)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 120
            assert error_of(refused)["type"] == "rate_limit_error"
        assert server.get("/healthz").status_code == 200
        assert "sdlg_waiting 2.0" in server.get("/metrics").text
        model.gate.set()
        assert [answer.result().status_code for answer in asked] == [200] * 3


def test_a_model_that_takes_several_questions_gets_them_at_once():
    model = Talking(in_flight=3)
    with running(model) as server, held(server, model) as ask:
        asked = [ask() for _ in range(5)]
        wait_until(lambda: server.counts == (3, 2))
        for _ in range(3):
            assert model.begun.acquire(timeout=60)
        model.gate.set()
        assert [answer.result().status_code for answer in asked] == [200] * 5


def test_past_the_deadline_there_is_no_answer_and_no_work():
    model = Talking()
    with running(model, Settings(deadline=0.4)) as server, held(server, model) as ask:
        asked = [ask(), ask()]
        assert [answer.result().status_code for answer in asked] == [504, 504]
        wait_until(lambda: model.stopped >= 1)
        events, _ = server.events("/v1/uncertainty", ASKED)
        assert events[-1]["error"]["code"] == "timed_out"
        model.gate.set()
        assert server.post("/v1/uncertainty", ASKED).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_takes_its_work_with_it(stream):
    model = Talking()
    with running(model) as server, held(server, model) as ask:
        body = json.dumps({**ASKED, "stream": stream}).encode()
        gone = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        for connection in gone:
            connection.sendall(posted(body))
        wait_until(lambda: server.counts == (1, 2))
        patient = ask()
        wait_until(lambda: server.counts[1] == 3)
        for connection in gone:
            connection.close()
        wait_until(lambda: server.counts == (1, 0))
        model.gate.set()
        assert patient.result().status_code == 200
        assert model.stopped == 1  # the others had not begun
        wait_until(lambda: server.counts[0] == 0)


def test_a_stream_has_a_heartbeat_while_it_waits():
    model = Talking()
    with running(model, Settings(heartbeat=0.05)) as server, held(server, model) as ask:
        first = ask()
        wait_until(lambda: server.counts[0] == 1)
        threading.Timer(0.5, model.gate.set).start()
        events, comments = server.events("/v1/uncertainty", ASKED)
        assert events[-1]["type"] == "result"
        assert len(comments) >= 3
        assert first.result().status_code == 200


def test_retry_after_follows_how_long_things_take():
    async def run():
        admission = Admission(1, 4, 60.0)
        with admission.enter() as slot:
            await admission.run(slot, lambda: time.sleep(0.01))
        admission._seconds[False].extend([10.0] * 40)
        slots = [admission.enter() for _ in range(5)]
        gate = threading.Event()
        tasks = [asyncio.ensure_future(admission.run(slot, gate.wait)) for slot in slots]
        await asyncio.sleep(0.05)
        assert (admission.running, admission.waiting) == (1, 4)
        with pytest.raises(Failure) as refused:
            admission.enter()
        assert refused.value.headers == {"Retry-After": "20"}  # half of 4 waiting, 10 s each
        gate.set()
        await asyncio.gather(*tasks)
        for slot in slots:
            admission.leave(slot)
        assert (admission.running, admission.waiting) == (0, 0)
        await admission.idle()
        admission.close()

    asyncio.run(run())


# -- work that nobody wants any more, and large work --------------------------------------------------------------


def test_scoring_for_a_client_that_went_away_stops_and_counts_until_it_has(slow):
    slow.step = 0.5
    with running(nli=slow) as server:
        with server.client(LARGE_BODY):
            assert slow.begun.wait(60)
        time.sleep(0.1)
        assert server.metric("sdlg_running") == 1  # a batch is still being computed
        assert slow.stopped.wait(60)
        wait_until(lambda: server.metric("sdlg_running") == 0)
        assert server.post("/v1/uncertainty", ASKED).status_code == 200


def test_small_questions_are_answered_beside_large_given_answers(slow):
    with running(nli=slow) as server, ThreadPoolExecutor(2) as pool:
        large = [pool.submit(server.post, "/v1/uncertainty", LARGE_BODY) for _ in range(2)]
        assert slow.begun.wait(60)
        wait_until(lambda: server.counts == (1, 1))
        for _ in range(3):
            assert server.post("/v1/uncertainty", ASKED).status_code == 200
        assert not any(one.done() for one in large)
        slow.gate.set()
        assert [one.result().status_code for one in large] == [200, 200]


def test_large_work_has_a_bounded_queue_and_a_deadline_of_its_own(slow):
    with running(nli=slow, settings=Settings(queue=1, deadline=1.5)) as server, ThreadPoolExecutor(2) as pool:
        large = [pool.submit(server.post, "/v1/uncertainty", LARGE_BODY) for _ in range(2)]
        wait_until(lambda: server.counts == (1, 1))
        assert server.post("/v1/uncertainty", LARGE_BODY).status_code == 429
        assert server.post("/v1/uncertainty", ASKED).status_code == 200
        for one in large:
            assert one.result().status_code == 503
            assert int(one.result().headers["retry-after"]) >= 1


def work_of(texts, measures=(), **more):
    inputs = inputs_of(given_samples([{"text": text, **more} for text in texts]))
    return characters_read(inputs, Question("Where?"), {*needed_fields(measures), "clusters"})


def test_given_answers_count_by_pairs_and_length():
    few, many, long = (["ab" * 10 + str(n) for n in range(5)], ["ab" * 10 + str(n) for n in range(9)], ["ab" * 20] * 5)
    names = ["number_of_clusters"]
    assert work_of(few, names) == 5 * 4 * 2 * (21 + 7)
    assert work_of(many, names) == 9 * 8 * 2 * (21 + 7)
    assert work_of(long, names) == 5 * 4 * 2 * (40 + 7)
    assert work_of(few, names, cluster=0) == 0  # known already
    assert work_of(["a" * 400], ["token_sar"]) > 10 * work_of(["a" * 100], ["token_sar"]) / 2  # tokens × length
    assert work_of(few, ["perplexity"], logprobs=[-1.0], cluster=0) == 0
    assert LARGE < work_of(LARGE_BODY["answers"]) < Settings().characters_read


def test_fifty_long_answers_are_refused_with_the_limit():
    answers = [f"{'word ' * 90}{n}" for n in range(50)]  # 22 KB: minutes of work
    with running() as server:
        refused = server.post("/v1/uncertainty", {**ASKED, "answers": answers})
        assert refused.status_code == 422
        assert "400000" in error_of(refused)["message"]
        assert error_of(refused)["code"] == "too_much_work"
        known = [{"text": answer, "cluster": 0, "logprobs": [-1.0]} for answer in answers]
        body = {**ASKED, "answers": known, "measures": ["SE_MS"]}
        assert server.post("/v1/uncertainty", body).status_code == 200


# -- signals ------------------------------------------------------------------------------------------------------


def ask_at(address, body=ASKED):
    return httpx2.post(f"{address}/v1/uncertainty", json=body, timeout=30).status_code


def has(address, text):
    return lambda: text in httpx2.get(f"{address}/metrics").text


def is_draining(address):
    return lambda: httpx2.get(f"{address}/healthz").status_code == 503


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_finishes_what_runs_and_refuses_what_waits(sign):
    with command(pause=0.2) as (process, address), ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask_at, address) for _ in range(3)]
        wait_until(has(address, "sdlg_waiting 2.0"))
        process.send_signal(sign)
        wait_until(is_draining(address))
        assert ask_at(address) == 503
        assert sorted(answer.result() for answer in asked) == [200, 503, 503]
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()


def test_the_second_signal_stops_at_once():
    with command(pause=0.2) as (process, address), ThreadPoolExecutor(3) as pool:
        asked = pool.submit(ask_at, address)
        wait_until(has(address, "sdlg_running 1.0"))
        process.send_signal(signal.SIGINT)
        wait_until(is_draining(address))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert asked.exception() is not None or asked.result() >= 500
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("step", [0.01, 60.0], ids=["short steps", "a step that does not end"])
def test_a_signal_ends_the_server_beside_large_work(step):
    with command(step=step, grace=1) as (process, address), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_at, address, LARGE_BODY)
        wait_until(has(address, "sdlg_running 1.0"))
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert process.wait(60) == 0
        assert time.monotonic() - began < 4
        assert asked.result() == 503
        assert "Traceback" not in process.stderr.read()
