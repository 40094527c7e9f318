"""What the scores say of questions without an answer and of ambiguous ones: 40 of each, beside 40 that have one.

    sdlg ask --file bench/questions/answerability.jsonl --measures $(python bench/answerability.py --scores) \\
        --set stop_at=sentence --set unit=answer --max-tokens 40 --out runs/answerability.jsonl
    python bench/answerability.py runs/answerability.jsonl

Questions are our own. For each kind: the median of each score, how often the
first answer declines, and how well the score tells the kind from questions that have an answer (AUROC, 95 % interval).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from sdlg.evaluation.same_answer_fit import read_rows
from sdlg.evaluation.statistics import auroc

QUESTIONS = Path(__file__).parent / "questions" / "answerability.jsonl"
SCORES = (
    "mass_beyond_answer", "share_beyond_answer", "share_entropy", "semantic_entropy_sdlg", "cocoa_sdlg",
    "perplexity", "greedy_negative_log_likelihood", "mean_token_entropy", "coverage",
)  # fmt: skip


def main() -> None:
    """Print a line for each score and kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--scores", action="store_true")
    chosen = parser.parse_args()
    if chosen.scores or chosen.results is None:
        print(",".join(SCORES))
        return
    kinds = {row["question"]: row["kind"] for row in read_rows(QUESTIONS)}
    rows = [json.loads(line) for line in chosen.results.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if "estimates" in row and row["question"]["text"] in kinds]
    kind = np.array([kinds[row["question"]["text"]] for row in rows])
    declines = np.array([row["clusters"][0]["kind"] == "declines" for row in rows])
    for name in dict.fromkeys(kind):
        print(f"{name}: {np.sum(kind == name)} questions, {np.sum(declines[kind == name])} answers decline")
    for score in SCORES:
        values = np.array([row["estimates"].get(score, {"value": np.nan})["value"] for row in rows])
        values = -values if score == "coverage" else values
        parts = [f"{score:32}", f"answerable {np.nanmedian(values[kind == 'answerable']):.3f}"]
        for name in ("unanswerable", "ambiguous"):
            two = np.isin(kind, ["answerable", name])
            found = auroc(values[two], kind[two] == name)
            median = np.nanmedian(values[kind == name])
            parts.append(f"{name} {median:.3f}, AUROC {found.value:.3f} ({found.low:.3f} to {found.high:.3f})")
        print(" · ".join(parts))


if __name__ == "__main__":
    main()
