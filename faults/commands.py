"""The commands that are disturbed: how each is begun, what it writes, and what must come out of it in the end.

All models are scripts or a few kilobytes large. A case's folder always has the same path, so results can be compared
byte by byte.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sdlg.formats.codec import ERROR_FORMAT

from fake_server import FakeServer, Fault
from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg import ScriptedModel, loaded
from sdlg.cli import main
from sdlg.errors import SdlgError
from sdlg.models.transformers.gguf import converted_gguf
from tiny_gguf import write_tiny_gguf

from .children import Child, Harm, Outcome, no_harm, run_in_child

QUESTIONS = [f"Question {k}?" for k in range(5)]
Result = dict[str, bytes]
Injection = tuple[Fault, int, bool]  # what happens to the so-manieth request for tokens; True: and to all after it


@dataclass(frozen=True)
class Command:
    """See the module's docstring. Paths are relative to the case's folder."""

    name: str
    prepare: Callable[[Path], None]
    work: Callable[[Path], int]  # in the child
    outputs: tuple[str, ...]  # patterns of the files that it writes
    is_resumed: bool = True  # False: begun again, it makes everything anew
    recover: Callable[[Path, str], bool] | None = None  # do what a message about damage says; False: it does not say
    dropped: frozenset[str] = field(default_factory=frozenset)  # names in JSON documents that may differ

    def begin(self, folder: Path, harm: Harm = no_harm) -> Child:
        return Child(lambda: self.work(folder), harm)

    def run(self, folder: Path, harm: Harm = no_harm) -> Outcome:
        return run_in_child(lambda: self.work(folder), harm)

    def files(self, folder: Path) -> list[Path]:
        found = {path for pattern in self.outputs for path in folder.glob(pattern) if path.is_file()}
        return sorted(found)

    def result(self, folder: Path) -> Result:
        return {str(path.relative_to(folder)): self._content(path) for path in self.files(folder)}

    def _content(self, path: Path) -> bytes:
        """Of a run the lines, whatever their order: questions finish as they come."""
        if self.outputs is _RUN and path.suffix == ".jsonl":
            return b"\n".join(sorted(path.read_bytes().split(b"\n")))
        if path.suffix != ".json" or not self.dropped:
            return path.read_bytes()
        kept = {name: value for name, value in json.loads(path.read_bytes()).items() if name not in self.dropped}
        return json.dumps(kept, sort_keys=True).encode()


# -- models without weights -------------------------------------------------------------------------------------


def use_scripts() -> None:
    """In the child: every name is a script."""
    use_fake_judge()
    loaded.load_model = lambda name, *_: ScriptedModel(CAPITAL, name=str(name))  # type: ignore[assignment]


def use_fake_judge() -> None:
    """In the child: a model server answers, a fake NLI model judges."""
    loaded.load_nli = lambda name, *_, **__: FakeNli(MEANINGS, name=str(name))  # type: ignore[assignment]


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
    errors = [
        {
            "format": ERROR_FORMAT,
            "line": k + 1,
            "question": QUESTIONS[k],
            "error": "it was late",
            "retry": True,
        }
        for k in range(2)
    ]
    (folder / "out.jsonl").write_text("".join(json.dumps(error) + "\n" for error in errors))


def ask(folder: Path) -> int:
    use_scripts()
    return main(["ask", "--file", str(folder / "questions.txt"), "--out", str(folder / "out.jsonl"), "--samples", "3"])


def cut_from_damaged_line(folder: Path, said: str) -> bool:
    """What `sdlg ask` says: remove that line and all after it."""
    match = re.search(r"out\.jsonl, line (\d+)", said)
    if match:
        lines = (folder / "out.jsonl").read_bytes().split(b"\n")
        (folder / "out.jsonl").write_bytes(b"".join(line + b"\n" for line in lines[: int(match[1]) - 1]))
    elif "results for" in said:  # one line became two
        (folder / "out.jsonl").unlink()
    return "out.jsonl" in said


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
        "--similarity-model", "none", "--measures", "PE,SE_MS,number_of_clusters,lexical_similarity",
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
    use_scripts()
    return main(eval_arguments(folder))


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
injection: Injection | None = None  # of the next child


def choose_port() -> None:
    global PORT
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        PORT = one.getsockname()[1]


def serve_fake(arguments: list[str]) -> int:
    use_fake_judge()
    with FakeServer("llama", CAPITAL, port=PORT) as server:
        server._http.handle_error = lambda *_: None  # clients that leave are no news
        if injection is not None:
            fault, place, lasts = injection
            met = iter(range(10**9))
            server.inject(fault, when=lambda seen: seen.generates and _is_met(next(met), place, lasts))
        return main([*arguments, "--model", f"{server.url}#tiny", "--retry-seconds", "0.6", "--in-flight", "2"])


def _is_met(number: int, place: int, lasts: bool) -> bool:
    return number >= place if lasts else number == place


def ask_served(folder: Path) -> int:
    files = ["--file", str(folder / "questions.txt"), "--out", str(folder / "out.jsonl")]
    return serve_fake(["ask", *files, "--samples", "3"])


def evaluate_served(folder: Path) -> int:
    return serve_fake(eval_arguments(folder))


# -- conversion of a model --------------------------------------------------------------------------------------


def write_model(folder: Path) -> None:
    write_tiny_gguf(folder / "tiny.gguf", bos=True)


def convert(folder: Path) -> int:
    os.environ["SDLG_HOME"] = str(folder / "home")
    try:
        converted_gguf(folder / "tiny.gguf")
    except SdlgError as error:
        print(f"sdlg: {error}")
        return error.exit_code
    return 0


def delete_folder(folder: Path, said: str) -> bool:
    """What is said of a damaged copy: delete the folder."""
    import shutil

    match = re.search(r"Delete the folder (\S+) and start again", said)
    if match:
        shutil.rmtree(match[1])
    return match is not None


_LINES = ("out.jsonl",)
_RUN = ("run/*.jsonl", "run/run.json")
_SESSIONS = frozenset({"sessions", "crc32"})
COMMANDS = {
    command.name: command
    for command in (
        Command("ask", write_questions, ask, _LINES, recover=cut_from_damaged_line),
        Command("ask-again", write_broken_off, ask, _LINES, recover=cut_from_damaged_line),
        Command("score", write_rows, score, _LINES, is_resumed=False),
        Command("eval", write_data, evaluate, _RUN, recover=remove_damaged_line, dropped=_SESSIONS),
        Command("convert", write_model, convert, ("home/models/*/*",), recover=delete_folder),
        Command("ask-served", write_questions, ask_served, _LINES),
        Command("eval-served", write_data, evaluate_served, _RUN, dropped=_SESSIONS),
    )
}
