"""The table and the figure of docs/results/experiments.md, from the report's against-cost.csv.

    python bench/experiments_page.py            # writes both
    python bench/experiments_page.py --check    # exit 1 where the page says something else

In: the file that `sdlg report --assets` wrote. Out: in the page, between its two marks, a cell for each score and run:
AUROC, its difference to perplexity, error rates, time and tokens; beside it a figure of the differences against time.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "results"
PAGE, FIGURES = FOLDER / "experiments.md", FOLDER / "experiments" / "against-cost.csv"
PICTURE = FOLDER / "experiments" / "against-cost.svg"
BEGIN, END = "<!-- against-cost -->\n", "<!-- /against-cost -->\n"
# A run's label in the file ends with its folder where others are of the same data and model.
RUNS = {
    "coqa-smollm2": ("coqa · smollm2", "CoQA, SmolLM2"),
    "triviaqa-smollm2": ("triviaqa · smollm2", "TriviaQA, SmolLM2"),
    "open-smollm2": ("open_questions · smollm2", "Sentences, SmolLM2"),
    "coqa-gemma3-270m": ("coqa · gemma3-270m", "CoQA, Gemma"),
    "triviaqa-gemma3-270m": ("triviaqa · gemma3-270m", "TriviaQA, Gemma"),
    "open-gemma3-270m": ("open_questions · gemma3-270m", "Sentences, Gemma"),
}
# Scores with a line in the table, and how the figure draws them; the rest is in the file. None: not drawn.
SCORES = {
    "perplexity of the answer": None,
    "likelihood of the answer": ("green", "^"),
    "token entropy of the answer": ("orange", "v"),
    "P(True)": None,  # at chance: far below the others
    "SAR, N = 10": ("purple", "D"),
    "CoCoA, N = 10": ("purple", "d"),
    "semantic entropy, multinomial, N = 10": ("vermillion", "s"),
    "semantic entropy, arithmetic, N = 10": ("vermillion", "x"),
    "semantic entropy, diverse beams, N = 10": ("grey", "P"),
    "disagreement, diverse beams, N = 10": ("grey", "X"),
    "semantic entropy, SDLG, N = 4": ("blue", "."),
    "semantic entropy, SDLG, N = 10": ("blue", "o"),
    "CoCoA, SDLG, N = 4": ("blue", "*"),
    "CoCoA, SDLG, N = 10": ("blue", "p"),
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
    headings = [f"{RUNS[folder][1]} ({next(iter(rows.values()))['right']} right)" for folder, rows in found.items()]
    lines = [f"| | {' | '.join(headings)} |", "|---" * (1 + len(headings)) + "|"]
    for score in SCORES:
        if not any(score in rows for rows in found.values()):
            sys.exit(f"{FIGURES} has no score {score!r}: SCORES names it otherwise than the report")
        cells = (_cell(rows[score]) if score in rows else "not run" for rows in found.values())
        lines.append(f"| {score} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row) -> str:
    if not row["AUROC"]:
        return row["AUROC reason"]
    parts = [_number(row["AUROC"])]
    if row["− perplexity low"]:
        value, low, high = (_number(text, signed=True) for text in _difference(row))
        mark = "**" if float(row["− perplexity low"]) > 0 else ""
        parts.append(f"{mark}{value} ({low} to {high}){mark}")
    rates = " / ".join(f"{100 * float(row[f'error rate, {share} given']):.0f}" for share in ("80%", "50%"))
    time = f"{float(row['time, × the answer']):.1f}×, " if row["time, × the answer"] else ""
    return "<br>".join((*parts, f"{rates} %, {time}{float(row['tokens']):.0f}"))


def _difference(row: Row) -> tuple[str, str, str]:
    return row["− perplexity"], row["− perplexity low"], row["− perplexity high"]


def _number(text: str, *, signed: bool = False) -> str:
    """Without the zero before the point, with a minus sign."""
    return format(float(text), "+.3f" if signed else ".3f").replace("0.", ".", 1).replace("-", "−")


def draw(found: dict[str, dict[str, Row]], path: Path) -> None:
    """A panel for each run: what each score is above or below perplexity, against its time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from sdlg.evaluation.report.figures import LIGHT

    mpl.rcParams.update({"svg.hashsalt": "sdlg", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    panels = figure.subplots(2, 3, sharey=True, sharex=True)
    for panel, (folder, rows) in zip(panels.flat, found.items(), strict=True):
        panel.axhline(0, color=LIGHT["ink"], linewidth=1)
        panel.set_title(f"{RUNS[folder][1]}: perplexity {_number(rows['perplexity of the answer']['AUROC'])}")
        panel.grid(axis="y", color=LIGHT["grid"], linewidth=0.6)
        for shift, (score, style) in enumerate(SCORES.items()):
            if style is None or not rows.get(score, {}).get("− perplexity low"):
                continue
            value, low, high = map(float, _difference(rows[score]))
            # Scores of the same sequences cost the same: moved apart by a hundredth each, so that all can be seen.
            time = float(rows[score]["time, × the answer"]) * (1 + 0.012 * (shift - len(SCORES) / 2))
            panel.errorbar(
                time, value, [[value - low], [high - value]], color=LIGHT[style[0]], marker=style[1], markersize=6,
                linewidth=0.8, alpha=0.9, label=score, linestyle="none",
            )  # fmt: skip
        panel.set_xscale("log", base=2)
        panel.set_xticks([1, 2, 4, 8], ["1×", "2×", "4×", "8×"])
    panels[1][1].set_xlabel("time for a question, as a multiple of the greedy answer's")
    figure.supylabel("AUROC, less that of the answer's perplexity")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the page has this table")
    wants_check = parser.parse_args().check
    page, found = PAGE.read_text(encoding="utf-8"), read()
    before, rest = page.split(BEGIN)
    told, after = rest.split(END)
    wanted = f"\n{table(found)}\n"
    if wants_check:
        sys.exit(None if told == wanted else f"{PAGE} does not say what {FIGURES} says: run this without --check")
    draw(found, PICTURE)
    PAGE.write_text(f"{before}{BEGIN}{wanted}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
