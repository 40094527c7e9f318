"""Whole runs over servers: they go on where one died, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import warnings
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path

import pytest

from fake_server import (
    Answer,
    Die,
    FakeServer,
)
from fakes import CAPITAL
from sdlg.cli import main
from sdlg.errors import (
    SdlgError,
)
from sdlg.evaluation.store import STAGES, Store
from sdlg.models.server.served import connect
from served import ASKED, HASTE, PATIENCE, QUESTION, ROME, Nli, is_branch, pipeline, until
from test_evaluation import stored

pytestmark = pytest.mark.usefixtures("plain_environment")


def connections():
    return [thread for thread in threading.enumerate() if thread.name == "sdlg-connection"]


def sockets():
    """How many this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts sockets in /proc")


@needs_proc
@pytest.mark.parametrize("how", ["closed", "closed twice", "forgotten"])
def test_a_model_leaves_no_thread_and_no_socket(serve, how):
    server = serve()
    gc.collect()
    before, open_before = set(connections()), sockets()
    model = connect(server.url, retry_seconds=PATIENCE)
    list(pipeline(model).ask_many(ASKED[:6], in_flight=3))
    assert len(set(connections()) - before) == 1
    assert sockets() > open_before
    if how == "forgotten":
        del model
        gc.collect()
    else:
        model.close()
        if how == "closed twice":
            model.close()
    assert set(connections()) <= before
    until(lambda: not server.lines and sockets() <= open_before)  # the server's ends too


@needs_proc
@pytest.mark.parametrize("fault", ["401", "nonsense", "tokenizer", "dead"])
def test_a_model_that_cannot_be_had_leaves_nothing_either(serve, fault):
    server = serve("vllm")
    gc.collect()
    before, open_before = set(connections()), sockets()
    if fault == "401":
        server.inject(Answer(401))
    elif fault == "nonsense":
        server.inject(Answer(200, b"{"), when=lambda seen: True)
    elif fault == "dead":
        server.kill()
    with pytest.raises(SdlgError):
        connect(server.url, retry_seconds=0.5)
    assert set(connections()) <= before
    until(lambda: sockets() <= open_before)


def test_closing_amid_connecting_is_quiet(serve):
    """There is always a connection that is just begun: none of its parts is left as a warning on somebody's screen."""
    server = serve(slots=1000)
    model = connect(server.url, retry_seconds=60.0)
    server.kill()
    begun = threading.Event()

    async def connecting():
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(model.connection.get("models"))
                begun.set()
                await asyncio.sleep(0)

    def run():
        with suppress(SdlgError, CancelledError):
            model.connection.run(connecting())

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        running = threading.Thread(target=run)
        running.start()
        begun.wait()
        model.close()
        running.join(10.0)
        gc.collect()
    assert [str(one.message) for one in told] == []


RUN = [f"Question {k}?" for k in range(6)]


@pytest.fixture
def fake_nli(monkeypatch):
    monkeypatch.setattr("sdlg.loaded.load_nli", lambda name, *_, **__: Nli(name=name))


def asked_of(server):
    """Which questions a server was asked."""
    return {k for k, question in enumerate(RUN) if any(question in seen.words for seen in server.generations)}


def rows_of(path):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for row in found:
        row["cost"].pop("seconds")
        row.pop("crc32", None)
    return found


NAMES_OF_ONE = ("{0}#tiny", "{0}", "{0}/#tiny", "server#tiny", "server")


@pytest.mark.parametrize("name", NAMES_OF_ONE)
def test_a_run_is_gone_on_with_by_any_name_of_its_model(serve, tmp_path, fake_nli, monkeypatch, capsys, name):
    server, out = serve(), tmp_path / "out.jsonl"
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    for used in (name, *NAMES_OF_ONE):
        model = used.format(server.url)
        assert main(["ask", QUESTION, "--out", str(out), "--model", model, "--set", f"retry_seconds={PATIENCE}"]) == 0
    assert capsys.readouterr().err.count("nothing is left to do") == len(NAMES_OF_ONE)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_asking_goes_on_where_a_server_died(tmp_path, fake_nli, capsys, in_flight):
    questions, out, undisturbed = tmp_path / "q.txt", tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    questions.write_text("\n".join(RUN))

    def ask(server, path):
        return main([
            "ask", "--file", str(questions), "--out", str(path), "--model", server.url, "--samples", "3",
            "--set", f"retry_seconds={HASTE}", "--set", f"in_flight={in_flight}", "--set", "seed=3",
            "--set", "branch_strategy=multinomial",
        ])  # fmt: skip

    with FakeServer("llama", CAPITAL) as server:
        assert ask(server, undisturbed) == 0
        server.inject(Die(), when=lambda seen: is_branch(seen) and "Question 3?" in seen.words, times=1)
        capsys.readouterr()
        assert ask(server, out) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(f"sdlg: cannot reach {server.url}")
        assert "is the server still running?" in shown.err
    kept = rows_of(out)
    assert kept == rows_of(undisturbed)[: len(kept)]
    assert len(kept) == 3 if in_flight == 1 else len(kept) <= 3
    with FakeServer("llama", CAPITAL, port=server.port) as again:
        assert ask(again, out) == 0
        assert (f"holds {len(kept)} of 6 results; going on" in capsys.readouterr().err) == bool(kept)
        assert asked_of(again) == set(range(len(kept), 6))
    assert rows_of(out) == rows_of(undisturbed)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_an_evaluation_goes_on_where_a_server_died(tmp_path, fake_nli, capsys, in_flight):
    data = tmp_path / "q.jsonl"
    data.write_text("".join(json.dumps({"question": q, "references": ["It is Paris", "Rome"]}) + "\n" for q in RUN))

    def evaluate(server, folder):
        return main([
            "eval", "--data", str(data), "--out", str(folder), "--model", server.url, "--nli", "fake",
            "--methods", "sdlg,multinomial", "--measures", "SE*_SDLG,PE,DSE,share_entropy",
            "--samples", "3", "--set", f"retry_seconds={HASTE}", "--set", f"in_flight={in_flight}",
        ])  # fmt: skip

    with FakeServer("llama", CAPITAL, others={"Question 2?": ROME}) as server:
        assert evaluate(server, tmp_path / "whole") == 0
        server.inject(Die(), when=lambda seen: is_branch(seen) and "Question 3?" in seen.words, times=1)
        capsys.readouterr()
        assert evaluate(server, tmp_path / "broken") == 1
        assert f"sdlg: cannot reach {server.url}" in capsys.readouterr().err
    undisturbed, kept = stored(tmp_path / "whole"), stored(tmp_path / "broken")
    for stage in STAGES:
        assert kept[stage].items() <= undisturbed[stage].items()
        assert len(undisturbed[stage]) == 6
    assert len(kept["judge"]) == 3 if in_flight == 1 else len(kept["judge"]) < 6
    with FakeServer("llama", CAPITAL, others={"Question 2?": ROME}, port=server.port) as again:
        assert evaluate(again, tmp_path / "broken") == 0
        assert len(asked_of(again)) == 6 - len(kept["generate"])
    assert stored(tmp_path / "broken") == undisturbed


def test_a_question_that_is_refused_is_no_reason_to_stop(serve, tmp_path):
    """One bad question among many: its line says so, and the others are answered."""
    server = serve()
    server.inject(Answer(400, b'{"detail": "I will not answer that"}'), when=lambda seen: "number 1?" in seen.words)
    questions, out = tmp_path / "questions.txt", tmp_path / "out.jsonl"
    questions.write_text("\n".join(f"number {k}?" for k in range(4)))
    arguments = ["ask", "--file", questions, "--out", out, "--model", server.url, "--samples", "1"]
    assert main([str(argument) for argument in arguments]) == 1
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["format"].split("/")[0] for row in rows] == ["sdlg.result", "sdlg.error", "sdlg.result", "sdlg.result"]
    assert "I will not answer that" in rows[1]["error"]


def letters(*likely):
    """A script that answers with a letter."""
    return {"": dict(zip("ABC", likely, strict=False))}


def test_a_chat_endpoint_can_be_evaluated_and_asked_what_it_thinks_of_its_answers(serve, tmp_path, fake_nli):
    server = serve("chat", most=5, others={"Possible answer": letters(0.7, 0.2, 0.1)})
    data, folder = tmp_path / "q.jsonl", tmp_path / "run"
    data.write_text(json.dumps({"question": QUESTION, "references": ["It is Paris"]}) + "\n")
    assert main([
        "eval", "--data", str(data), "--out", str(folder), "--model", server.url, "--nli", "fake", "--samples", "3",
        "--methods", "multinomial", "--measures", "P(True),clustered_self_assessment",
        "--set", f"retry_seconds={PATIENCE}",
    ]) == 0  # fmt: skip
    (row,) = Store(folder).rows("measure").values()
    found = row.values["multinomial"]
    assert [values[-1] for values in found.values()] == [pytest.approx(0.2 / 0.9)] * 2
    assert row.reasons == {"multinomial": {}}


def test_one_question_that_a_search_is_refused_is_no_reason_to_stop(serve, tmp_path, fake_nli):
    server = serve()
    refusal = Answer(400, b'{"detail": "I will not answer that"}')
    server.inject(refusal, when=lambda seen: seen.generates and "number 1?" in seen.words)
    questions, out = tmp_path / "questions.txt", tmp_path / "out.jsonl"
    questions.write_text("\n".join(f"number {k}?" for k in range(3)))
    arguments = ["ask", "--file", questions, "--out", out, "--model", server.url, "--samples", "2", "--method", "beam"]
    assert main([str(argument) for argument in arguments]) == 1
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["format"].split("/")[0] for row in rows] == ["sdlg.result", "sdlg.error", "sdlg.result"]
    assert "I will not answer that" in rows[1]["error"]
