"""Every reader with damaged documents: only our own errors come out.

In: how many documents in all. Out: how many readers failed; each failure is printed with the document, made small.
"""

from __future__ import annotations

import json
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from rich.console import Console

from fakes import fake_pipeline
from sdlg import Loading, Models, Options, Pipeline
from sdlg.calibration import Calibration
from sdlg.cli.calibrate import read_judged
from sdlg.cli.files import read_text
from sdlg.cli.question_files import Asked, finished_lines, read_questions
from sdlg.errors import SdlgError
from sdlg.evaluation.datasets.items import read_items
from sdlg.evaluation.results import load_run
from sdlg.evaluation.store import STAGES
from sdlg.files import seal
from sdlg.measures.table import MEASURES
from sdlg.models.llama.header import read_header
from sdlg.models.server.connection import BadReply
from sdlg.models.server.replies import read_chunk, read_steps, tells_ids
from sdlg.models.server.tokenizers import TokenSpellings
from sdlg.options import NONE
from sdlg.records import Question
from sdlg.schema import read_given_row, result_from_json
from sdlg.views.brief import brief_dict
from sdlg.views.html_file import result_page
from sdlg.views.reading import reading
from sdlg.views.terminal import print_result
from tiny_gguf import write_tiny_gguf

from . import commands
from .children import run_in_child
from .damage import damaged

FOLDER = Path(tempfile.gettempdir())  # of the files that are read; `fuzz` makes one of its own


@dataclass(frozen=True)
class Reader:
    """What is read, from which valid documents (JSON values, or bytes), and its share of all cases."""

    documents: Callable[[], list[Any]]
    read: Callable[[bytes], object]
    share: float


@cache
def asking() -> Pipeline:
    return fake_pipeline(measures=("SE_MS", "PE", "lexical_similarity", "Deg"), samples=4)


@cache
def scoring() -> Pipeline:
    """By everything that needs no model."""
    return Pipeline(models=Models(None, None), measures=tuple(MEASURES), calibration=NONE)


@cache
def result_row() -> dict[str, Any]:
    row: dict[str, Any] = json.loads(asking().ask("What is it?").to_json())
    return {**row, "candidates": row["candidates"][:2]}


@cache
def long_row() -> dict[str, Any]:
    """A long answer's result."""
    models = commands.reading_models(None, None, Loading())
    few = Options(sentence_samples=3, draws=2, prompt="raw", equivalence="strict")
    result = Pipeline(models=models, options=few).check("who?", "the cat sat. on mat.")
    row: dict[str, Any] = json.loads(result.to_json())
    return {**row, "sentences": [{**one, "candidates": one["candidates"][:2]} for one in row["sentences"]]}


def read_long_result(content: bytes) -> None:
    """Read it, and show it in every way."""
    result = result_from_json(content)
    reading(result), brief_dict(result), result_page(result), str(result)
    print_result(Console(file=StringIO()), result, verbose=True)


def judged_rows() -> list[Any]:
    return [{"question": "q", "answer": "a b", "segments": [{"text": "a", "right": True}]}]


def read_judged_lines(content: bytes) -> None:
    path = FOLDER / "judged.jsonl"
    path.write_bytes(content)
    read_judged(path)


def read_question_lines(content: bytes) -> None:
    path = FOLDER / "questions"
    path.write_bytes(content)
    list(read_questions(read_text(path), None))


def read_data_lines(content: bytes) -> None:
    path = FOLDER / "data"
    path.write_bytes(content)
    list(read_items(read_text(path).split("\n")))


def answer_rows() -> list[Any]:
    answers = [
        {"text": "a b", "logprobs": [-0.5, -1], "tokens": ["a", " b"], "cluster": 0, "entropies": [0.5, 0.25]},
        {"text": "c", "logprobs": [-2.5], "cluster": 1, "position": 0, "tokens": ["c"], "entropies": [1]},
    ]
    return [{"question": "q", "answers": answers}, {"question": {"text": "q", "context": "c"}, "answers": ["a", "b"]}]


def read_answers(content: bytes) -> None:
    """Read them as `sdlg score` does, and measure all that can be measured."""
    given = read_given_row(content.decode("utf-8", "surrogateescape"))
    scoring().score(given.question, given.samples, evidence=given.evidence)


def read_result_lines(content: bytes) -> None:
    path = FOLDER / "out.jsonl"
    path.write_bytes(content + b"\n" + seal(json.dumps(result_row())).encode() + b"\n")
    finished_lines(path, [Asked(1, Question("What is it?"))] * 2, asking())


# -- runs -------------------------------------------------------------------------------------------------------


@cache
def run_files() -> dict[str, bytes]:
    """A small run, made once."""
    folder = FOLDER / "made"
    folder.mkdir()
    commands.write_data(folder)
    assert run_in_child(lambda: commands.evaluate(folder)).code == 0
    return {path.name: path.read_bytes() for path in (folder / "run").iterdir() if path.suffix.startswith(".json")}


def run_rows(stage: str) -> list[Any]:
    return [_unsealed(line) for line in run_files()[f"{stage}.jsonl"].splitlines()[:2]]


def run_description() -> list[Any]:
    return [_unsealed(run_files()["run.json"])]


def _unsealed(line: bytes) -> Any:
    return {name: value for name, value in json.loads(line).items() if name != "crc32"}


def read_run(file: str) -> Callable[[bytes], None]:
    """The run with one line of one file damaged, its checksum made anew or left out: read as the report reads it."""

    def read(content: bytes) -> None:
        folder = FOLDER / "run"
        folder.mkdir(exist_ok=True)
        for name, whole in run_files().items():
            (folder / name).write_bytes(whole)
        rest = b"" if file == "run.json" else b"\n" + b"\n".join((folder / file).read_bytes().split(b"\n")[1:])
        (folder / file).write_bytes(content + rest)
        run = load_run(folder)
        for method in run.methods:
            for name in run.measures(method):
                run.values(method, name)
                run.reasons(method, name)
        for metric in run.metrics:
            run.wrong(metric, 0.5)
        _ = (
            run.samples,
            run.data,
            run.model,
            run.nli,
            run.preset,
            run.versions,
            run.parameters,
            run.has_stock,
            run.config,
        )

    return read


# -- calibrations and servers -----------------------------------------------------------------------------------


def calibrations() -> list[Any]:
    origin = {
        "model": "scripted", "nli": "fake-nli", "method": "sdlg", "measure": "semantic_entropy",
        "higher_is_less_certain": True, "samples": 10, "metric": "rouge_l", "threshold": 0.5,
        "data": {"name": "d", "format": "zero-shot"}, "options": {"max_tokens": 64, "temperature": 1.0},
    }  # fmt: skip
    keep = {"wanted": 0.1, "threshold": 0.5, "kept": 10, "wrong": 1, "n": 100, "low": 0.01, "high": 0.3, "reason": ""}
    interval = {"value": 0.1, "low": -0.1, "high": 0.3}
    bins = [{"low": 0.0, "high": 1.0, "risk": 0.4, "wrong": 40, "n": 100, "share_low": 0.3, "share_high": 0.5}]
    out_of_fold = {
        "folds": 5, "seed": 0, "brier": 0.2, "brier_of_base_rate": 0.24, "skill": interval, "ece": 0.1,
        "ece_if_perfect": 0.1, "bins": bins, "brier_of_maps": {"logistic": 0.2}, "auroc": interval,
    }  # fmt: skip
    row = {
        "format": "sdlg.calibration/1", "smallest": 0.01, "n": 100, "n_wrong": 40, "origin": origin, "keep": keep,
        "out_of_fold": out_of_fold, "created": "now", "notes": [], "versions": {},
    }  # fmt: skip
    isotonic = {"kind": "isotonic", "values": [0.0, 1.0, 2.0], "risks": [0.1, 0.5, 0.9]}
    logistic = {"kind": "logistic", "intercept": -1.0, "slope": 2.0, "low": 0.0, "high": 3.0}
    return [{**row, "map": isotonic}, {**row, "map": logistic}]


def read_calibration(content: bytes) -> None:
    """Read, and used."""
    path = FOLDER / "risk.json"
    path.write_bytes(content)
    made = Calibration.load(path)
    made.risk_at(0.5), made.keeps(0.5), made.basis, made.fingerprint, made.keep.coverage
    made.is_asked_alike(Question("q"))
    made.origin.differences("scripted", "fake-nli", "sdlg", Options())


def read_gguf(content: bytes) -> None:
    path = FOLDER / "damaged.gguf"
    path.write_bytes(content)
    read_header(path)


@cache
def gguf_header() -> bytes:
    """A small file up to its weights."""
    return write_tiny_gguf(FOLDER / "whole.gguf", bos=True, template="{{ messages }}").read_bytes()[:3000]


def chunks() -> list[Any]:
    token = {"id": 5, "token": "a", "bytes": [97], "logprob": -0.5}
    content = {"content": [{**token, "top_logprobs": [token, {**token, "id": 6, "logprob": -1.5}]}]}
    legacy = {
        "tokens": ["token_id:5", "b"],
        "token_logprobs": [-0.5, -1.0],
        "top_logprobs": [{"token_id:5": -0.5}, None],
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    choice = {"text": "a", "finish_reason": None, "index": 0, "token_ids": [5]}
    chat = {"message": {"content": "a"}, "finish_reason": "stop", "logprobs": content}
    choices = [{**choice, "logprobs": content}, {**choice, "logprobs": legacy}, chat]
    return [{"choices": [one], "usage": usage} for one in choices]


def read_reply(content: bytes) -> None:
    """Read it as the connection does."""
    try:
        chunk = json.loads(content)
    except (ValueError, RecursionError):
        return
    read_chunk(chunk, TokenSpellings())
    choice = chunk["choices"][0] if chunk["choices"] else {}
    read_steps(choice, TokenSpellings())
    tells_ids(choice)


READERS = {
    "questions": Reader(lambda: [{"question": "q", "context": "c"}], read_question_lines, 0.1),
    "data": Reader(lambda: [{"id": "a", "question": "q", "references": ["r"], "context": "c"}], read_data_lines, 0.1),
    "answers": Reader(answer_rows, read_answers, 0.2),
    "results-as-answers": Reader(lambda: [result_row()], read_answers, 0.1),
    "result-lines": Reader(lambda: [result_row()], read_result_lines, 0.1),
    "long-results": Reader(lambda: [long_row()], read_long_result, 0.05),
    "judged": Reader(judged_rows, read_judged_lines, 0.05),
    "run.json": Reader(run_description, read_run("run.json"), 0.05),
    **{
        f"{stage}.jsonl": Reader(lambda stage=stage: run_rows(stage), read_run(f"{stage}.jsonl"), 0.05)  # type: ignore[misc]
        for stage in STAGES
    },
    "calibrations": Reader(calibrations, read_calibration, 0.1),
    "server-replies": Reader(chunks, read_reply, 0.05),
    "gguf-headers": Reader(lambda: [gguf_header()], read_gguf, 0.05),
}


def fuzz(count: int, only: str = "") -> int:
    """The number of readers that failed."""
    global FOLDER
    failures, cases, started = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder)
        for name, reader in READERS.items():
            if name.startswith(only):
                share = max(round(count * reader.share), 1)
                failures += not _is_sound(name, reader, share)
                cases += share
    print(f"{cases} damaged documents, {failures} readers failed, {time.monotonic() - started:.0f} s", flush=True)
    return failures


def _is_sound(name: str, reader: Reader, count: int) -> bool:
    @seed(14)
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink), print_blob=False,
    )  # fmt: skip
    @given(content=damaged(reader.documents()))
    def read(content: bytes) -> None:
        with suppress(SdlgError, BadReply):
            reader.read(content)

    started = time.monotonic()
    try:
        read()
    except Exception as error:
        print(f"FAILED fuzz {name}: {type(error).__name__}: {error}")
        print("".join(traceback.format_exception(error)[-6:]), *getattr(error, "__notes__", ()), flush=True)
        return False
    print(f"ok     {time.monotonic() - started:5.1f} s  fuzz {name}: {count} documents", flush=True)
    return True
