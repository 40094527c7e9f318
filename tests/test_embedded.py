"""The embedded language model and GGUF files: converted once, whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sdlg.errors import CacheUnavailable, RunError
from sdlg.models import load_model
from sdlg.models.fetching import fetched
from sdlg.models.transformers import gguf as embedded
from sdlg.options import Loading
from sdlg.records import Question
from tiny_gguf import TOKENS, write_tiny_gguf

TRANSFORMERS = Loading(engine="transformers")


def gguf_file():
    return fetched("smollm2")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path / "home"))
    return tmp_path


KILLED = """
import os, pathlib, signal, sys
import sdlg.models.transformers.gguf as gguf
convert = gguf._convert
def dying(file, folder):
    convert(file, folder)
    os.kill(os.getpid(), signal.SIGKILL)
gguf._convert = dying
gguf.converted_gguf(pathlib.Path(sys.argv[1]))
"""


def test_a_conversion_that_is_killed_leaves_nothing_and_the_next_one_works(home):
    """A process is killed when it has written all files, but not yet given their folder its name."""
    file, models = write_tiny_gguf(home / "tiny.gguf", bos=True), home / "home" / "models"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(file)], stderr=subprocess.DEVNULL)
    assert killed.returncode == -signal.SIGKILL
    assert list(models.glob("*.partial-*/model.safetensors"))
    assert not [folder for folder in models.iterdir() if folder.is_dir() and ".partial-" not in folder.name]
    model = load_model(str(file), TRANSFORMERS)
    assert len([path for path in models.iterdir() if path.is_dir()]) == 1
    assert model.prompt(Question("the cat"), "raw").token_ids


def test_the_embedded_model_loads_from_its_converted_folder_alone(smollm2):
    folder = embedded.smollm2_folder()
    assert (folder / "model.safetensors").is_file()
    assert smollm2.model.dtype == torch.float32
    assert smollm2.layout == "tree"


def test_a_full_disk_says_which_folder_and_what_to_do(monkeypatch, tmp_path):
    def full(file: Path, folder: Path) -> None:
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    monkeypatch.setattr(embedded, "_convert", full)
    with pytest.raises(CacheUnavailable, match=r"SDLG_HOME.*600 MB"):
        embedded.converted_gguf(gguf_file())
    assert list((tmp_path / "models").iterdir()) == []


def test_control_tokens_are_never_words(smollm2):
    ids = {
        smollm2.tokenizer.convert_tokens_to_ids(token)
        for token in ("<|im_start|>", "<|im_end|>", "<repo_name>", "<|endoftext|>")
    }
    assert all(smollm2.is_special(i) for i in ids)
    assert not smollm2.is_special(smollm2.tokenizer(" Paris", add_special_tokens=False).input_ids[0])


# -- what a GGUF file says of its tokenizer ---------------------------------------------------------------------


def raw_ids(model, text):
    return model.prompt(Question(text), "raw").token_ids


@pytest.mark.parametrize(("said", "adds"), [(True, True), (False, False), (None, True)])
def test_a_prompt_begins_with_bos_where_the_file_says_so(said, adds, home):
    """A sentencepiece file that says nothing means yes, as in llama.cpp."""
    model = load_model(str(write_tiny_gguf(home / "tiny.gguf", bos=said)), TRANSFORMERS)
    for style in ("raw", "plain"):
        ids = model.prompt(Question("the cat"), style).token_ids
        assert ids.count(1) == adds
        assert (ids[0] == 1) == adds
    assert 1 not in model._words.answer_ids(model.prompt(Question("who"), "raw"), "the cat")


@pytest.mark.parametrize("template", ["{{ bos_token }}Q: {{ messages[0].content }}", "Q: {{ messages[0].content }}"])
def test_a_chat_prompt_begins_with_one_bos_whether_or_not_its_template_writes_it(template, home):
    model = load_model(str(write_tiny_gguf(home / "tiny.gguf", bos=True, template=template)), TRANSFORMERS)
    ids = model.prompt(Question("the cat"), "chat").token_ids
    assert (ids[0], ids.count(1)) == (1, 1)


@pytest.mark.parametrize(("said", "first"), [(True, "▁the"), (False, "th"), (None, "▁the")])
def test_a_text_begins_with_a_space_where_the_file_says_so(said, first, home):
    model = load_model(str(write_tiny_gguf(home / "tiny.gguf", bos=False, space=said)), TRANSFORMERS)
    ids = raw_ids(model, "the cat")
    assert TOKENS[ids[0]] == first
    assert model.text(ids) == "the cat"
    if said is False:
        assert model.text(raw_ids(model, " the cat")) == " the cat"


@pytest.mark.parametrize("has_list", [True, False], ids=["listed", "of-an-older-version"])
def test_a_truncated_copy_says_which_folder_to_delete(home, has_list):
    file = write_tiny_gguf(home / "tiny.gguf", bos=True)
    folder = embedded.converted_gguf(file)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    if not has_list:
        (folder / "sdlg-files.json").unlink()
    with pytest.raises(RunError, match=f"Delete the folder {folder} and start again"):
        load_model(str(file), TRANSFORMERS)
    shutil.rmtree(folder)
    load_model(str(file), TRANSFORMERS)


def test_a_users_file_is_converted_once_however_often_it_is_put_together(home, monkeypatch):
    conversions = []
    convert = embedded._convert
    monkeypatch.setattr(embedded, "_convert", lambda *args: (conversions.append(args), convert(*args)))
    file = write_tiny_gguf(home / "tiny.gguf", bos=True)
    folder = embedded.converted_gguf(file)
    os.utime(file, (1, 1))
    assert embedded.converted_gguf(file) == folder
    assert len(conversions) == 1
    write_tiny_gguf(file, bos=False)  # as long as it was, but other bytes
    assert embedded.converted_gguf(file) != folder
    assert len(conversions) == 2
