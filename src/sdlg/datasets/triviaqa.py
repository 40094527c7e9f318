"""TriviaQA: closed-book trivia, ten shots, short answers; every alias is a reference.

The train split, as in the paper. Shots are the first ten rows whose answer is the official one (in the local file: of
the validation split; on the hub every row has it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .base import DataRow, DataSource, Item, checked_item

SHOTS = 10


def _question(row: DataRow) -> str:
    """Some questions still have the quotes of the CSV file that they once were in."""
    text: str = row["question"].strip()
    if len(text) > 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return text.replace('""', '"').strip()


def _answer(row: DataRow) -> str:
    answer = row["answer"]
    return str(answer["value"] if isinstance(answer, dict) else answer)


def _aliases(row: DataRow) -> list[str]:
    answer = row["answer"]
    return [_answer(row), *(answer["aliases"] if isinstance(answer, dict) else row["aliases"])]


def _items(rows: Sequence[DataRow]) -> Iterator[Item]:
    shown = [row for row in rows if row.get("answer_is_official_value", True)][:SHOTS]
    shots = tuple((_question(row), _answer(row)) for row in shown)
    seen = {question for question, _ in shots}
    for number, row in enumerate(rows):
        if row.get("split", "train") != "train" or _question(row) in seen:
            continue  # the hub has some questions twice, once with a web page and once with Wikipedia
        seen.add(_question(row))
        name = row.get("id", row.get("question_id", number))
        yield checked_item(f"triviaqa-{name}", _question(row), _aliases(row), shots=shots)


TRIVIAQA = DataSource("triviaqa", "triviaqa.jsonl", ("mandarjoshi/trivia_qa", "rc.nocontext", "train"), _items)
