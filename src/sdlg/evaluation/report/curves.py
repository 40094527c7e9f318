"""AUROC and clusters against the number of samples, over thresholds, by the three scores, and rejection of answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial

import numpy as np

from ...options import Decoding, Scoring
from ..resampling import Array, resample_counts
from ..results import PAPER_COLUMNS
from ..statistics import RESAMPLES, Figure, risk_coverage
from .figures import heat, lines
from .main_results import MULTINOMIAL, SDLG, metrics_of
from .scores import METRIC_NAMES, WEIGHTS, Column, RunScores, Target, number, settings_of
from .sections import Rows, Section, chart, table

N = "number of samples"

# -- more samples -----------------------------------------------------------------------------------------------


def samples(runs: Sequence[RunScores]) -> Section:
    """AUROC and clusters against the number of samples."""
    aurocs: Rows = [
        {"run": run.label, "score": column.label, N: n, "AUROC": run.auroc(column, run.target, n, "all", 0).value}
        for run in runs
        for column in run.paper_columns()
        for n in range(1, run.samples + 1)
    ]
    clusters: Rows = [
        {"run": run.label, "score": label, N: n + 1, "clusters": float(mean)}
        for run in runs
        for label in (SDLG, MULTINOMIAL, "SE*_DBS")
        if not run.column(label).reason
        for n, mean in enumerate(cluster_counts(run, run.column(label).method).mean(axis=0))
    ]
    ratios: Rows = [
        {"run": run.label, N: n, **number("SDLG / multinomial", cluster_ratio(run, n))}
        for run in runs
        for n in sorted({min(2, run.samples), run.samples})
    ]
    return Section(
        "More samples",
        "Each score from the first 1, 2, … samples. Colours are samplers; solid lines are proper estimators of "
        "semantic entropy, the dotted one is improper, dashed ones have no clusters.",
        table("cluster-ratio", "Mean number of semantic clusters of SDLG over that of multinomial sampling. On CoQA "
              "the paper has 1.19 with 2 samples and 1.74 with 10.", ratios),
        [
            *chart("auroc-samples", "AUROC against the number of samples", aurocs, "AUROC",
                   partial(lines, x=N, y="AUROC", by="score")),
            *chart("clusters-samples", "Semantic clusters against the number of samples, by the sampler of each score",
                   clusters, "clusters", partial(lines, x=N, y="clusters", by="score")),
        ],
    )  # fmt: skip


def cluster_counts(run: RunScores, method: str) -> Array:
    """Return the number of clusters among the first n samples, by the run's own clustering: (questions, N)."""
    drawn = run.drawn[run.drawn["method"] == method]
    is_new = ~drawn.duplicated(["id", "cluster"])
    counts = is_new.groupby(drawn["id"]).cumsum().set_axis([drawn["id"], drawn["sample"]]).unstack()
    values: Array = counts.loc[run.ids].to_numpy(dtype=np.float64)
    return values


def cluster_ratio(run: RunScores, n: int) -> Figure:
    """Return the mean clusters of SDLG over those of multinomial sampling, resampled over the questions."""
    pair = [run.column(label) for label in (SDLG, MULTINOMIAL)]
    for column in pair:
        if column.reason:
            return Figure(np.nan, reason=column.reason)
    first, second = (cluster_counts(run, column.method)[:, n - 1] for column in pair)
    ratios = [counts @ first / (counts @ second) for counts in resample_counts(first.size, RESAMPLES, 0)]
    low, high = np.quantile(np.concatenate(ratios), (0.025, 0.975))
    return Figure(float(first.sum() / second.sum()), float(low), float(high), first.size)


# -- thresholds -------------------------------------------------------------------------------------------------


def heat_maps(runs: Sequence[RunScores]) -> Section:
    """AUROC of SDLG less that of multinomial sampling, over samples × thresholds."""
    difference = f"{SDLG} − {MULTINOMIAL}"
    rows: Rows = []
    for run in runs:
        pair = run.column(SDLG), run.column(MULTINOMIAL)
        panels = [] if any(column.reason for column in pair) else metrics_of(run)
        for target in (Target(metric, threshold) for metric in panels for threshold in run.run.thresholds):
            name = f"{run.label}, {METRIC_NAMES.get(target.metric, target.metric)}"
            for n in range(1, run.samples + 1):
                first, second = (run.auroc(column, target, n, "all", 0).value for column in pair)
                rows.append({"run": name, N: n, "threshold": target.threshold, difference: first - second})
    return Section(
        "SDLG less multinomial sampling",
        f"AUROC of {SDLG} less that of {MULTINOMIAL}, in hundredths. Purple: SDLG is better. Orange: multinomial "
        "sampling is. Grey: undefined, since all answers are right or all are wrong.",
        charts=chart("heat", "AUROC difference by samples and threshold", rows, difference,
                     partial(heat, x=N, y="threshold", value=difference)),
        notes=[] if rows else ["No run has both scores."],
    )  # fmt: skip


# -- rejection --------------------------------------------------------------------------------------------------


def rejection(runs: Sequence[RunScores]) -> Section:
    """The error rate among the answers given, against the share that is given."""
    rows: Rows = []
    for run in runs:
        for column in run.paper_columns():
            if not column.reason:
                curve = risk_coverage(run.scores(column.method, column.measure), run.wrong(run.target))
                places = np.unique(np.linspace(0, max(0, len(curve.x) - 1), 41).round().astype(int))[: len(curve.x)]
                rows += [
                    {"run": run.label, "score": column.label, "share answered": curve.x[k], "error rate": curve.y[k]}
                    for k in places
                ]
    return Section(
        "Rejecting uncertain answers",
        "If the least certain answers are not given: how many of the others are wrong? Lower is better.",
        charts=chart("rejection", "Error rate against the share of questions answered", rows, "error rate",
                     partial(lines, x="share answered", y="error rate", by="score", from_zero=True)),
        notes=[] if rows else ["No run has both scores and verdicts."],
    )  # fmt: skip


# -- the three scores -------------------------------------------------------------------------------------------


def ablation(runs: Sequence[RunScores]) -> Section:
    """SDLG with some of its scores: AUROC against the threshold for each set of weights that was run."""
    groups: dict[object, dict[str, tuple[RunScores, Column]]] = {}
    for run in runs:
        for key, weights, column in _weighted(run):
            groups.setdefault(key, {}).setdefault(weights, (run, column))
    compared = [group for group in groups.values() if len(group) > 1]
    curves: Rows = [
        {
            "run": f"{first.run.data} · {first.run.model} · {first.run.folder.name}",
            "scores": weights,
            "threshold": threshold,
            "AUROC": run.auroc(column, Target(run.target.metric, threshold), None, "all", 0).value,
        }
        for group in compared
        for first, _ in [next(iter(group.values()))]
        for weights, (run, column) in group.items()
        for threshold in run.run.thresholds
    ]
    rows: Rows = [
        {"run": run.label, "method": column.method, "scores": weights, **number("AUROC", run.auroc(column, run.target))}
        for group in compared
        for weights, (run, column) in group.items()
    ]
    return Section(
        "The three scores",
        "SDLG ranks substitutions by attribution, substitution and importance. Each line weighs them otherwise. Runs "
        "are compared where they have the same data, model and other options.",
        table("ablation", f"AUROC of {SDLG} by the scores that count.", rows),
        chart("ablation", f"AUROC of {SDLG} against the threshold", curves, "AUROC",
              partial(lines, x="threshold", y="AUROC", by="scores")),
        [] if rows else ["No run here has SDLG with other weights; add methods like sdlg:attribution_weight=0."],
    )  # fmt: skip


def _weighted(run: RunScores) -> Iterator[tuple[object, str, Column]]:
    """Yield, for each of the run's SDLG methods, what it may be compared with, its weights and its column."""
    names = {option.name for group in (Scoring, Decoding) for option in fields(group)} - set(WEIGHTS)
    measure = PAPER_COLUMNS[SDLG][1]
    for method in run.run.methods:
        if method.split(":")[0] == "sdlg" and run.has(method, measure):
            options = {**run.options, **settings_of(method)}
            others = frozenset((name, str(value)) for name, value in options.items() if name in names)
            weights = [float(options.get(name, 1 / 3)) for name in WEIGHTS]
            yield (run.run.data, run.run.model, others), weights_name(weights), Column(SDLG, method, measure)


def weights_name(weights: Sequence[float]) -> str:
    """Name the scores that count, and how much where they do not count alike; the smallest counts as 1."""
    unit = min((weight for weight in weights if weight > 0), default=1.0)
    used = {name.removesuffix("_weight"): round(w / unit, 4) for name, w in zip(WEIGHTS, weights, strict=True) if w}
    if len(set(used.values())) == 1:
        return "all three" if len(used) == 3 else " + ".join(used)
    return ", ".join(f"{name} {weight:g}" for name, weight in used.items())
