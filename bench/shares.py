"""How far the percentages are from the truth, by way of drawing and number of draws.

In: `truth_samples.jsonl` (200 independent answers of `smollm2` at temperature 1 to each question, made once by
truth_samples.py; questions are named by id and read from the data folder). Out: two tables. The first is about the
share of the answer's own meaning: truth is the frequency, in those 200, of answers that mean what the greedy answer
means, by the same judge. The second is about all meanings, of few questions, since nearly every answer at temperature 1
has to be compared with every other: total variation and entropy against the clusters of 50 of the 200, for the first 5,
10 and all of 20 draws. Another 50 stand beside it as a way of their own: what even the truth is away from itself.

    python bench/shares.py --data-dir DATA [--limit 10] [--minutes 5]

Rows are kept in --rows as they come, and a question that is there is not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from sdlg.clustering import cluster_answers
from sdlg.measures.shares import EVENNESS, Tally, chao_shen_entropy, share_interval, shares_of, tally_of
from sdlg.models import LanguageModel, load_model
from sdlg.models.base import DecodeRequest
from sdlg.nli import NliModel, load_nli
from sdlg.nli.base import Judged
from sdlg.options import DEFAULT_NLI, SMOLLM2
from sdlg.records import Cost, Draws, Prompt, Sample
from sdlg.sampling.request import as_sample, whole_generation
from truth_samples import FORMATS, Asked, chosen_questions

TRUTH = Path(__file__).with_name("truth_samples.jsonl")
COUNTS = (5, 10, 20)
SEED = 20231
WAYS = ("multinomial", "arithmetic", "greedy exact + arithmetic")
MEANINGS_TRUTH = 50  # answers of the truth whose meanings are all compared
ITSELF = "the truth's other half"


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
    total_variation: float | None = None  # of all meanings; None: not compared
    entropy: float | None = None  # as shown
    true_entropy: float | None = None

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


def rows_of(
    model: LanguageModel, nli: NliModel, asked: Asked, record: Mapping[str, Any], all_meanings: bool
) -> list[Row]:
    """Every way and count for one question."""
    prompt = model.prompt(asked.question, asked.options.prompt, asked.options.decoding.stop_rule)
    decoded = model.decode(DecodeRequest(prompt, [()], asked.options.decoding))
    answer = replace(as_sample(model, whole_generation(model, decoded.continuations[0])), cluster=0)
    mass = math.exp(answer.generation.logprob)
    drawn = {(way, count): draw(model, prompt, asked, way, count, mass) for way in WAYS for count in COUNTS}
    own = OwnMeaning(nli, asked, answer.text)
    texts = [text for text, _, _ in record["texts"]]
    same = dict(zip(texts, own.of(texts), strict=True))
    truth = sum(count for text, count, _ in record["texts"] if same[text]) / record["draws"]
    rows = {}
    for (way, count), samples in drawn.items():
        verdicts = own.of([sample.text for sample in samples])
        tally = tally_for(way, answer, samples, [0 if is_own else 1 for is_own in verdicts])
        share, interval = float(shares_of(tally)[0]), share_interval(tally, 0, EVENNESS[_drawn_by(way)])
        rows[way, count] = Row(record["prompt"], way, count, share, *interval, truth)
    if all_meanings:
        itself = Row(record["prompt"], ITSELF, MEANINGS_TRUTH, truth, truth, truth, truth)
        for key, measured in compare_all(nli, asked, record, answer, drawn).items():
            rows[key] = replace(rows.get(key, itself), **measured)
    return list(rows.values())


def _drawn_by(way: str) -> str:
    return "multinomial" if way == "multinomial" else "arithmetic"


def tally_for(way: str, answer: Sample, samples: Sequence[Sample], clusters: Sequence[int]) -> Tally:
    """Draws with their clusters, and the answer where the way knows its mass; the answer's own cluster is 0."""
    numbered = tuple(replace(one, cluster=number) for one, number in zip(samples, clusters, strict=True))
    return tally_of([answer] if way == WAYS[2] else [], Draws(numbered, _drawn_by(way)))


Drawn = Mapping[tuple[str, int], tuple[Sample, ...]]


def compare_all(
    nli: NliModel, asked: Asked, record: Mapping[str, Any], answer: Sample, drawn: Drawn
) -> dict[tuple[str, int], dict[str, Any]]:
    """All meanings at once: total variation of the shares, and the entropies."""
    every = [text for text, count, _ in record["texts"] for _ in range(count)]
    random.Random(SEED).shuffle(every)
    truth, others = every[:MEANINGS_TRUTH], every[MEANINGS_TRUTH : 2 * MEANINGS_TRUTH]
    most = {way: drawn[way, max(COUNTS)] for way in WAYS}
    texts = [answer.text, *truth, *others, *(sample.text for samples in most.values() for sample in samples)]
    question, options = asked.question.text, asked.options.clustering
    numbers = iter(cluster_answers(question, texts, nli.judge, options, nli=nli.name).numbers)
    next(numbers)  # the answer's own: 0
    size = len(texts)

    def counted(answers: Sequence[str]) -> Tally:
        counts = np.bincount(list(islice(numbers, len(answers))), minlength=size).astype(float)
        return Tally(np.zeros(size), counts, 1.0, np.zeros(size))  # nothing is known exactly, all was drawn

    true, tallies = counted(truth), {(ITSELF, MEANINGS_TRUTH): counted(others)}
    for way, samples in most.items():
        clusters = list(islice(numbers, len(samples)))
        for count in COUNTS:
            tallies[way, count] = tally_for(way, answer, samples[:count], clusters[:count])
    return {key: _against(true, tally) for key, tally in tallies.items()}


def _against(true: Tally, tally: Tally) -> dict[str, Any]:
    shares = np.zeros(len(true.counts))
    shares[: len(tally.exact)] = shares_of(tally)
    variation = float(np.abs(shares - shares_of(true)).sum() / 2)
    entropies = {"entropy": chao_shen_entropy(tally), "true_entropy": chao_shen_entropy(true)}
    return {"total_variation": variation, **entropies}


Columns = Sequence[Sequence[float]]


def tables(rows: Sequence[Row]) -> str:
    """Markdown: the answer's own meaning, and all meanings."""
    lines = ["| questions | way | N | mean error | covered | mean width | shown | truth |", "|" + "---|" * 8]
    further = ["| questions | way | N | total variation | entropy, mean error | shown | truth |", "|" + "---|" * 7]
    asked_ways = [*product(WAYS, COUNTS), (ITSELF, MEANINGS_TRUTH)]
    for form, (way, count) in product((one.name for one in FORMATS), asked_ways):
        some = [row for row in rows if (row.format, row.way, row.count) == (form, way, count)]
        if some and way in WAYS:
            widths = [row.high - row.low for row in some]
            own: Columns = ([row.error for row in some], [row.covers for row in some], widths,
                            [row.share for row in some], [row.truth for row in some])  # fmt: skip
            lines.append(f"| {len(some)} {form} | {way} | {count} | {_means(own)} |")
        if few := [row for row in some if row.total_variation is not None]:
            pairs = [(row.entropy or 0.0, row.true_entropy or 0.0) for row in few]
            every: Columns = ([row.total_variation or 0.0 for row in few], [abs(one - other) for one, other in pairs],
                       [one for one, _ in pairs], [other for _, other in pairs])  # fmt: skip
            further.append(f"| {len(few)} {form} | {way} | {count} | {_means(every)} |")
    return "\n".join([*lines, "", *further])


def _means(columns: Columns) -> str:
    return " | ".join(f"{statistics.fmean(values):.3f}" for values in columns)


def read_kept(file: Path) -> dict[str, list[Row]]:
    """Question → its rows, as far as a run came."""
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8") as lines:
        return {kept["id"]: [Row(**row) for row in kept["rows"]] for kept in map(json.loads, lines)}


def main() -> None:
    """Measure as many questions as there are, or as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--nli", default=DEFAULT_NLI)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--meanings", type=int, default=12, help="questions of which all meanings are compared")
    parser.add_argument("--format", choices=[one.name for one in FORMATS])
    parser.add_argument("--rows", type=Path, default=Path("shares_rows.jsonl"), help="where rows are kept")
    asked_for = parser.parse_args()
    with TRUTH.open(encoding="utf-8") as lines:
        records = {record["id"]: record for record in map(json.loads, lines)}
    kept = read_kept(asked_for.rows)
    model, nli, started = load_model(SMOLLM2), load_nli(asked_for.nli), time.monotonic()
    questions = [one for one in chosen_questions(asked_for.data_dir) if one.id in records]
    questions = [one for one in questions if asked_for.format in (None, one.options.prompt)][: asked_for.limit]
    for number, asked in enumerate(questions, start=1):
        if asked.id in kept:
            continue
        if time.monotonic() - started > 60 * asked_for.minutes:
            break
        kept[asked.id] = rows_of(model, nli, asked, records[asked.id], number <= asked_for.meanings)
        with asked_for.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"id": asked.id, "rows": [asdict(row) for row in kept[asked.id]]}) + "\n")
        print(f"{number} of {len(questions)}: {asked.id}, {time.monotonic() - started:.0f} s", flush=True)
    print(tables([row for one in questions for row in kept.get(one.id, [])]))


if __name__ == "__main__":
    main()
