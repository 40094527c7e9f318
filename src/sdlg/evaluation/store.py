"""A run on disk: `run.json` and one append-only JSONL file per stage, readable by anyone.

In: a row per question and stage. Out: the same rows, also after a `kill -9`: a row is there when `append` returns, and
a torn last line is cut off when the run is opened again. Later rows of a question add to its earlier ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypedDict

from ..clustering import PairTable
from ..errors import BadOption, RunError, UsageError
from ..files import CHECKSUM, checksum, is_intact, one_writer, seal, write_whole
from ..options import differences
from ..records import Cost, Sample, Sampled
from ..schema import adapter, read_record
from .plan import Plan

FORMAT: Literal["sdlg.run/1"] = "sdlg.run/1"
STAGES = ("generate", "measure", "judge")
ANSWER, CLUSTERS = "answer", "clusters"  # among the seconds, beside the methods


# -- rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GeneratedRow:
    """The initial answer and every method's samples in their clusters; or why the question was skipped."""

    id: str
    question: str
    skipped: str = ""
    answer: Sample | None = None  # None: it was skipped
    methods: Mapping[str, Sampled] = field(default_factory=dict)
    pairs: Mapping[str, PairTable] = field(default_factory=dict)  # method → what the NLI model says of its answers
    nli_pairs: int = 0  # that were asked for the clusters, and for measures of all pairs
    cost: Cost = field(default_factory=Cost)  # of the initial answer
    parameters: Mapping[str, int | None] = field(default_factory=dict)  # of the two models
    seconds: Mapping[str, float] = field(default_factory=dict)  # of the answer, each method's samples, the clusters

    def __post_init__(self) -> None:
        if (self.answer is None) == (not self.skipped) or self.pairs.keys() != self.methods.keys():
            raise ValueError("a question has an answer, and samples and pairs of each method; or it was skipped")


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """Measures of every method's samples."""

    id: str
    values: Mapping[str, Mapping[str, tuple[float | None, ...]]] = field(
        default_factory=dict
    )  # with 1, 2, …, N samples
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # why a measure has no value


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """How right the initial answer is, by each metric."""

    id: str
    scores: Mapping[str, float] = field(default_factory=dict)
    scores_without_stock: Mapping[str, float] | None = None  # None: there are no stock references


class QuestionRows(TypedDict, total=False):
    """What there is of a question, by stage."""

    generate: GeneratedRow
    measure: MeasuredRow
    judge: JudgedRow


Row = GeneratedRow | MeasuredRow | JudgedRow
_ROWS: Mapping[str, Any] = {"generate": GeneratedRow, "measure": MeasuredRow, "judge": JudgedRow}


# -- run.json ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataFacts:
    """Which data a run is about."""

    name: str
    sha256: str = ""
    rows: int = 0
    evaluated: int = 0
    format: str = ""  # what stands before the question
    folder: str | None = None  # where the data was


@dataclass(frozen=True, slots=True)
class Description:
    """What a run is: run.json."""

    plan: Plan
    data: DataFacts
    order: tuple[str, ...] = ()  # ids of the questions, as they were drawn
    sessions: tuple[Mapping[str, str], ...] = ()  # when it was worked on, with which versions
    format: Literal["sdlg.run/1"] = FORMAT


class Store:
    """A run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def description(self) -> Path:
        """The file that says what the run is."""
        return self.folder / "run.json"

    def file(self, stage: str) -> Path:
        """A stage's file."""
        return self.folder / f"{stage}.jsonl"

    @property
    def has_rows(self) -> bool:
        """Whether any question has been worked on."""
        files = [self.file(stage) for stage in STAGES]
        return any(file.exists() and file.stat().st_size > 0 for file in files)

    def read_description(self) -> Description:
        """Return what the run is, as it was written when it began."""
        try:
            document = json.loads(self.description.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BadOption(f"{self.folder} is no run: it has no run.json (sdlg eval --out {self.folder})") from None
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"cannot read {self.description}: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise BadOption(f"{self.description} is not a {FORMAT} file")
        if document.pop(CHECKSUM, None) not in (None, _checksum(document)):
            raise RunError(
                f"{self.description} is damaged: its checksum is not that of what it holds; begin another run, or, if "
                f'it was changed on purpose, remove "{CHECKSUM}" from it'
            )
        return read_record(Description, document, f"{self.description} is damaged", RunError)

    def begin(self, new: Description) -> None:
        """Write what the run is, or make sure that it is what it was. What was added to the plan is noted.

        A run without a single row has not begun yet: its plan may still change.
        """
        if self.description.exists() and self.has_rows:
            begun = self.read_description()
            check_same(begun, new, self.folder)
            new = replace(begun, plan=new.plan, sessions=(*begun.sessions, *new.sessions))
        document = adapter(Description).dump_python(new, mode="json")
        checked = {**document, CHECKSUM: _checksum(document)}
        write_whole(self.description, (json.dumps(checked, indent=2) + "\n").encode())

    def make_folder(self) -> None:
        """Make the run's folder, unless it is something else's."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadOption(f"cannot make the folder {self.folder}: {error}") from error
        if not self.description.exists() and any(path.suffix == ".jsonl" for path in self.folder.iterdir()):
            raise BadOption(f"{self.folder} holds JSONL files but no run.json; name another folder")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else writes to the run meanwhile. Torn last lines are cut off first."""
        with one_writer(self.description, "sdlg eval"):
            for stage in STAGES:
                _cut_torn_line(self.file(stage))
            yield

    def append(self, stage: str, row: Row) -> None:
        """Write one more row, there when this returns. What could not be written whole is taken back."""
        document = adapter(_ROWS[stage]).dump_python(row, mode="json")
        rest = (seal(json.dumps(document)) + "\n").encode()
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

    def rows(self, stage: str) -> dict[str, Any]:
        """Return the rows by question, all of a question put together. A torn last line is passed over."""
        rows: dict[str, Any] = {}
        if not self.file(stage).exists():
            return rows
        with self.file(stage).open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    row = _parsed(self.file(stage), number, line, _ROWS[stage])
                    rows[row.id] = _merged(rows[row.id], row) if row.id in rows else row
        return rows


def _merged(old: Any, new: Any) -> Any:
    """Return one row from two of a question: mappings are put together, anything else is replaced."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}
    if isinstance(new, MeasuredRow | JudgedRow):
        return replace(
            new, **{part.name: _merged(getattr(old, part.name), getattr(new, part.name)) for part in fields(new)}
        )
    return new


def _parsed(path: Path, number: int, line: bytes, kind: Any) -> Any:
    where = f"{path}, line {number} is damaged; remove that line and resume the run to make it again"
    try:
        document = json.loads(line) if is_intact(line) else None
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where} ({error})") from error
    if document is None:
        raise RunError(f"{where} (its checksum is not that of what it holds)")
    return read_record(kind, document, where, RunError)


def _checksum(document: Mapping[str, Any]) -> str:
    """Of what run.json says, however it is laid out."""
    return checksum(json.dumps(document, sort_keys=True).encode())


def _cut_torn_line(path: Path) -> None:
    """A line without an end was being written when the run was killed."""
    if path.exists():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


def check_same(begun: Description, now: Description, folder: Path) -> None:
    """Refuse to go on with other options, or other data, than a run was begun with."""
    if found := differences(begun.plan.fixed, now.plan.fixed):
        raise UsageError(f"{folder} was made with {found}; use the same, or name another folder with --out")
    if begun.data.sha256 != now.data.sha256:
        raise UsageError(
            f"the data {now.plan.data} is not what {folder} was begun with; name another folder with --out"
        )
    judged = "bleurt" in begun.plan.metrics
    if judged and begun.plan.bleurt != now.plan.bleurt:
        raise UsageError(f"{folder} was judged with --bleurt {begun.plan.bleurt}, not {now.plan.bleurt}; use the same")
