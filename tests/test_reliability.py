"""What was broken off is taken up again, what was damaged is told, and no file or machine ends a command wordlessly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sdlg.loading.number_kinds import check_kind

from sdlg.errors import BadOption, CacheUnavailable
from sdlg.loading import copies, number_kinds
from sdlg.loading.cache_folder import advice_on, check_files, list_files

# -- what was damaged -------------------------------------------------------------------------------------------


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
