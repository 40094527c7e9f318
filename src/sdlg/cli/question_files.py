"""Many questions from a file or a pipe: one JSON result per line, resumable.

In: lines of text, or JSONL with `question` and optionally `context`. Out: per question a `sdlg.result/3` line or a
`sdlg.error/1` line that says what was wrong. Nothing is lost: results are written as they are made, and a run that is
started again with the same output file goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import BadOption, BadQuestion, UsageError
from ..models import same_model
from ..options import flat_options, told_differences
from ..records import Question, is_unicode
from .codec import ERROR_FORMAT, error_dict
from .files import write_whole
from .lines import is_intact
from .results import FORMAT

_BEGINNING = b'{"format": "sdlg.'  # of every line we write
_OTHER_FILE = "name another output file"


@dataclass(frozen=True, slots=True)
class Asked:
    """One line of the input: a question, or what is wrong with it."""

    line: int
    question: Question | None
    error: str = ""


def read_questions(lines: Iterable[str], context: str | None) -> Iterator[Asked]:
    """Empty lines are passed over."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield Asked(number, parse_question(line.strip(), context))
            except BadQuestion as error:
                yield Asked(number, None, str(error))


def parse_question(line: str, context: str | None) -> Question:
    """A line that begins with a brace is JSON; any other is the question itself."""
    if not line.startswith("{"):
        return Question(line, context)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadQuestion(f"not valid JSON: {error}") from error
    text, own_context = row.get("question"), row.get("context", context)
    if not isinstance(text, str) or not text.strip():
        raise BadQuestion('the line has no "question", or an empty one')
    if own_context is not None and not isinstance(own_context, str):
        raise BadQuestion('"context" must be a text')
    if not (is_unicode(text) and is_unicode(own_context or "")):
        raise BadQuestion("the line holds half a surrogate pair, which is no character")
    return Question(text, own_context)


def checked_question(question: str | Question, context: str | None) -> Question:
    """A question that can be asked."""
    asked = question if isinstance(question, Question) else Question(question)
    asked = asked if context is None else replace(asked, context=context)
    if not asked.text.strip():
        raise BadQuestion('the question is empty; type one, for example: sdlg ask "Who wrote Hamlet?"')
    if not is_unicode(f"{asked.text}{asked.context}"):
        raise BadQuestion("the question holds half a surrogate pair, which is no character")
    return asked


def error_line(asked: Asked, error: str, *, retry: bool = False) -> str:
    """The JSON line for a question that could not be answered; `retry`: not yet, because the work was broken off."""
    row = error_dict(asked.line, asked.question.text if asked.question else None, error)
    return json.dumps({**row, "retry": True} if retry else row, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Finished:
    """What an output file has dealt with."""

    count: int = 0  # of the questions, from the first on
    again: tuple[int, ...] = ()  # those among them, from 0, whose work was broken off: they are asked again


def finished_lines(output: Path, asked: Sequence[Asked], run: Mapping[str, object]) -> Finished:
    """Which of the questions an output file has dealt with. A torn last line is cut off.

    `run` is what the results must have been made with, by name. Any other file is refused, and left as it is.
    """
    if not output.is_file():  # not there yet, or a device
        return Finished()
    try:
        raw = output.read_bytes()
    except OSError as error:
        raise BadOption(f"cannot read {output}: {error}") from error
    *lines, torn = raw.split(b"\n")
    if len(lines) > len(asked):
        raise UsageError(f"{output} holds {len(lines)} results for {len(asked)} questions; {_OTHER_FILE}")
    again = []
    for place, (line, one) in enumerate(zip(lines, asked, strict=False)):
        row = _row(output, place + 1, line)
        _check_row(f"{output}, line {place + 1}", row, one, run)
        if _was_broken_off(row):
            again.append(place)
    if torn:
        if not (torn.startswith(_BEGINNING) or _BEGINNING.startswith(torn)):
            raise UsageError(f"{output}, line {len(lines) + 1} is not a result; {_OTHER_FILE}")
        os.truncate(output, len(raw) - len(torn))
    return Finished(len(lines), tuple(again))


def _was_broken_off(row: Mapping[str, Any]) -> bool:
    """By a deadline; older versions say so in words alone."""
    return row["format"] == ERROR_FORMAT and (
        row.get("retry") is True or str(row.get("error")).startswith("no answer within ")
    )


def replace_line(output: Path, place: int, line: str) -> None:
    """Another line in the place of one, from 0; the file is there whole at any moment."""
    lines = output.read_bytes().split(b"\n")
    lines[place] = line.encode()
    write_whole(output, b"\n".join(lines))


def _row(output: Path, number: int, line: bytes) -> dict[str, Any]:
    if not is_intact(line):
        raise UsageError(
            f"{output}, line {number} is damaged: its checksum is not that of what it holds; remove the file, or that "
            "line and all after it, and start again"
        )
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    made = row.get("format") if isinstance(row, dict) else None
    if isinstance(made, str) and made.startswith("sdlg.result/") and made != FORMAT:
        raise UsageError(f"{output}, line {number} is {made}, but this version writes {FORMAT}; {_OTHER_FILE}")
    if not isinstance(row, dict) or made not in (FORMAT, ERROR_FORMAT):
        raise UsageError(f"{output}, line {number} is not a result; {_OTHER_FILE}")
    return row


def _check_row(where: str, row: dict[str, Any], asked: Asked, run: Mapping[str, object]) -> None:
    question = asked.question.text if asked.question else None
    if row.get("question") != question:
        raise UsageError(f"{where} answers {row.get('question')!r}, not {question!r}; {_OTHER_FILE}")
    if row["format"] == ERROR_FORMAT:
        return
    if asked.question and row.get("context") != asked.question.context:
        raise UsageError(f"{where} was made with another context; {_OTHER_FILE}")
    made_with = dict(row)
    for part in (flat_options(_object(row, "options", where)), _object(row, "setup", where)):
        made_with.update(part)
    if same_model(str(made_with.get("model")), str(run.get("model"))):
        made_with["model"] = run.get("model")
    if differences := told_differences(made_with, run):
        raise UsageError(f"{where} was made with {differences}; use the same, or {_OTHER_FILE}")


def _object(row: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value = row.get(name, {})
    if not isinstance(value, dict):
        raise UsageError(f'{where} has "{name}" that is no object; {_OTHER_FILE}')
    return value
