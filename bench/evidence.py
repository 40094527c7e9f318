"""The evidence behind docs/results/experiments.md: which score finds the wrong answers of a real model.

    python bench/evidence.py table runs/*-qwen          # a line for each question, into docs/results/experiments
    python bench/evidence.py page                       # the figure, and the tables in words

The table has ids and numbers only, and is kept: a later run adds its questions to it. A score is *chosen* on one half
of the questions, by a hash of their ids, and *told* on the other.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdlg.evaluation.report.figures import dots, drawing, svg
from sdlg.evaluation.resampling import auroc_of, resample_counts
from sdlg.evaluation.results import RunResults, load_run
from sdlg.records import Sample

FOLDER = Path(__file__).parent.parent / "docs" / "results" / "experiments"
TABLE, FIGURE = FOLDER / "evidence.csv", FOLDER / "evidence.svg"
UNEXPLORED = 0.01  # where `sdlg ask` stops branching
RESAMPLES = 2000

SAMPLERS = {
    "SDLG": "sdlg",
    "sampling at 0.5": "multinomial:temperature=0.5",
    "sampling at 1": "multinomial:temperature=1.0",
    "diverse beams": "diverse_beam",
}
OF_ANSWER = {
    "perplexity": "perplexity",
    "likelihood of the answer (G-NLL)": "greedy_negative_log_likelihood",
    "mean token entropy": "mean_token_entropy",
}
OF_SDLG = {
    "SE*_SDLG, the paper's": "semantic_entropy_sdlg",
    "own mass": "mass_beyond_answer",
    "share of other meanings": "share_beyond_answer",
    "entropy of the percentages": "share_entropy",
    "CoCoA": "cocoa_sdlg",
    "branch disagreement": "branch_disagreement",
    "coverage": "coverage",
    "clusters": "number_of_clusters",
}
OF_SAMPLES = {
    "PE": "predictive_entropy",
    "LN-PE": "length_normalised_predictive_entropy",
    "SAR": "sar",
    "SE": "semantic_entropy_improper",
    "SE*": "semantic_entropy_proper",
    "discrete entropy": "discrete_semantic_entropy",
    "disagreement": "disagreement",
    "CoCoA": "cocoa_log_perplexity",
    "degree": "degree",
    "clusters": "number_of_clusters",
}
PREFIXES = (4, 6)
LOWER_IS_WORSE = ("coverage",)
COUNTS = ("clusters",)  # are told, and no candidates
COMBINED = ("perplexity", "SDLG · own mass", "SDLG · entropy of the percentages", "SDLG · SE*_SDLG, the paper's")
SHOWN = {
    "SDLG · own mass": "SDLG, own mass",
    "SDLG · own mass, as it stops": "SDLG, own mass, stopping rule",
    "SDLG · SE*_SDLG, the paper's": "SDLG, SE*",
    "SDLG · share of other meanings": "SDLG, share of other meanings",
    "SDLG · CoCoA": "SDLG, CoCoA",
    "sampling at 0.5 · SE": "multinomial 0.5, SE",
    "sampling at 0.5 · disagreement": "multinomial 0.5, disagreement",
    "sampling at 1 · discrete entropy": "multinomial 1, discrete entropy",
    "diverse beams · SE*": "diverse beams, SE*",
    "likelihood of the answer (G-NLL)": "likelihood of the answer",
}  # score → its label, whose first word gives it a colour
PAPER = {
    "LN-PE": "sampling at 0.5 · LN-PE", "PE": "sampling at 0.5 · PE", "SAR": "sampling at 0.5 · SAR",
    "SE_MS": "sampling at 0.5 · SE", "SE*_MS": "sampling at 0.5 · SE*", "SE*_DBS": "diverse beams · SE*",
    "SE*_SDLG": "SDLG · SE*_SDLG, the paper's", "own mass": "SDLG · own mass", "perplexity": "perplexity",
}  # fmt: skip
CELLS = {"triviaqa": "TriviaQA", "coqa": "CoQA", "open_questions": "sentences", "truthfulqa": "TruthfulQA"}


# -- a line for each question -----------------------------------------------------------------------------------


def question_table(run: RunResults) -> pd.DataFrame:
    """The scores of a run's questions, higher for less certain, and what each method decoded."""
    rows: dict[str, Sequence[object] | np.ndarray] = {
        "cell": [run.data] * len(run.ids),
        "model": [run.model] * len(run.ids),
        "id": run.ids,
        "same_answer": run.correctness("same_answer"),
        "rouge_l": run.correctness("rouge_l"),
        "contains": run.correctness("contains"),
    }
    sdlg = SAMPLERS["SDLG"]
    rows |= {name: run.values(sdlg, measure) for name, measure in OF_ANSWER.items()}
    coverage = np.stack([run.values(sdlg, "coverage", n) for n in range(1, run.samples + 1)])
    explored = coverage > 1 - UNEXPLORED
    stop = np.where(explored.any(axis=0), explored.argmax(axis=0), run.samples - 1)  # its place: from 0 on
    for name, measure in OF_SDLG.items():
        by_n = np.stack([run.values(sdlg, measure, n) for n in range(1, run.samples + 1)])
        by_n = -by_n if name in LOWER_IS_WORSE else by_n
        rows[f"SDLG · {name}"] = by_n[-1]
        rows |= {f"SDLG · {name}, N = {n}": by_n[n - 1] for n in PREFIXES}
        rows[f"SDLG · {name}, as it stops"] = by_n[stop, np.arange(len(run.ids))]
    rows["sequences, as it stops"] = stop + 1
    for name in ("sampling at 0.5", "sampling at 1", "diverse beams"):
        for label, measure in OF_SAMPLES.items():
            values = run.values(SAMPLERS[name], measure)
            if not np.isnan(values).all():
                rows[f"{name} · {label}"] = values
            if label in ("SE", "disagreement", "clusters"):
                rows |= {f"{name} · {label}, N = {n}": run.values(SAMPLERS[name], measure, n) for n in PREFIXES}
    for name, method in SAMPLERS.items():
        samples = [run.generated[one].methods[method].samples for one in run.ids]
        rows[f"tokens, {name}"] = [_tokens(some, run, one) for some, one in zip(samples, run.ids, strict=True)]
    branches = [run.generated[one].methods[sdlg].samples for one in run.ids]
    rows["tokens, SDLG, as it stops"] = [
        _tokens(some[: end + 1], run, one) for some, end, one in zip(branches, stop, run.ids, strict=True)
    ]
    return pd.DataFrame(rows)


def _tokens(samples: Sequence[Sample], run: RunResults, question: str) -> int:
    """Tokens that were chosen for the answer and the samples; equal beginnings count once."""
    answer = run.generated[question].answer
    assert answer is not None
    ids = [(*one.generation.token_ids, *one.generation.ending_logprobs) for one in (answer, *samples)]
    return len({tokens[:end] for tokens in ids for end in range(1, len(tokens) + 1)})


def write_table(folders: Sequence[Path], file: Path) -> None:
    """Add the questions of runs to the table; a question that is there already is taken anew."""
    new = pd.concat([question_table(load_run(folder)) for folder in folders])
    if file.exists():
        new = pd.concat([pd.read_csv(file), new]).drop_duplicates(["cell", "model", "id"], keep="last")
    new.sort_values(["model", "cell", "id"]).to_csv(file, index=False, float_format="%.5g")
    print(new.groupby(["model", "cell"]).size().to_string())


# -- what follows from it ---------------------------------------------------------------------------------------


class Cell:
    """Questions of one kind: their verdicts, and their scores."""

    def __init__(self, name: str, rows: pd.DataFrame) -> None:
        self.name, self.rows = name, rows.reset_index(drop=True)
        self.wrong = (rows["same_answer"].to_numpy() < 0.5).astype(float)
        self.counts = next(iter(resample_counts(len(rows), RESAMPLES, 0))) if len(rows) else np.empty((0, 0))

    def half(self, told: bool) -> Cell:
        """The questions on which scores are chosen, or the others."""
        digests = self.rows["id"].map(lambda one: hashlib.sha256(one.encode()).digest()[0] % 2 == 1)
        return Cell(self.name, self.rows[digests == told])

    def auroc(self, score: str, counts: np.ndarray | None = None) -> np.ndarray:
        """Of each resample; without any, of the questions themselves."""
        once = np.ones((1, len(self.rows)))
        return auroc_of(self.rows[score].to_numpy(), self.wrong)(once if counts is None else counts)


def difference(cells: Sequence[Cell], score: str, other: str) -> tuple[float, float, float]:
    """The mean over cells of AUROC(score) − AUROC(other), with its interval: questions of each cell are drawn anew."""
    value = np.mean([cell.auroc(score)[0] - cell.auroc(other)[0] for cell in cells])
    draws = np.mean([cell.auroc(score, cell.counts) - cell.auroc(other, cell.counts) for cell in cells], axis=0)
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return float(value), float(low), float(high)


def candidates(rows: pd.DataFrame) -> list[str]:
    """Scores that may be chosen: of the answer, and of ten sequences of SDLG."""
    return [*OF_ANSWER, *(f"SDLG · {name}" for name in OF_SDLG if name not in COUNTS)]


def with_combination(cells: Sequence[Cell]) -> list[Cell]:
    """A weighted sum of a few scores, fitted on the halves to choose on; added to the halves to tell on."""
    chosen = [cell.half(told=False) for cell in cells]
    features = np.concatenate([_features(cell.rows) for cell in chosen])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    model.fit(features, np.concatenate([cell.wrong for cell in chosen]))
    told = [cell.half(told=True) for cell in cells]
    return [
        Cell(cell.name, cell.rows.assign(combination=model.decision_function(_features(cell.rows)))) for cell in told
    ]


def _features(rows: pd.DataFrame) -> np.ndarray:
    values: np.ndarray = rows[list(COMBINED)].to_numpy(dtype=float)
    values[:, 0] = np.log(values[:, 0])
    return values


def signed(figure: tuple[float, float, float]) -> str:
    """A difference with its interval, as the pages write it."""
    value, low, high = (f"{one:+.3f}".replace("0.", ".", 1).replace("-", "−") for one in figure)
    return f"{value} ({low} to {high})"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def sections(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what is said about the cells, as Markdown."""
    yield "## Cells\n"
    yield markdown(
        ["cell", "questions", "right", "right by ROUGE-L ≥ .5", "clusters: SDLG, 0.5, 1, beams"],
        [
            [
                cell.name, str(len(cell.rows)), str(int((1 - cell.wrong).sum())),
                str(int((cell.rows["rouge_l"] >= 0.5).sum())),
                ", ".join(f"{cell.rows[f'{one} · clusters'].mean():.1f}" for one in SAMPLERS),
            ]
            for cell in cells
        ],
    )  # fmt: skip
    yield "## The paper's table: AUROC at N = 10\n"
    yield markdown(
        ["cell", *PAPER],
        [[cell.name, *(f"{cell.auroc(score)[0]:.3f}".lstrip("0") for score in PAPER.values())] for cell in cells],
    )
    yield "## Chosen on one half, told on the other\n"
    choose, told = [cell.half(told=False) for cell in cells], with_combination(cells)
    order = sorted(candidates(cells[0].rows), key=lambda one: -np.mean([cell.auroc(one)[0] for cell in choose]))
    yield markdown(
        ["score", "chosen on", "told on", "− perplexity", "− the paper's"],
        [
            [
                score,
                "" if score == "combination" else f"{np.mean([cell.auroc(score)[0] for cell in choose]):.3f}",
                f"{np.mean([cell.auroc(score)[0] for cell in told]):.3f}",
                signed(difference(told, score, "perplexity")),
                signed(difference(told, score, "SDLG · SE*_SDLG, the paper's")),
            ]
            for score in [*order, "combination"]
        ],
    )
    yield "## Own mass less every other score, all questions\n"
    others = [*OF_ANSWER, *(one for one in SHOWN if one != "SDLG · own mass")]
    yield markdown(
        ["own mass less", *(cell.name for cell in cells), "all"],
        [
            [
                other, *(signed(difference([cell], "SDLG · own mass", other)) for cell in cells),
                signed(difference(cells, "SDLG · own mass", other)),
            ]
            for other in dict.fromkeys(others)
        ],
    )  # fmt: skip
    yield "## Fewer sequences: own mass less that at N = 10, and tokens as shares of sampling at 0.5\n"
    yield markdown(
        ["N", *(cell.name for cell in cells), "all", "less sampling at 0.5 (SE), all"],
        [
            [
                label, *(signed(difference([cell], score, "SDLG · own mass")) for cell in cells),
                signed(difference(cells, score, "SDLG · own mass")),
                signed(difference(cells, score, "sampling at 0.5 · SE")),
            ]
            for label, score in {
                "4": "SDLG · own mass, N = 4", "6": "SDLG · own mass, N = 6",
                "stopping rule": "SDLG · own mass, as it stops", "10": "SDLG · own mass",
            }.items()
        ],
    )  # fmt: skip
    yield markdown(
        ["cell", "sequences, stopping rule", "tokens / sampling at 0.5", "tokens, N = 10 / sampling at 0.5"],
        [
            [
                cell.name, f"{cell.rows['sequences, as it stops'].mean():.1f}",
                f"{cell.rows['tokens, SDLG, as it stops'].sum() / cell.rows['tokens, sampling at 0.5'].sum():.2f}",
                f"{cell.rows['tokens, SDLG'].sum() / cell.rows['tokens, sampling at 0.5'].sum():.2f}",
            ]
            for cell in cells
        ],
    )  # fmt: skip


def draw(cells: Sequence[Cell], file: Path) -> None:
    """The figure: AUROC less that of perplexity, a panel for each cell."""
    axis = "AUROC − perplexity"
    rows = []
    for cell in cells:
        for score, label in SHOWN.items():
            value, low, high = difference([cell], score, "perplexity")
            rows.append({"run": cell.name, "score": label, axis: value, f"{axis} low": low, f"{axis} high": high})
    with drawing("evidence"):
        file.write_text(svg(dots(pd.DataFrame(rows), x=axis, by="score", line=0.0)), encoding="utf-8")


def main() -> int:
    """Write the table, or the figure and what follows from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table", "page"])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("-o", "--out", type=Path, default=FIGURE)
    chosen = parser.parse_args()
    if chosen.what == "table":
        write_table(chosen.runs, chosen.table)
        return 0
    rows = pd.read_csv(chosen.table)
    rows = rows[rows["model"] == chosen.model]
    cells = [Cell(title, rows[rows["cell"] == name]) for name, title in CELLS.items() if (rows["cell"] == name).any()]
    print("\n".join(sections(cells)))
    draw(cells, chosen.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
