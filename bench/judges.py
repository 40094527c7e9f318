"""How far the metrics agree with people about right and wrong answers (docs/guides/own-data.md).

python bench/judges.py --data ../shared/data/judged_answers/dev.jsonl [--metrics contains,rouge_l]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from sdlg.evaluation.correctness import judge, load_metrics
from sdlg.evaluation.same_answer_fit import balanced_accuracy, read_rows

SHORT = "fid"  # the system that answers in a few words


def main() -> None:
    """Print a line for each metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--metrics", default="exact_match,rouge_l,rouge_1,contains,same_answer")
    chosen = parser.parse_args()
    metrics = load_metrics(chosen.metrics.split(","))
    scores: dict[str, list[float]] = {metric.name: [] for metric in metrics}
    right, short = [], []
    for row in read_rows(chosen.data):
        for answer in row["answers"]:
            judged = judge(answer["text"], row["golden"], [], metrics, question=row["question"])
            for name, score in judged.items():
                scores[name].append(score)
            right.append(answer["right"])
            short.append(answer["system"] == SHORT)
    people, is_short = np.array(right), np.array(short)
    for name, values in scores.items():
        said = np.array(values) >= 0.5
        parts = {"sentences": ~is_short, "short": is_short}
        print(name, *(f"{part} {balanced_accuracy(said[k], people[k]):.3f}" for part, k in parts.items()), flush=True)


if __name__ == "__main__":
    main()
