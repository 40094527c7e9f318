"""TruthfulQA: closed-book questions that invite falsehoods; true and false references; whole-sentence answers.

Five shots. One of them is answered "I have no comment.", as in the authors' prompt, where that reply also counts as
true for every question: it is a stock reference here, so that answers are judged with and without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .base import DataRow, DataSource, Item, checked_item

STOCK = "I have no comment."
SHOTS = 5


def _is_stock(answer: str) -> bool:
    return answer.strip().rstrip(".").casefold() == STOCK.rstrip(".").casefold()


def _items(rows: Sequence[DataRow]) -> Iterator[Item]:
    stock_shot = next((row for row in rows if any(map(_is_stock, row["correct_answers"]))), None)
    shown = [row for row in rows if row is not stock_shot][: SHOTS - (stock_shot is not None)]
    shots = tuple((row["question"], row["best_answer"]) for row in shown)
    if stock_shot is not None:
        shots = (*shots[:2], (stock_shot["question"], STOCK), *shots[2:])
    for number, row in enumerate(rows):
        if row in shown or row is stock_shot:
            continue
        true = [row["best_answer"], *row["correct_answers"]]
        yield checked_item(
            f"truthfulqa-{row.get('id', number)}",
            row["question"],
            [answer for answer in true if not _is_stock(answer)],
            shots=shots,
            false_references=row["incorrect_answers"],
            stock_references=(STOCK,),
        )


TRUTHFULQA = DataSource(
    "truthfulqa", "truthfulqa.jsonl", ("truthfulqa/truthful_qa", "generation", "validation"), _items
)
