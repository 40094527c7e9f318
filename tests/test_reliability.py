"""What was broken off is taken up again, what was damaged is told, and no file or machine ends a command wordlessly."""

from __future__ import annotations

import pytest

from sdlg.errors import CacheUnavailable
from sdlg.loading import cache_folder
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
    monkeypatch.setattr(cache_folder, "_READ_AT_EVERY_START", 10)
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
