"""The server under pressure: cases made from its own OpenAPI document, random bodies, many clients at once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sdlg.serving.app import create_app
from sdlg.serving.settings import Settings
from web_server import ASKED, CHAT, Talking, no_proxies, running, scripted, wait_until  # noqa: F401

CASES = 900
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
SECONDS = 20.0  # no answer takes longer

app = create_app(scripted(), Settings())
schema = schemathesis.openapi.from_asgi("/openapi.json", app)
tried: Counter[str] = Counter()


@schema.parametrize()
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_case_of_the_openapi_document_breaks_the_server(case):
    started = time.monotonic()
    response = case.call()
    tried[f"{case.method} {case.path}"] += 1
    tried[str(response.status_code)] += 1
    assert response.status_code < 500
    assert time.monotonic() - started < SECONDS
    case.validate_response(response, checks=CHECKS)


def test_enough_cases_were_tried():
    if not tried:
        pytest.skip("runs after the test before it")
    assert sum(count for name, count in tried.items() if "/" in name) >= CASES, tried
    assert tried["200"] > 100, tried


# --- random bodies ---

PATHS = ("/v1/uncertainty", "/v1/chat/completions", "/v1/completions")
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner))
names = st.sampled_from(
    [
        "question", "context", "system", "method", "preset", "samples", "seed", "max_tokens", "stop_at", "temperature",
        "measures", "stream", "options", "answers", "messages", "prompt", "model", "stop", "n", "logprobs", "top_p",
        "uncertainty", "tools", "logit_bias", "stream_options",
    ]
)  # fmt: skip
answer_names = ("logprobs", "tokens", "cluster", "position", "entropies", "ending_logprobs", "stop_reason")
answers = st.lists(
    st.dictionaries(st.sampled_from(answer_names), anything).map(lambda more: {"text": "a", **more}), max_size=4
)


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def web(server):
    with httpx2.Client(base_url=server.url, timeout=SECONDS) as web:
        yield web


def outcome(web, path, body: bytes) -> int:
    response = web.post(path, content=body, headers={"Content-Type": "application/json"})
    if response.status_code != 200:
        assert set(response.json()) == {"error"}
    return response.status_code


relaxed = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@relaxed
@given(st.sampled_from(PATHS), st.binary(max_size=200))
def test_random_bytes_are_refused(web, path, body):
    assert 400 <= outcome(web, path, body) < 500


@relaxed
@given(st.sampled_from(PATHS), st.dictionaries(names, anything))
def test_random_fields_never_break_the_server(web, path, more):
    start = {"/v1/uncertainty": ASKED, "/v1/chat/completions": CHAT, "/v1/completions": {"prompt": "x"}}[path]
    assert outcome(web, path, json.dumps({**start, **more}).encode()) < 500


@relaxed
@given(answers)
def test_random_answers_never_break_the_server(web, given_answers):
    body = {**ASKED, "answers": given_answers, "measures": ["number_of_clusters", "SE_MS", "SE*_SDLG", "perplexity"]}
    assert outcome(web, "/v1/uncertainty", json.dumps(body).encode()) < 500


@relaxed
@given(st.text(), st.text(), st.text())
def test_every_header_gets_an_answer(web, name, value, host):
    fitting = "".join(c for c in name if c.isascii() and c.isalnum()) or "x"
    shown = "".join(c for c in value if 31 < ord(c) < 127)
    response = web.get("/healthz", headers={f"X-{fitting}": shown, "Authorization": shown, "Accept": shown})
    assert response.status_code == 200


# --- many clients ---


def test_64_clients_each_get_an_answer_or_are_told_to_come_back():
    clients, seconds, seen = 64, 3.0, Counter()

    async def ask_on(web, end):
        while time.monotonic() < end:
            stream = bool(sum(seen.values()) % 3 == 0)
            response = await web.post("/v1/uncertainty", json={**ASKED, "stream": stream})
            seen[response.status_code] += 1
            if response.status_code == 429:
                assert int(response.headers["retry-after"]) >= 1
                await asyncio.sleep(0.2)  # sooner than asked to: refusing must be cheap
            elif stream:
                assert response.text.endswith("data: [DONE]\n\n")

    async def all_of_them(url):
        limits = httpx2.Limits(max_connections=clients)
        async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits) as web:
            end = time.monotonic() + seconds
            await asyncio.gather(*(ask_on(web, end) for _ in range(clients)))

    with running(Talking(pause=0.001)) as server:
        server.post("/v1/uncertainty", ASKED)
        threads = threading.active_count()
        asyncio.run(all_of_them(server.url))
        assert server.counts == (0, 0)
        assert threading.active_count() <= threads + 1  # the pool has a second place, for large given answers
    assert set(seen) == {200, 429}, seen
    assert seen[200] > 10


def test_clients_that_go_away_leave_nothing_behind():
    async def impatient(web):
        with pytest.raises(httpx2.TimeoutException):
            await web.post("/v1/uncertainty", json={**ASKED, "stream": False}, timeout=0.3)

    async def all_of_them(url):
        async with httpx2.AsyncClient(base_url=url) as web:
            await asyncio.gather(*(impatient(web) for _ in range(12)))

    model = Talking()
    with running(model) as server:
        model.gate.clear()
        asyncio.run(all_of_them(server.url))
        wait_until(lambda: server.counts == (0, 0))
        model.gate.set()
        assert server.post("/v1/uncertainty", ASKED).status_code == 200
