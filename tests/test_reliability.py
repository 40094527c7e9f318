"""What was broken off is taken up again, what was damaged is told, and no file or machine ends a command wordlessly."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg import ScriptedModel
from sdlg.cli import main
from sdlg.errors import BadOption, CacheUnavailable, RunError, SdlgError, TimedOut, UsageError
from sdlg.evaluation.plan import Plan, plan_from
from sdlg.evaluation.rows import read_generated
from sdlg.evaluation.store import Store
from sdlg.formats.files import one_writer
from sdlg.formats.lines import is_intact, seal
from sdlg.loading import copies, number_kinds
from sdlg.loading.cache_folder import advice_on, check_files, list_files
from sdlg.loading.number_kinds import check_kind


@pytest.fixture
def late(monkeypatch):
    """A model that is too late for the questions in this set; every other name is loaded as a script."""
    questions = set()

    class Slow(ScriptedModel):
        def prompt(self, question, *rest):
            if question.text in questions:
                raise TimedOut("no answer within 2 s; allow more time, or ask for less")
            return super().prompt(question, *rest)

    monkeypatch.setattr("sdlg.pipeline.load_model", lambda name, **_: Slow(CAPITAL, name=name))
    monkeypatch.setattr("sdlg.pipeline.load_nli", lambda name, **_: FakeNli(MEANINGS, name=name))
    return questions


@pytest.fixture
def asking(tmp_path):
    (tmp_path / "questions.txt").write_text("First?\nSecond?\nThird?\n")
    return ["ask", "--file", str(tmp_path / "questions.txt"), "--out", str(tmp_path / "out.jsonl")]


def rows(path):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for row in found:
        row.pop("crc32")
        row.get("cost", {}).pop("seconds", None)
    return found


# -- what was broken off ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True], ids=["marked", "older-lines"])
def test_questions_that_were_too_late_are_asked_again(tmp_path, late, asking, capsys, old):
    out = tmp_path / "out.jsonl"
    assert main(asking) == 0
    whole = rows(out)
    out.unlink()
    late.update(("First?", "Second?"))
    assert main(asking) == 1
    assert [row["format"] for row in rows(out)] == ["sdlg.error/1", "sdlg.error/1", "sdlg.result/3"]
    third = out.read_text().splitlines()[2]
    if old:
        lines = [json.dumps({**row, "retry": None}) for row in rows(out)[:2]]
        out.write_text("\n".join([*lines, third]) + "\n")
    late.discard("First?")
    assert main(asking) == 1  # one is still too late
    assert "2 of them broken off and asked again" in capsys.readouterr().err
    assert [row["format"] for row in rows(out)] == ["sdlg.result/3", "sdlg.error/1", "sdlg.result/3"]
    late.clear()
    assert main(asking) == 0
    assert rows(out) == whole
    assert out.read_text().splitlines()[2] == third
    assert main(asking) == 0
    assert "nothing is left to do" in capsys.readouterr().err


def test_what_was_broken_off_and_what_was_never_begun_are_both_done(tmp_path, late, asking):
    out = tmp_path / "out.jsonl"
    late.add("First?")
    assert main(asking) == 1
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:2]))  # as if it had been killed
    late.clear()
    assert main(asking) == 0
    assert [row["question"] for row in rows(out)] == ["First?", "Second?", "Third?"]
    assert all("estimates" in row for row in rows(out))


def test_two_writers_of_scores_are_one_too_many(tmp_path, capsys):
    given, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    given.write_text('{"question": "q", "answers": [{"text": "a"}, {"text": "b"}]}\n')
    command = ["score", str(given), "-o", str(out), "--nli", "none", "--similarity-model", "none"]
    with one_writer(out, "sdlg score"):
        assert main(command) == UsageError.exit_code
    assert "another sdlg score is writing" in capsys.readouterr().err
    assert main(command) == 0


# -- what was damaged -------------------------------------------------------------------------------------------


def test_every_flipped_byte_of_a_line_is_told_or_leaves_no_json():
    line = seal(json.dumps({"id": "q1", "values": [0.125, -3], "text": "Où?"}, ensure_ascii=False)).encode()
    assert is_intact(line)
    assert json.loads(line)["values"] == [0.125, -3]
    for place in range(len(line)):
        for bit in range(8):
            flipped = bytes([*line[:place], line[place] ^ 1 << bit, *line[place + 1 :]])
            assert not is_intact(flipped) or not is_json(flipped)


def is_json(line):
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_lines_that_were_never_sealed_are_taken_as_they_are():
    assert is_intact(b'{"id": "q1"}\n')
    assert is_intact(b"")
    assert is_intact(json.dumps({"id": "x" * 100, "hash": "0123abcd"}).encode())


def test_half_a_surrogate_pair_can_be_sealed():
    assert is_intact(seal('{"text": "\ud800"}').encode())


def test_a_flipped_byte_in_an_answered_line_is_told_and_nothing_is_changed(tmp_path, late, asking, capsys):
    out = tmp_path / "out.jsonl"
    main(asking)
    damaged = out.read_bytes().replace(b"Paris", b"Pards", 1)
    out.write_bytes(damaged)
    assert main(asking) == UsageError.exit_code
    assert "out.jsonl, line 1 is damaged" in capsys.readouterr().err
    assert out.read_bytes() == damaged


def test_a_flipped_byte_in_a_run_is_told_with_its_line(tmp_path):
    store = Store(tmp_path)
    for name in ("q1", "q2"):
        store.append("judge", {"id": name, "scores": {"rouge": 0.5}})
    assert store.rows("judge")["q2"] == {"id": "q2", "scores": {"rouge": 0.5}}
    file = store.file("judge")
    file.write_bytes(file.read_bytes().replace(b'"q2", "scores": {"rouge": 0.5', b'"q2", "scores": {"rouge": 0.7'))
    with pytest.raises(Exception, match="line 2 is damaged; remove that line"):
        store.rows("judge")


DESCRIPTION = {
    "format": "sdlg.run/1",
    "data": {"name": "d"},
    "plan": {"model": "m", "nli": "n", "preset": "default", "methods": ["sdlg"], "options": {"samples": 3}},
}


@pytest.mark.parametrize(
    "change",
    [
        {"data": {}},
        {"data": {"name": None}},
        {"order": [1]},
        {"sessions": 3},
        {"plan": {**DESCRIPTION["plan"], "options": []}},
        {"plan": {**DESCRIPTION["plan"], "options": {"samples": 10**400}}},
        {"plan": {**DESCRIPTION["plan"], "methods": "sdlg"}},
        {"crc32": "00000000"},
    ],
    ids=str,
)
def test_a_damaged_description_of_a_run_is_told(tmp_path, change):
    store = Store(tmp_path)
    store.rewrite(DESCRIPTION)
    assert store.read_description() == DESCRIPTION
    store.description.write_text(json.dumps({**DESCRIPTION, **change}))
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        store.read_description()


@pytest.mark.parametrize(
    ("stage", "row"),
    [
        ("generate", {"id": "q", "question": "q", "answer": [], "methods": {}}),
        ("generate", {"id": "q", "skipped": 3}),
        ("cluster", {"id": "q", "methods": {"sdlg": {"distinct": ["a"], "entailment": [["x"]]}}}),
        ("measure", {"id": "q", "values": {"sdlg": {"PE": [10**400]}}}),
        ("measure", {"id": "q", "values": {"sdlg": {"PE": 1.0}}}),
        ("measure", {"id": "q", "reasons": {"sdlg": ["PE"]}}),
        ("judge", {"id": "q", "scores": {"rouge": "high"}}),
        ("judge", {"id": 3, "scores": {}}),
    ],
)
def test_a_row_of_a_run_that_is_none_is_told_with_its_line(tmp_path, stage, row):
    store = Store(tmp_path)
    store.append(stage, row)
    with pytest.raises(RunError, match=f"{stage}.jsonl, line 1 is damaged; remove that line"):
        store.rows(stage)


@pytest.mark.parametrize("words", [[{}], [3], "x"], ids=str)
def test_a_row_whose_parts_are_none_is_told_with_its_question(words):
    sampled = {"samples": [{"text": "a"}], "words": words}
    with pytest.raises(RunError, match="a row of question 'q' is damaged"):
        read_generated({"id": "q", "question": "q", "answer": {"text": "a"}, "methods": {"sdlg": sampled}})


def test_a_plan_of_other_kinds_is_told(tmp_path):
    with pytest.raises(SdlgError):
        plan_from(
            {**dict.fromkeys((f.name for f in fields(Plan)), ()), "preset": "default", "options": {"samples": [3]}}
        )


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b"y" + path.read_bytes()[1:]),
        lambda path: path.unlink(),
        lambda path: path.with_name("sdlg-files.json").write_bytes(b"{"),
    ],
    ids=["truncated", "flipped", "missing", "list"],
)
def test_a_damaged_copy_of_a_model_is_told_with_the_folder_to_delete(tmp_path, damage):
    (tmp_path / "weights").write_bytes(b"x" * 100)
    list_files(tmp_path)
    check_files(tmp_path)
    damage(tmp_path / "weights")
    with pytest.raises(CacheUnavailable, match=f"is damaged. Delete the folder {tmp_path} and start again"):
        check_files(tmp_path)


def test_large_files_are_known_by_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "_READ_AT_EVERY_START", 10)
    (tmp_path / "weights").write_bytes(b"x" * 100)
    list_files(tmp_path)
    (tmp_path / "weights").write_bytes(b"y" * 100)
    check_files(tmp_path)
    (tmp_path / "weights").write_bytes(b"x" * 99)
    with pytest.raises(CacheUnavailable):
        check_files(tmp_path)


def test_only_copies_of_models_are_ever_advised_to_be_deleted(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    mine, own, hub = tmp_path / "mine", tmp_path / "home" / "models" / "x", tmp_path / "hub" / "models--a--b"
    for folder in (mine, own, hub):
        folder.mkdir(parents=True)
    assert advice_on(mine) == advice_on(str(mine)) == advice_on("a/c") == ""
    assert str(own) in advice_on(own)
    assert str(hub) in advice_on("a/b")


# -- commands and machines --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code"), [("ask x >&-", 2), ("score - >&-", 2), ("schema >&-", 1), ("score - <&-", 2)]
)
def test_a_closed_stream_is_told_in_one_line(command, code):
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m sdlg.cli {command}"], capture_output=True, text=True, stdin=subprocess.PIPE
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("sdlg: ")
    assert done.stderr.count("\n") == 1


def test_errors_never_go_among_the_results_where_standard_error_is_closed(tmp_path):
    done = subprocess.run(["sh", "-c", f"'{sys.executable}' -m sdlg.cli ask '' 2>&-"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "ended by SIGILL"),
        ("raise RuntimeError('not implemented for Half')", "not implemented for Half"),
    ],
)
def test_a_cpu_that_promises_more_than_it_can_do_is_told_in_words(monkeypatch, program, says):
    number_kinds._trouble.cache_clear()
    monkeypatch.setattr(number_kinds, "_PRODUCT", program)
    for _ in range(2):
        with pytest.raises(BadOption, match=rf"cannot compute in bfloat16: .*{says}.*--dtype float32"):
            check_kind("bfloat16", "cpu")
    assert number_kinds._trouble.cache_info().misses == 1  # tried once for the process
    number_kinds._trouble.cache_clear()


def test_only_half_precision_on_a_cpu_is_tried(monkeypatch):
    monkeypatch.setattr(number_kinds, "_trouble", lambda name: pytest.fail(f"{name} was tried"))
    for name, device in (("float32", "cpu"), ("bfloat16", "cuda"), ("auto", "mps")):
        check_kind(name, device)


def test_what_cannot_be_tried_is_not_refused(monkeypatch):
    number_kinds._trouble.cache_clear()
    monkeypatch.setattr(sys, "executable", str(Path("/no/such/python")))
    check_kind("float16", "cpu")
    number_kinds._trouble.cache_clear()
