"""`sdlg ask --server`: the same result as without, from a server that has its models loaded."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from sdlg.cli import main
from sdlg.serving.settings import Settings
from web_server import QUESTION, Talking, no_proxies, running, scripted  # noqa: F401


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("SDLG_SERVER", "SDLG_SERVER_KEY"):
        monkeypatch.delenv(name, raising=False)


def asked(capsys, *arguments):
    code = main(["ask", QUESTION, *arguments])
    return code, *capsys.readouterr()


def stable(text):
    row = json.loads(text)
    del row["cost"]
    return row


def test_the_result_is_the_servers(server, capsys):
    code, out, _ = asked(capsys, "--server", server.url, "--json")
    assert code == 0
    assert stable(out) == stable(scripted().ask(QUESTION).to_json())


def test_it_looks_as_ever(server, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SDLG_SERVER", f"{server.url}/")
    page = tmp_path / "page.html"
    code, out, _ = asked(capsys, "--html", str(page))
    assert code == 0
    assert "It is Paris" in out
    assert "semantic entropy" in out
    assert "It is Paris" in page.read_text(encoding="utf-8")


def test_options_measures_and_method_go_along(server, capsys):
    flags = ["--samples", "2", "--method", "multinomial", "--measures", "G-NLL", "--max-tokens", "5", "--set", "seed=3"]
    row = json.loads(asked(capsys, "--server", server.url, "--json", *flags)[1])
    options = row["options"]
    assert (row["method"], options["seed"], options["max_tokens"], len(row["samples"])) == ("multinomial", 3, 5, 2)
    assert "G-NLL" in row["estimates"]


def test_a_server_with_a_key_wants_it(capsys, monkeypatch):
    with running(settings=Settings(key="secret")) as server:
        code, _, error = asked(capsys, "--server", server.url)
        assert code == 1
        assert "key" in error
        monkeypatch.setenv("SDLG_SERVER_KEY", "secret")
        assert asked(capsys, "--server", server.url)[0] == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "other"], "leave out --model"),
        (["--nli", "other", "--set", "dtype=float32"], "leave out --nli, --set dtype"),
        (["--out", "results.jsonl"], "--server takes one question"),
    ],
)
def test_what_the_server_cannot_do_is_refused(server, capsys, monkeypatch, tmp_path, flags, words):
    monkeypatch.chdir(tmp_path)
    code, _, error = asked(capsys, "--server", server.url, *flags)
    assert code == 2
    assert words in error


def test_what_the_server_refuses_is_said_in_its_words(server, capsys):
    code, _, error = asked(capsys, "--server", server.url, "--samples", "999")
    assert code == 2
    assert "samples" in error
    assert server.url in error


def test_nobody_there(capsys):
    code, _, error = asked(capsys, "--server", "http://127.0.0.1:9")
    assert code == 1
    assert "start one with sdlg serve" in error
    assert asked(capsys, "--server", "127.0.0.1:9")[0] == 2


def test_another_server_is_known_from_ours(capsys):
    """Whatever else answers there: no traceback."""
    with running(Talking()) as server:
        code, _, error = asked(capsys, "--server", f"{server.url}/docs")
    assert code == 1
    assert "127.0.0.1" in error


def test_a_slow_server_is_given_up(capsys):
    with running(Talking(pause=1.0)) as server:
        code, _, error = asked(capsys, "--server", server.url, "--timeout", "0.3")
    assert code == 1
    assert "within 0.3 s" in error


def test_a_named_model_is_loaded_here_whatever_the_environment_says(capsys, monkeypatch):
    monkeypatch.setenv("SDLG_SERVER", "http://127.0.0.1:9")
    _, _, error = asked(capsys, "--model", "/no/such/model")
    assert "/no/such/model" in error


def test_no_heavy_package_is_imported(server):
    script = (
        "import sys; from sdlg.cli import main; "
        f"code = main(['ask', {QUESTION!r}, '--server', {server.url!r}]); "
        "assert code == 0; assert not {'torch', 'transformers', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)
