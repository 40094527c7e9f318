"""The server's endpoints, with scripted models on a real socket: our own, OpenAI's (by its own client), and facts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time

import httpx2
import jsonschema
import openai
import pytest

from documented import DOCUMENTS, ROOT, SERVER, blocks_of
from fakes import CAPITAL
from sdlg import ScriptedModel
from sdlg.errors import ServerFailed
from sdlg.options import DEFAULT_MODEL
from sdlg.records import Question
from sdlg.schema import result_schema
from sdlg.serving.asked import asked_question
from sdlg.serving.completions import Completion
from sdlg.serving.events import Deltas
from sdlg.serving.replies import Reply
from sdlg.serving.settings import LIMITS, Settings
from web_server import ASKED, CHAT, QUESTION, Talking, error_of, no_proxies, running, scripted  # noqa: F401

SCHEMA = result_schema()


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


# -- our own endpoint ---------------------------------------------------------------------------------------------


def test_a_question_gets_the_full_result(server):
    response = server.post("/v1/uncertainty", {**ASKED, "samples": 3, "seed": 7, "context": "A story."})
    assert response.status_code == 200
    found = response.json()
    jsonschema.validate(found, SCHEMA)
    direct = json.loads(scripted(samples=3, seed=7).ask(QUESTION, context="A story.").to_json())
    assert {**found, "cost": None} == {**direct, "cost": None}


def test_other_options_are_given_by_name(server):
    body = {**ASKED, "method": "multinomial", "options": {"linkage": "components", "stop_strings": ["!"]}}
    found = server.post("/v1/uncertainty", body).json()
    assert found["method"] == "multinomial"
    assert found["options"]["linkage"] == "components"
    assert found["options"]["stop_strings"] == ["!"]
    found = server.post("/v1/uncertainty", {**ASKED, "options": {"stop_strings": "!"}}).json()
    assert found["options"]["stop_strings"] == ["!"]


def test_a_conversation_may_stand_in_place_of_the_question(server):
    roles = ["system", "user", "assistant", "user"]
    body = {"messages": [{"role": role, "content": f"{role} {n}"} for n, role in enumerate(roles)]}
    asked = server.post("/v1/uncertainty", body).json()["question"]
    assert (asked["system"], asked["shots"], asked["text"]) == ("system 0", [["user 1", "assistant 2"]], "user 3")
    assert server.post("/v1/uncertainty", {**body, **ASKED}).status_code == 400


def test_further_measures_are_among_the_estimates(server):
    found = server.post("/v1/uncertainty", {**ASKED, "measures": ["number_of_clusters"]}).json()
    clusters = [cluster for cluster in found["clusters"] if cluster["members"]]  # others are of draws alone
    assert found["estimates"]["number_of_clusters"]["value"] == len(clusters)


def test_given_answers_get_the_result_of_score(server):
    names = ["number_of_clusters", "SE_MS"]
    for answers in (
        ["It is Paris", "Lyon", "Paris"],
        ["Paris", {"text": "Lyon", "logprobs": [-1], "cluster": 1}],
        [
            {"text": "Paris", "logprobs": [-0.1, -0.2], "cluster": "a"},
            {"text": "Lyon", "logprobs": [-1], "cluster": "b"},
        ],
    ):
        found = server.post("/v1/uncertainty", {**ASKED, "answers": answers, "measures": names}).json()
        jsonschema.validate(found, SCHEMA)
        direct = json.loads(scripted(measures=names).score(QUESTION, answers).to_json())
        assert {**found, "cost": None} == {**direct, "cost": None}


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"qestion": "x", "colour": 1}, 422, ["qestion", "colour"]),
        ({"question": 5}, 422, ["question"]),
        ({"samples": "many"}, 422, ["samples"]),
        ({"samples": True}, 422, ["samples"]),
        ({"question": None}, 400, ["question"]),
        ({"question": "  "}, 400, ["empty"]),
        ({"question": "\ud800"}, 422, ["question"]),
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
        ({"options": {"samples": [[3]]}}, 422, ["samples"]),
        ({"options": {"stop_strings": 5}}, 400, ["stop_strings"]),
        ({"options": {"stop_strings": ["\ud800"]}}, 422, ["stop_strings"]),
        ({"options": {"stop_strings": ["x"] * 17}}, 400, ["16"]),
        ({"options": {"min_probability": 0}}, 400, ["min_probability"]),
        ({"options": {"beams": 90}}, 400, ["beams"]),
        ({"answers": []}, 422, ["answers"]),
        ({"answers": [{}]}, 422, ["text"]),
        ({"answers": ["a"] * 51}, 400, ["50"]),
        ({"answers": ["a"], "samples": 3}, 400, ["samples"]),
        ({"answers": [{"text": "a", "logprobs": [5]}]}, 422, ["logprobs"]),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(server, changes, status, words):
    body = json.dumps({**ASKED, **changes}).encode()
    response = httpx2.post(f"{server.url}/v1/uncertainty", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status, response.text
    message = error_of(response)["message"]
    assert all(word in message for word in words), message


def test_a_stream_sends_tokens_answer_branches_and_the_same_result(server):
    events, _ = server.events("/v1/uncertainty", ASKED)
    kinds = [event["type"] for event in events]
    assert kinds == sorted(kinds, key=["token", "answer", "branch", "result"].index)
    result = events[-1]["result"]
    jsonschema.validate(result, SCHEMA)
    assert "".join(e["text"] for e in events if e["type"] == "token") == result["answer"]
    answer = next(e["answer"] for e in events if e["type"] == "answer")
    assert answer == result["samples"][0]["generation"]
    branches = [e["sample"] for e in events if e["type"] == "branch"]
    assert branches == [{**s["generation"], "substitution": s["substitution"]} for s in result["samples"][1:]]
    assert branches[0]["substitution"]["rank"] == 1


def test_tokens_arrive_while_the_answer_is_being_decoded():
    with running(Talking(pause=0.15)) as server:
        body = {**ASKED, "stream": True}
        with httpx2.stream("POST", f"{server.url}/v1/uncertainty", json=body, timeout=30) as response:
            times = [time.monotonic() for line in response.iter_lines() if '"token"' in line or '"result"' in line]
        assert times[-1] - times[0] > 0.25


def test_multinomial_streams_go_straight_to_branches(server):
    events, _ = server.events("/v1/uncertainty", {**ASKED, "method": "multinomial"})
    assert [event["type"] for event in events] == ["branch"] * 4 + ["result"]


def test_given_answers_can_be_streamed(server):
    events, _ = server.events("/v1/uncertainty", {**ASKED, "answers": ["a"]})
    assert [event["type"] for event in events] == ["result"]


def test_an_error_in_a_stream_is_its_last_event():
    class Failing(Talking):
        def decode(self, *_, **__):
            raise ServerFailed("the model's server is gone")

    with running(Failing()) as server:
        events, _ = server.events("/v1/uncertainty", ASKED)
        assert events[-1]["type"] == "error"
        assert "is gone" in events[-1]["error"]["message"]
        events, _ = server.events("/v1/chat/completions", CHAT)
        assert "is gone" in events[-1]["error"]["message"]
        assert server.post("/v1/uncertainty", ASKED).status_code == 502


def test_what_the_model_cannot_do_is_refused_before_anything_is_run(server):
    for body in ({"options": {"strategy": "beam"}}, {"method": "beam"}, {"method": "beam", "stream": True}):
        refused = server.post("/v1/uncertainty", {**ASKED, **body})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_supported")
    assert server.get("/v1/settings").json()["methods"] == ["sdlg", "multinomial", "arithmetic"]


def test_naming_the_servers_preset_keeps_the_servers_options():
    with running(stop_at="sentence") as server:
        found = server.post("/v1/uncertainty", {**ASKED, "preset": "default"}).json()
        assert found["options"]["stop_at"] == "sentence"


def test_our_own_bugs_are_reported_without_their_details(caplog):
    class Broken(Talking):
        def decode(self, *_, **__):
            raise ZeroDivisionError("a secret")

    with running(Broken()) as server:
        response = server.post("/v1/uncertainty", ASKED)
        assert response.status_code == 500
        assert "secret" not in response.text
        assert error_of(response)["code"] == "internal_error"
        assert "content-security-policy" in response.headers
        events, _ = server.events("/v1/uncertainty", ASKED)
        assert "secret" not in json.dumps(events)
        assert 'status="500"} 1.0' in server.get("/metrics").text
    assert "a secret" in caplog.text


# -- OpenAI's endpoints -------------------------------------------------------------------------------------------


def test_the_openai_client_gets_an_answer_and_its_uncertainty(client):
    reply = client.chat.completions.create(model="scripted", messages=CHAT["messages"])
    assert reply.choices[0].message.content == "It is Paris"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    found, direct = reply.model_extra["uncertainty"], scripted().ask(QUESTION)
    assert found["semantic_entropy"] == direct.semantic_entropy
    entropy = direct.share_entropy
    assert found["share_entropy"] == {"value": entropy.value, "low": entropy.low, "high": entropy.high}
    shown = [(c["text"], c["share"], c["low"], c["high"]) for c in found["clusters"]]
    assert shown == [(c.text, c.share, c.low, c.high) for c in direct.clusters]
    assert found["alternatives"][0]["text"] == direct.samples[1].text
    assert found["alternatives"][0]["replacement"] == direct.samples[1].substitution.replacement
    assert 0 < found["alternatives"][0]["probability"] < 1
    assert "result" not in found


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        (False, None),
        ({"detail": "none"}, None),
        ("headline", {"semantic_entropy", "share_entropy", "reading", "risk"}),
        (True, {"measures", "clusters", "alternatives", "coverage", "notes", "unavailable"}),
        ("full", {"measures", "result"}),
        ({"detail": "full", "samples": 2, "method": "multinomial", "measures": ["number_of_clusters"]}, {"result"}),
    ],
)
def test_how_much_is_said_is_the_clients_choice(client, asked, keys):
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


def test_without_draws_there_is_no_share_entropy(server):
    wanted = {"detail": "headline", "options": {"draws": 0}}
    found = server.post("/v1/chat/completions", {**CHAT, "uncertainty": wanted}).json()["uncertainty"]
    assert found["share_entropy"] is None
    assert found["semantic_entropy"] == scripted(draws=0).ask(QUESTION).semantic_entropy


def test_the_openai_client_streams_pieces_then_branches_then_the_estimate(client):
    stream = client.chat.completions.create(
        model="scripted", messages=CHAT["messages"], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "It is Paris"
    ends = [n for n, chunk in enumerate(chunks) if chunk.choices and chunk.choices[0].finish_reason == "stop"]
    after = [chunk.model_extra["uncertainty"] for chunk in chunks[ends[0] + 1 :]]
    assert [one.get("type") for one in after] == ["branch"] * 3 + [None]
    assert after[-1]["semantic_entropy"] == scripted().ask(QUESTION).semantic_entropy
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
    kinds = ["choice" if chunk.choices else "other" for chunk in stream]
    assert kinds == ["choice"] * 3 + ["other"] * 5


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
    pipeline = scripted(PieceModel(CAPITAL), samples=2)
    asked = asked_question(pipeline, Settings(), Question(QUESTION), options={})
    completion = Completion(asked, "none", False, False, logprobs=2, is_chat=True)
    steps = Reply(completion, "pieces").whole(pipeline.ask(QUESTION))["choices"][0]["logprobs"]["content"]
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
        assert options_of(client, temperature=temperature)["strategy"] == "greedy"
    drawn = options_of(client, temperature=0.7, top_p=0.9, seed=-1, stop=["!", "?"], max_completion_tokens=5)
    assert drawn["strategy"] == "multinomial"
    assert drawn["temperature"] == 0.7
    assert drawn["top_p"] == 0.9
    assert drawn["stop_strings"] == ["!", "?"]
    assert drawn["max_tokens"] == 5
    assert drawn["seed"] == 2**63 - 1
    assert options_of(client, temperature=1e-9)["temperature"] == 0.01
    seeds = {options_of(client, temperature=1)["seed"] for _ in range(4)}
    assert len(seeds) > 1
    assert options_of(client)["seed"] == 0


def test_a_cut_answer_says_so(client):
    reply = client.chat.completions.create(model="scripted", messages=CHAT["messages"], max_tokens=2)
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("It is", "length")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"n": 2}, "n:"),
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
        ({"messages": [{"role": "\ud800", "content": "a"}]}, "messages"),
        ({"max_tokens": 10_000}, "512"),
        ({"stop": ["a"] * 17}, "16"),
        ({"stop": ""}, "stop_strings"),
    ],
)
def test_what_openai_can_and_we_cannot_is_refused(server, changes, word):
    body, headers = json.dumps({**CHAT, **changes}).encode(), {"Content-Type": "application/json"}
    response = httpx2.post(f"{server.url}/v1/chat/completions", content=body, headers=headers)
    assert response.status_code in (400, 422), response.text
    assert word in error_of(response)["message"]


@pytest.mark.parametrize(
    "changes", [{"prompt": ["a", "b"]}, {"prompt": [1, 2]}, {"echo": True}, {"suffix": "x"}, {"best_of": 2}]
)
def test_what_plain_completions_cannot_do_is_refused(server, changes):
    assert server.post("/v1/completions", {"prompt": "x", **changes}).status_code == 422


def test_fields_that_openai_clients_also_send_are_passed_over(server):
    more = {
        "user": "u", "metadata": {}, "store": False, "n": 1, "tools": [], "tool_choice": "auto", "service_tier": "x",
        "presence_penalty": 0.0, "frequency_penalty": 0, "logit_bias": {}, "response_format": {"type": "text"},
        "modalities": ["text"],
    }  # fmt: skip
    assert server.post("/v1/chat/completions", {**CHAT, **more}).status_code == 200
    response = server.post("/v1/chat/completions", {**CHAT, "uncertainty": {"colour": 1}})
    assert response.status_code == 422
    assert "colour" in error_of(response)["message"]


def test_another_model_is_not_here(client):
    with pytest.raises(openai.NotFoundError, match="scripted"):
        client.chat.completions.create(model="gpt-5", messages=CHAT["messages"])
    assert [model.id for model in client.models.list()] == ["scripted"]


# -- facts --------------------------------------------------------------------------------------------------------


def test_settings_say_what_may_be_asked(server):
    found = server.get("/v1/settings").json()
    assert (found["model"], found["nli"]) == ("scripted", "fake-nli")
    assert found["limits"] == {name: LIMITS[name] for name in found["limits"]}
    assert found["defaults"] == {"method": "sdlg", "samples": 4, "max_tokens": 64, "seed": 0, "preset": "default"}
    assert (found["needs_key"], found["calibrated"]) == (False, False)
    assert "paper" in found["presets"]


def test_limits_widen_to_what_the_server_does_by_default():
    with running(settings=Settings(samples=2), samples=4, max_tokens=600) as server:
        limits = server.get("/v1/settings").json()["limits"]
        assert (limits["samples"], limits["max_tokens"]) == (5, 600)  # 5: the default of beams
        assert server.post("/v1/uncertainty", ASKED).status_code == 200


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


def test_the_openapi_document_has_the_results_schema(server):
    document = server.get("/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/completions", "/v1/uncertainty", "/v1/models", "/healthz", "/metrics"} <= set(
        document["paths"]
    )
    schemas = document["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert "Result" in references
    assert references <= set(schemas)
    assert "#/$defs" not in json.dumps(document)


def test_the_page_and_its_files(server):
    page = server.get("/")
    assert b"<html" in page.content
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in re.findall(r"static/([\w.]+)", page.text):
        assert server.get(f"/static/{name}").status_code == 200
    assert server.get("/static/app.js").headers["content-type"] == "text/javascript; charset=utf-8"
    for name in ("../errors.py", "%2e%2e/errors.py", "nothing.js"):
        assert server.get(f"/static/{name}").status_code == 404


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


# -- pieces of the answer ----------------------------------------------------------------------------------------


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


# -- the documentation ---------------------------------------------------------------------------------------------

REFERENCE = ROOT / "docs" / "reference" / "server.md"
EXAMPLES = [
    (block.language, block.code)
    for path in DOCUMENTS
    for block in blocks_of(path)
    if block.asks_the_server and block.needs is None
]


@pytest.fixture(scope="module")
def documented():
    with running(Talking(name=DEFAULT_MODEL)) as server:
        yield server


@pytest.mark.parametrize(("language", "code"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_of_the_documentation_work_as_typed(documented, language, code):
    if language == "bash" and shutil.which("curl") is None:
        pytest.skip("needs curl")
    typed = code.replace(SERVER, documented.url)
    command = ["bash", "-ec", typed] if language == "bash" else [sys.executable, "-c", typed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert '"error"' not in done.stdout


def test_the_documentation_has_examples_metrics_and_limits(server):
    assert {language for language, _ in EXAMPLES} == {"bash", "python"}
    text = REFERENCE.read_text(encoding="utf-8")
    for name in re.findall(r"^# TYPE (\w+) ", server.get("/metrics").text, re.MULTILINE):
        assert name.removesuffix("_created") in text
    for name, value in LIMITS.items():
        assert f"`{name}`" in text
        assert f"{value:,}" in text or f"{value:g}" in text


# -- long answers -------------------------------------------------------------------------------------------------

LONG = {
    "": {"It": 1.0},
    "It": {" is": 1.0},
    "It is": {" Paris": 0.6, " Lyon": 0.4},
    "It is Paris": {".": 1.0},
    "It is Lyon": {".": 1.0},
    "It is Paris.": {" Few": 1.0},
    "It is Lyon.": {" Few": 1.0},
    "It is Paris. Few": {" doubt": 0.5, " know": 0.5},
    "It is Paris. Few doubt": {" it": 1.0},
    "It is Paris. Few know": {" it": 1.0},
    "It is Paris. Few doubt it": {".": 1.0},
    "It is Paris. Few know it": {".": 1.0},
}


@pytest.fixture(scope="module")
def long_server():
    with running(Talking(LONG)) as server:
        yield server


def test_a_long_answer_comes_sentence_by_sentence_to_openais_client(long_server):
    with openai.OpenAI(base_url=f"{long_server.url}/v1", api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(model="scripted", extra_body={"uncertainty": "sentences"}, **CHAT)
        told = reply.uncertainty
        assert [one["text"] for one in told["sentences"]] == ["It is Paris.", "Few doubt it."]
        assert told["sentences"][0]["clusters"][0]["share"] == pytest.approx(0.6, abs=0.25)
        assert told["semantic_entropy"] >= told["mean_sentence_entropy"]
        chunks = client.chat.completions.create(
            model="scripted", stream=True, extra_body={"uncertainty": "sentences"}, **CHAT
        )
        said = [chunk.uncertainty for chunk in chunks if getattr(chunk, "uncertainty", None)]
    sentences = [one for one in said if one.get("type") == "sentence"]
    assert [one["text"] for one in sentences] == ["It is Paris.", "Few doubt it."]
    assert said.index(sentences[-1]) < len(said) - 1  # the whole comes after its parts
    assert said[-1]["sentences"] == told["sentences"]


def test_our_stream_has_an_event_for_each_sentence(long_server):
    events, _ = long_server.events("/v1/uncertainty", ASKED)
    kinds = [event["type"] for event in events]
    assert kinds.count("sentence") == 2
    assert kinds[-1] == "result"
    result = events[-1]["result"]
    jsonschema.validate(result, SCHEMA)
    assert [one["text"] for one in result["sentences"]] == ["It is Paris.", "Few doubt it."]


def test_no_sentence_is_measured_where_nothing_is_wanted(long_server):
    reply = long_server.post("/v1/chat/completions", {**CHAT, "uncertainty": False}).json()
    assert "uncertainty" not in reply
    assert reply["choices"][0]["message"]["content"] == "It is Paris. Few doubt it."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"answer": "Paris."}, ["cannot read given texts"]),
        ({"answer": "  "}, ["empty"]),
        ({"answer": "Paris.", "method": "multinomial"}, ["leave out"]),
        ({"answer": "x" * 40_000}, ["32768"]),
        ({"answer": "Paris.", "answers": ["Lyon"]}, ["leave out answer"]),
        ({"options": {"most_sentences": 1000}}, ["most_sentences", "40"]),
    ],
)
def test_a_text_that_cannot_be_checked_is_refused(long_server, changes, words):
    response = long_server.post("/v1/uncertainty", {**ASKED, **changes})
    assert response.status_code in (400, 422)
    for word in words:
        assert word in error_of(response)["message"]
