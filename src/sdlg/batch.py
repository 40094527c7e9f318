"""Many questions from a file or a pipe: one JSON result per line, resumable.

In: lines of text, or JSONL with `question` and optionally `context`. Out: per question a `sdlg.result/1` line or a
`sdlg.error/1` line that says what was wrong. Nothing is lost: results are written as they are made, and a run that is
started again with the same output file goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import BadQuestion, UsageError
from .records import Question

ERROR_FORMAT = "sdlg.error/1"


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
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadQuestion(f"not valid JSON: {error}") from error
    text, own_context = row.get("question"), row.get("context", context)
    if not isinstance(text, str) or not text.strip():
        raise BadQuestion('the line has no "question", or an empty one')
    if own_context is not None and not isinstance(own_context, str):
        raise BadQuestion('"context" must be a text')
    return Question(text, own_context)


def error_line(asked: Asked, error: str) -> str:
    """The JSON line for a question that could not be answered."""
    text = asked.question.text if asked.question else None
    return json.dumps({"format": ERROR_FORMAT, "line": asked.line, "question": text, "error": error}, ensure_ascii=False)


def finished_lines(output: Path, expected: dict[str, object]) -> int:
    """How many results an output file holds. A torn last line is cut off; results of another run are refused."""
    if not output.exists():
        return 0
    raw = output.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    if whole != raw:
        output.write_bytes(whole)
    lines = whole.splitlines()
    for number, line in enumerate(lines, start=1):
        _check_line(output, number, line, expected)
    return len(lines)


def _check_line(output: Path, number: int, line: bytes, expected: dict[str, object]) -> None:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{output}, line {number} is not a result; name another output file") from error
    if row.get("format") == ERROR_FORMAT:
        return
    for name, value in expected.items():
        if row.get(name) != value:
            raise UsageError(
                f"{output} holds results with {name} {row.get(name)!r}, not {value!r}; "
                "use the same options to go on, or name another output file"
            )
