"""What a server can do is found out by asking it, and said by `sdlg models check`."""

from __future__ import annotations

import json
import math

import pytest

from fake_server import (
    VERSION,
    Answer,
    Change,
    Twin,
)
from fakes import CAPITAL
from sdlg.cli import main
from sdlg.errors import (
    BadOption,
    ModelNotFound,
    SdlgError,
    ServerFailed,
    UnknownName,
)
from sdlg.models.server.capabilities import ServerCapabilities
from sdlg.models.server.served import connect
from served import PATIENCE, QUESTION, comparable, pipeline

pytestmark = pytest.mark.usefixtures("plain_environment")


VLLM_FIELDS = {
    "return_token_ids": True, "return_tokens_as_token_ids": True,
    "add_special_tokens": False, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
LLAMA_FIELDS = {"samplers": ["temperature", "top_p"], "cache_prompt": True}


@pytest.mark.parametrize(
    ("dialect", "traits", "wanted"),
    [
        ("vllm", {"most": 20, "root": "tokenizer"}, {
            "kind": "vllm", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": True,
            "top_logprobs": 20, "raw_logprobs": True, "context_tokens": 4096, "tokenizer": "tokenizer",
        }),
        ("llama", {}, {
            "kind": "llama.cpp", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": True,
            "top_logprobs": 100, "raw_logprobs": True, "context_tokens": 4096, "slots": 3, "has_template": True,
            "ending": "<|im_end|>",
        }),
        ("llama", {"template": False, "most": 0}, {
            "kind": "llama.cpp", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": False,
            "top_logprobs": 0, "raw_logprobs": None, "context_tokens": 4096, "slots": 3, "ending": "<|im_end|>",
        }),
        ("llama", {"raw": False}, {
            "kind": "llama.cpp", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": True,
            "top_logprobs": 100, "raw_logprobs": False, "context_tokens": 4096, "slots": 3, "has_template": True,
            "ending": "<|im_end|>",
        }),
        ("legacy", {"most": 5}, {
            "kind": "other", "version": "", "endpoint": "completions", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 5, "raw_logprobs": True, "context_tokens": None,
        }),
        ("legacy", {"most": 0}, {
            "kind": "other", "version": "", "endpoint": "completions", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 0, "raw_logprobs": None, "context_tokens": None,
        }),
        ("chat", {"most": 0}, {
            "kind": "other", "version": "", "endpoint": "chat", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 0, "raw_logprobs": None, "context_tokens": None, "has_template": True,
        }),
        ("chat", {"most": 5}, {
            "kind": "other", "version": "", "endpoint": "chat", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 5, "raw_logprobs": True, "context_tokens": None, "has_template": True,
        }),
    ],
)  # fmt: skip
def test_facts_are_what_the_server_can_do(connected, tokenizer, dialect, traits, wanted):
    traits, wanted = ({**found, **_in_place(found, tokenizer)} for found in (traits, wanted))
    _, model = connected(dialect, **traits)
    fields = {"vllm": VLLM_FIELDS, "llama.cpp": LLAMA_FIELDS}.get(wanted["kind"], {}) if wanted["tells_ids"] else {}
    assert model.server == ServerCapabilities(model="tiny", prefix_cache=None, request_fields=fields, **wanted)


def _in_place(found, tokenizer):
    return {name: tokenizer for name in ("root", "tokenizer") if name in found}


@pytest.mark.parametrize("caches", [True, False, None])
def test_a_prefix_cache_is_seen_where_the_server_tells_of_it(connected, caches):
    assert connected(caches=caches)[1].server.prefix_cache is caches


def test_a_server_that_tells_fewer_than_it_is_asked_for_is_seen_through(connected):
    _, model = connected(most=3, clamps=True)
    assert model.server.top_logprobs == 3


@pytest.mark.parametrize("reply", [b'{"choices": 3}', b'{"choices": [3]}', b'{"choices": []}'])
def test_a_probe_that_is_answered_with_nonsense_is_told(serve, reply):
    server = serve()
    server.inject(Answer(200, reply), when=lambda seen: "prompt" in seen.body)
    with pytest.raises(SdlgError, match="sends a"):
        connect(server.url, retry_seconds=0.5)


def test_of_several_models_one_must_be_named(serve):
    server = serve(models=("tiny", "large"))
    with pytest.raises(UnknownName, match=r"choose one: .*#tiny, .*#large"):
        connect(server.url, retry_seconds=PATIENCE)
    with pytest.raises(UnknownName, match="no model 'huge'; choose from: tiny, large"):
        connect(f"{server.url}#huge", retry_seconds=PATIENCE)
    model = connect(f"{server.url}#large", retry_seconds=PATIENCE)
    assert (model.server.model, model.name) == ("large", f"{server.url}#large")
    assert {seen.body["model"] for seen in server.generations} == {"large"}
    model.close()


def test_a_wrong_name_is_refused_by_a_server_with_one_model(serve):
    with pytest.raises(UnknownName, match="no model 'huge'; choose from: tiny"):
        connect(f"{serve().url}#huge", retry_seconds=PATIENCE)


@pytest.mark.parametrize("dialect", ["legacy", "chat"])
def test_without_a_list_of_models_a_name_is_enough(connected, dialect):
    _, model = connected(dialect, lists_models=False, name="#tiny", most=5)
    assert model.server.model == "tiny"


def test_without_a_list_and_without_a_name_the_error_says_to_name_one(serve):
    with pytest.raises(ServerFailed, match="#name"):
        connect(serve(lists_models=False).url, retry_seconds=PATIENCE)
    with pytest.raises(ServerFailed, match="#name"):
        connect(serve(models=()).url, retry_seconds=PATIENCE)


@pytest.mark.parametrize("aliases", [["small"], None], ids=["some", "null"])
def test_a_models_alias_names_it(serve, aliases):
    server = serve()

    def named(parts):
        parts[0]["data"][0]["aliases"] = aliases
        return parts

    server.inject(Change(named), when=lambda seen: seen.path == "/v1/models")
    model = connect(f"{server.url}#{'small' if aliases else 'tiny'}", retry_seconds=PATIENCE)
    assert model.server.model == "tiny"
    model.close()


def test_a_tokenizer_that_cannot_be_loaded_says_how_to_name_one(serve):
    with pytest.raises(ModelNotFound, match="tokenizer=NAME"):
        connect(serve("vllm").url, retry_seconds=PATIENCE)


@pytest.mark.parametrize(("retry_seconds", "fine"), [(0.0, False), (-1.0, False), (math.nan, False), (5.0, True)])
def test_retry_seconds_is_more_than_nothing(serve, retry_seconds, fine):
    if fine:
        connect(serve().url, retry_seconds=retry_seconds).close()
    else:
        with pytest.raises(BadOption, match="retry_seconds"):
            connect(serve().url, retry_seconds=retry_seconds)


def test_the_command_says_what_a_server_can_do(serve, capsys):
    assert main(["models", "check", serve().url]) == 0
    shown = capsys.readouterr().out
    for part in ("#tiny", "llama.cpp 1.2.3", "100 a step", "4096 tokens", "slots", "--method sdlg", "works"):
        assert part in shown
    assert main(["models", "check", serve("chat", most=0).url]) == 0
    shown = capsys.readouterr().out
    assert "/v1/chat/completions" in shown
    assert "cannot go on from the beginning of an answer" in shown
    assert "note: the server tells no log-probabilities" in shown
    assert main(["models", "check", serve(raw=False).url]) == 0
    assert "--logprobs-mode raw_logprobs" in capsys.readouterr().out


def test_the_command_speaks_json(serve, capsys):
    assert main(["models", "check", serve("legacy", most=5).url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["top_logprobs"], found["exact"], found["methods"]["multinomial"]) == (5, False, "")
    assert "cannot go on from the beginning of an answer" in found["methods"]["sdlg"]
    assert "cannot decode by beam" in found["methods"]["beam"]


def test_the_command_says_what_is_wrong(serve, capsys):
    server = serve(models=("tiny", "large"))
    assert main(["models", "check", server.url, "--retry-seconds", "1"]) == 2
    assert capsys.readouterr().err.startswith("sdlg: http://127.0.0.1")
    server.kill()
    assert main(["models", "check", server.url, "--retry-seconds", "0.3"]) == 1
    assert "cannot reach" in capsys.readouterr().err


def test_a_model_named_by_an_alias_keeps_that_name(serve):
    server = serve()

    def named(parts):
        parts[0]["data"][0]["aliases"] = ["small"]
        return parts

    server.inject(Change(named), when=lambda seen: seen.path == "/v1/models")
    model = connect(f"{server.url}#small", retry_seconds=PATIENCE)
    assert (model.name, model.server.model) == (f"{server.url}#small", "tiny")
    model.close()


@pytest.mark.parametrize(("most", "told"), [(3, 3), (8, 8), (40, 20)])
def test_a_chat_endpoint_tells_as_many_alternatives_as_it_can(connected, most, told):
    assert connected("chat", most=most)[1].server.top_logprobs == told


@pytest.mark.parametrize("owner", ["gateway", "llamacpp behind something"])
def test_a_vllm_that_was_given_another_name_is_as_exact_as_any(serve, tokenizer, owner):
    server = serve("vllm", most=20, owner=owner)
    model = connect(server.url, tokenizer=tokenizer, retry_seconds=PATIENCE)
    assert (model.server.kind, model.server.exact, model.server.request_fields) == ("other", True, VLLM_FIELDS)
    served, local = pipeline(model, samples=10).ask(QUESTION), pipeline(Twin(CAPITAL), samples=10).ask(QUESTION)
    assert comparable(served) == comparable(local)
    assert all(seen.body.items() >= VLLM_FIELDS.items() for seen in server.generations if seen.body.get("stream"))
    model.close()
