"""AUROC in tables: the paper's main and comprehensive tables, the search over settings, and both halves of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ..results import PAPER_COLUMNS
from ..statistics import Figure
from .figures import dots
from .scores import METRIC_NAMES, Column, RunScores, Target, number, settings_of
from .sections import Rows, Section, chart, table

SDLG, MULTINOMIAL = "SE*_SDLG", "SE*_MS"


# -- main table -------------------------------------------------------------------------------------------------


def main(runs: Sequence[RunScores]) -> Section:
    """The paper's main table, with intervals and paired differences."""
    rows, differences, points, notes = [], [], [], []
    for run in runs:
        for target in run.targets:
            start = {"run": run.label, "right at": str(target)}
            figures = {column.label: run.auroc(column, target) for column in run.paper_columns()}
            rows.append(start | _cells(figures))
            others = [column for column in run.paper_columns() if column.label != SDLG]
            against = {column.label: run.difference(run.column(SDLG), column, target) for column in others}
            differences.append(start | _cells({f"− {label}": one for label, one in against.items()}))
            notes.append(f"{run.label}, {target}: {_finding(run, target, figures)}")
        points += [
            {"run": run.label, "score": column.label, **number("AUROC", run.auroc(column, run.target))}
            for column in run.paper_columns()
            if not column.reason
        ]
        notes += _column_notes(run)
    return Section(
        "Main results",
        "AUROC: how often a wrong answer has a higher score than a right one; 0.5 is chance, 1 is perfect. In "
        "parentheses: 95 % intervals of a bootstrap over the questions.",
        [
            *table("main", "AUROC of the paper's seven scores. *: the highest of its row.", rows, [*PAPER_COLUMNS]),
            *table("main-differences", f"AUROC of {SDLG} less that of the others, on the same questions.", differences),
        ],
        chart("auroc", "AUROC with intervals", points, "AUROC", partial(dots, x="AUROC", by="score")),
        notes,
    )


def _cells(figures: dict[str, Figure]) -> dict[str, object]:
    return {name: cell for label, figure in figures.items() for name, cell in number(label, figure).items()}


def _finding(run: RunScores, target: Target, figures: dict[str, Figure]) -> str:
    """Say which score is the highest, and from which others it cannot be told apart."""
    defined = {label: figure.value for label, figure in figures.items() if np.isfinite(figure.value)}
    if not defined:
        return f"no AUROC is defined: {next(iter(figures.values())).reason}."
    best = max(defined, key=lambda label: defined[label])
    gaps = {other: run.difference(run.column(best), run.column(other), target) for other in defined if other != best}
    near = [other for other, gap in gaps.items() if not gap.low > 0]
    if not near:
        return f"{best} is the highest; its difference to each of the others excludes 0."
    return f"{best} is the highest, but its difference to {', '.join(near)} does not exclude 0."


def _column_notes(run: RunScores) -> Iterator[str]:
    """Say which settings were tuned, what is missing, and what a column leaves out."""
    tuned = [f"{column.label}: {column.method}" for column in run.paper_columns() if column.is_tuned]
    if tuned:
        yield f"{run.label}: tuned on the first half of these questions, which favours them: {'; '.join(tuned)}."
    for column in run.paper_columns():
        if column.reason:
            yield f"{run.label}: no {column.label}: {column.reason}."
        elif (used := run.auroc(column, run.target).n) < len(run.ids):
            reasons = sorted(run.run.reasons(column.method, column.measure))
            why = f" ({'; '.join(reasons)})" if reasons else ""
            yield f"{run.label}: {column.label} rests on {used} of {len(run.ids)} questions{why}."


# -- metrics and thresholds -------------------------------------------------------------------------------------


def metrics_of(run: RunScores) -> list[str]:
    """Return ROUGE-L, ROUGE-1 and BLEURT (exact match where there is no BLEURT), or all metrics if there is none."""
    third = "bleurt" if "bleurt" in run.run.metrics else "exact_match"
    usual = [metric for metric in ("rouge_l", "rouge_1", third) if metric in run.run.metrics]
    return list(dict.fromkeys([run.target.metric, *usual])) if run.run.metrics else []


def comprehensive(runs: Sequence[RunScores]) -> Section:
    """The paper's comprehensive table: metrics × thresholds × seven columns."""
    rows: Rows = []
    for run in runs:
        for target in (Target(metric, threshold) for metric in metrics_of(run) for threshold in (0.3, 0.5, 1.0)):
            wrong = run.wrong(target)
            rows.append(
                {
                    "run": run.label,
                    "metric": METRIC_NAMES.get(target.metric, target.metric),
                    "threshold": target.threshold,
                    "right": int((wrong == 0).sum()),
                    "wrong": int((wrong == 1).sum()),
                    **_cells({column.label: run.auroc(column, target) for column in run.paper_columns()}),
                }
            )
    return Section(
        "Comprehensive results",
        "The same columns for several metrics of correctness and thresholds.",
        table("comprehensive", "AUROC by metric and threshold. *: the highest of its row.", rows, [*PAPER_COLUMNS]),
        notes=[f"{run.label} was not judged by BLEURT." for run in runs if "bleurt" not in run.run.metrics],
    )


# -- settings and halves ----------------------------------------------------------------------------------------


def search(runs: Sequence[RunScores]) -> Section:
    """All settings of the samplers that have several: chosen on one half of the questions, reported on the other."""
    rows: Rows = [row for run in runs for label in PAPER_COLUMNS for row in _settings(run, label)]
    without = "No run of this report has several settings of a sampler: nothing was tuned."
    return Section(
        "Search over temperatures and penalties",
        "Baselines have a temperature or a penalty that must be found. Each column takes the setting with the highest "
        "mean AUROC over all thresholds on the first half of the questions (by a hash of their ids). Its AUROC on the "
        "other half is what to expect of it elsewhere.",
        table("search", "Every setting of the samplers that have several.", rows),
        notes=[] if rows else [without],
    )


def _settings(run: RunScores, label: str) -> Iterator[dict[str, object]]:
    sampler, measure = PAPER_COLUMNS[label]
    methods = [method for method in run.methods_of(sampler) if run.has(method, measure)]
    for method in methods if len(methods) > 1 else []:
        column = Column(label, method, measure)
        yield {
            "run": run.label,
            "column": label,
            "setting": ", ".join(f"{name} {value}" for name, value in settings_of(method).items()) or "as it is",
            **number("AUROC", run.auroc(column, run.target)),
            "mean over thresholds": run.mean_auroc(method, measure),
            "on the first half": run.mean_auroc(method, measure, "first"),
            **number("AUROC, other half", run.auroc(column, run.target, None, "second")),
            "choice": "chosen" if method == run.column(label).method else "",
        }


def halves(runs: Sequence[RunScores]) -> Section:
    """Every method and measure on two fixed halves of the questions: what a choice by the first is worth."""
    ranked = [_ranked(run) for run in runs]
    best, rows = ([row for one in ranked for row in one[:count]] for count in (10, None))
    return Section(
        "Half and half",
        "The questions are split in two by a hash of their ids, the same way for every run. Whatever is best on the "
        "first half was partly lucky there. The second half had no say in the choice.",
        [
            *table("halves-best", "The ten best of each run by AUROC on the first half.", best),
            *table("halves", "All methods and measures.", rows, is_folded=True),
        ],
    )


def _ranked(run: RunScores) -> Rows:
    """Return all methods and measures, the highest on the first half first, undefined ones last."""
    rows: Rows = []
    for method, measure in run.everything():
        first, second = (
            run.auroc(Column("", method, measure), run.target, None, half, 0) for half in ("first", "second")
        )
        start = {"run": run.label, "method": method, "measure": measure}
        rows.append(start | number("AUROC, first half", first) | number("AUROC, second half", second))
    rows.sort(key=lambda row: -np.nan_to_num(row["AUROC, first half"], nan=-1.0))
    seconds = np.array([row["AUROC, second half"] for row in rows])
    for place, row in enumerate(rows):
        row["rank, first half"] = place + 1
        row["rank, second half"] = int(1 + np.sum(seconds > seconds[place])) if np.isfinite(seconds[place]) else None
    return rows
