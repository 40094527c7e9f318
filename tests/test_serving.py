"""The server, with scripted models on a real socket: OpenAI's client, streams, limits, queue, shutdown, guards."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
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
import jsonschema
import openai
import pytest

import sdlg
from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg import Pipeline, ScriptedModel
from sdlg.cli import main
from sdlg.cli.serve import is_loopback
from sdlg.concurrency.limits import check_limit
from sdlg.errors import BadOption, ServerFailed
from sdlg.pipeline import Progress
from sdlg.records import Generation, Question
from sdlg.serving.admission import Admission
from sdlg.serving.app import create_app
from sdlg.serving.chat import Completion, question_of
from sdlg.serving.deltas import Deltas
from sdlg.serving.engine import Ask
from sdlg.serving.failures import Failure
from sdlg.serving.guards import check_json
from sdlg.serving.listening import open_socket, server_of
from sdlg.serving.replies import Reply
from sdlg.serving.schemas import Message
from sdlg.serving.settings import Limits, Settings
from sdlg.serving.streaming import Feed
from sdlg.serving.wire import encoded

SCHEMA = json.loads((Path(sdlg.__file__).parent / "formats" / "result.schema.json").read_text())
QUESTION = "What is the capital of France?"
ASKED = {"question": QUESTION}
CHAT = {"messages": [{"role": "user", "content": QUESTION}]}
KEY = "a-key-of-the-tests"


class Talking(ScriptedModel):
    """Tells every token, as real models do; takes its time, or waits at a gate, if it is told to."""

    def __init__(self, script=CAPITAL, *, pause=0.0, in_flight=1, **named):
        super().__init__(script, **named)
        self.pause, self.gate, self.begun, self.stopped = pause, threading.Event(), threading.Semaphore(0), 0
        self.gate.set()
        self._able = self.capabilities
        self.capabilities = type(self._able)(
            self._able.strategies, continues_prefixes=True, alternatives=None, in_flight=in_flight
        )

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


def scripted(model=None, **options):
    return Pipeline(model or Talking(), FakeNli(MEANINGS), **{"samples": 4, **options})


class Running:
    """A server in a thread, its address, its desk."""

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

    def post(self, path, body, **named):
        return httpx2.post(f"{self.url}{path}", json=body, timeout=30, **named)

    def get(self, path, **named):
        return httpx2.get(f"{self.url}{path}", timeout=30, **named)

    def events(self, path, body):
        """(events, comments) of a stream; the last event is [DONE]."""
        with httpx2.stream("POST", f"{self.url}{path}", json=body, timeout=30) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in response.iter_lines() if line]
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert data[-1] == "[DONE]"
        return [json.loads(text) for text in data[:-1]], [line for line in lines if line.startswith(":")]

    def raw(self, request: bytes, *, seconds=10.0):
        """All that comes back for these bytes."""
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=seconds)) as connection:
            connection.sendall(request)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
                if b"\r\n\r\n" in received and b"content-length" in received.lower():
                    head, _, body = received.partition(b"\r\n\r\n")
                    if len(body) >= int(re.search(rb"(?i)content-length: (\d+)", head)[1]):
                        break
        return received


def posted(body: bytes) -> bytes:
    """A whole request, as it goes over the wire."""
    head = "POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def wait_until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def running(model=None, settings=None, **options):
    return Running(create_app(scripted(model, **options), settings or Settings()))


@contextmanager
def held(server, model, body=None, path="/v1/uncertainty"):
    """Requests that are being answered, until the model's gate opens: yields a function that sends one more."""
    model.gate.clear()
    with ThreadPoolExecutor(64) as pool:
        try:
            yield lambda: pool.submit(server.post, path, body or ASKED)
        finally:
            model.gate.set()


@pytest.fixture(scope="module", autouse=True)
def _no_proxies():
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.lower().endswith("_proxy")}
    yield
    os.environ.update(kept)


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def error_of(response):
    error = response.json()["error"]
    assert set(error) == {"message", "type", "code"}
    return error


# --- our own endpoint ---


def test_a_question_gets_the_full_result(server):
    response = server.post("/v1/uncertainty", {**ASKED, "samples": 3, "seed": 7, "context": "A story."})
    assert response.status_code == 200
    jsonschema.validate(response.json(), SCHEMA)
    found = response.json()
    assert (found["seed"], found["context"], found["options"]["samples"]) == (7, "A story.", 3)
    direct = scripted(samples=3, seed=7).ask(QUESTION, context="A story.").to_dict()
    assert found["estimates"] == direct["estimates"]


def test_other_options_are_given_by_name(server):
    body = {**ASKED, "method": "multinomial", "options": {"linkage": "components", "stop_strings": ["!"]}}
    found = server.post("/v1/uncertainty", body).json()
    assert found["method"] == "multinomial"
    assert found["options"]["clustering"]["linkage"] == "components"
    assert found["options"]["decoding"]["stop_strings"] == ["!"]


def test_further_measures_are_among_the_estimates(server):
    found = server.post("/v1/uncertainty", {**ASKED, "measures": ["number_of_clusters"]}).json()
    assert found["estimates"]["number_of_clusters"]["value"] == len(
        [cluster for cluster in found["clusters"] if cluster["members"]]  # others are of draws alone
    )


def test_given_answers_get_the_row_of_sdlg_score(server, tmp_path, capsys):
    answers = [
        {"text": "Paris", "logprobs": [-0.1, -0.2], "cluster": 0},
        {"text": "Lyon", "logprobs": [-1], "cluster": 1},
    ]
    names = ["number_of_clusters", "SE_MS"]
    row = server.post("/v1/uncertainty", {**ASKED, "answers": answers, "measures": names}).json()
    file = tmp_path / "row.jsonl"
    file.write_text(json.dumps({**ASKED, "answers": answers}))
    assert main(["score", str(file), "--measures", ",".join(names), "--nli", "none", "--similarity-model", "none"]) == 0
    assert row == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"qestion": "x", "colour": 1}, 422, ["qestion", "colour"]),
        ({"question": 5}, 422, ["question"]),
        ({"samples": "many"}, 422, ["samples"]),
        ({"samples": True}, 422, ["samples"]),
        ({"question": "  "}, 400, ["empty"]),
        ({"question": "\ud800"}, 400, []),
        ({"question": "x" * 40_000}, 400, ["40000", "32768"]),
        ({"samples": 21}, 400, ["20"]),
        ({"samples": 0}, 400, ["samples"]),
        ({"samples": 10**400}, 400, []),
        ({"max_tokens": 513}, 400, ["512"]),
        ({"method": "magic"}, 400, ["sdlg", "multinomial"]),
        ({"preset": "magic"}, 400, ["paper"]),
        ({"measures": ["magic"]}, 400, ["magic"]),
        ({"options": {"magic": 1}}, 400, ["magic", "linkage"]),
        ({"options": {"method": "sdlg"}}, 400, ["method"]),
        ({"options": {"samples": 3}, "samples": 4}, 400, ["twice", "samples"]),
        ({"options": {"linkage": ["a"]}}, 400, ["linkage"]),
        ({"options": {"stop_strings": 5}}, 400, []),
        ({"options": {"stop_strings": ["x"] * 17}}, 400, ["16"]),
        ({"options": {"min_probability": 0}}, 400, ["min_probability"]),
        ({"options": {"embeddings": "mapped"}}, 400, ["mapped"]),
        ({"options": {"beams": 90}}, 400, ["beams"]),
        ({"options": {"strategy": "beam"}}, 400, ["beam"]),
        ({"answers": []}, 400, ["at least one"]),
        ({"answers": [{}]}, 400, ["text"]),
        ({"answers": [{"text": "a"}] * 51}, 400, ["50"]),
        ({"answers": [{"text": "a"}], "samples": 3}, 400, ["samples"]),
        ({"answers": [{"text": "a", "logprobs": [5]}]}, 400, ["log-probability"]),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(server, changes, status, words):
    body = json.dumps({**ASKED, **changes}).encode()
    response = httpx2.post(f"{server.url}/v1/uncertainty", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status, response.text
    message = error_of(response)["message"]
    assert all(word in message for word in words), message


def test_a_stream_tells_tokens_answer_branches_and_the_same_result(server):
    events, _ = server.events("/v1/uncertainty", {**ASKED, "stream": True})
    kinds = [event["type"] for event in events]
    assert kinds == sorted(kinds, key=["token", "answer", "branch", "result"].index)
    result = events[-1]["result"]
    jsonschema.validate(result, SCHEMA)
    assert "".join(e["text"] for e in events if e["type"] == "token") == result["answer"]["text"]
    answer = next(e["answer"] for e in events if e["type"] == "answer")
    assert answer.items() <= result["answer"].items()
    branches = [e["sample"] for e in events if e["type"] == "branch"]
    assert [b["text"] for b in branches] == [s["text"] for s in result["samples"][1:]]
    assert set(branches[0]) == {
        "text", "token_ids", "logprobs", "stop_reason", "ending_logprobs", "entropies", "substitution",
    }  # fmt: skip
    assert branches[0]["substitution"]["rank"] == 1


def test_tokens_arrive_while_the_answer_is_being_decoded():
    with running(Talking(pause=0.15)) as server:
        body = {**ASKED, "stream": True}
        with httpx2.stream("POST", f"{server.url}/v1/uncertainty", json=body, timeout=30) as response:
            times = [time.monotonic() for line in response.iter_lines() if '"token"' in line or '"result"' in line]
        assert times[-1] - times[0] > 0.25


def test_multinomial_streams_go_straight_to_branches(server):
    events, _ = server.events("/v1/uncertainty", {**ASKED, "stream": True, "method": "multinomial"})
    assert [event["type"] for event in events] == ["branch"] * 4 + ["result"]


def test_given_answers_can_be_streamed(server):
    body = {**ASKED, "stream": True, "answers": [{"text": "a"}], "measures": ["number_of_clusters"]}
    events, _ = server.events("/v1/uncertainty", body)
    assert [event["type"] for event in events] == ["result"]


class Failing(Talking):
    def decode(self, *_, **__):
        raise ServerFailed("the model's server is gone")


def test_an_error_in_a_stream_is_its_last_event():
    with running(Failing()) as server:
        events, _ = server.events("/v1/uncertainty", {**ASKED, "stream": True})
        assert events[-1]["type"] == "error"
        assert "is gone" in events[-1]["error"]["message"]
        events, _ = server.events("/v1/chat/completions", {**CHAT, "stream": True})
        assert "is gone" in events[-1]["error"]["message"]


def test_what_the_model_cannot_do_is_refused_before_anything_is_run(server):
    for body in ({"options": {"strategy": "beam"}}, {"method": "beam"}, {"method": "beam", "stream": True}):
        refused = server.post("/v1/uncertainty", {**ASKED, **body})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_supported")
    assert server.get("/v1/settings").json()["methods"] == ["sdlg", "multinomial", "arithmetic"]


def test_naming_the_servers_preset_keeps_the_servers_options():
    with running(stop_at="sentence") as server:
        told = server.post("/v1/uncertainty", {**ASKED, "preset": "default"}).json()
        assert told["options"]["decoding"]["stop_at"] == "sentence"


# --- OpenAI's endpoints ---


def test_the_openai_client_gets_an_answer_and_its_uncertainty(client):
    reply = client.chat.completions.create(model="scripted", messages=CHAT["messages"])
    assert reply.choices[0].message.content == "It is Paris"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    found = reply.model_extra["uncertainty"]
    direct = scripted().ask(QUESTION)
    assert found["score"] == pytest.approx(direct.score)
    assert found["measure"] == direct.score_name
    assert found["semantic_entropy"]["value"] == pytest.approx(direct.semantic_entropy)
    assert found["unit"] == "nats"
    assert [c["probability"] for c in found["clusters"]] == pytest.approx([c.probability for c in direct.clusters])
    assert found["alternatives"][0]["text"] == direct.samples[1].text
    assert found["alternatives"][0]["replacement"] == direct.samples[1].substitution.replacement
    assert 0 < found["alternatives"][0]["probability"] < 1
    assert "result" not in found


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        (False, None),
        ({"detail": "none"}, None),
        ("score", {"score", "measure", "unit", "semantic_entropy", "higher_is_less_certain", "reading", "risk"}),
        (True, {"measures", "clusters", "alternatives", "coverage", "notes"}),
        ("full", {"measures", "result"}),
        ({"detail": "full", "samples": 2, "method": "multinomial", "measures": ["number_of_clusters"]}, {"result"}),
    ],
)
def test_how_much_is_told_is_the_clients_choice(client, asked, keys):
    reply = client.chat.completions.create(
        model="scripted", messages=CHAT["messages"], extra_body={"uncertainty": asked}
    )
    found = (reply.model_extra or {}).get("uncertainty")
    assert (found is None) if keys is None else keys <= set(found)
    if found and "result" in found:
        jsonschema.validate(found["result"], SCHEMA)
    if isinstance(asked, dict) and keys:
        assert len(found["result"]["samples"]) == 2
        assert "number_of_clusters" in found["measures"]


def test_the_openai_client_streams_pieces_then_branches_then_the_estimate(client):
    stream = client.chat.completions.create(
        model="scripted", messages=CHAT["messages"], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "It is Paris"
    ends = [n for n, chunk in enumerate(chunks) if chunk.choices and chunk.choices[0].finish_reason == "stop"]
    told = [chunk.model_extra["uncertainty"] for chunk in chunks[ends[0] + 1 :]]
    assert [t.get("type") for t in told] == ["branch"] * 3 + [None]
    assert told[-1]["score"] == pytest.approx(scripted().ask(QUESTION).score)
    assert chunks[-1].usage.completion_tokens == 3
    assert len({chunk.id for chunk in chunks}) == 1


def test_streams_without_uncertainty_have_a_choice_in_every_chunk(client):
    for asked in (False, {"method": "multinomial", "detail": "none"}):
        stream = client.chat.completions.create(
            model="scripted", messages=CHAT["messages"], stream=True, extra_body={"uncertainty": asked}
        )
        assert all(chunk.choices for chunk in stream)


def test_streams_of_methods_without_an_answer_stage_begin_with_the_answer_all_the_same(client):
    stream = client.chat.completions.create(
        model="scripted", messages=CHAT["messages"], stream=True, extra_body={"uncertainty": {"method": "multinomial"}}
    )
    kinds = ["choice" if chunk.choices else "told" for chunk in stream]
    assert kinds == ["choice"] * 3 + ["told"] * 5


def test_log_probabilities_are_those_of_the_answer(client):
    reply = client.chat.completions.create(model="scripted", messages=CHAT["messages"], logprobs=True, top_logprobs=2)
    steps = reply.choices[0].logprobs.content
    answer = scripted().ask(QUESTION).answer
    assert [step.logprob for step in steps] == pytest.approx(list(answer.logprobs))
    assert "".join(step.token for step in steps) == answer.text
    assert [option.token for option in steps[0].top_logprobs] == ["It", "Paris"]
    stream = client.chat.completions.create(model="scripted", messages=CHAT["messages"], logprobs=True, stream=True)
    ends = [c.choices[0] for c in stream if c.choices and c.choices[0].finish_reason]
    assert [step.logprob for step in ends[0].logprobs.content] == pytest.approx(list(answer.logprobs))


class PieceModel(ScriptedModel):
    """Decodes as SentencePiece does: the first token of whatever is decoded loses its space."""

    def text(self, token_ids):
        return super().text(token_ids).removeprefix(" ")


def test_alternatives_are_spelled_as_they_would_stand_in_the_answer():
    pipeline = Pipeline(PieceModel(CAPITAL), FakeNli(MEANINGS), samples=2)
    asked = Completion(Ask(Question(QUESTION), pipeline, ()), "none", False, False, 2, True)
    steps = Reply(asked, "pieces").whole(pipeline.ask(QUESTION))["choices"][0]["logprobs"]["content"]
    assert [step["token"] for step in steps] == ["It", " is", " Paris"]
    for step in steps:
        assert step["top_logprobs"][0]["token"] == step["token"]
        assert step["top_logprobs"][0]["logprob"] == step["logprob"]


def test_plain_completions_send_the_prompt_as_it_is(client):
    reply = client.completions.create(model="scripted", prompt=QUESTION, logprobs=1, extra_body={"uncertainty": "full"})
    assert reply.choices[0].text == "It is Paris"
    assert reply.choices[0].logprobs.text_offset == [0, 2, 5]
    assert reply.model_extra["uncertainty"]["result"]["options"]["prompt"] == "raw"
    pieces = [
        c.choices[0].text
        for c in client.completions.create(model="scripted", prompt=QUESTION, stream=True)
        if c.choices
    ]
    assert "".join(pieces) == "It is Paris"


def options_of(client, **named):
    reply = client.chat.completions.create(
        model="scripted", messages=CHAT["messages"], extra_body={"uncertainty": "full"}, **named
    )
    return reply.model_extra["uncertainty"]["result"]["options"]


def test_answers_are_greedy_unless_a_temperature_is_given(client):
    for temperature in (openai.omit, 0):
        assert options_of(client, temperature=temperature)["decoding"]["strategy"] == "greedy"
    drawn = options_of(client, temperature=0.7, top_p=0.9, seed=-1, stop=["!", "?"], max_completion_tokens=5)
    assert drawn["decoding"]["strategy"] == "multinomial"
    assert drawn["decoding"]["temperature"] == 0.7
    assert drawn["decoding"]["top_p"] == 0.9
    assert drawn["decoding"]["stop_strings"] == ["!", "?"]
    assert drawn["decoding"]["max_tokens"] == 5
    assert drawn["seed"] == 2**63 - 1
    assert options_of(client, temperature=1e-9)["decoding"]["temperature"] == 0.01
    seeds = {options_of(client, temperature=1)["seed"] for _ in range(4)}
    assert len(seeds) > 1
    assert options_of(client)["seed"] == 0


def test_a_cut_answer_says_so(client):
    reply = client.chat.completions.create(model="scripted", messages=CHAT["messages"], max_tokens=2)
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("It is", "length")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"n": 2}, "n is not supported"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"functions": [{}]}, "functions"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "assistant"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "tool"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "no text"),
        ({"messages": [{"role": "user", "content": None}]}, "no content"),
        ({"max_tokens": 10_000}, "512"),
        ({"stop": ["a"] * 17}, "16"),
        ({"stop": ""}, "stop_strings"),
    ],
)
def test_what_openai_can_and_we_cannot_is_refused(server, changes, word):
    response = server.post("/v1/chat/completions", {**CHAT, **changes})
    assert response.status_code == 400, response.text
    assert word in error_of(response)["message"]


@pytest.mark.parametrize(
    "changes", [{"prompt": ["a", "b"]}, {"prompt": [1, 2]}, {"echo": True}, {"suffix": "x"}, {"best_of": 2}]
)
def test_what_plain_completions_cannot_do_is_refused(server, changes):
    assert server.post("/v1/completions", {"prompt": "x", **changes}).status_code == 400


def test_fields_that_openai_clients_also_send_are_passed_over(server):
    more = {
        "user": "u",
        "metadata": {},
        "store": False,
        "n": 1,
        "tools": [],
        "tool_choice": "auto",
        "service_tier": "x",
    }
    assert server.post("/v1/chat/completions", {**CHAT, **more}).status_code == 200
    response = server.post("/v1/chat/completions", {**CHAT, "uncertainty": {"colour": 1}})
    assert response.status_code == 422
    assert "colour" in error_of(response)["message"]


def test_another_model_is_not_here(client):
    with pytest.raises(openai.NotFoundError, match="scripted"):
        client.chat.completions.create(model="gpt-5", messages=CHAT["messages"])
    assert [model.id for model in client.models.list()] == ["scripted"]


def test_messages_become_instructions_shots_and_a_question():
    roles = ["system", "developer", "user", "assistant", "user"]
    question = question_of([Message(role=role, content=f"{role} {n}") for n, role in enumerate(roles)])
    assert question.system == "system 0\n\ndeveloper 1"
    assert question.shots == (("user 2", "assistant 3"),)
    assert question.text == "user 4"
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert question_of([Message(role="user", content=parts)]).text == "ab"


# --- facts ---


def test_settings_tell_what_may_be_asked(server):
    found = server.get("/v1/settings").json()
    assert found["model"] == "scripted"
    assert found["limits"] == {
        "samples": 20, "max_tokens": 512, "prompt_characters": 32768, "answers": 50, "given_work": 400_000,
    }  # fmt: skip
    assert found["defaults"] == {"method": "sdlg", "samples": 4, "max_tokens": 64, "seed": 0, "preset": "default"}
    assert found["needs_key"] is False
    assert found["calibrated"] is False
    assert "sdlg" in found["methods"]
    assert "paper" in found["presets"]


def test_metrics_count_requests_tokens_and_entropies():
    with running() as server:
        server.post("/v1/uncertainty", ASKED)
        server.post("/v1/uncertainty", {**ASKED, "samples": 500})
        server.get("/made/up/path")
        text = server.get("/metrics").text
    assert 'sdlg_requests_total{path="/v1/uncertainty",status="200"} 1.0' in text
    assert 'sdlg_requests_total{path="/v1/uncertainty",status="400"} 1.0' in text
    assert 'sdlg_requests_total{path="other",status="404"} 1.0' in text
    assert "sdlg_semantic_entropy_nats_count 1.0" in text
    assert re.search(r'sdlg_tokens_total\{kind="generated"\} [1-9]', text)
    assert "sdlg_running 0.0" in text
    assert "sdlg_waiting 0.0" in text


def test_the_documentation_needs_no_script_and_no_other_host(server):
    page = server.get("/docs")
    assert "text/html" in page.headers["content-type"]
    assert "<script" not in page.text
    assert "http" not in page.text.replace("HTTP", "")
    assert "/v1/uncertainty" in page.text
    document = server.get("/openapi.json").json()
    assert "Result" in document["components"]["schemas"]
    assert {"/v1/chat/completions", "/v1/completions", "/v1/uncertainty", "/v1/models", "/healthz", "/metrics"} <= set(
        document["paths"]
    )


def test_the_pages_files_and_nothing_else(server, monkeypatch):
    files = {"index.html": b"<p>", "view.js": b"1", "style.css": b"a{}"}
    monkeypatch.setattr("sdlg.serving.browser_files._files", lambda: files)
    page = server.get("/")
    assert page.content == b"<p>"
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert server.get("/static/view.js").headers["content-type"] == "text/javascript; charset=utf-8"
    monkeypatch.undo()
    assert b"<html" in server.get("/").content
    for name in ("../cli/__init__.py", "%2e%2e/errors.py", "nothing.js", "__init__.py"):
        assert server.get(f"/static/{name}").status_code == 404


# --- guards ---


def test_every_answer_has_the_headers_that_protect_a_browser(server):
    for response in (server.get("/healthz"), server.get("/nothing"), server.post("/v1/uncertainty", {})):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers
        assert "server" not in response.headers


def test_unknown_paths_and_methods_have_the_same_error_shape(server):
    assert error_of(server.get("/nothing"))["code"] == "not_found"
    response = server.get("/v1/uncertainty")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert error_of(response)["code"] == "method_not_allowed"
    for method in ("OPTIONS", "DELETE", "PATCH", "PUT", "TRACE"):
        response = httpx2.request(method, f"{server.url}/healthz")
        assert response.status_code == 405
        assert error_of(response)
    head = httpx2.head(f"{server.url}/healthz")
    assert (head.status_code, head.content) == (200, b"")


def test_only_json_is_read(server):
    url = f"{server.url}/v1/uncertainty"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        response = httpx2.post(url, content=json.dumps(ASKED).encode(), headers={"Content-Type": kind})
        assert response.status_code == 415
    squeezed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert httpx2.post(url, content=b"x", headers=squeezed).status_code == 415
    fine = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert httpx2.post(url, content=json.dumps(ASKED).encode(), headers=fine).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nul", b"\xff\xfe", b'{"question": "\xc3\x28"}', b'{"question": NaN}', b"[" * 100_000,
        b'{"a":' * 50_000, b'{"question": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"question": "x", "seed": ' + b"9" * 5000 + b"}",
        b'{"question": "unfinished', b'"' * 99_999, b"\\" * 99_999,
    ],
    ids=range(13),
)  # fmt: skip
def test_bodies_that_are_no_json_are_refused(server, body):
    response = httpx2.post(f"{server.url}/v1/uncertainty", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert error_of(response)


def test_brackets_in_strings_are_not_deep():
    check_json(json.dumps({"a": "[[[[" * 100 + '\\"' + "{{{{" * 100}).encode(), 4)
    with pytest.raises(Failure, match="deeper than 4"):
        check_json(b'{"a": [[[[1]]]]}', 4)
    started = time.perf_counter()
    check_json(b"[" + b"[]," * 300_000 + b"1]", 4)
    assert time.perf_counter() - started < 2


def test_large_bodies_are_refused_before_they_are_read(server):
    head = b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    for told in (b"99999999", b"9" * 30):
        received = server.raw(head + b"Content-Length: " + told + b"\r\n\r\n{")
        assert received.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), received
    chunk = b"186A0\r\n" + b" " * 100_000 + b"\r\n"
    received = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 11)
    assert received.startswith(b"HTTP/1.1 413")


def test_header_tricks_are_refused(server):
    fine = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    assert server.raw(fine + b"\r\n").startswith(b"HTTP/1.1 200")
    tricks = [
        fine + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        fine.replace(b"healthz", b"x" * 5000) + b"\r\n",
        fine + b"A b: c\r\n\r\n",
        fine + b"A: b\x00c\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: magic\r\n\r\n",
    ]
    for trick in tricks:
        status = int(server.raw(trick).split(b" ")[1])
        assert 400 <= status < 500 or status == 501, trick[:80]


def test_a_body_that_never_arrives_is_not_waited_for():
    with running(settings=Settings(client_seconds=0.3)) as server:
        head = (
            b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        assert server.raw(head).startswith(b"HTTP/1.1 408")


def test_a_request_that_never_begins_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("sdlg.serving.listening.HEAD_SECONDS", 0.3)
    with running(Talking(pause=0.1)) as server:
        for begun in (b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal"):
            with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as connection:
                connection.sendall(begun)
                try:
                    while connection.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
        assert server.post("/v1/uncertainty", ASKED).status_code == 200  # this takes longer than a head may


def test_only_those_with_the_key_are_answered():
    with running(settings=Settings(key=KEY)) as server:
        for headers in (
            {}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"Authorization": f"Basic {KEY}"},
            {"Authorization": "Bearer " + KEY[:-1]}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": "Bearer é"},
        ):  # fmt: skip
            headers = {name: value.encode() for name, value in headers.items()}
            response = server.post("/v1/uncertainty", ASKED, headers=headers)
            assert response.status_code == 401
            assert KEY not in response.text
            assert server.get("/v1/models", headers=headers).status_code == 401
            assert server.get("/metrics", headers=headers).status_code == 401
        for path in ("/healthz", "/v1/settings", "/openapi.json", "/docs"):
            assert server.get(path).status_code == 200
        assert server.get("/v1/settings").json()["needs_key"] is True
        assert server.post("/v1/uncertainty", ASKED, headers={"Authorization": f"bearer {KEY}"}).status_code == 200
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
            assert client.models.list().data[0].id == "scripted"


def test_the_key_is_not_shown():
    assert KEY not in repr(Settings(key=KEY))


def test_other_names_for_this_machine_are_not_answered():
    with running(settings=Settings(hosts=("127.0.0.1", "localhost", "[::1]"))) as server:
        for host in ("127.0.0.1:80", "localhost", "LocalHost:1234", "[::1]:8077"):
            assert server.get("/healthz", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[::1", "", "127.0.0.1:x"):
            assert server.get("/healthz", headers={"Host": host}).status_code == 421


def test_other_pages_may_read_answers_only_if_the_operator_says_so():
    page = {"Origin": "https://page.example"}
    with running(settings=Settings(origins=("https://page.example",), key=KEY)) as server:
        assert server.post("/v1/uncertainty", ASKED, headers=page).headers["access-control-allow-origin"]
        assert server.get("/healthz", headers=page).headers["access-control-allow-origin"] == page["Origin"]
        asks = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        assert httpx2.options(f"{server.url}/v1/uncertainty", headers=asks).status_code == 200
        other = server.get("/healthz", headers={"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


# --- the desk ---


def test_beyond_the_queue_one_is_told_when_to_come_back():
    model = Talking()
    with running(model, Settings(queue=2)) as server, held(server, model) as ask:
        asked = [ask() for _ in range(3)]
        wait_until(lambda: (server.admission.running, server.admission.waiting) == (1, 2))
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
        wait_until(lambda: (server.admission.running, server.admission.waiting) == (3, 2))
        for _ in range(3):
            assert model.begun.acquire(timeout=10)
        model.gate.set()
        assert [answer.result().status_code for answer in asked] == [200] * 5


def test_past_the_deadline_there_is_no_answer_and_no_work():
    model = Talking()
    with running(model, Settings(deadline=0.4)) as server, held(server, model) as ask:
        asked = [ask(), ask()]
        assert [answer.result().status_code for answer in asked] == [504, 504]
        wait_until(lambda: model.stopped >= 1)
        events, _ = server.events("/v1/uncertainty", {**ASKED, "stream": True})
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
        wait_until(lambda: (server.admission.running, server.admission.waiting) == (1, 2))
        patient = ask()
        wait_until(lambda: server.admission.waiting == 3)
        for connection in gone:
            connection.close()
        wait_until(lambda: (server.admission.running, server.admission.waiting) == (1, 0))
        model.gate.set()
        assert patient.result().status_code == 200
        assert model.stopped == 1  # the others had not begun
        wait_until(lambda: server.admission.running == 0)


def test_a_stream_has_a_heartbeat_while_it_waits():
    model = Talking()
    with running(model, Settings(heartbeat=0.05)) as server, held(server, model) as ask:
        first = ask()
        wait_until(lambda: server.admission.running == 1)
        threading.Timer(0.5, model.gate.set).start()
        events, comments = server.events("/v1/uncertainty", {**ASKED, "stream": True})
        assert events[-1]["type"] == "result"
        assert len(comments) >= 3
        assert first.result().status_code == 200


def test_a_reader_that_does_not_read_is_given_up():
    long = {"": {"x" * 20_000: 0.5, **{f"{'y' * 20_000}{n}": 0.02 for n in range(19)}}}
    with running(Talking(long), Settings(client_seconds=0.5), samples=20) as server:
        body = json.dumps({**ASKED, "stream": True}).encode()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with closing(connection):
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(posted(body))
            wait_until(lambda: server.admission.running == 1 or "status=" in server.get("/metrics").text)
            wait_until(lambda: server.admission.running == 0)
        assert server.post("/v1/uncertainty", {**ASKED, "samples": 2}).status_code == 200


def test_a_feed_keeps_the_newest_text_and_is_bounded():
    async def run():
        feed = Feed(3)
        for text in ("a", "ab", "abc"):
            feed.tell(Progress("answer", text))
        feed.tell(Progress("branches", "counting"))
        await asyncio.sleep(0)
        assert [p.text for p in await feed.next(1)] == ["abc"]
        assert await feed.next(0.01) == []
        for _ in range(4):
            feed.tell(Progress("branches", "", Generation("", (), (), "eos")))
        await asyncio.sleep(0)
        assert feed.too_slow
        feed.end()  # while a slow client is still being sent to
        assert not feed.over
        assert len(await feed.next(1)) == 4
        assert feed.over

    asyncio.run(run())


def test_retry_after_follows_how_long_things_take():
    async def run():
        admission = Admission(1, 4, 60.0)
        with admission.enter() as slot:
            await admission.run(slot, lambda: time.sleep(0.01))
        assert admission.retry_after() == 1
        admission._seconds.extend([10.0] * 40)
        tickets = [admission.enter() for _ in range(5)]
        assert admission.retry_after() == 20
        with pytest.raises(Failure) as refused:
            admission.enter()
        assert refused.value.headers == {"Retry-After": "20"}
        assert [admission.before(slot) for slot in tickets] == [0, 0, 1, 2, 3]
        for slot in tickets:
            admission.leave(slot)
            admission.leave(slot)
        assert (admission.running, admission.waiting) == (0, 0)
        await admission.idle()
        admission.close()

    asyncio.run(run())


def test_our_own_bugs_are_told_without_their_details(caplog):
    class Broken(Talking):
        def decode(self, *_, **__):
            raise ZeroDivisionError("a secret")

    with running(Broken()) as server:
        response = server.post("/v1/uncertainty", ASKED)
        assert response.status_code == 500
        assert "secret" not in response.text
        assert error_of(response)["code"] == "internal_error"
        assert "content-security-policy" in response.headers
        events, _ = server.events("/v1/uncertainty", {**ASKED, "stream": True})
        assert "secret" not in json.dumps(events)
        assert 'status="500"} 1.0' in server.get("/metrics").text
    assert "a secret" in caplog.text


# --- deltas ---


@pytest.mark.parametrize(
    ("steps", "final", "stops"),
    [
        (["It", "It is", "It is Paris"], "It is Paris", ()),
        ([" It", " It is ", " It is \n"], "It is", ()),
        (["caf\ufffd", "café", "café \ufffd", "café 👍"], "café 👍", ()),
        (["a", "a S", "a ST", "a STO", "a STOP"], "a", ("STOP",)),
        (["a", "a S", "a Sun"], "a Sun", ("STOP",)),
        (["a", "a: b"], "a", (":",)),
        (["a", "a Q", "a Q:"], "a", ()),
        (["a", "a\n", "a\nb"], "a\nb", ()),
        ([], "", ()),
        (["a\ufffd"], "a\ufffd", ()),
    ],
)
def test_pieces_join_to_the_answer(steps, final, stops):
    deltas = Deltas(stops)
    assert "".join([*map(deltas.grow, steps), deltas.finish(final)]) == final


# --- the command ---


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.delenv("SDLG_SERVER_KEY", raising=False)

    def run(*arguments):
        code = main(["serve", *arguments])
        return code, *capsys.readouterr()

    return run


def test_other_machines_need_a_key_or_a_flag(run, monkeypatch):
    opened = []
    monkeypatch.setattr(
        "sdlg.serving.listening.open_socket",
        lambda *a: opened.append(a) or (_ for _ in ()).throw(BadOption("far enough")),
    )
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        code, _, said = run("--host", host)
        assert code == 2
        assert "SDLG_SERVER_KEY" in said
    assert not opened
    assert "far enough" in run("--host", "0.0.0.0", "--allow-anyone")[2]
    monkeypatch.setenv("SDLG_SERVER_KEY", KEY)
    code, out, said = run("--host", "0.0.0.0")
    assert "far enough" in said
    assert KEY not in out + said


def test_a_port_that_is_taken_is_told_before_models_are_loaded(run):
    with closing(open_socket("127.0.0.1", 0)) as taken:
        taken.listen()
        code, _, said = run("--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "--port" in said
    assert "loading" not in said
    assert run("--port", "70000")[0] == 2
    assert run("--host", "127.0.0.1", "--queue", "-1")[0] == 2
    assert run("--deadline", "0")[0] == 2


def test_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "")))


SERVING = """
import sys, time
sys.path.insert(0, {tests!r})
import sdlg.pipeline
from fakes import CAPITAL, MEANINGS, FakeNli
from test_serving import Talking
sdlg.pipeline.load_model = lambda name, **_: Talking(CAPITAL, name=name, pause=0.2)
sdlg.pipeline.load_nli = lambda name, **_: FakeNli(MEANINGS, name=name)
from sdlg.cli import main
sys.exit(main(["serve", "--port", "0", "--grace", "30"]))
"""


@contextmanager
def command():
    """`sdlg serve` as a process of its own: (process, address)."""
    code = SERVING.format(tests=str(Path(__file__).parent))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, re.search(r"http://\S+", process.stdout.readline())[0]
    finally:
        process.kill()
        process.communicate()


def ask_at(address):
    return httpx2.post(f"{address}/v1/uncertainty", json=ASKED, timeout=30).status_code


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_finishes_what_runs_and_refuses_what_waits(sign):
    with command() as (process, address), ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask_at, address) for _ in range(3)]
        wait_until(lambda: "sdlg_waiting 2.0" in httpx2.get(f"{address}/metrics").text)
        process.send_signal(sign)
        wait_until(lambda: httpx2.get(f"{address}/healthz").status_code == 503)
        assert ask_at(address) == 503
        assert sorted(answer.result() for answer in asked) == [200, 503, 503]
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()


def test_the_second_signal_stops_at_once():
    with command() as (process, address), ThreadPoolExecutor(3) as pool:
        asked = pool.submit(ask_at, address)
        wait_until(lambda: "sdlg_running 1.0" in httpx2.get(f"{address}/metrics").text)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: httpx2.get(f"{address}/healthz").status_code == 503)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert asked.exception() is not None or asked.result() >= 500
        assert "Traceback" not in process.stderr.read()


def test_an_idle_server_ends_at_the_first_signal():
    with command() as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_limits_widen_to_what_the_server_does_by_default():
    with running(settings=Settings(limits=Limits(samples=2)), samples=4, max_tokens=600) as server:
        assert server.get("/v1/settings").json()["limits"]["samples"] == 5  # the default beams
        assert server.get("/v1/settings").json()["limits"]["max_tokens"] == 600
        assert server.post("/v1/uncertainty", ASKED).status_code == 200


def test_numbers_that_are_none_become_null():
    class Silent(FakeNli):
        pass

    assert (
        encoded({"a": float("nan"), "b": [float("-inf"), 1.5], "c": "\ud800é"})
        == '{"a": null, "b": [null, 1.5], "c": "?é"}'.encode()
    )


# --- the documentation ---

DOCUMENT = Path(__file__).parents[1] / "docs" / "serving.md"
TEXTS = "\n".join(file.read_text(encoding="utf-8") for file in (DOCUMENT, DOCUMENT.parents[1] / "README.md"))
EXAMPLES = [
    example
    for example in re.findall(r"^```(bash|python)\n(.*?)^```", TEXTS, re.DOTALL | re.MULTILINE)
    if "http://127.0.0.1:8077" in example[1]
]


@pytest.fixture(scope="module")
def documented():
    with running(Talking(name="smollm2")) as server:
        yield server


@pytest.mark.parametrize(("language", "code"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_of_the_documentation_work_as_typed(documented, language, code):
    if language == "bash" and shutil.which("curl") is None:
        pytest.skip("needs curl")
    typed = code.replace("http://127.0.0.1:8077", documented.url)
    command = ["bash", "-ec", typed] if language == "bash" else [sys.executable, "-c", typed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert '"error"' not in done.stdout


def test_both_texts_have_examples():
    assert {language for language, _ in EXAMPLES} == {"bash", "python"}
    assert len(EXAMPLES) >= 9


def test_the_documentation_names_every_metric_and_limit(server):
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in re.findall(r"^# TYPE (\w+) ", server.get("/metrics").text, re.MULTILINE):
        assert name.removesuffix("_created") in text
    for value in ("512", "32,768", "400,000", "1 MB", "16 KB"):
        assert value in text
