"""Addresses of servers, and keys that are never shown."""

from __future__ import annotations

import json
import logging
import pickle
import traceback

import pytest

from fake_server import (
    Answer,
    Change,
    Twin,
)
from fakes import CAPITAL
from sdlg import Pipeline
from sdlg.cli import main
from sdlg.errors import (
    BadOption,
    SdlgError,
)
from sdlg.models.server.address import is_address, parse_address
from sdlg.models.server.served import connect
from served import HASTE, PATIENCE, QUESTION, Nli, _with_logprob, pipeline, texts

pytestmark = pytest.mark.usefixtures("plain_environment")


KEY = "sk-0123456789abcdef-secret"


def told_by(error):
    """An error with all that led to it, as a traceback shows it."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "SDLG_API_KEY"])
def test_a_key_is_sent_and_never_shown(serve, monkeypatch, caplog, capsys, variable):
    monkeypatch.setenv(variable, f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    server = serve()
    model = connect(server.url, retry_seconds=PATIENCE)
    result = pipeline(model).ask(QUESTION)
    assert {seen.headers["Authorization"] for seen in server.requests} == {f"Bearer {KEY}"}
    parts = (model, vars(model), model.connection, vars(model.connection), model.connection.address, model.tokenizer)
    shown = "".join(map(repr, parts)) + str(model.connection.address) + model.name
    assert "http://127.0.0.1" in shown
    assert KEY not in shown
    assert KEY not in result.to_json() + repr(result) + repr(model.server)
    assert caplog.records
    assert KEY not in caplog.text
    model.close()
    assert main(["models", "check", server.url, "--json"]) == 0
    assert KEY not in "".join(capsys.readouterr())


def test_our_own_variable_comes_first_and_without_a_key_none_is_sent(serve, monkeypatch):
    server = serve()
    connect(server.url, retry_seconds=PATIENCE).close()
    assert all("Authorization" not in seen.headers for seen in server.requests)
    server.heal()
    monkeypatch.setenv("SDLG_API_KEY", "mine")
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    connect(server.url, retry_seconds=PATIENCE).close()
    assert {seen.headers["Authorization"] for seen in server.requests} == {"Bearer mine"}


@pytest.mark.parametrize("key", ["EMPTY", "text", "1", "Paris"])
@pytest.mark.parametrize("dialect", ["llama", "legacy"])
def test_a_key_that_is_an_everyday_word_changes_no_answer(serve, monkeypatch, dialect, key):
    """Servers at home take any key, and people give them any: it may be part of every reply."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    model = connect(serve(dialect, most=5).url, retry_seconds=PATIENCE)
    options = {} if dialect == "llama" else {"method": "multinomial"}
    served, local = (pipeline(one, **options).ask(QUESTION) for one in (model, Twin(CAPITAL)))
    model.close()
    assert texts(served) == texts(local)
    assert [s.generation.logprobs for s in served.samples] == [s.generation.logprobs for s in local.samples]


def _echo(before=b"", after=b""):
    return before + f"Incorrect API key provided: {KEY}.".encode() + after


ECHOES = {
    "401": Answer(401, json.dumps({"error": {"message": _echo().decode()}}).encode()),
    "401, another shape": Answer(401, json.dumps({"error": {"key": KEY}}).encode()),
    "400, as text": Answer(400, _echo(), "text/plain"),
    "500": Answer(500, _echo(), "text/plain"),
    "502, as a page": Answer(502, b"<html><pre>Authorization: Bearer " + KEY.encode() + b"</pre>", "text/html"),
    "200, no JSON": Answer(200, _echo(), "text/plain"),
    "200, an error": Answer(200, json.dumps({"error": {"message": _echo().decode()}}).encode()),
    "400, where the message is cut": Answer(400, _echo(b"x" * 260), "text/plain"),
    "400, where the body is cut": Answer(400, _echo(b" " * 1960), "text/plain"),
    "amid a stream": Change(lambda parts: [parts[0], {"error": {"message": _echo().decode()}}]),
    "for a log-probability": Change(_with_logprob(KEY)),
}


@pytest.mark.parametrize("echo", ECHOES)
def test_a_key_that_the_server_echoes_is_not_repeated(serve, monkeypatch, caplog, echo):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server = serve()
    model = connect(server.url, retry_seconds=HASTE)
    server.inject(ECHOES[echo])
    with pytest.raises(SdlgError) as failure:
        pipeline(model).ask(QUESTION)
    model.close()
    for text in (str(failure.value), told_by(failure.value), caplog.text):
        assert KEY not in text
        assert KEY[:12] not in text  # nor the half of it


@pytest.mark.parametrize("echo", ["401", "200, no JSON", "200, an error", "400, where the message is cut"])
def test_a_key_that_is_echoed_while_connecting_is_not_repeated(serve, monkeypatch, capsys, echo):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = serve()
    server.inject(ECHOES[echo], when=lambda seen: True)
    assert main(["models", "check", server.url, "--retry-seconds", "1"]) == 1
    shown = "".join(capsys.readouterr())
    assert shown.startswith("sdlg: http://127.0.0.1")
    assert KEY[:12] not in shown


@pytest.mark.parametrize("key", [f"{KEY}\nsecond-line", f"{KEY}…"], ids=["two lines", "not ASCII"])
def test_a_key_that_cannot_be_sent_is_told_without_showing_it(serve, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(SdlgError) as failure:
        connect(serve().url, retry_seconds=HASTE).close()
    assert KEY not in told_by(failure.value)
    assert "OPENAI_API_KEY" in str(failure.value)


def test_a_key_is_not_written_down(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = connect(serve().url, retry_seconds=PATIENCE)
    for one in (model, model.connection, model.connection.address, model.connection.address.key):
        with pytest.raises(TypeError):
            pickle.dumps(one)
    model.close()


@pytest.mark.parametrize(
    "address",
    [
        f"http://user:{KEY}@127.0.0.1:8000/v1#tiny",
        f"http://{KEY}@127.0.0.1:8000/v1#tiny",
        f"https://example.org/v1?api-key={KEY}",
        f"https://example.org/v1?api-key={KEY}#tiny",
        f"http://user:{KEY}@/v1",
        f"http://user:{KEY}@[::1/v1",
        f"HTTP://user:{KEY}@127.0.0.1:8000/v1#tiny",
        f"http://user:{KEY}#{KEY}@127.0.0.1:8000/v1",
    ],
)
def test_an_address_with_a_key_in_it_is_refused_without_showing_it(address, capsys, tmp_path):
    with pytest.raises(BadOption) as refusal:
        connect(address)
    assert KEY not in told_by(refusal.value)
    watched = []
    with pytest.raises(BadOption):
        Pipeline(address, Nli(), watch=lambda progress: watched.append(progress.text))
    assert KEY not in "".join(watched)
    assert main(["models", "check", address]) == 2
    assert main(["ask", QUESTION, "--model", address]) == 2
    assert main(["serve", "--port", "0", "--model", address]) == 2
    data, folder = tmp_path / "q.jsonl", tmp_path / "run"
    data.write_text(json.dumps({"question": QUESTION, "references": ["It is Paris"]}) + "\n")
    for flag in ("--model", "--nli", "--similarity-model"):
        assert main(["eval", "--data", str(data), "--out", str(folder), flag, address]) == 2
    assert not folder.exists()
    assert KEY not in "".join(capsys.readouterr())


def test_where_to_put_a_key_is_said():
    with pytest.raises(BadOption, match=r"the address of example.org holds a key or a query.*OPENAI_API_KEY"):
        parse_address(f"https://example.org/v1?api-key={KEY}")


@pytest.mark.parametrize(
    ("given_name", "url", "model", "root"),
    [
        ("http://127.0.0.1:8000/v1#tiny", "http://127.0.0.1:8000/v1", "tiny", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", "", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1", "", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/#a/b", "http://127.0.0.1:8000/v1", "a/b", "http://127.0.0.1:8000"),
        ("https://example.org/api/v1#a%20b", "https://example.org/api/v1", "a b", "https://example.org/api"),
        ("https://example.org/openai#x", "https://example.org/openai", "x", "https://example.org/openai"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1", "", "http://[::1]:8080"),
    ],
)
def test_addresses_are_read(given_name, url, model, root):
    found = parse_address(given_name)
    assert (found.url, found.model, found.root) == (url, model, root)
    assert is_address(given_name)


def test_the_address_may_be_in_the_environment(serve, monkeypatch):
    with pytest.raises(BadOption, match="OPENAI_BASE_URL, which is not set"):
        parse_address("server#tiny")
    server = serve(models=("tiny", "large"))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    model = connect("server#large", retry_seconds=PATIENCE)
    assert (model.name, model.server.model) == (f"{server.url}#large", "large")
    model.close()
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    with pytest.raises(BadOption, match="which is not set"):
        connect("server")


@pytest.mark.parametrize(
    "address", ["ftp://127.0.0.1/v1", "http://", "http:///v1", "http://[::1/v1", "http://127.0.0.1:http/v1",
                "http://127.0.0.1:99999/v1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(address):
    with pytest.raises(BadOption, match="is not the address of a server; give http://host:port/v1#name"):
        connect(address, retry_seconds=0.3)


@pytest.mark.parametrize("base", ["example.org/v1", "ftp://example.org", "localhost:8000/v1"])
def test_a_wrong_address_in_the_environment_is_refused(monkeypatch, base):
    monkeypatch.setenv("OPENAI_BASE_URL", base)
    with pytest.raises(BadOption, match="is not the address of a server"):
        parse_address("server#tiny")


@pytest.mark.parametrize("name", ["smollm2", "server.gguf", "org/server", "httpx", "./http://x", ""])
def test_other_names_are_no_addresses(name):
    assert not is_address(name)


def test_paths_of_the_servers_own_lie_beside_v1(serve):
    server = serve()
    connect(server.url.removesuffix("/v1"), retry_seconds=PATIENCE).close()
    assert {"/v1/models", "/props", "/v1/completions", "/tokenize"} == {seen.path for seen in server.requests}
