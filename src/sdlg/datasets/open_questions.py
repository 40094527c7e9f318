"""Open questions: those of `judged_answers/train`, answered in sentences, with the answers that were taken as right.

Rows are those of EVOUNA (Natural Questions and TriviaQA): `question` and `golden`, and other systems' answers, which
are not used here. Zero-shot, without a context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .base import DataRow, DataSource, Item, checked_item


def _items(rows: Sequence[DataRow]) -> Iterator[Item]:
    for number, row in enumerate(rows):
        yield checked_item(f"open-{row.get('id', number)}", row["question"], row["golden"])


OPEN_QUESTIONS = DataSource("open_questions", "judged_answers/train.jsonl", None, _items)
