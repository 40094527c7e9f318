"""The evidence behind docs/results/experiments.md: which score finds the wrong answers of a real model.

    python bench/evidence.py table runs/*-qwen          # a line for each question, into docs/results/experiments
    python bench/evidence.py page                       # the figure, and the page with all tables
    python bench/evidence.py calibrations               # the packaged calibrations of the default model, fitted anew

The table has ids and numbers only, and is kept: a later run adds its questions to it. A score is *chosen* on one half
of the questions, by a hash of their ids, and *told* on the other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdlg.calibration import Calibration
from sdlg.evaluation.calibrating import Choice
from sdlg.evaluation.report.figures import dots, drawing, svg
from sdlg.evaluation.report.scores import first_half
from sdlg.evaluation.resampling import auroc_of, resample_counts
from sdlg.evaluation.results import RunResults, load_run
from sdlg.evaluation.risk_fitting import fit_risk, keep_answers
from sdlg.evaluation.statistics import RESAMPLES
from sdlg.records import Sample

FOLDER = Path(__file__).parent.parent / "docs" / "results" / "experiments"
TABLE, FIGURE = FOLDER / "evidence.csv", FOLDER / "evidence.svg"
PAGE = FOLDER.parent / "tables" / "evidence.md"
PACKAGED = Path(__file__).parent.parent / "src" / "sdlg" / "calibration" / "packaged"
CALIBRATED = {"TriviaQA": "triviaqa", "sentences": "open"}  # cell → the beginning of the file's name
FIRST = "SDLG · share of other meanings"
HEAD = """# Finding wrong answers: the default model, all scores

Made by `python bench/evidence.py page` from [evidence.csv](../experiments/evidence.csv), which has a line for each
question. What it says: [Finding wrong answers](../experiments.md). AUROC; differences are paired, with 95 % intervals
by resampling questions; N = 10 unless said otherwise. *Own mass*: how little probability was found for the answer's own
meaning. *Share of other meanings*: 1 − the percentage that stands first in every view.
"""
ERROR_RATES, CONFIDENCE = (0.2, 0.3, 0.4, 0.5), 0.95
STOPS = (0.01, 0.1, 0.2)  # no more branches once less probability than this is unexplored; `sdlg ask`: the first
STOP_NAMES = tuple(f"stops at {limit:.0%}" for limit in STOPS)

MODELS = ("qwen2.5-coder-1.5b", "smollm2")
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
THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)  # of ROUGE-L
FEWEST = 10  # right answers, and wrong ones, below which no AUROC is told
LOWER_IS_WORSE = ("coverage",)
# Scores that may be chosen: of the answer, and of ten sequences of SDLG.
CANDIDATES = (*OF_ANSWER, *(f"SDLG · {name}" for name in OF_SDLG if name != "clusters"))
COMBINED = ("perplexity", "SDLG · own mass", "SDLG · entropy of the percentages", "SDLG · SE*_SDLG, the paper's")
SHOWN = {
    "SDLG · own mass": "SDLG, own mass",
    "SDLG · SE*_SDLG, the paper's": "SDLG, SE*",
    FIRST: "SDLG, share of other meanings",
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
AGAINST_N = (FIRST, "SDLG · SE*_SDLG, the paper's", "SDLG · own mass",
             "sampling at 0.5 · SE", "diverse beams · SE")  # fmt: skip
COUNTED = ("SDLG", "sampling at 0.5", "diverse beams")
TREND = ("perplexity", FIRST, "SDLG · SE*_SDLG, the paper's", "sampling at 0.5 · SE",
         "sampling at 1 · discrete entropy", "diverse beams · SE*")  # fmt: skip
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
    if run.has_stock:
        rows["same_answer, stock aside"] = run.correctness("same_answer", stock=False)
    sdlg = SAMPLERS["SDLG"]
    rows |= {name: run.values(sdlg, measure) for name, measure in OF_ANSWER.items()}
    coverage = np.stack([run.values(sdlg, "coverage", n) for n in range(1, run.samples + 1)])
    stops = {name: _last(coverage > 1 - limit) for name, limit in zip(STOP_NAMES, STOPS, strict=True)}
    for name, measure in OF_SDLG.items():
        by_n = np.stack([run.values(sdlg, measure, n) for n in range(1, run.samples + 1)])
        by_n = -by_n if name in LOWER_IS_WORSE else by_n
        rows[f"SDLG · {name}"] = by_n[-1]
        rows |= {f"SDLG · {name}, N = {n}": by_n[n - 1] for n in PREFIXES}
        rows |= {f"SDLG · {name}, {stop}": by_n[last, np.arange(len(run.ids))] for stop, last in stops.items()}
    for name in ("sampling at 0.5", "sampling at 1", "diverse beams"):
        for label, measure in OF_SAMPLES.items():
            values = run.values(SAMPLERS[name], measure)
            if not np.isnan(values).all():
                rows[f"{name} · {label}"] = values
            if label in ("SE", "disagreement", "clusters"):
                rows |= {f"{name} · {label}, N = {n}": run.values(SAMPLERS[name], measure, n) for n in PREFIXES}
    every = np.full(len(run.ids), run.samples - 1)
    ways = {**{f", N = {n}": np.full(len(run.ids), n - 1) for n in PREFIXES},
            **{f", {stop}": last for stop, last in stops.items()}, "": every}  # fmt: skip
    for name, method in SAMPLERS.items():
        made = [run.generated[one].methods[method] for one in run.ids]
        for way, last in ways.items() if name == "SDLG" else [("", every)]:
            some = [sampled.samples[: end + 1] for sampled, end in zip(made, last, strict=True)]
            rows[f"tokens, {name}{way}"] = [_tokens(run, one, few) for one, few in zip(run.ids, some, strict=True)]
            if name == "SDLG":
                drawn = [(*few, *sampled.draws_beside) for few, sampled in zip(some, made, strict=True)]
                rows[f"tokens, SDLG with draws{way}"] = [
                    _tokens(run, one, few) for one, few in zip(run.ids, drawn, strict=True)
                ]
                rows[f"sequences{way}"] = [len(few) for few in some]
    return pd.DataFrame(rows)


def _last(is_explored: np.ndarray) -> np.ndarray:
    """The place of the last sequence of each question, from (sequences, questions): whether enough is explored."""
    last: np.ndarray = np.where(is_explored.any(axis=0), is_explored.argmax(axis=0), len(is_explored) - 1)
    return last


def _tokens(run: RunResults, question: str, samples: Sequence[Sample]) -> int:
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
        self.name, self.rows = name, rows.reset_index(drop=True).copy()
        self.wrong = (rows["same_answer"].to_numpy() < 0.5).astype(float)
        self.counts = next(iter(resample_counts(len(rows), RESAMPLES, 0))) if len(rows) else np.empty((0, 0))

    def half(self, told: bool) -> Cell:
        """The questions on which scores are chosen, or the others."""
        return Cell(self.name, self.rows[first_half(tuple(self.rows["id"])) != told])

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
    values: np.ndarray = rows[list(COMBINED)].to_numpy(dtype=float, copy=True)
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
    yield f"Right or wrong by `same_answer`, then by ROUGE-L. Left out where fewer than {FEWEST} are right, or wrong.\n"
    yield markdown(
        ["cell", "right or wrong by", "right", *PAPER],
        [
            [cell.name, by, str(int((1 - some.wrong).sum())), *(auroc(some, score) for score in PAPER.values())]
            for cell in cells
            for by, some in _by_metric(cell)
            if _is_told(some)
        ],
    )
    yield "## Against N: AUROC and meanings\n"
    counts = (*(f", N = {n}" for n in PREFIXES), "")
    yield markdown(
        ["cell", "N", *AGAINST_N, *(f"meanings, {one}" for one in COUNTED)],
        [
            [
                cell.name,
                count.removeprefix(", N = ") or "10",
                *(auroc(cell, f"{score}{count}") for score in AGAINST_N),
                *(f"{cell.rows[f'{one} · clusters{count}'].mean():.1f}" for one in COUNTED),
            ]
            for cell in cells
            for count in counts
        ],
    )
    yield from _heat_maps(cells)
    yield from _other_verdicts(cells)
    yield "## Chosen on one half, told on the other\n"
    choose, told = [cell.half(told=False) for cell in cells], with_combination(cells)
    order = sorted(CANDIDATES, key=lambda one: -np.mean([cell.auroc(one)[0] for cell in choose]))
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
    for first in (FIRST, "SDLG · own mass"):
        yield f"## {first.removeprefix('SDLG · ').capitalize()} less every other score, all questions\n"
        yield markdown(
            ["less", *(cell.name for cell in cells), "all"],
            [
                [other, *(signed(difference(some, first, other)) for some in (*([cell] for cell in cells), cells))]
                for other in dict.fromkeys((*OF_ANSWER, *SHOWN))
                if other != first
            ],
        )
    yield "## Fewer sequences: less ten of SDLG, less ten at 0.5 (SE); tokens and sequences\n"
    ways = {way or "N = 10": f", {way}" if way else "" for way in (*(f"N = {n}" for n in PREFIXES), *STOP_NAMES, "")}
    for score in ("own mass", "share of other meanings"):
        yield markdown(
            [score, *(cell.name for cell in cells), "all", "all, less sampling at 0.5"],
            [
                [
                    label,
                    *(signed(difference([cell], f"SDLG · {score}{way}", f"SDLG · {score}")) for cell in cells),
                    signed(difference(cells, f"SDLG · {score}{way}", f"SDLG · {score}")),
                    signed(difference(cells, f"SDLG · {score}{way}", "sampling at 0.5 · SE")),
                ]
                for label, way in ways.items()
            ],
        )
    yield markdown(
        ["tokens as a multiple of sampling at 0.5: without and with draws (sequences)", *(cell.name for cell in cells)],
        [[label, *(_spent(cell, way) for cell in cells)] for label, way in ways.items()],
    )

    yield f"## Promises at {CONFIDENCE:.0%} confidence: made on one half, tried on the other\n"
    yield markdown(
        ["at most so many wrong, by", *(cell.name for cell in cells)],
        [
            [f"{rate:.0%}, {score}", *(_promise(cell, score, rate) for cell in cells)]
            for rate in ERROR_RATES
            for score in ("perplexity", FIRST)
        ],
    )


def _by_metric(cell: Cell) -> Iterator[tuple[str, Cell]]:
    yield "same_answer", cell
    for threshold in (0.3, 0.5, 0.7):
        yield f"ROUGE-L ≥ {threshold}", _by_rouge(cell, threshold)


def _by_rouge(cell: Cell, threshold: float) -> Cell:
    return Cell(cell.name, cell.rows.assign(same_answer=(cell.rows["rouge_l"] >= threshold).astype(float)))


def _is_told(cell: Cell) -> bool:
    """Whether enough are right, and enough wrong."""
    return bool(min(cell.wrong.sum(), (1 - cell.wrong).sum()) >= FEWEST)


def _heat_maps(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the paper's heat maps as a table: its score less that of sampling, by N and by what counts as right."""
    yield "## The paper's heat maps: SE*_SDLG less SE of sampling at 0.5, by N and by the ROUGE-L that is right\n"
    counts = {str(n): f", N = {n}" for n in PREFIXES} | {"10": ""}
    scores = ("SDLG · SE*_SDLG, the paper's", "sampling at 0.5 · SE")
    yield markdown(
        ["cell", "N", *map(str, THRESHOLDS)],
        [
            [
                cell.name,
                n,
                *(
                    signed(difference([some], *(f"{score}{count}" for score in scores))) if _is_told(some) else ""
                    for some in (_by_rouge(cell, threshold) for threshold in THRESHOLDS)
                ),
            ]
            for cell in cells
            for n, count in counts.items()
        ],
    )


def _other_verdicts(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the same scores for answers that may be false as well as true or neither, judged in other ways."""
    for cell in cells:
        if cell.rows["same_answer"].min() >= 0:
            continue
        rows = cell.rows
        stock = rows.assign(same_answer=rows["same_answer, stock aside"])
        ways = {
            "as above: right if it matches a true reference, and no false one": cell,
            "“I have no comment.” is no true answer": Cell(cell.name, stock),
            "only answers that match a true or a false reference": Cell(
                cell.name, rows[rows["same_answer"].abs() >= 0.5]
            ),
        }
        yield f"## {cell.name}, judged in other ways\n"
        yield markdown(
            ["right or wrong", "questions", "right", *PAPER, "share of other meanings"],
            [
                [
                    way, str(len(some.rows)), str(int((1 - some.wrong).sum())),
                    *(auroc(some, score) for score in (*PAPER.values(), FIRST)),
                ]
                for way, some in ways.items()
            ],
        )  # fmt: skip


def auroc(cell: Cell, score: str) -> str:
    """As the pages write it."""
    return f"{cell.auroc(score)[0]:.3f}".lstrip("0")


def trend(every: Sequence[Sequence[Cell]], models: Sequence[str]) -> Iterator[str]:
    """Yield what becomes of scores with the size of the model."""
    yield "## A smaller model\n"
    yield markdown(
        ["cell", "model", "questions", "right", *TREND],
        [
            [
                cell.name,
                model,
                str(len(cell.rows)),
                str(int((1 - cell.wrong).sum())),
                *(auroc(cell, one) for one in TREND),
            ]
            for cell, model in sorted(
                ((cell, model) for cells, model in zip(every, models, strict=True) for cell in cells),
                key=lambda one: one[0].name,
            )
        ],
    )


def _promise(cell: Cell, score: str, rate: float) -> str:
    """What became of a promise: the threshold of the half to choose on, applied to the half to tell on."""
    chosen, told = cell.half(told=False), cell.half(told=True)
    rule = keep_answers(chosen.rows[score].to_numpy(dtype=float), chosen.wrong, rate, CONFIDENCE)
    if rule.threshold is None:
        return "none"
    kept = told.rows[score].to_numpy() <= rule.threshold
    return f"{kept.sum()} of {len(kept)} answered, {int(told.wrong[kept].sum())} wrong"


def _spent(cell: Cell, way: str) -> str:
    base = cell.rows["tokens, sampling at 0.5"].sum()
    alone, drawn = (cell.rows[f"tokens, {name}{way}"].sum() / base for name in ("SDLG", "SDLG with draws"))
    return f"{alone:.2f}, {drawn:.2f} ({cell.rows[f'sequences{way}'].mean():.1f})"


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


def cells_of(rows: pd.DataFrame, model: str) -> list[Cell]:
    """The kinds of questions that a model was asked."""
    asked = rows[rows["model"] == model].groupby("cell")
    return [Cell(title, asked.get_group(name)) for name, title in CELLS.items() if name in asked.groups]


def fit_calibrations(rows: pd.DataFrame) -> None:
    """Fit the packaged calibrations of the default model to all its questions in the table."""
    for cell in (one for one in cells_of(rows, MODELS[0]) if one.name in CALIBRATED):
        file = PACKAGED / f"{CALIBRATED[cell.name]}-{MODELS[0]}.json"
        old = Calibration.load(file)
        assert old.origin.measure == "perplexity"
        found = {one: fit_risk(cell.rows[one], cell.wrong, Choice()) for one in ("perplexity", FIRST)}
        for name, fit in found.items():
            skill, area = fit.out_of_fold.skill, fit.out_of_fold.auroc
            print(f"{cell.name}, {name}: {fit.n} answers, {fit.n_wrong} wrong, AUROC {area}, skill {skill}")
        fit = found["perplexity"]  # it asks no judge, so it outlives it
        data = replace(old.origin.data, evaluated=len(cell.rows))
        replace(
            old, origin=replace(old.origin, data=data), map=fit.map, smallest=fit.smallest, n=fit.n,
            n_wrong=fit.n_wrong, keep=fit.keep, out_of_fold=fit.out_of_fold, notes=tuple(fit.notes),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        ).save(file)  # fmt: skip


def main() -> int:
    """Write the table, or the figure and the page, or the calibrations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table", "page", "calibrations"])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--table", type=Path, default=TABLE)
    chosen = parser.parse_args()
    if chosen.what == "table":
        write_table(chosen.runs, chosen.table)
        return 0
    rows = pd.read_csv(chosen.table)
    if chosen.what == "calibrations":
        fit_calibrations(rows)
        return 0
    every = [cells_of(rows, model) for model in MODELS]
    small = [[cell for cell in cells if cell.name in {one.name for one in every[1]}] for cells in every]
    text = "\n".join([HEAD, *sections(every[0]), *trend(small, MODELS)])
    PAGE.write_text(text, encoding="utf-8")
    draw(every[0], FIGURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
