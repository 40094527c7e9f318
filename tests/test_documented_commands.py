"""Every block of the documents runs as typed, or says what it needs: smollm2 in the place of the default model.

The blocks of one document run in its order, in one folder; all in this process, with models that are loaded once. Few
samples and tokens: that it works is what is asked here, not what it says.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest

import sdlg
import sdlg.pipeline
from documented import DOCUMENTS, ROOT, Block, blocks_of
from sdlg.asking import ask, ask_async
from sdlg.cli import main

RUN = [path for path in DOCUMENTS if any(block.is_run for block in blocks_of(path))]
FEW = {"samples": 2, "max_tokens": 12, "draws": 1, "sentence_samples": 2}
QUICK = ["--model", "smollm2", *(word for name, value in FEW.items() for word in ("--set", f"{name}={value}"))]
QUICK_COMMANDS = {"ask": QUICK, "check": QUICK, "eval": [*QUICK, "--measures", "perplexity,SE*_SDLG,SE*_MS"]}
STAGES = {"measure", "judge", "export"}  # of a run: they have its options
CAPITALS = {
    "Australia": "Canberra", "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo",
    "Norway": "Oslo", "Greece": "Athens",
}  # fmt: skip
RIGHT = [{"question": f"What is the capital of {land}?", "references": [city]} for land, city in CAPITALS.items()]
WRONG = [{"question": f"Who was born on day {day}?", "references": ["Nobody at all"]} for day in range(6)]
TWO = "Rome is in Italy. It was founded in 1850."


class Kept(sdlg.Models):
    """Models that outlive the command that used them."""

    def close(self) -> None:
        """Leave them as they are."""


@cache
def small() -> sdlg.Models:
    """The models of all blocks, on llama.cpp as a reader has them. One thread: others have the other cores."""
    models = sdlg.Models("smollm2", "nli-minilm", sdlg.Loading(threads=1))
    models.load()
    return models


def kept(model: str | None, nli: str | None, loading: sdlg.Loading | None = None) -> sdlg.Models:
    """What commands load: the small models, whatever is named."""
    return Kept(model and small().language_model, nli and small().nli, loading or sdlg.Loading())


def write_files(folder: Path, document: Path) -> None:
    """The files that documents speak of."""
    given = {"question": "Where is Rome?"} | (
        {"answer": TWO} if document.name == "long-answers.md" else {"answers": ["In Italy", "Italy", "France"]}
    )
    texts = {
        "story.txt": "Ann met Bob. She left early.",
        "questions.txt": "Who wrote Hamlet?\nWho wrote Faust?\nWhere is Rome?\n",
        "questions.jsonl": "\n".join(map(json.dumps, RIGHT + WRONG)),
        "answer.txt": TWO,
        "answers.jsonl": json.dumps(given),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def run_command(line: str) -> None:
    """Run one line of a shell block. Commands of others need a mark."""
    program, *words = shlex.split(line)
    assert program == "sdlg", f"{line!r} is neither ours nor marked with what it needs"
    quick = [] if STAGES & set(words) else QUICK_COMMANDS.get(words[0], [])
    code = main([*words, *quick], load=kept)
    assert code == 0, line


def quick_pipeline(model: str | None = None, **named: object) -> sdlg.Pipeline:
    """A pipeline as a document makes it, of the small models and with few samples."""
    options = named.pop("options", None) or sdlg.Options()
    return sdlg.pipeline.Pipeline(models=kept("smollm2", "nli-minilm"), options=options, **{**named, **FEW})


def run_python(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a block of Python, `await` included."""
    quick = {"model": small().language_model, "nli": small().nli, **FEW}
    monkeypatch.setattr(sdlg, "Pipeline", quick_pipeline, raising=False)
    monkeypatch.setattr(sdlg, "ask", lambda question, **named: ask(question, **{**named, **quick}), raising=False)
    monkeypatch.setattr(
        sdlg, "ask_async", lambda *given, **named: ask_async(*given, **{**named, **quick}), raising=False
    )
    code = code.replace('args=["mcp"]', 'args=["mcp", "--model", "smollm2"]')
    compiled = compile(code, "<document>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(compiled, {"__name__": "document"}))
    else:
        exec(compiled, {"__name__": "document"})


def run_block(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    if block.language == "python":
        run_python(block.code, monkeypatch)
    for line in block.lines if block.language != "python" else ():
        run_command(line)


@pytest.mark.parametrize("document", RUN, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_shows_can_be_done(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    write_files(tmp_path, document)
    for block in blocks_of(document):
        if block.is_run:
            run_block(block, monkeypatch)


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("```console\nsdlg ask Who?\n```\n", ["sdlg ask Who?"]),
        ("<!-- needs: hub -->\n```console\nsdlg ask Who?\n```\n", None),
        ("<!-- needs: hub, for lines with a/ -->\n```sh\nsdlg ask X --model a/b\nsdlg list\n```\n", ["sdlg list"]),
        ("```console\n$ sdlg ask Who? \\\n  --json   # why\nan answer\n```\n", ["sdlg ask Who?    --json"]),
    ],
)
def test_a_block_is_run_unless_it_says_what_it_needs(text, run, tmp_path):
    (tmp_path / "page.md").write_text(text)
    (block,) = blocks_of(tmp_path / "page.md")
    assert (block.lines if block.is_run else None) == run


@pytest.mark.parametrize("line", ["make demo", "sdlg ask --no-such-flag"])
def test_a_command_that_is_not_marked_and_cannot_be_run_fails(line, capsys):
    with pytest.raises(AssertionError, match=line):
        run_command(line)
