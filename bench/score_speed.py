"""`sdlg score` on answers with clusters given: is the arithmetic negligible beside one NLI pass over the same answers?

1,000 rows of 10 answers each are parsed, scored by every measure that needs no model and written as JSON, as `sdlg
score` does. The other side judges the clustering pairs of such rows with the embedded nli-minilm; it is measured on
some of the rows and scaled up to all. The ratio is what counts; the goal is under 10 %.

    python bench/score_speed.py [--rows 1000] [--nli-rows 50]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any

from sdlg.loading.pretrained import calm_threads

calm_threads()

from sdlg import Models, NliModel, Pipeline, load_nli  # noqa: E402
from sdlg.cli.score import score_row  # noqa: E402
from sdlg.clustering import cluster_answers  # noqa: E402
from sdlg.measures.table import MEASURES  # noqa: E402
from sdlg.options import DEFAULT_NLI, NONE, Clustering  # noqa: E402
from sdlg.schema import read_given_row  # noqa: E402

ANSWERS, GOAL = 10, 0.10
ARITHMETIC = frozenset({"logprobs", "identities", "clusters", "branchings", "texts", "token_entropies"})
WRITERS = (
    "Jane Austen", "Charles Dickens", "Mary Shelley", "George Eliot", "Thomas Hardy", "Emily Brontë", "Henry James",
    "Leo Tolstoy", "Victor Hugo", "Mark Twain", "Virginia Woolf", "Herman Melville",
)  # fmt: skip
NOVELS = ("Middlemarch", "Bleak House", "Persuasion", "Moby-Dick", "Les Misérables", "The Ambassadors", "Orlando")
WAYS_TO_SAY = ("The novel {novel} was written by {writer}.", "{writer} wrote {novel}.", "It was {writer}.")


def make_row(chance: random.Random) -> str:
    """Six or so distinct answers of about ten tokens, several ways to say the same included; all but one branched."""
    novel = chance.choice(NOVELS)
    names = chance.sample(WRITERS, chance.randint(2, 5))
    return json.dumps(
        {
            "question": f"Who wrote the novel {novel}?",
            "answers": [make_answer(chance, novel, chance.choice(names), branched=n > 0) for n in range(ANSWERS)],
        }
    )


def make_answer(chance: random.Random, novel: str, writer: str, *, branched: bool) -> dict[str, Any]:
    text = chance.choice(WAYS_TO_SAY).format(novel=novel, writer=writer)
    logprobs = [-chance.expovariate(1.0) for _ in range(len(text) // 4 + 1)]
    position = chance.randrange(len(logprobs)) if branched else None
    entropies = [chance.expovariate(1.0) for _ in logprobs]
    return {
        "text": text,
        "logprobs": logprobs,
        "entropies": entropies,
        "cluster": writer,
        "position": position,
    }


def score(lines: list[str], pipeline: Pipeline) -> int:
    """Parse, measure, write. Return how many values were found: none must be spared for want of data."""
    values = 0
    for number, line in enumerate(lines, start=1):
        given = read_given_row(line)
        row = score_row(number, pipeline.score(given.question, given.samples, evidence=given.evidence))
        values += len(row["measures"])
        json.dumps(row, ensure_ascii=False)
    return values


def judge(lines: list[str], nli: NliModel) -> int:
    """Do what `sdlg score` does with rows whose clusters are missing. Return how many pairs that takes."""
    pairs = 0
    for row in map(read_given_row, lines):
        texts = [sample.text for sample in row.samples]
        pairs += cluster_answers(row.question.text, texts, nli.judge, Clustering(), nli=nli.name).cost.nli_pairs
    return pairs


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--nli-rows", type=int, default=50)
    chosen = parser.parse_args()
    chance = random.Random(0)
    lines = [make_row(chance) for _ in range(chosen.rows)]
    names = [name for name, measure in MEASURES.items() if measure.needs <= ARITHMETIC]
    pipeline = Pipeline(models=Models(None, None), measures=names, calibration=NONE)
    nli = load_nli(DEFAULT_NLI)
    judge(lines[:2], nli)  # warm up both sides
    found = score(lines[:2], pipeline)
    if found < 2 * len(names):
        print(f"{2 * len(names) - found} of {2 * len(names)} values were not available")
    some = lines[: chosen.nli_rows]
    arithmetic = min(seconds(lambda: score(lines, pipeline)) for _ in range(3))
    judged = min(seconds(lambda: judge(some, nli)) for _ in range(3))
    whole = judged * len(lines) / len(some)
    ratio = arithmetic / whole
    per_row = judge(some, nli) / len(some)
    print(f"score {len(lines)} rows of {ANSWERS} answers by {len(names)} measures: {arithmetic:.2f} s")
    print(f"NLI, {per_row:.1f} pairs a row: {judged:.2f} s for {len(some)} rows, so {whole:.1f} s for {len(lines)}")
    print(f"ratio {ratio:.1%}, goal under {GOAL:.0%}: {'met' if ratio < GOAL else 'NOT met'}")


if __name__ == "__main__":
    main()
