"""What was broken off is taken up again, what was damaged is told, and no file or machine ends a command wordlessly."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from sdlg.loading.number_kinds import check_kind

from sdlg.errors import BadOption, CacheUnavailable, RunError, SdlgError
from sdlg.evaluation.plan import Plan, plan_from
from sdlg.evaluation.rows import read_generated
from sdlg.evaluation.store import Store
from sdlg.loading import copies, number_kinds
from sdlg.loading.cache_folder import advice_on, check_files, list_files

# -- what was damaged -------------------------------------------------------------------------------------------


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
