"""How far the percentages are from the truth: the share of the answer's own meaning, by method and number of draws.

In: `truth_samples.jsonl` (200 independent answers of `smollm2` at temperature 1 to each question, made once by
truth_samples.py; questions are named by id and read from the data folder). Out: a table. Truth is the frequency, in
those 200, of answers that mean what the greedy answer means, by the same judge.

    make bench-shares DATA=/folder/of/the/data       (or: python bench/shares.py --data-dir … --limit 10 --minutes 5)
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sdlg.clustering import cluster_answers
from sdlg.measures.shares import EVENNESS, share_interval, shares_of, tally_of
from sdlg.models import LanguageModel, load_model
from sdlg.models.base import DecodeRequest
from sdlg.nli import NliModel, load_nli
from sdlg.nli.base import Judged
from sdlg.options import DEFAULT_NLI
from sdlg.records import Cost, Draws, Prompt, Sample
from sdlg.sampling.request import as_sample, whole_generation
from truth_samples import FORMATS, Asked, chosen_questions

TRUTH = Path(__file__).with_name("truth_samples.jsonl")
COUNTS = (5, 10, 20)
SEED = 20231
WAYS = ("multinomial", "arithmetic", "greedy exact + arithmetic")


@dataclass(frozen=True, slots=True)
class Row:
    """One share that would be shown, and the truth."""

    format: str
    way: str
    count: int
    share: float
    low: float
    high: float
    truth: float

    @property
    def error(self) -> float:
        """How far off."""
        return abs(self.share - self.truth)

    @property
    def covers(self) -> bool:
        """Whether the interval holds the truth, which itself is known to a two-hundredth."""
        return self.low - 0.005 <= self.truth <= self.high + 0.005


class OwnMeaning:
    """Whether a text means what the answer means, by the clustering's own rule; judged in one batch, each text once."""

    def __init__(self, nli: NliModel, asked: Asked, answer: str) -> None:
        self._nli, self._asked, self._answer = nli, asked, answer
        self._verdicts: dict[str, bool] = {answer: True}

    def of(self, texts: Sequence[str]) -> list[bool]:
        """For each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._verdicts]
        pairs = [pair for text in new for pair in ((self._answer, text), (text, self._answer))]
        table = dict(zip(pairs, self._nli.judge(self._asked.question.text, pairs).probabilities, strict=True))

        def judge(_: str, wanted: Sequence[tuple[str, str]]) -> Judged:
            return Judged(tuple(table[pair] for pair in wanted), Cost())

        for text in new:
            both = [self._answer, text]
            question, options = self._asked.question.text, self._asked.options.clustering
            numbers = cluster_answers(question, both, judge, options, nli=self._nli.name).numbers
            self._verdicts[text] = numbers[0] == numbers[1]
        return [self._verdicts[text] for text in texts]


def draw(model: LanguageModel, prompt: Prompt, asked: Asked, way: str, count: int, mass: float) -> tuple[Sample, ...]:
    """So many answers, in one of the ways."""
    decoding = replace(asked.options.decoding, strategy="multinomial" if way == "multinomial" else "arithmetic")
    outside = count if way == WAYS[2] else 0
    seed = (SEED, count, *asked.id.encode())
    request = DecodeRequest(prompt, [()] * count, decoding, seed, draws=outside, excluded_mass=mass if outside else 0.0)
    return tuple(as_sample(model, whole_generation(model, one)) for one in model.decode(request).continuations)


def rows_of(model: LanguageModel, nli: NliModel, asked: Asked, record: Mapping[str, Any]) -> list[Row]:
    """Every way and count for one question."""
    prompt = model.prompt(asked.question, asked.options.prompt, asked.options.decoding.stop_rule)
    decoded = model.decode(DecodeRequest(prompt, [()], asked.options.decoding))
    answer = replace(as_sample(model, whole_generation(model, decoded.continuations[0])), cluster=0)
    own = OwnMeaning(nli, asked, answer.text)
    texts = [text for text, _, _ in record["texts"]]
    same = dict(zip(texts, own.of(texts), strict=True))
    truth = sum(count for text, count, _ in record["texts"] if same[text]) / record["draws"]
    rows = []
    for way in WAYS:
        for count in COUNTS:
            drawn = draw(model, prompt, asked, way, count, math.exp(answer.generation.logprob))
            verdicts = own.of([sample.text for sample in drawn])
            numbered = tuple(replace(s, cluster=0 if is_own else 1) for s, is_own in zip(drawn, verdicts, strict=True))
            by = "multinomial" if way == "multinomial" else "arithmetic"
            tally = tally_of([answer] if way == WAYS[2] else [], Draws(numbered, by))
            share = float(shares_of(tally)[0])
            rows.append(Row(record["prompt"], way, count, share, *share_interval(tally, 0, EVENNESS[by]), truth))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Markdown: mean error and coverage by format, way and count."""
    lines = ["| questions | way | N | mean error | covered | mean width | shown | truth |", "|" + "---|" * 8]
    for form in (one.name for one in FORMATS):
        for way in WAYS:
            for count in COUNTS:
                some = [row for row in rows if (row.format, row.way, row.count) == (form, way, count)]
                if some:
                    columns = ([row.error for row in some], [row.covers for row in some],
                               [row.high - row.low for row in some], [row.share for row in some],
                               [row.truth for row in some])  # fmt: skip
                    means = [statistics.fmean(values) for values in columns]
                    cells = " | ".join(f"{value:.3f}" for value in means)
                    lines.append(f"| {len(some)} {form} | {way} | {count} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Measure as many questions as there are, or as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--nli", default=DEFAULT_NLI)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--format", choices=[one.name for one in FORMATS])
    asked_for = parser.parse_args()
    with TRUTH.open(encoding="utf-8") as lines:
        records = {record["id"]: record for record in map(json.loads, lines)}
    model, nli, started = load_model("smollm2"), load_nli(asked_for.nli), time.monotonic()
    questions = [one for one in chosen_questions(asked_for.data_dir) if one.id in records]
    questions = [one for one in questions if asked_for.format in (None, one.options.prompt)][: asked_for.limit]
    rows: list[Row] = []
    for number, asked in enumerate(questions, start=1):
        if time.monotonic() - started > 60 * asked_for.minutes:
            break
        rows += rows_of(model, nli, asked, records[asked.id])
        print(f"{number} of {len(questions)}: {asked.id}, {time.monotonic() - started:.0f} s", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
