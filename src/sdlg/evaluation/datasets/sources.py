"""The data sets that are known by name: how their rows, of the local file or of the hub, become items.

truthfulqa      closed-book questions that invite falsehoods; true and false references; whole-sentence answers; 5 shots
coqa            questions in conversation about a story, with the story and the earlier turns; short answers; zero-shot
coqa_test       the same with the four references that the paper's scores are the best of
triviaqa        closed-book trivia; short answers; every alias is a reference; 10 shots
open_questions  EVOUNA's (Natural Questions and TriviaQA), answered in sentences; zero-shot
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .items import DataRow, DataSource, Item, checked_item

Shots = tuple[tuple[str, str], ...]

# -- TruthfulQA -------------------------------------------------------------------------------------------------
#
# One shot is answered "I have no comment.", as in the authors' prompt, where that reply also counts as true for every
# question: it is a stock reference here, so that answers are judged with and without it. The paper's preset shows the
# authors' five shots, in their order.

STOCK = "I have no comment."
_TRUTHFUL_SHOTS = 5


def _is_stock(answer: str) -> bool:
    return answer.strip().rstrip(".").casefold() == STOCK.rstrip(".").casefold()


def _truthful_items(rows: Sequence[DataRow]) -> Iterator[Item]:
    stock_shot = next((row for row in rows if any(map(_is_stock, row["correct_answers"]))), None)
    shown = [row for row in rows if row is not stock_shot][: _TRUTHFUL_SHOTS - (stock_shot is not None)]
    shots = tuple((row["question"], row["best_answer"]) for row in shown)
    if stock_shot is not None:
        shots = (*shots[:2], (stock_shot["question"], STOCK), *shots[2:])
        shown = [*shown, stock_shot]
    return _truthful_without(rows, shown, shots)


def _paper_truthful_items(rows: Sequence[DataRow]) -> Iterator[Item]:
    """The authors' prompt: the first row whose best answer is the stock reply, then the first rows, as sentences."""
    stock_shots = [row for row in rows if _is_stock(row["best_answer"])][:1]
    shown = [*stock_shots, *[row for row in rows if row not in stock_shots][: _TRUTHFUL_SHOTS - len(stock_shots)]]
    shots = tuple((row["question"].strip(), f"{row['best_answer'].strip().removesuffix('.')}.") for row in shown)
    return _truthful_without(rows, shown, shots)


def _truthful_without(rows: Sequence[DataRow], shown: Sequence[DataRow], shots: Shots) -> Iterator[Item]:
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


# -- CoQA: rows are stories -------------------------------------------------------------------------------------


def _coqa_items(rows: Sequence[DataRow]) -> Iterator[Item]:
    for number, row in enumerate(rows):
        if "story" not in row:  # the canary in the test file's first line
            continue
        earlier: Shots = ()
        for place, (question, answers) in enumerate(_turns(row), start=1):
            name = f"coqa-{row.get('id', number)}-{place}"
            yield checked_item(name, question, answers, context=row["story"], shots=earlier)
            earlier = (*earlier, (question.strip(), answers[0].strip() if answers else "unknown"))


def _turns(row: DataRow) -> list[tuple[str, list[str]]]:
    """Each question with its reference answers."""
    if "turns" in row:
        return [(turn["question"], turn["answers"]) for turn in row["turns"]]
    return [(q, [a]) for q, a in zip(row["questions"], row["answers"]["input_text"], strict=True)]


# -- TriviaQA ---------------------------------------------------------------------------------------------------
#
# The train split, as in the paper. Shots are the first ten rows whose answer is the official one (in the local file: of
# the validation split; on the hub every row has it).

_TRIVIA_SHOTS = 10


def _trivia_items(rows: Sequence[DataRow]) -> Iterator[Item]:
    shown = [row for row in rows if row.get("answer_is_official_value", True)][:_TRIVIA_SHOTS]
    shots = tuple((_trivia_question(row), _trivia_answer(row)) for row in shown)
    seen = {question for question, _ in shots}
    for number, row in enumerate(rows):
        question = _trivia_question(row)
        if row.get("split", "train") != "train" or question in seen:
            continue  # the hub has some questions twice, once with a web page and once with Wikipedia
        seen.add(question)
        answer = row["answer"]
        aliases = answer["aliases"] if isinstance(answer, dict) else row["aliases"]
        name = row.get("id", row.get("question_id", number))
        yield checked_item(f"triviaqa-{name}", question, [_trivia_answer(row), *aliases], shots=shots)


def _trivia_question(row: DataRow) -> str:
    """Some questions still have the quotes of the CSV file that they once were in."""
    text: str = row["question"].strip()
    if len(text) > 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return text.replace('""', '"').strip()


def _trivia_answer(row: DataRow) -> str:
    answer = row["answer"]
    return str(answer["value"] if isinstance(answer, dict) else answer)


# -- open questions: `question` and `golden`; other systems' answers in the rows are not used here ------------------


def _open_items(rows: Sequence[DataRow]) -> Iterator[Item]:
    for number, row in enumerate(rows):
        yield checked_item(f"open-{row.get('id', number)}", row["question"], row["golden"])


TRUTHFULQA = DataSource(
    "truthfulqa",
    "truthfulqa.jsonl",
    ("truthfulqa/truthful_qa", "generation", "validation"),
    _truthful_items,
    _paper_truthful_items,
)
COQA = DataSource("coqa", "coqa_dev.jsonl", ("stanfordnlp/coqa", None, "validation"), _coqa_items)
COQA_TEST = DataSource("coqa_test", "coqa_test.jsonl", None, _coqa_items)
TRIVIAQA = DataSource("triviaqa", "triviaqa.jsonl", ("mandarjoshi/trivia_qa", "rc.nocontext", "train"), _trivia_items)
OPEN_QUESTIONS = DataSource("open_questions", "judged_answers/train.jsonl", None, _open_items)
SOURCES = {source.name: source for source in (TRUTHFULQA, COQA, COQA_TEST, TRIVIAQA, OPEN_QUESTIONS)}
