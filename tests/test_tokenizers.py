"""A folder without a tokenizer, or with broken weights, is told as such, whatever it was meant for."""

from __future__ import annotations

import shutil

import pytest

from sdlg.errors import ModelNotFound
from sdlg.models import load_model
from sdlg.nli import load_nli
from sdlg.similarity import load_similarity

LOADERS = [(load_model, 0), (load_nli, 1), (load_similarity, 1)]


@pytest.mark.parametrize(("load", "which"), LOADERS)
def test_a_folder_without_a_tokenizer_is_refused(tmp_path, tiny_folders, load, which):
    """transformers would make an empty one, and every text would be nothing."""
    shutil.copytree(tiny_folders[which], tmp_path / "model", ignore=shutil.ignore_patterns("*token*"))
    with pytest.raises(ModelNotFound, match=r"cannot load the .* model"):
        load(str(tmp_path / "model"))


@pytest.mark.parametrize(("load", "which"), LOADERS)
def test_broken_weights_are_told_not_shown_as_a_traceback(tmp_path, tiny_folders, load, which):
    shutil.copytree(tiny_folders[which], tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelNotFound, match=r"cannot load the .* model"):
        load(str(tmp_path / "model"))
