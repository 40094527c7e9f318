"""Files of many questions, and the files of their results, which are resumed.

In: lines of text, or JSONL with `question` and optionally `context`. Out: per question a result, or an error line that
says what was wrong. Results are written as they are made, and a command that is started again with the same output file
goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption, BadQuestion, UsageError
from ..files import is_intact, seal, write_whole
from ..options import differences
from ..questions import checked_question
from ..records import Question
from ..schema import ERROR_FORMAT, error_dict, parse_json, read_record, result_from_dict

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..result import Result

_BEGINNING = b'{"format": "sdlg.'  # of every line we write
_OTHER_FILE = "name another output file"


@dataclass(frozen=True, slots=True)
class Asked:
    """One line of the input: a question, or what is wrong with it."""

    line: int
    question: Question | None
    error: str = ""
    answer: str | None = None  # that is to be checked; None: the model shall answer

    def error_line(self, error: str, *, retry: bool = False) -> str:
        """Return what stands in the place of its result; `retry`: the work was broken off, and is done again."""
        row = error_dict(self.line, self.question.text if self.question else None, error)
        return seal(json.dumps({**row, "retry": True} if retry else row, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class _Line:
    question: str
    context: str | None


@dataclass(frozen=True, slots=True)
class _Pair:
    question: str
    answer: str
    context: str | None = None


def read_answers(text: str) -> Iterator[Asked]:
    """Yield what each line of JSON says was asked and answered; empty lines are passed over."""

    def read(number: int, line: str) -> Asked:
        row = read_record(_Pair, parse_json(line, "the line"), "the line")
        return answer_to_check(number, checked_question(Question(row.question, row.context)), row.answer)

    return _each_line(text, read)


def answer_to_check(line: int, question: Question, answer: str) -> Asked:
    """Return an answer that somebody has, with its question."""
    if not answer.strip():
        raise BadQuestion("the answer is empty: there is nothing to check")
    return Asked(line, question, answer=answer.strip())


def read_questions(text: str, context: str | None) -> Iterator[Asked]:
    """Yield what each line asks; empty lines are passed over. `context` is of those that have none of their own."""
    return _each_line(text, lambda number, line: Asked(number, _question(line.strip(), context)))


def _each_line(text: str, read: Callable[[int, str], Asked]) -> Iterator[Asked]:
    """Yield what is read of each line that is not empty, or what is wrong with it."""
    for number, line in enumerate(text.split("\n"), start=1):  # not splitlines(): JSON may hold U+2028
        if line.strip():
            try:
                yield read(number, line)
            except BadQuestion as error:
                yield Asked(number, None, str(error))


def _question(line: str, context: str | None) -> Question:
    """Return the question of a line: one that begins with a brace is JSON, any other is the question itself."""
    if not line.startswith("{"):
        return checked_question(line, context)
    row = read_record(_Line, {"context": context, **parse_json(line, "the line")}, "the line")
    return checked_question(Question(row.question, row.context))


# -- what an output file holds ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finished:
    """What an output file has dealt with."""

    count: int = 0  # of the questions, from the first on
    again: tuple[int, ...] = ()  # those among them, from 0, whose work was broken off: they are asked again


def stored_rows(path: Path, raw: bytes) -> Iterator[tuple[int, Result | dict[str, Any]]]:
    """Yield the results of a file with their line numbers; an error line as it is. A torn last line is left out."""
    for number, line in enumerate(raw.split(b"\n")[:-1], start=1):
        where = f"{path}, line {number}"
        if not is_intact(line):
            raise UsageError(
                f"{where} is damaged: its checksum is not that of what it holds; remove the file, or that line and all "
                "after it, and start again"
            )
        try:
            row = parse_json(line, where, UsageError)
            is_error = isinstance(row, dict) and row.get("format") == ERROR_FORMAT
            yield number, row if is_error else result_from_dict(row)
        except BadQuestion as error:
            raise UsageError(f"{where}: {error}") from error


def finished_lines(output: Path, asked: Sequence[Asked], pipeline: Pipeline) -> Finished:
    """Return which of the questions the file has dealt with, made as this pipeline makes results; cut a torn last line.

    Any other file is refused, and left as it is.
    """
    if not output.is_file():  # not there yet, or a device
        return Finished()
    try:
        raw = output.read_bytes()
    except OSError as error:
        raise BadOption(f"cannot read {output}: {error}") from error
    count, torn = raw.count(b"\n"), raw.rpartition(b"\n")[2]
    if count > len(asked):
        raise UsageError(f"{output} holds {count} results for {len(asked)} questions; {_OTHER_FILE}")
    if torn and not (torn.startswith(_BEGINNING) or _BEGINNING.startswith(torn)):
        raise UsageError(f"{output}, line {count + 1} is not a result; {_OTHER_FILE}")
    again = tuple(_broken_off(output, stored_rows(output, raw), asked, pipeline))
    if torn:
        os.truncate(output, len(raw) - len(torn))
    return Finished(count, again)


def _broken_off(
    output: Path, rows: Iterable[tuple[int, Result | dict[str, Any]]], asked: Sequence[Asked], pipeline: Pipeline
) -> Iterator[int]:
    """Check every line, and yield the places, from 0, of questions whose work was broken off."""
    from ..pipeline import READ_OTHERWISE

    here = _made_with(pipeline.models.model_name, pipeline.models.nli_name or None, pipeline)
    for number, row in rows:
        where, one = f"{output}, line {number}", asked[number - 1]
        if isinstance(row, dict):
            _check_question(where, row.get("question"), one)
            if row.get("retry") is True:
                yield number - 1
            continue
        _check_question(where, row.question.text, one)
        if one.answer is not None and row.answer.text != one.answer and READ_OTHERWISE not in row.notes:
            raise UsageError(f"{where} checks another answer; {_OTHER_FILE}")
        if row.question != one.question:
            raise UsageError(f"{where} was made with another context; {_OTHER_FILE}")
        if found := _differences(row, here):
            raise UsageError(f"{where} was made with {found}; use the same, or {_OTHER_FILE}")


def _check_question(where: str, text: object, asked: Asked) -> None:
    wanted = asked.question.text if asked.question else None
    if text != wanted:
        raise UsageError(f"{where} answers {text!r}, not {wanted!r}; {_OTHER_FILE}")


def _differences(result: Result, here: dict[str, Any]) -> str:
    from ..models import same_model

    made = _made_with(result.model, result.nli, result)
    if same_model(str(made["model"]), str(here["model"])):
        made["model"] = here["model"]
    return differences(made, here)


def _made_with(model: str | None, nli: str | None, shaped: Pipeline | Result) -> dict[str, Any]:
    """Return all that shapes a result, by name."""
    models = {"model": model, "nli": nli, "method": shaped.method}
    return {**models, **shaped.options.to_dict(), **asdict(shaped.setup)}


def replace_line(output: Path, place: int, line: str) -> None:
    """Write another line in the place of one, from 0; the file is there whole at any moment."""
    lines = output.read_bytes().split(b"\n")
    lines[place] = line.encode()
    write_whole(output, b"\n".join(lines))
