"""CoQA: questions in conversation about a story, zero-shot with the story and the earlier turns; short answers.

Rows are stories. `coqa` is the development split, as in the paper; the file has one reference per question, the hub's
as well. `coqa_test` has the four that the paper's scores are the best of; its first line is a canary and no story.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .base import DataRow, DataSource, Item, checked_item

Turn = tuple[str, list[str]]  # a question and its reference answers


def _turns(row: DataRow) -> list[Turn]:
    if "turns" in row:
        return [(turn["question"], turn["answers"]) for turn in row["turns"]]
    return [(q, [a]) for q, a in zip(row["questions"], row["answers"]["input_text"], strict=True)]


def _items(rows: Sequence[DataRow]) -> Iterator[Item]:
    for number, row in enumerate(rows):
        if "story" not in row:  # the canary in the test file's first line
            continue
        turns = _turns(row)
        earlier: tuple[tuple[str, str], ...] = ()
        for place, (question, answers) in enumerate(turns, start=1):
            name = f"coqa-{row.get('id', number)}-{place}"
            yield checked_item(name, question, answers, context=row["story"], shots=earlier)
            earlier = (*earlier, (question.strip(), answers[0].strip() if answers else "unknown"))


COQA_TEST = DataSource("coqa_test", "coqa_test.jsonl", None, _items)
COQA = DataSource("coqa", "coqa_dev.jsonl", ("stanfordnlp/coqa", None, "validation"), _items)
