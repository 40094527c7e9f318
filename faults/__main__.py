"""Run the cases, each printed with how to repeat it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy  # noqa: F401 (all that children need is imported once, here)
import torch
import transformers

from . import commands
from .fuzzing import fuzz
from .table import SERVE, TABLE, ServeSubject, Subject

transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)  # a forked process has none of its parent's threads


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="cases whose name begins so")
    parser.add_argument("--seed", type=int, metavar="N", help="only this one (default: all)")
    parser.add_argument("--fuzz", type=int, default=10_000, metavar="N", help="damaged documents in all; 0: none")
    parsed = parser.parse_args()
    folder, started = Path(tempfile.mkdtemp(prefix="sdlg-faults-")), time.monotonic()
    commands.choose_port()
    try:
        outcomes = [_is_fine(name, seed, work) for name, seed, work in _cases(folder, parsed.only, parsed.seed)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(outcomes)} cases, {outcomes.count(False)} failed, {time.monotonic() - started:.0f} s", flush=True)
    failures = fuzz(parsed.fuzz, parsed.only.removeprefix("fuzz/")) if parsed.fuzz else 0
    return 1 if failures or not all(outcomes) else 0


def _cases(folder: Path, only: str, seed: int | None) -> Iterator[tuple[str, int, Callable[[Random], None]]]:
    subjects: dict[str, Subject] = {}
    for name, (command, check, count) in TABLE.items():
        if name.startswith(only):
            if command.name not in subjects:
                subjects[command.name] = Subject(command, folder / command.name)
            subject = subjects[command.name]
            for number in range(count) if seed is None else [seed]:
                subject.prepare()
                yield name, number, lambda random, subject=subject, check=check: check(subject, random)  # type: ignore[misc]
    served = None
    for name, (serve_check, count) in SERVE.items():
        if name.startswith(only):
            served = served or ServeSubject(folder / "serve")
            for number in range(count) if seed is None else [seed]:
                yield name, number, lambda random, subject=served, check=serve_check: check(subject, random)  # type: ignore[misc]


def _is_fine(name: str, seed: int, work: Callable[[Random], None]) -> bool:
    started, trouble = time.monotonic(), ""
    try:
        work(Random(f"{name}:{seed}"))
    except Exception as error:
        trouble = "".join(traceback.format_exception(error)[-2:])
    seconds = time.monotonic() - started
    print(
        f"{'FAILED' if trouble else 'ok    '} {seconds:5.1f} s  python -m faults --only {name} --seed {seed}",
        flush=True,
    )
    if trouble:
        print(trouble, file=sys.stderr, flush=True)
    return not trouble


if __name__ == "__main__":
    sys.exit(main())
