"""Accuracy of an NLI model on the shared development sets: `python bench/nli_accuracy.py [--nli NAME] [--rows N]`."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
from pathlib import Path

from sdlg.nli import NliProbabilities, load_nli

DATA = Path(os.environ.get("SDLG_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "nli"


def likeliest(verdict: NliProbabilities) -> str:
    return max(("contradiction", "neutral", "entailment"), key=lambda label: float(getattr(verdict, label)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nli", default="nli-minilm")
    parser.add_argument("--rows", type=int, default=0, help="random rows of each set (0: all)")
    chosen = parser.parse_args()
    nli = load_nli(chosen.nli)
    for file in sorted(DATA.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.open(encoding="utf-8")]
        rows = [row for row in rows if row["label"] in ("contradiction", "neutral", "entailment")]
        if chosen.rows:
            rows = random.Random(0).sample(rows, min(chosen.rows, len(rows)))
        verdicts = nli.judge("", [(row["premise"], row["hypothesis"]) for row in rows]).probabilities
        right = sum(likeliest(verdict) == row["label"] for row, verdict in zip(rows, verdicts, strict=True))
        share = right / len(rows)
        print(
            f"{file.stem}: {share:.1%} ± {1.96 * math.sqrt(share * (1 - share) / len(rows)):.1%} of {len(rows)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
