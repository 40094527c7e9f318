"""Any JSONL file: `question`, `references`, optionally `false_references`, `context`, `id`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import BadQuestion
from ..records import Question, is_unicode
from .base import DataRow, Item, checked_item, json_rows, text_of


def read_items(lines: Iterable[str]) -> Iterator[Item]:
    """One item per line that is not empty; a bad line is an item with a fault."""
    for number, row in json_rows(lines):
        name = f"line-{number}"
        if isinstance(row, str):
            yield _faulty(name, row)
            continue
        try:
            yield _item(str(row.get("id", name)), row)
        except BadQuestion as error:
            yield _faulty(name, str(error))


def _faulty(name: str, fault: str) -> Item:
    return Item(name, Question(""), (), fault=fault)


def _item(name: str, row: DataRow) -> Item:
    context = row.get("context")
    if not isinstance(context, str | None):
        raise BadQuestion('"context" must be a text')
    true, false = _texts(row, "references"), _texts(row, "false_references")
    if not is_unicode(name):
        raise BadQuestion('"id" holds half a surrogate pair, which is no character')
    return checked_item(name, text_of(row, "question"), true, context=context, false_references=false)


def _texts(row: DataRow, name: str) -> list[str]:
    texts: Any = row.get(name, [])
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadQuestion(f'"{name}" must be a list of texts')
    return texts
