"""Which fault is done to which command, and what is right afterwards: nothing lost, doubled or mixed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from fake_server import Answer, Change, Die, Fault, HangUp, Stall, Typed

from . import commands, process_faults, serving
from .children import ProcessFault, no_fault
from .commands import COMMANDS, Command, Result

Check = Callable[["Subject", Random], None]


class Subject:
    """A command with the folder it works in, what it makes undisturbed, and how many moments that has."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self.folder = command, folder
        self.prepare()
        counted = folder.parent / f"{command.name}.events"
        outcome = command.run(folder, process_faults.count_events(counted))
        assert outcome.code in (0, 1), outcome.output
        self.code = outcome.code
        self.whole: Result = command.result(folder)
        self.events, self.file_events = map(int, counted.read_text().split())

    def prepare(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.command.prepare(self.folder)

    def a_kill(self, random: Random) -> ProcessFault:
        """At any moment, or more often at one at which files are touched."""
        of_files = random.random() < 0.7
        return process_faults.kill_at(
            random.randint(1, self.file_events if of_files else self.events), of_files=of_files
        )

    def go_on(self, fault: ProcessFault = no_fault) -> None:
        """Begin it again, undisturbed: it must come to the end, and then have nothing left to do."""
        for _ in range(2):
            outcome = self.command.run(self.folder, fault)
            outcome.check_message()
            assert outcome.code in (0, self.code), outcome.output
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


def kill(subject: Subject, random: Random) -> None:
    """Once or several times in a row, at other moments."""
    for _ in range(random.randint(1, 3)):
        outcome = subject.command.run(subject.folder, subject.a_kill(random))
        assert outcome.was_killed or outcome.code in (0, subject.code), outcome.output
    subject.go_on()


def full_disk(subject: Subject, random: Random) -> None:
    largest = max(len(content) for content in subject.whole.values())
    outcome = subject.command.run(subject.folder, process_faults.limit_files(random.randint(0, largest)))
    outcome.check_message()
    assert outcome.code in (0, 1, 2), outcome.output
    assert outcome.code == 0 or outcome.output.strip(), "it failed without a word"
    subject.go_on()


def torn_line(subject: Subject, random: Random) -> None:
    """The last lines of its files end anywhere, as after a power cut."""
    subject.command.run(subject.folder)
    for path in subject.command.files(subject.folder):
        if path.suffix == ".jsonl":
            content = path.read_bytes()
            last = content.rstrip(b"\n").rfind(b"\n") + 1
            path.write_bytes(content[: random.randint(last, len(content))])
    subject.go_on()


def flipped_byte(subject: Subject, random: Random) -> None:
    """Anywhere in what was written, by a whole run or one that was killed."""
    subject.command.run(subject.folder, subject.a_kill(random) if random.random() < 0.3 else no_fault)
    files = [path for path in subject.command.files(subject.folder) if path.stat().st_size]
    if not files:
        return subject.go_on()
    path = random.choice(files)
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    return check_damage(subject, path, bytes(content))


def cut_file(subject: Subject, random: Random) -> None:
    """One of the files is shorter than it was."""
    subject.command.run(subject.folder)
    path = random.choice(subject.command.files(subject.folder))
    content = path.read_bytes()
    check_damage(subject, path, content[: random.randrange(len(content))])


def check_damage(subject: Subject, path: Path, content: bytes) -> None:
    """Check that damage is made good, or reported with nothing changed; and that doing what the message says helps."""
    path.write_bytes(content)
    for _ in range(3):
        outcome = subject.command.run(subject.folder)
        outcome.check_message()
        if outcome.code in (0, subject.code) and subject.command.result(subject.folder) == subject.whole:
            return
        is_named = path.name in outcome.output or str(path.parent) in outcome.output  # of a list, a name
        assert is_named, f"damage in {path.name} was not reported: {outcome.output}"
        if subject.command.recover is None or not subject.command.recover(subject.folder, outcome.output):
            assert path.name == "run.json", f"the message does not say what to do: {outcome.output}"
            assert path.read_bytes() == content, "what is damaged was changed"
            return
    raise AssertionError(f"doing what the message says did not help: {outcome.output}")


def damaged_input(subject: Subject, random: Random) -> None:
    """A model file that a user named is cut short, or changed in the middle: an error that names it, or an answer."""
    path = subject.folder / "tiny.gguf"
    content = bytearray(path.read_bytes())
    if random.random() < 0.5:
        del content[random.randrange(len(content)) :]
    else:
        place = random.randrange(len(content) // 4 if random.random() < 0.5 else len(content))  # the header, or any
        content[place] ^= 1 << random.randrange(8)
    path.write_bytes(content)
    outcome = subject.command.run(subject.folder)
    outcome.check_message()
    assert outcome.code in (0, 1, 2), f"ended with {outcome.code}: {outcome.output[-500:]}"
    assert outcome.code == 0 or path.name in outcome.output, outcome.output


def two_at_once(subject: Subject, random: Random) -> None:
    first = subject.command.begin(subject.folder)
    second = subject.command.begin(subject.folder)
    outcomes = [first.wait(), second.wait()]
    for outcome in outcomes:
        outcome.check_message()
        assert outcome.code in (0, subject.code, 2), outcome.output
        assert outcome.code != 2 or "another" in outcome.output, outcome.output
    assert any(outcome.code == subject.code for outcome in outcomes), [outcome.output for outcome in outcomes]
    subject.check_whole()
    subject.go_on()


def clock_jumps(subject: Subject, random: Random) -> None:
    """Files from the future and the past, and a clock that jumps."""
    subject.command.run(subject.folder, subject.a_kill(random))
    for path in [subject.folder, *subject.folder.rglob("*")]:
        moment = random.uniform(0, 4e9)
        os.utime(path, (moment, moment))
    subject.go_on(process_faults.shake_clock(random.randrange(10**9)))


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
    def check(subject: Subject, random: Random) -> None:
        commands.server_fault = (WAYS[way](), random.randint(0, 30), random.random() < 0.7)
        try:
            outcome = subject.command.run(subject.folder)
        finally:
            commands.server_fault = None
        outcome.check_message()
        assert outcome.code in (0, 1), outcome.output
        subject.go_on()

    return check


# -- sdlg serve -------------------------------------------------------------------------------------------------


class ServeSubject:
    """The same for the server."""

    def __init__(self, folder: Path) -> None:
        counted = folder.parent / "serve.events"
        session = serving.Session.begin(process_faults.count_events(counted))
        try:
            assert session.is_up(), "it did not begin"
            self.replies = session.replies()
        finally:
            outcome = session.end()
        assert outcome.code == 0, outcome.output
        assert None not in self.replies
        self.events = int(counted.read_text().split()[0])

    def check(self, fault: ProcessFault = no_fault) -> None:
        """Begun again, it says what it always says, and ends when it is told to."""
        session = serving.Session.begin(fault)
        try:
            assert session.is_up(), "it did not begin again"
            assert session.replies() == self.replies
        finally:
            outcome = session.end()
        outcome.check_message()
        assert outcome.code == 0, outcome.output


def serve_killed(subject: ServeSubject, random: Random) -> None:
    session = serving.Session.begin(process_faults.kill_at(random.randint(1, subject.events), of_files=False))
    replies = session.replies() if session.is_up() else []
    for mine, whole in zip(replies, subject.replies, strict=False):
        assert mine in (None, whole), "half an answer, or another one"
    session.end()
    subject.check()


def serve_twice(subject: ServeSubject, random: Random) -> None:
    session = serving.Session.begin()
    try:
        assert session.is_up()
        outcome = serving.Session.begin().child.wait()
        assert (outcome.code, "cannot listen" in outcome.output) == (2, True), outcome.output
        assert session.replies() == subject.replies
    finally:
        assert session.end().code == 0


def serve_clock(subject: ServeSubject, random: Random) -> None:
    subject.check(process_faults.shake_clock(random.randrange(10**9)))


def serve_left(subject: ServeSubject, random: Random) -> None:
    session = serving.Session.begin()
    try:
        assert session.is_up()
        for _ in range(10):
            serving.hang_up_half_way(random)
        assert session.replies() == subject.replies
    finally:
        assert session.end().code == 0


# -- the table --------------------------------------------------------------------------------------------------

_FAULTS: Mapping[str, Check] = {
    "kill": kill, "full-disk": full_disk, "torn-line": torn_line, "flipped-byte": flipped_byte,
    "two-at-once": two_at_once, "clock-jumps": clock_jumps,
}  # fmt: skip
_FILES = ("ask", "ask-again", "score", "eval")
_MANY = {"kill": 16, "full-disk": 10, "torn-line": 6, "flipped-byte": 16, "two-at-once": 4, "clock-jumps": 5}
SERVE: Mapping[str, tuple[Callable[[ServeSubject, Random], None], int]] = {
    "serve/kill": (serve_killed, 12), "serve/two-at-once": (serve_twice, 2),
    "serve/clock-jumps": (serve_clock, 3), "serve/client-leaves": (serve_left, 3),
}  # fmt: skip
TABLE: Mapping[str, tuple[Command, Check, int]] = {
    **{f"{name}/{fault}": (COMMANDS[name], check, _MANY[fault]) for name in _FILES for fault, check in _FAULTS.items()},
    **{f"check/{fault}": (COMMANDS["check"], check, _MANY[fault] // 4 + 1) for fault, check in _FAULTS.items()},
    **{f"fetch/{fault}": (COMMANDS["fetch"], check, _MANY[fault]) for fault, check in _FAULTS.items()
       if fault != "torn-line"},
    **{f"convert/{fault}": (COMMANDS["convert"], check, _MANY[fault] // 4 + 1) for fault, check in _FAULTS.items()
       if fault != "torn-line"},  # every case imports half of transformers
    **{f"{name}/cut-file": (COMMANDS[name], cut_file, 6) for name in ("fetch", "convert")},
    "llama/damaged-file": (COMMANDS["llama"], damaged_input, 40),
    **{
        f"{name}/server-{way}": (COMMANDS[name], server_fails(way), 2)
        for name in ("ask-served", "eval-served")
        for way in WAYS
    },
    **{f"{name}/kill": (COMMANDS[name], kill, 6) for name in ("ask-served", "eval-served")},
}  # fmt: skip
