"""Does the entropy of the shares find wrong answers as well as the paper's estimate does? Both from the same results.

In: TriviaQA's train split in the paper's few-shot form, asked of `smollm2` with the defaults (N = 10, five draws).
Out: AUROC of both, of the answer's own share, and their paired difference. Results are kept in --results as they come.

    python bench/headline.py --data-dir DATA --limit 150 --results headline.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdlg import Pipeline
from sdlg.evaluation.correctness import judge, load_metrics
from sdlg.evaluation.datasets.sources import TRIVIAQA
from sdlg.evaluation.same_answer_fit import read_rows
from sdlg.evaluation.statistics import auroc, paired_difference
from truth_samples import digest_of

OPTIONS: dict[str, Any] = {"prompt": "plain", "stop_at": "sentence", "max_tokens": 16}


def main() -> None:
    """Ask what was not asked yet, then compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=150)
    parser.add_argument("--results", type=Path, default=Path("headline.jsonl"))
    chosen = parser.parse_args()
    items = [item for item in TRIVIAQA.items(read_rows(chosen.data_dir / TRIVIAQA.file)) if not item.fault]
    items = sorted(items, key=lambda item: digest_of(f"headline {item.id}"))[: chosen.limit]
    pipeline = Pipeline(**OPTIONS)
    metrics = load_metrics(["same_answer"], nli=pipeline.nli)
    done = {row["id"] for row in read_rows(chosen.results)} if chosen.results.exists() else set()
    for number, item in enumerate(items, start=1):
        if item.id in done:
            continue
        result = pipeline.ask(item.question)
        right = judge(result.answer.text, item.references, [], metrics, question=item.question.text)["same_answer"]
        row = {"id": item.id, "right": right, "shares": result.estimates["share_entropy"].value,
               "score": result.semantic_entropy, "own": result.clusters[0].probability,
               "seconds": sum(result.cost.seconds.values())}  # fmt: skip
        with chosen.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{number} of {len(items)}", flush=True)
    print(comparison(read_rows(chosen.results)))


def comparison(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each score, and the paired difference."""
    wrong = np.array([row["right"] < 0.5 for row in rows])
    scores = {
        "entropy of the shares": np.array([row["shares"] for row in rows]),
        "the paper's estimate": np.array([row["score"] for row in rows]),
        "1 − the answer's own share": np.array([1 - row["own"] for row in rows]),
    }
    lines = [f"{len(rows)} questions, {int(wrong.sum())} wrong"]
    for name, values in scores.items():
        figure = auroc(values, wrong)
        lines.append(f"{name}: {figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})")
    first, second = list(scores.values())[:2]
    gap = paired_difference(first, second, wrong)
    return "\n".join([*lines, f"difference: {gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"])


if __name__ == "__main__":
    main()
