"""With more samples: AUROC, the number of clusters found, and when SDLG first reaches multinomial's AUROC."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import statistics
from ...resampling import resample_counts
from ..charts import Line, LineChart, line_of
from ..columns import (
    FAMILY_NAMES,
    MULTINOMIAL,
    SDLG,
    Column,
    family_of,
    is_measured,
    named_column,
    our_columns,
    paper_columns,
)
from ..elements import Block, Paragraph, Section
from ..tables import Cell, Number, Table, TableRow, undefined
from ..views import Array, RunView
from ..wording import interval, percent, shown

_PAPER_INCREASE = {2: 0.19, 10: 0.74}  # SDLG over multinomial on CoQA, OPT
_INTRO = (
    "Each measure with the first 1, 2, … sequences. Colours are samplers; solid lines are proper estimators of "
    "semantic entropy, dotted ones improper, dashed ones have no clusters."
)


def tree(views: Sequence[RunView]) -> Section:
    """AUROC and clusters against the number of samples."""
    blocks: list[Block] = []
    for view in views:
        blocks += [_auroc_chart(view), _cluster_chart(view), _cluster_words(view)]
    blocks += [_increases(views)]
    return Section("samples", "More samples", _INTRO, tuple(blocks))


def efficiency(views: Sequence[RunView]) -> Section:
    """The number of sequences at which SDLG first reaches multinomial's AUROC with all of them."""
    rows = [row for view in views for row in _efficiency_rows(view)]
    words = [Paragraph(f"{view.label}: {efficiency_words(view)}", "finding") for view in views]
    columns = ("run", "column", "AUROC to reach", "first reached with", "AUROC there")
    caption = f"The number of sequences at which a column first reaches the AUROC of {MULTINOMIAL} with all sequences."
    table = Table("efficiency", caption, columns, tuple(rows), headings_per_row=2)
    return Section("efficiency", "Sampling efficiency", "How many sequences are enough?", (*words, table))


# -- AUROC ------------------------------------------------------------------------------------------------------


def _auroc_chart(view: RunView) -> LineChart:
    columns = [column for column in paper_columns(view) if column.is_there]
    steps = tuple(range(1, view.samples + 1))
    lines = tuple(
        line_of(column.label, steps, auroc_numbers(view, column), column.colour, column.stroke) for column in columns
    )
    ends = (f"{line.label} from {shown(Number(line.y[0]))} to {shown(Number(line.y[-1]))}" for line in lines)
    return LineChart(
        f"auroc-samples-{view.slug}",
        f"{view.label}: AUROC against the number of sequences",
        f"AUROC at {view.target} with 1 to {view.samples} sequences: {'; '.join(ends)}.",
        "number of sequences",
        "AUROC",
        lines,
    )


def auroc_numbers(view: RunView, column: Column) -> tuple[Number, ...]:
    """AUROC with the first 1, 2, …, N samples."""
    return tuple(column.auroc(view, view.target, n) for n in range(1, view.samples + 1))


def auroc_steps(view: RunView, column: Column) -> tuple[float, ...]:
    """The same, values only."""
    return tuple(number.value for number in auroc_numbers(view, column))


# -- clusters ---------------------------------------------------------------------------------------------------


def cluster_counts(view: RunView, method: str) -> Array:
    """(questions, N): clusters among the first n samples, by the run's own clustering."""
    steps = range(1, view.samples + 1)
    if is_measured(view, method, "number_of_clusters"):
        return np.column_stack([view.run.values(method, "number_of_clusters", n) for n in steps])
    clusterings = [view.run.clustered[question].methods[method].clusters for question in view.run.ids]
    return np.array([[len(set(clusters[:n])) for n in steps] for clusters in clusterings], dtype=np.float64)


def _cluster_columns(view: RunView) -> list[Column]:
    columns = (named_column(view, label) for label in (SDLG, MULTINOMIAL, "SE*_DBS"))
    return [column for column in columns if column.is_there]


def _cluster_chart(view: RunView) -> LineChart:
    steps = tuple(range(1, view.samples + 1))
    lines = tuple(
        Line(FAMILY_NAMES[family_of(column.method)], steps, _means(cluster_counts(view, column.method)), column.colour)
        for column in _cluster_columns(view)
    )
    ends = (f"{line.label} {shown(Number(line.y[-1], digits=2))}" for line in lines)
    return LineChart(
        f"clusters-{view.slug}",
        f"{view.label}: semantic clusters against the number of sequences",
        f"Mean number of semantic clusters, with {view.samples} sequences: {'; '.join(ends)}.",
        "number of sequences",
        "semantic clusters",
        lines,
    )


def _means(counts: Array) -> tuple[float, ...]:
    return tuple(float(np.nanmean(column)) if np.isfinite(column).any() else math.nan for column in counts.T)


def cluster_increase(view: RunView, n: int) -> Number:
    """Mean clusters of SDLG over multinomial's, minus 1, with n samples; resampled over the questions."""
    pair = [named_column(view, label) for label in (SDLG, MULTINOMIAL)]
    for column in pair:
        if not column.is_there:
            return undefined(column.reason, signed=True, percent=True)
    first, second = (cluster_counts(view, column.method)[:, n - 1] for column in pair)
    has_both = np.isfinite(first) & np.isfinite(second)
    return _ratio(first[has_both], second[has_both])


def _ratio(first: Array, second: Array) -> Number:
    if not first.size:
        return undefined("no question has clusters of both samplers", signed=True, percent=True)
    ratios = [counts @ first / (counts @ second) for counts in resample_counts(first.size, statistics.RESAMPLES, 0)]
    low, high = np.quantile(np.concatenate(ratios), (0.025, 0.975)) - 1
    value = float(first.sum() / second.sum() - 1)
    return Number(value, float(low), float(high), questions=first.size, signed=True, percent=True)


def _increases(views: Sequence[RunView]) -> Table:
    rows = [
        TableRow((view.label, n, cluster_increase(view, n), _paper_increase(n)))
        for view in views
        for n in sorted({min(2, view.samples), view.samples})
    ]
    columns = ("run", "sequences", "SDLG over multinomial", "the paper's (CoQA)")
    caption = "How many more semantic clusters SDLG finds than multinomial sampling."
    return Table("cluster-increase", caption, columns, tuple(rows), headings_per_row=2)


def _paper_increase(n: int) -> Number:
    if n not in _PAPER_INCREASE:
        return undefined("the paper does not say", signed=True, percent=True)
    return Number(_PAPER_INCREASE[n], signed=True, percent=True)


def _cluster_words(view: RunView) -> Paragraph:
    increases = [_increase_words(view, n) for n in sorted({min(2, view.samples), view.samples})]
    return Paragraph(f"{view.label}: against multinomial sampling, SDLG finds {'; '.join(increases)}.", "finding")


def _increase_words(view: RunView, n: int) -> str:
    increase = cluster_increase(view, n)
    if not increase.is_defined:
        return f"no known number of clusters more with {n} sequences ({increase.reason})"
    paper = f"; the paper has {percent(_PAPER_INCREASE[n])} on CoQA" if n in _PAPER_INCREASE else ""
    return f"{shown(increase)} clusters with {n} sequences (95 % interval {interval(increase)}{paper})"


# -- efficiency -------------------------------------------------------------------------------------------------


def first_reaching(steps: Sequence[float], level: float) -> int | None:
    """The first n at which it is at least this high."""
    return next((n for n, value in enumerate(steps, start=1) if value >= level), None)


def stays_above(steps: Sequence[float], level: float) -> int | None:
    """The n from which on it is never lower; None if it ends lower."""
    lower = [n for n, value in enumerate(steps, start=1) if not value >= level]
    first = lower[-1] + 1 if lower else 1
    return first if first <= len(steps) else None


def _efficiency_rows(view: RunView) -> list[TableRow]:
    multinomial = named_column(view, MULTINOMIAL)
    level = multinomial.auroc(view, view.target)
    columns = [column for column in (named_column(view, SDLG), named_column(view, "SE*_DBS"), *our_columns(view))
              if column.is_there and family_of(column.method) != "multinomial"]  # fmt: skip
    return [TableRow((view.label, column.label, level, *_reached(view, column, level))) for column in columns]


def _reached(view: RunView, column: Column, level: Number) -> tuple[Cell, Cell]:
    if not level.is_defined:
        return undefined(level.reason), undefined(level.reason)
    steps = auroc_steps(view, column)
    n = first_reaching(steps, level.value)
    if n is None:
        never = f"not reached with {view.samples} sequences"
        return never, Number(steps[-1], reason=never)
    return n, Number(steps[n - 1])


def efficiency_words(view: RunView) -> str:
    """The answer in a sentence."""
    sdlg, multinomial = (named_column(view, label) for label in (SDLG, MULTINOMIAL))
    for column in (sdlg, multinomial):
        number = column.auroc(view, view.target)
        if not number.is_defined:
            return f"{column.label} has no AUROC: {number.reason}."
    level = multinomial.auroc(view, view.target).value
    n = first_reaching(auroc_steps(view, sdlg), level)
    if n is None:
        return f"{SDLG} does not reach {MULTINOMIAL}'s AUROC of {level:.3f} with {view.samples} sequences."
    lasting = stays_above(auroc_steps(view, sdlg), level)
    stays = f"stays there from {lasting} on" if lasting else "does not stay there"
    return (
        f"{SDLG} first reaches {MULTINOMIAL}'s AUROC of {level:.3f} (with {view.samples} sequences) with {n}, "
        f"and {stays}. Both curves are noisy."
    )
