"""A run on disk: `run.json` and one append-only JSONL file per stage, readable by anyone.

In: rows, one per question and stage. Out: the same rows, also after a `kill -9`: a row is there when `append` returns,
and a torn last line is cut off when the run is opened again. Later rows of a question add to its earlier ones.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..errors import BadOption, RunError, UsageError
from ..formats.files import write_whole
from ..formats.lines import NAME as CHECKSUM
from ..formats.lines import is_intact, seal
from ..options import told_differences
from .plan import Plan, plan_from
from .rows import StageRow
from .shapes import DESCRIPTION, ROWS, fits

FORMAT = "sdlg.run/1"
STAGES = ("generate", "cluster", "measure", "judge")


class Store:
    """A run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def description(self) -> Path:
        """The file that says what the run is."""
        return self.folder / "run.json"

    def read_description(self) -> StageRow:
        """What the run is, as it was written when it began."""
        try:
            description = json.loads(self.description.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BadOption(f"{self.folder} is no run: it has no run.json (sdlg eval --out {self.folder})") from None
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"cannot read {self.description}: {error}") from error
        if not isinstance(description, dict) or description.get("format") != FORMAT:
            raise BadOption(f"{self.description} is not a {FORMAT} file")
        if missing := [name for name in ("plan", "data") if not isinstance(description.get(name), dict)]:
            raise RunError(f"{self.description} is damaged: it has no {' and no '.join(missing)}")
        if description.pop(CHECKSUM, None) not in (None, _checksum(description)):
            raise RunError(
                f"{self.description} is damaged: its checksum is not that of what it holds; begin another run, or, if "
                f'it was changed on purpose, remove "{CHECKSUM}" from it'
            )
        if wrong := [name for name, shape in DESCRIPTION.items() if not fits(description, {name: shape})]:
            raise RunError(f"{self.description} is damaged: its {wrong[0].removesuffix('?')} cannot be read")
        return description

    def begin(self, plan: Plan, facts: Mapping[str, Any]) -> None:
        """Write what the run is, or make sure that it is what it was. What was added to the plan is noted.

        A run without a single row has not begun yet: its plan may still change.
        """
        described: StageRow = {}
        if self.description.exists() and self.has_rows:
            described = self.read_description()
            check_same(described, plan, facts, self.folder)
        sessions = [*described.get("sessions", []), facts["session"]]
        facts = {name: fact for name, fact in facts.items() if name != "session"}
        self.rewrite({"format": FORMAT, **facts, **described, "sessions": sessions, "plan": plan.to_dict()})

    @property
    def has_rows(self) -> bool:
        """Whether any question has been worked on, in whichever stage: all of them belong to one plan."""
        files = [self.file(stage) for stage in STAGES]
        return any(file.exists() and file.stat().st_size > 0 for file in files)

    def make_folder(self) -> None:
        """The run's folder, unless it is something else's."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadOption(f"cannot make the folder {self.folder}: {error}") from error
        if not self.description.exists() and any(path.suffix == ".jsonl" for path in self.folder.iterdir()):
            raise BadOption(f"{self.folder} holds JSONL files but no run.json; name another folder")

    def rewrite(self, description: Mapping[str, Any]) -> None:
        """Replace run.json as a whole."""
        checked = {**description, CHECKSUM: _checksum(description)}
        write_whole(self.description, (json.dumps(checked, indent=2) + "\n").encode())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else writes to the run meanwhile. Torn last lines are cut off first."""
        try:
            lock = FileLock(self.folder / ".lock", timeout=0).acquire()
        except Timeout:
            raise UsageError(f"another sdlg eval is writing to {self.folder}; wait for it or stop it") from None
        except OSError as error:
            raise BadOption(f"cannot write to {self.folder}: {error}") from error
        with lock:
            for stage in STAGES:
                _cut_torn_line(self.file(stage))
            yield

    def file(self, stage: str) -> Path:
        """A stage's file."""
        return self.folder / f"{stage}.jsonl"

    def append(self, stage: str, row: StageRow) -> None:
        """One more row, there when this returns. What could not be written whole is taken back."""
        rest = (seal(json.dumps(row)) + "\n").encode()
        with self.file(stage).open("ab", buffering=0) as file:  # a buffer would be written once more at the end
            size = file.seek(0, os.SEEK_END)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError as error:
                os.truncate(self.file(stage), size)
                raise RunError(
                    f"cannot write to {self.file(stage)}: {error}. Nothing is lost: free some space and start the "
                    f"same command again to go on"
                ) from error

    def rows(self, stage: str) -> dict[str, StageRow]:
        """Question id → its row, all rows of a question put together. A torn last line is passed over."""
        rows: dict[str, StageRow] = {}
        if not self.file(stage).exists():
            return rows
        with self.file(stage).open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    row = _parsed(self.file(stage), number, line, ROWS[stage])
                    rows[row["id"]] = merged(rows.get(row["id"], {}), row)
        return rows


def _parsed(path: Path, number: int, line: bytes, shape: object) -> StageRow:
    try:
        row = json.loads(line) if is_intact(line) else None
        if isinstance(row, dict) and fits(row, shape):
            row.pop(CHECKSUM, None)
            return row
    except (ValueError, RecursionError):
        pass
    raise RunError(f"{path}, line {number} is damaged; remove that line and resume the run to make it again")


def _checksum(description: Mapping[str, Any]) -> str:
    """Of what run.json says, however it is laid out."""
    return f"{zlib.crc32(json.dumps(description, sort_keys=True).encode()):08x}"


def merged(old: StageRow, new: StageRow) -> StageRow:
    """One row from two of the same question: objects are put together, anything else is replaced."""
    both = dict(old)
    for name, value in new.items():
        mine = both.get(name)
        both[name] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def _cut_torn_line(path: Path) -> None:
    """A line without an end was being written when the run was killed."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        position, block = end, b""
        while position > 0 and b"\n" not in block:
            start = max(position - 65536, 0)
            file.seek(start)
            block = file.read(position - start)
            position = start
        complete_end = position + block.rfind(b"\n") + 1
        if complete_end < end:
            file.truncate(complete_end)


def check_same(described: Mapping[str, Any], plan: Plan, facts: Mapping[str, Any], folder: Path) -> None:
    """Refuse to go on with other options, or other data, than a run was begun with."""
    if differences := told_differences(plan_from(described["plan"]).fixed(), plan.fixed()):
        raise UsageError(f"{folder} was made with {differences}; use the same, or name another folder with --out")
    if described["data"]["sha256"] != facts["data"]["sha256"]:
        raise UsageError(f"the data {plan.data} is not what {folder} was begun with; name another folder with --out")
