"""How well a judge groups a model's own answers: 100 questions, grouped by hand before any judge was run.

python bench/grouping.py [--nli nli-minilm] [--data tests/data/qwen_groups.jsonl] [--wrong]
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sdlg.clustering import cluster_answers
from sdlg.nli import NliModel, load_nli
from sdlg.options import DEFAULT_NLI, Clustering

DRAWS = 2000


def main() -> None:
    """Print pairs right (balanced) and questions without a wrong pair, with 95 % intervals by resampling questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nli", default=DEFAULT_NLI)
    parser.add_argument("--data", type=Path, default=Path("tests/data/qwen_groups.jsonl"))
    parser.add_argument("--equivalence", default="answers")
    parser.add_argument("--wrong", action="store_true", help="list the pairs that are wrong")
    chosen = parser.parse_args()
    judge = load_nli(chosen.nli)
    rows = [json.loads(line) for line in chosen.data.open(encoding="utf-8")]
    counts = np.array([count(row, judge, Clustering(equivalence=chosen.equivalence), chosen.wrong) for row in rows])
    values = [
        figures(counts[picked]) for picked in np.random.default_rng(0).integers(len(rows), size=(DRAWS, len(rows)))
    ]
    for name, value, low, high in zip(
        ("same pairs right", "different pairs right", "balanced", "questions without a wrong pair"),
        figures(counts), *np.quantile(values, [0.025, 0.975], axis=0), strict=True,
    ):  # fmt: skip
        print(f"{chosen.nli}: {name} {value:.3f} [{low:.3f}, {high:.3f}]", flush=True)


def count(row: dict[str, Any], judge: NliModel, clustering: Clustering, show: bool) -> tuple[int, ...]:
    """Same pairs that are right, all of them; different pairs that are right, all of them."""
    labelled = [(text, number) for number, group in enumerate(row["groups"]) for text in group]
    texts = [text for text, _ in labelled]
    found = cluster_answers(row["question"], texts, judge.judge, clustering, nli=judge.name).numbers
    tally = np.zeros(4, int)
    for (k, (one, group)), (m, (other, also)) in combinations(enumerate(labelled), 2):
        right = (found[k] == found[m]) == (group == also)
        tally[0 if group == also else 2] += right
        tally[1 if group == also else 3] += 1
        if show and not right:
            print("split" if group == also else "joined", "|", row["question"], "|", one[:90], "|", other[:90])
    return tuple(tally)


def figures(counts: np.ndarray) -> tuple[float, float, float, float]:
    """Same, different, balanced, and the share of questions with no wrong pair."""
    same, all_same, different, all_different = counts.sum(axis=0)
    clean = np.mean((counts[:, 0] == counts[:, 1]) & (counts[:, 2] == counts[:, 3]))
    return same / all_same, different / all_different, (same / all_same + different / all_different) / 2, clean


if __name__ == "__main__":
    main()
