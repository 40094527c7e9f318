"""`sdlg serve`: its flags, checked before any model is loaded."""

from __future__ import annotations

from contextlib import closing

import pytest

from fakes import NeverLoaded
from sdlg.cli import main
from sdlg.cli.serve import is_loopback
from sdlg.errors import BadOption, UnknownName
from sdlg.serving.listening import open_socket
from sdlg.serving.settings import Settings, read_limit

KEY = "a-key-of-the-tests"


@pytest.fixture
def taken():
    """A port that cannot be had: as far as a command may get without loading a model."""
    with closing(open_socket("127.0.0.1", 0)) as listener:
        listener.listen()
        yield str(listener.getsockname()[1])


@pytest.fixture
def run(capsys, monkeypatch, taken):
    monkeypatch.delenv("SDLG_SERVER_KEY", raising=False)

    def run(*arguments):
        code = main(["serve", "--port", taken, *arguments], NeverLoaded)
        out, error = capsys.readouterr()
        assert not out
        return code, error

    return run


def test_other_machines_need_a_key_or_a_flag(run, monkeypatch):
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        code, error = run("--host", host)
        assert code == 2
        assert "SDLG_SERVER_KEY" in error
    assert "cannot listen" in run("--host", "0.0.0.0", "--allow-anyone")[1]
    monkeypatch.setenv("SDLG_SERVER_KEY", KEY)
    code, error = run("--host", "0.0.0.0")
    assert "cannot listen" in error
    assert KEY not in error


def test_what_is_wrong_is_said_before_models_are_loaded(run, taken):
    for flags, word in (
        ([], taken),
        (["--port", "70000"], "--port"),
        (["--queue", "-1"], "queue"),
        (["--deadline", "0"], "deadline"),
        (["--limit", "grace=soon"], "grace"),
        (["--limit", "sampels=3"], "samples"),
        (["--samples", "0"], "samples"),
        (["--set", "magic=1"], "magic"),
        (["--measures", "magic"], "magic"),
    ):
        code, error = run(*flags)
        assert (code, word in error) == (2, True), error


def test_limits_are_read_by_name():
    assert read_limit("max-tokens=64") == ("max_tokens", 64)
    assert read_limit("grace=0.5") == ("grace", 0.5)
    for text, kind in (("magic=1", UnknownName), ("samples=many", BadOption), ("samples", BadOption)):
        with pytest.raises(kind):
            read_limit(text)
    with pytest.raises(BadOption):
        Settings(samples=0)
    assert KEY not in repr(Settings(key=KEY))


def test_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "")))


def test_help_fits_on_one_screen(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
