"""What one `sdlg ask` costs from the shell: seconds to its first token on a terminal, and its peak memory.

    python bench/startup.py [--model NAME] [--engine transformers|llama.cpp] [--rounds 3] [--json]

Seconds are told beside those of `python -c "import torch, transformers"`, in turn with it. Models are fetched and
converted before the first round. Memory is the most that the process ever held (ru_maxrss).
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from sdlg.models.catalogue import CATALOGUE
from sdlg.models.fetching import fetched
from sdlg.options import SMOLLM2

QUESTION = "What is the capital of France?"
IMPORTS = "import torch, transformers"
ENGINES = ("transformers", "llama.cpp")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FIRST_TOKEN = re.compile(r"(answering|scoring the words of): +\S")  # what the progress line shows


@dataclass(frozen=True, slots=True)
class Startup:
    """Medians of all rounds."""

    first_token_seconds: float
    whole_seconds: float
    import_seconds: float
    peak_gigabytes: float

    @property
    def lines(self) -> tuple[str, ...]:
        ratio = self.first_token_seconds / self.import_seconds
        return (
            f"from the shell to the first token: {self.first_token_seconds:.1f} s, {ratio:.2f}× `{IMPORTS}` "
            f"({self.import_seconds:.1f} s); to the end {self.whole_seconds:.1f} s",
            f"peak memory of `sdlg ask`: {self.peak_gigabytes:.2f} GB",
        )


@dataclass(frozen=True, slots=True)
class Timed:
    """One process."""

    first_token_seconds: float | None
    seconds: float
    peak_gigabytes: float


def model_name(name: str, engine: str) -> str:
    """Return what --model takes so that this engine runs it: llama.cpp takes the file itself."""
    return str(fetched(name)) if engine == "llama.cpp" and name in CATALOGUE else name


def timed(arguments: Sequence[str]) -> Timed:
    """Run Python with these arguments, its standard error on a terminal, and watch that for the first token."""
    ours, its = pty.openpty()
    began, first, shown = time.perf_counter(), None, ""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(its)
    while block := _read(ours):
        shown += block
        if first is None and _FIRST_TOKEN.search(_ESCAPES.sub("", shown)):
            first = time.perf_counter() - began
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    os.close(ours)
    if process.returncode:
        sys.exit(f"python {' '.join(arguments)} ended with {process.returncode}: {_ESCAPES.sub('', shown)[-500:]}")
    return Timed(first, time.perf_counter() - began, used.ru_maxrss / 2**20)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # how Linux tells that nobody holds the other end any more
        return ""


def measure(model: str, engine: str, rounds: int) -> Startup:
    """Run both commands in turn."""
    ask = ["-m", "sdlg.cli", "ask", QUESTION, "--model", model_name(model, engine), "--set", f"engine={engine}"]
    ask += ["--set", "stop_at=sentence", "--max-tokens", "32", "--json"]
    timed(ask)
    asked, imported = [], []
    for _ in range(rounds):
        imported.append(timed(["-c", IMPORTS]))
        asked.append(timed(ask))
    firsts = [one.first_token_seconds for one in asked if one.first_token_seconds is not None]
    assert firsts, "no first token was shown"
    return Startup(
        median(firsts),
        median(one.seconds for one in asked),
        median(one.seconds for one in imported),
        median(one.peak_gigabytes for one in asked),
    )


def measure_apart(model: str, engine: str, rounds: int) -> Startup:
    """Do it in a small process: Linux counts the memory of whoever starts a process as if it had been its own."""
    arguments = ["--model", model, "--engine", engine, "--rounds", str(rounds), "--json"]
    run = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    return Startup(**json.loads(run.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = measure(chosen.model, chosen.engine, chosen.rounds)
    print(json.dumps(asdict(found)) if chosen.json else "\n".join(found.lines))


if __name__ == "__main__":
    main()
