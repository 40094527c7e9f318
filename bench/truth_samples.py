"""The truth of the shares study: 200 independent answers at temperature 1 to each of 60 questions, made once and kept.

In: `triviaqa.jsonl` and `judged_answers/train.jsonl` of the data folder (never copied: a question is named by its id),
and the embedded model `smollm2`. Out: one JSON line per question with the greedy answer, the distinct answers with
their counts, and what the draws cost. Nothing is judged here: shares.py does, with any judge.

    OMP_NUM_THREADS=1 nice -n 5 python bench/truth_samples.py --data-dir DATA --out bench/truth_samples.jsonl

Begun anew, it goes on after the last whole line. The same seed gives the same draws.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdlg.evaluation.datasets.sources import TRIVIAQA
from sdlg.evaluation.same_answer_fit import read_rows
from sdlg.models import LanguageModel, load_model
from sdlg.models.base import DecodeRequest
from sdlg.options import SMOLLM2, Options, options_from
from sdlg.records import Generation, Prompt, Question
from sdlg.sampling.request import whole_generation

DRAWS = 200
SEED = 13
QUESTIONS_PER_SET = 30
FIRST = 10  # draws whose sharing of tokens is counted: the cost of ten draws in one tree


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, under the name that is stored in its place."""

    id: str
    question: Question
    options: Options


@dataclass(frozen=True, slots=True)
class Format:
    """How one half of the questions is asked."""

    name: str
    changes: Mapping[str, object]
    questions: Callable[[Path], Iterator[tuple[str, Question]]]


# -- questions ---------------------------------------------------------------------------------------------------


def trivia_questions(folder: Path) -> Iterator[tuple[str, Question]]:
    """TriviaQA's train split with its ten shots, as the evaluation asks it."""
    for item in TRIVIAQA.items(read_rows(folder / TRIVIAQA.file)):
        if not item.fault:
            yield item.id, item.question


def chat_questions(folder: Path) -> Iterator[tuple[str, Question]]:
    """The questions of judged answers, without shots."""
    for row in read_rows(folder / "judged_answers" / "train.jsonl"):
        yield f"judged-{row['id']}", Question(row["question"])


FORMATS = (
    Format("plain", {"prompt": "plain", "stop_at": "sentence", "max_tokens": 16}, trivia_questions),
    Format("chat", {"prompt": "chat", "stop_at": "sentence", "max_tokens": 48}, chat_questions),
)


def digest_of(text: str) -> bytes:
    """What questions are chosen by, and what their seeds are made of."""
    return hashlib.sha256(text.encode()).digest()


def chosen_questions(folder: Path) -> Iterator[Asked]:
    """The questions whose ids have the smallest hashes, one of each format in turn."""
    halves = []
    for form in FORMATS:
        named = sorted(form.questions(folder), key=lambda pair: digest_of(f"shares {pair[0]}"))[:QUESTIONS_PER_SET]
        options = options_from("default", dict(form.changes))
        halves.append([Asked(id, question, options) for id, question in named])
    for both in zip(*halves, strict=True):
        yield from both


# -- draws -------------------------------------------------------------------------------------------------------


def draw(model: LanguageModel, prompt: Prompt, asked: Asked, strategy: str, count: int) -> list[Generation]:
    """So many answers by one strategy."""
    options = asked.options.updated(strategy=strategy)
    seed = int.from_bytes(digest_of(f"{SEED} {asked.id}")[:6])
    decoded = model.decode(DecodeRequest(prompt, [()] * count, options.decoding, seed))
    return [whole_generation(model, continuation) for continuation in decoded.continuations]


def tokens_in_tree(sequences: Many[Generation]) -> int:
    """Decisions that no other of these sequences has made before: what a tree without repetition would decide."""
    paths = (s.token_ids[:length] for s in sequences for length in range(len(s.decision_logprobs)))
    return len(set(paths))


def counted(sequences: Many[Generation]) -> list[list[object]]:
    """[text, count, log Σ p(y) over its distinct token sequences], most frequent first."""
    counts = Counter(sequence.text for sequence in sequences)
    masses = {(s.text, s.token_ids, s.stop_reason): math.exp(s.logprob) for s in sequences}
    of_text: Counter[str] = Counter()
    for (text, _, _), mass in masses.items():
        of_text[text] += mass  # type: ignore[assignment]
    return [[text, count, round(math.log(of_text[text]), 4)] for text, count in counts.most_common()]


def record_of(model: LanguageModel, asked: Asked) -> dict[str, Any]:
    """One line of the output."""
    started = time.perf_counter()
    prompt = model.prompt(asked.question, asked.options.prompt, asked.options.decoding.stop_rule)
    (greedy,) = draw(model, prompt, asked, "greedy", 1)
    drawn = draw(model, prompt, asked, "multinomial", DRAWS)
    first = drawn[:FIRST]
    return {
        "id": asked.id,
        "prompt": asked.options.prompt,
        "max_tokens": asked.options.decoding.max_tokens,
        "greedy": [greedy.text, round(greedy.logprob, 4), greedy.stop_reason, len(greedy.decision_logprobs)],
        "draws": len(drawn),
        "cut": sum(sequence.stop_reason == "length" for sequence in drawn),
        "decisions": sum(len(sequence.decision_logprobs) for sequence in drawn),
        "first_decisions": [sum(len(s.decision_logprobs) for s in first), tokens_in_tree(first)],
        "first_with_greedy": tokens_in_tree([greedy, *first]) - tokens_in_tree([greedy]),
        "texts": counted(drawn),
        "first_texts": [sequence.text for sequence in first],
        "seconds": round(time.perf_counter() - started, 1),
    }


# -- running -----------------------------------------------------------------------------------------------------


def finished_ids(out: Path) -> set[str]:
    """Questions that the file has whole lines of; a torn last line is cut off."""
    if not out.exists():
        return set()
    with out.open(encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n")]
    out.write_text("".join(lines))
    return {json.loads(line)["id"] for line in lines}


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    where = parser.parse_args()
    done = finished_ids(where.out)
    model = load_model(SMOLLM2)
    for asked in chosen_questions(where.data_dir):
        if asked.id not in done:
            record = record_of(model, asked)
            with where.out.open("a") as out:
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
            print(asked.id, record["seconds"], len(record["texts"]), flush=True)


if __name__ == "__main__":
    main()
