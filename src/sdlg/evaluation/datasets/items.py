"""What every data set is made of: questions with their references, in the order of the file.

In: rows of a file or of the hub. Out: `Item`s. A row that cannot be used is an item with a fault, so that it is counted
and its reason is shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import BadQuestion
from ...records import Question, is_unicode
from ...schema import parse_json, read_record

DataRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A question and what answers to it are compared with."""

    id: str
    question: Question
    references: tuple[str, ...]  # true answers
    false_references: tuple[str, ...] = ()
    stock_references: tuple[str, ...] = ()  # true of any question alike: answers are judged with and without them
    fault: str = ""  # why the row cannot be used


@dataclass(frozen=True, slots=True)
class DataSource:
    """A known data set: where it is, and how its rows become items. Rows come as in the file or as on the hub."""

    name: str
    file: str  # its local name
    hub: tuple[str, str | None, str] | None  # repository, configuration, split; None: it is not there
    items: Callable[[Sequence[DataRow]], Iterator[Item]]
    paper_items: Callable[[Sequence[DataRow]], Iterator[Item]] | None = None  # where the paper's preset shows others

    def read(self, rows: Sequence[DataRow], preset: str) -> Iterator[Item]:
        """Return the items as the preset asks them."""
        return (self.paper_items if preset == "paper" and self.paper_items else self.items)(rows)


@dataclass(frozen=True, slots=True)
class DataSet:
    """Items that may be evaluated: shots are not among them."""

    name: str
    items: tuple[Item, ...]

    @property
    def sha256(self) -> str:
        """Equal for equal questions, shots and references, wherever they came from."""
        lines = (json.dumps(asdict(item), ensure_ascii=True, sort_keys=True) for item in self.items)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def checked_item(
    id: str,
    question: str,
    references: Iterable[str],
    *,
    context: str | None = None,
    shots: tuple[tuple[str, str], ...] = (),
    false_references: Iterable[str] = (),
    stock_references: tuple[str, ...] = (),
) -> Item:
    """Return an item, with a fault if nothing can be asked or no answer could be right."""
    true, false = _distinct(references), _distinct(false_references)
    fault = ""
    if not question.strip():
        fault = "the question is empty"
    elif not is_unicode("".join((id, question, context or "", *true, *false, *(t for shot in shots for t in shot)))):
        fault = "the row holds half a surrogate pair, which is no character"
    elif not true and not stock_references:
        fault = "there is no reference answer"
    return Item(id, Question(question.strip(), context, shots), true, false, stock_references, fault)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))


# -- any JSONL file ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    question: str
    references: str | tuple[str, ...] = ()
    false_references: str | tuple[str, ...] = ()
    context: str | None = None
    id: str | int | float | None = None


def read_items(lines: Iterable[str]) -> Iterator[Item]:
    """Yield one item per line that is not empty; a bad line is an item with a fault."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _item(number, read_record(_Row, json_object(line), "the row"))
            except BadQuestion as error:
                yield Item(f"line-{number}", Question(""), (), fault=str(error))


def _item(number: int, row: _Row) -> Item:
    name = f"line-{number}" if row.id is None else str(row.id)
    if not is_unicode(name):
        raise BadQuestion("the row's id holds half a surrogate pair, which is no character")
    true, false = ((texts,) if isinstance(texts, str) else texts for texts in (row.references, row.false_references))
    return checked_item(name, row.question, true, context=row.context, false_references=false)


def json_object(line: str) -> dict[str, Any]:
    """Return the row in a line of JSON."""
    row = parse_json(line, "the row")
    if not isinstance(row, dict):
        raise BadQuestion("the row is not a JSON object")
    return row
