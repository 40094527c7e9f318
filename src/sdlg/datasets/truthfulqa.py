"""TruthfulQA: closed-book questions that invite falsehoods; true and false references; whole-sentence answers.

Five shots. One of them is answered "I have no comment.", as in the authors' prompt, where that reply also counts as
true for every question: it is a stock reference here, so that answers are judged with and without it. The paper's
preset shows the authors' five, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .base import DataRow, DataSource, Item, checked_item

STOCK = "I have no comment."
SHOTS = 5
Shots = tuple[tuple[str, str], ...]


def _is_stock(answer: str) -> bool:
    return answer.strip().rstrip(".").casefold() == STOCK.rstrip(".").casefold()


def _items(rows: Sequence[DataRow]) -> Iterator[Item]:
    stock_shot = next((row for row in rows if any(map(_is_stock, row["correct_answers"]))), None)
    shown = [row for row in rows if row is not stock_shot][: SHOTS - (stock_shot is not None)]
    shots = tuple((row["question"], row["best_answer"]) for row in shown)
    if stock_shot is not None:
        shots = (*shots[:2], (stock_shot["question"], STOCK), *shots[2:])
        shown = [*shown, stock_shot]
    return _evaluated(rows, shown, shots)


def _paper_items(rows: Sequence[DataRow]) -> Iterator[Item]:
    """The authors' prompt: the first row whose best answer is the stock reply, then the first rows, as sentences."""
    stock_shots = [row for row in rows if _is_stock(row["best_answer"])][:1]
    shown = [*stock_shots, *[row for row in rows if row not in stock_shots][: SHOTS - len(stock_shots)]]
    shots = tuple((row["question"].strip(), _as_sentence(row["best_answer"])) for row in shown)
    return _evaluated(rows, shown, shots)


def _as_sentence(answer: str) -> str:
    text = answer.strip()
    return text if text.endswith(".") else f"{text}."


def _evaluated(rows: Sequence[DataRow], shown: Sequence[DataRow], shots: Shots) -> Iterator[Item]:
    for number, row in enumerate(rows):
        if row in shown:
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
    "truthfulqa", "truthfulqa.jsonl", ("truthfulqa/truthful_qa", "generation", "validation"), _items, _paper_items
)
