"""Which fault is done to which command, and what is right afterwards: nothing lost, doubled or mixed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from fake_server import Answer, Change, Die, Fault, HangUp, Stall, Typed

from . import commands, harms, serving
from .children import Harm, no_harm
from .commands import COMMANDS, Command, Result

Check = Callable[["Bench", Random], None]


class Bench:
    """A command with the folder it works in, what it makes undisturbed, and how many moments that has."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self.folder = command, folder
        self.prepare()
        counted = folder.parent / f"{command.name}.events"
        outcome = command.run(folder, harms.count_events(counted))
        assert outcome.code in (0, 1), outcome.said
        self.code = outcome.code
        self.whole: Result = command.result(folder)
        self.events, self.file_events = map(int, counted.read_text().split())

    def prepare(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.command.prepare(self.folder)

    def a_kill(self, random: Random) -> Harm:
        """At any moment, or more often at one at which files are touched."""
        of_files = random.random() < 0.7
        return harms.kill_at(random.randint(1, self.file_events if of_files else self.events), of_files=of_files)

    def go_on(self, harm: Harm = no_harm) -> None:
        """Begin it again, undisturbed: it must come to the end, and then have nothing left to do."""
        for _ in range(2):
            outcome = self.command.run(self.folder, harm)
            outcome.check_words()
            assert outcome.code in (0, self.code), outcome.said
        self.check_whole()

    def check_whole(self) -> None:
        found = self.command.result(self.folder)
        assert found.keys() == self.whole.keys(), f"files {sorted(found)} instead of {sorted(self.whole)}"
        for name, content in self.whole.items():
            assert found[name] == content, _difference(name, found[name], content)


def _difference(name: str, found: bytes, wanted: bytes) -> str:
    place = next((k for k, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), -1)
    around = slice(max(place - 60, 0), place + 60)
    return f"{name} differs at byte {place} ({len(found)} for {len(wanted)}): {found[around]!r}, not {wanted[around]!r}"


# -- faults -----------------------------------------------------------------------------------------------------


def kill(bench: Bench, random: Random) -> None:
    """Once or several times in a row, at other moments."""
    for _ in range(random.randint(1, 3)):
        outcome = bench.command.run(bench.folder, bench.a_kill(random))
        assert outcome.was_killed or outcome.code in (0, bench.code), outcome.said
    bench.go_on()


def full_disk(bench: Bench, random: Random) -> None:
    largest = max(len(content) for content in bench.whole.values())
    outcome = bench.command.run(bench.folder, harms.limit_files(random.randint(0, largest)))
    outcome.check_words()
    assert outcome.code in (0, 1, 2), outcome.said
    assert outcome.code == 0 or outcome.said.strip(), "it failed without a word"
    bench.go_on()


def torn_line(bench: Bench, random: Random) -> None:
    """The last lines of its files end anywhere, as after a power cut."""
    bench.command.run(bench.folder)
    for path in bench.command.files(bench.folder):
        if path.suffix == ".jsonl":
            content = path.read_bytes()
            last = content.rstrip(b"\n").rfind(b"\n") + 1
            path.write_bytes(content[: random.randint(last, len(content))])
    bench.go_on()


def flipped_byte(bench: Bench, random: Random) -> None:
    """Anywhere in what was written, by a whole run or one that was killed."""
    bench.command.run(bench.folder, bench.a_kill(random) if random.random() < 0.3 else no_harm)
    files = [path for path in bench.command.files(bench.folder) if path.stat().st_size]
    if not files:
        return bench.go_on()
    path = random.choice(files)
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    return check_damage(bench, path, bytes(content))


def cut_file(bench: Bench, random: Random) -> None:
    """One of the files is shorter than it was."""
    bench.command.run(bench.folder)
    path = random.choice(bench.command.files(bench.folder))
    content = path.read_bytes()
    check_damage(bench, path, content[: random.randrange(len(content))])


def check_damage(bench: Bench, path: Path, content: bytes) -> None:
    """Told, with nothing changed, or made anew; never used. Doing what was told mends it."""
    path.write_bytes(content)
    for _ in range(3):
        outcome = bench.command.run(bench.folder)
        outcome.check_words()
        if outcome.code in (0, bench.code) and bench.command.result(bench.folder) == bench.whole:
            return
        said = path.name in outcome.said or str(path.parent) in outcome.said  # of a list, a name
        assert said, f"damage in {path.name} was not told: {outcome.said}"
        if bench.command.recover is None or not bench.command.recover(bench.folder, outcome.said):
            assert path.name == "run.json", f"what to do is not told: {outcome.said}"
            assert path.read_bytes() == content, "what is damaged was changed"
            return
    raise AssertionError(f"doing what was said did not help: {outcome.said}")


def two_at_once(bench: Bench, random: Random) -> None:
    first = bench.command.begin(bench.folder)
    second = bench.command.begin(bench.folder)
    outcomes = [first.wait(), second.wait()]
    for outcome in outcomes:
        outcome.check_words()
        assert outcome.code in (0, bench.code, 2), outcome.said
        assert outcome.code != 2 or "another" in outcome.said, outcome.said
    assert any(outcome.code == bench.code for outcome in outcomes), [outcome.said for outcome in outcomes]
    bench.check_whole()
    bench.go_on()


def clock_jumps(bench: Bench, random: Random) -> None:
    """Files from the future and the past, and a clock that jumps."""
    bench.command.run(bench.folder, bench.a_kill(random))
    for path in [bench.folder, *bench.folder.rglob("*")]:
        moment = random.uniform(0, 4e9)
        os.utime(path, (moment, moment))
    bench.go_on(harms.shake_clock(random.randrange(10**9)))


# -- a model server that fails in each of its ways --------------------------------------------------------------


def _with_logprob(value: object) -> Fault:
    def edit(parts: list[dict[str, object]]) -> list[dict[str, object]]:
        text = json.dumps(parts)
        return json.loads(text, object_hook=lambda row: {**row, "logprob": value} if "logprob" in row else row)

    return Change(edit)


WAYS: Mapping[str, Callable[[], Fault]] = {
    "says-500": lambda: Answer(500, b'{"error": {"message": "the engine is dead"}}'),
    "says-503": lambda: Answer(503),
    "says-429": lambda: Answer(429),
    "no-json": lambda: Answer(200, b"<html>hello</html>"),
    "cut-json": lambda: Answer(200, b'{"choices": ['),
    "other-json": lambda: Answer(200, b'{"choices": 3}'),
    "list": lambda: Answer(200, b"[]"),
    "nothing": lambda: Answer(200, b""),
    "html-type": lambda: Typed("text/html"),
    "hangs-up": lambda: HangUp(),
    "hangs-up-later": lambda: HangUp(after=1),
    "stalls": lambda: Stall(),
    "stalls-later": lambda: Stall(after=1),
    "dies": lambda: Die(),
    "logprob-nan": lambda: _with_logprob(float("nan")),
    "logprob-above-0": lambda: _with_logprob(7.5),
    "logprob-huge": lambda: _with_logprob(-(10**400)),
    "logprob-text": lambda: _with_logprob("x"),
}


def server_fails(way: str) -> Check:
    def check(bench: Bench, random: Random) -> None:
        commands.injection = (WAYS[way](), random.randint(0, 30), random.random() < 0.7)
        try:
            outcome = bench.command.run(bench.folder)
        finally:
            commands.injection = None
        outcome.check_words()
        assert outcome.code in (0, 1), outcome.said
        bench.go_on()

    return check


# -- sdlg serve -------------------------------------------------------------------------------------------------


class ServeBench:
    """The same for the server."""

    def __init__(self, folder: Path) -> None:
        counted = folder.parent / "serve.events"
        session = serving.Session.begin(harms.count_events(counted))
        try:
            assert session.is_up()
            self.replies = session.replies()
        finally:
            outcome = session.end()
        assert outcome.code == 0, outcome.said
        assert None not in self.replies
        self.events = int(counted.read_text().split()[0])

    def check(self, harm: Harm = no_harm) -> None:
        """Begun again, it says what it always says, and ends when it is told to."""
        session = serving.Session.begin(harm)
        try:
            assert session.is_up(), "it did not begin again"
            assert session.replies() == self.replies
        finally:
            outcome = session.end()
        outcome.check_words()
        assert outcome.code == 0, outcome.said


def serve_killed(bench: ServeBench, random: Random) -> None:
    session = serving.Session.begin(harms.kill_at(random.randint(1, bench.events), of_files=False))
    replies = session.replies() if session.is_up() else []
    for mine, whole in zip(replies, bench.replies, strict=False):
        assert mine in (None, whole), "half an answer, or another one"
    session.end()
    bench.check()


def serve_twice(bench: ServeBench, random: Random) -> None:
    session = serving.Session.begin()
    try:
        assert session.is_up()
        outcome = serving.Session.begin().child.wait()
        assert (outcome.code, "cannot listen" in outcome.said) == (2, True), outcome.said
        assert session.replies() == bench.replies
    finally:
        assert session.end().code == 0


def serve_clock(bench: ServeBench, random: Random) -> None:
    bench.check(harms.shake_clock(random.randrange(10**9)))


def serve_left(bench: ServeBench, random: Random) -> None:
    session = serving.Session.begin()
    try:
        assert session.is_up()
        for _ in range(10):
            serving.hang_up_half_way(random)
        assert session.replies() == bench.replies
    finally:
        assert session.end().code == 0


# -- the table --------------------------------------------------------------------------------------------------

_FAULTS: Mapping[str, Check] = {
    "kill": kill, "full-disk": full_disk, "torn-line": torn_line, "flipped-byte": flipped_byte,
    "two-at-once": two_at_once, "clock-jumps": clock_jumps,
}  # fmt: skip
_FILES = ("ask", "ask-again", "score", "eval", "convert")
_MANY = {"kill": 16, "full-disk": 10, "torn-line": 6, "flipped-byte": 16, "two-at-once": 4, "clock-jumps": 5}
SERVE: Mapping[str, tuple[Callable[[ServeBench, Random], None], int]] = {
    "serve/kill": (serve_killed, 12), "serve/two-at-once": (serve_twice, 2),
    "serve/clock-jumps": (serve_clock, 3), "serve/client-leaves": (serve_left, 3),
}  # fmt: skip
TABLE: Mapping[str, tuple[Command, Check, int]] = {
    **{f"{name}/{fault}": (COMMANDS[name], check, _MANY[fault]) for name in _FILES for fault, check in _FAULTS.items()
       if name != "convert"},
    **{f"convert/{fault}": (COMMANDS["convert"], check, _MANY[fault] // 4 + 1) for fault, check in _FAULTS.items()
       if fault != "torn-line"},  # every case imports half of transformers
    **{
        f"{name}/server-{way}": (COMMANDS[name], server_fails(way), 2)
        for name in ("ask-served", "eval-served")
        for way in WAYS
    },
    **{f"{name}/kill": (COMMANDS[name], kill, 6) for name in ("ask-served", "eval-served")},
    "convert/cut-file": (COMMANDS["convert"], cut_file, 6),
}  # fmt: skip
