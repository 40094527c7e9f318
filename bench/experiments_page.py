"""The figure of docs/results/experiments.md: AUROC less that of perplexity, for each run and score, with intervals.

    python bench/experiments_page.py runs/assets/against-cost.csv -o docs/results/experiments/against-cost.svg

In: the file that `sdlg report --assets` wrote. Out: an SVG file with a panel for each run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from sdlg.evaluation.report.figures import dots, drawing, svg

FOLDER = Path(__file__).parent.parent / "docs" / "results" / "experiments"
# A run's label in the file ends with its folder where others are of the same data and model.
RUNS = {
    "coqa-smollm2": ("coqa · smollm2", "CoQA, SmolLM2"),
    "triviaqa-smollm2": ("triviaqa · smollm2", "TriviaQA, SmolLM2"),
    "open-smollm2": ("open_questions · smollm2", "Sentences, SmolLM2"),
    "coqa-gemma3-270m": ("coqa · gemma3-270m", "CoQA, Gemma"),
    "triviaqa-gemma3-270m": ("triviaqa · gemma3-270m", "TriviaQA, Gemma"),
    "open-gemma3-270m": ("open_questions · gemma3-270m", "Sentences, Gemma"),
}
LEFT_OUT = ("perplexity of the answer", "P(True)")  # the baseline; at chance, far below the others


def drawn_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the differences of the runs in `RUNS`, each under its title."""
    rows = rows.rename(columns=lambda name: name.replace("\u00a0", " "))
    titles = {name: title for folder, (label, title) in RUNS.items() for name in (label, f"{label} · {folder}")}
    missing = [
        label for folder, (label, _) in RUNS.items() if not rows["run"].isin([label, f"{label} · {folder}"]).any()
    ]
    if missing:
        sys.exit(f"no run {', '.join(missing)}; there are: {', '.join(rows['run'].unique())}")
    rows = rows.assign(run=rows["run"].map(titles)).dropna(subset=["run", "− perplexity"])
    return rows[~rows["score"].isin(LEFT_OUT)].rename(
        columns=lambda name: name.replace("− perplexity", "AUROC − perplexity")
    )


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", type=Path, default=FOLDER / "against-cost.csv")
    parser.add_argument("-o", "--out", type=Path, default=FOLDER / "against-cost.svg")
    chosen = parser.parse_args()
    with drawing("against-cost"):
        picture = svg(dots(drawn_rows(pd.read_csv(chosen.table)), x="AUROC − perplexity", by="score", line=0.0))
    chosen.out.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
