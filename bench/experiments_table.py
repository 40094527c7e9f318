"""The table of docs/results/experiments.md, from the report's against-cost.csv.

    python bench/experiments_table.py            # writes it into the page, between its two marks
    python bench/experiments_table.py --check    # exit 1 where the page says something else

In: the file that `sdlg report --assets` wrote. Out: a cell for each score and run: AUROC, its difference to perplexity,
error rates, time and tokens.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "results"
PAGE, FIGURES = FOLDER / "experiments.md", FOLDER / "experiments" / "against-cost.csv"
BEGIN, END = "<!-- against-cost -->\n", "<!-- /against-cost -->\n"
# A run's label in the file ends with its folder where others are of the same data and model.
RUNS = {
    "coqa-smollm2": ("coqa · smollm2", "CoQA, SmolLM2"),
    "coqa-gemma3-270m": ("coqa · gemma3-270m", "CoQA, Gemma"),
    "triviaqa-smollm2": ("triviaqa · smollm2", "TriviaQA, SmolLM2"),
    "triviaqa-gemma3-270m": ("triviaqa · gemma3-270m", "TriviaQA, Gemma"),
    "open-smollm2": ("open_questions · smollm2", "Sentences, SmolLM2"),
    "open-gemma3-270m": ("open_questions · gemma3-270m", "Sentences, Gemma"),
}
Row = dict[str, str]


def read(path: Path = FIGURES) -> dict[str, dict[str, Row]]:
    """Folder of a run → score → its row."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{name.replace("\u00a0", " "): value for name, value in row.items()} for row in csv.DictReader(file)]
    found: dict[str, dict[str, Row]] = {}
    for folder, (label, _) in RUNS.items():
        of_run = {row["score"]: row for row in rows if row["run"] in (label, f"{label} · {folder}")}
        if not of_run:
            sys.exit(f"{path} has no run {label!r}; it has: {', '.join(sorted({row['run'] for row in rows}))}")
        found[folder] = of_run
    return found


def table(found: dict[str, dict[str, Row]]) -> str:
    """Markdown, a row for each score, a column for each run."""
    scores = dict.fromkeys(score for rows in found.values() for score in rows)
    headings = [f"{RUNS[folder][1]} ({next(iter(rows.values()))['right']} right)" for folder, rows in found.items()]
    lines = [f"| | {' | '.join(headings)} |", "|---" * (1 + len(headings)) + "|"]
    for score in scores:
        cells = (_cell(rows[score]) if score in rows else "not run" for rows in found.values())
        lines.append(f"| {score} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row) -> str:
    if not row["AUROC"]:
        return row["AUROC reason"]
    parts = [_number(row["AUROC"])]
    if row["− perplexity low"]:
        value, low, high = (_number(row[f"− perplexity{end}"], signed=True) for end in ("", " low", " high"))
        mark = "**" if float(row["− perplexity low"]) > 0 else ""
        parts.append(f"{mark}{value} ({low} to {high}){mark}")
    rates = " / ".join(f"{100 * float(row[f'error rate, {share} given']):.0f}" for share in ("80%", "50%"))
    time = f"{float(row['time, × the answer']):.1f}×, " if row["time, × the answer"] else ""
    return "<br>".join((*parts, f"{rates} %, {time}{float(row['tokens']):.0f}"))


def _number(text: str, *, signed: bool = False) -> str:
    """Without the zero before the point, with a minus sign."""
    return format(float(text), "+.3f" if signed else ".3f").replace("0.", ".", 1).replace("-", "−")


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the page has this table")
    wants_check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    told, after = rest.split(END)
    wanted = f"\n{table(read())}\n"
    if wants_check:
        sys.exit(None if told == wanted else f"{PAGE} does not say what {FIGURES} says: run this without --check")
    PAGE.write_text(f"{before}{BEGIN}{wanted}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
