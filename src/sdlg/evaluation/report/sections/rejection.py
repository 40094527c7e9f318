"""Rejecting the answers that are least certain: accuracy of the rest, risk against coverage, PRR and AURC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ... import statistics
from ..charts import Line, LineChart
from ..columns import Column, our_columns, paper_columns
from ..elements import Block, Section
from ..tables import Number, Table, TableRow, undefined
from ..views import RunView, number
from ..wording import shown

_INTRO = (
    "If the least certain answers are not given: how good are the rest? PRR is 1 for the best possible order of "
    "rejection and 0 for a random one. AURC is the error rate among the most certain answers, averaged over how many "
    "are kept: lower is better."
)
_GRID = tuple(round(0.025 * step, 3) for step in range(41))  # finer than can be seen
_HALF = _GRID.index(0.5)
_NOTHING = "no question has both a score and a verdict"
Curve = Callable[[RunView, Column], statistics.Curve]


def rejection(views: Sequence[RunView]) -> Section:
    """Curves for each run, and one table."""
    blocks: list[Block] = []
    for view in views:
        blocks += [_accuracy_chart(view), _risk_chart(view)]
    return Section("rejection", "Rejecting uncertain answers", _INTRO, (*blocks, _table(views)))


def _right(view: RunView) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return 1.0 - view.wrong(view.target)


def _accuracy(view: RunView, column: Column) -> statistics.Curve:
    return statistics.accuracy_rejection(view.scores(*column.measured), _right(view))


def _risk(view: RunView, column: Column) -> statistics.Curve:
    return statistics.risk_coverage(view.scores(*column.measured), view.wrong(view.target))


# -- charts -----------------------------------------------------------------------------------------------------


def _accuracy_chart(view: RunView) -> LineChart:
    lines = tuple(_lines(view, _accuracy))
    halves = (f"{line.label} {shown(Number(line.y[_HALF], digits=2))}" for line in lines)
    return LineChart(
        f"accuracy-rejection-{view.slug}",
        f"{view.label}: accuracy of the answers that are given",
        f"Share of right answers among those given, with half of them rejected: {'; '.join(halves)}.",
        "share of answers rejected",
        "accuracy of the rest",
        lines,
        whole_x=False,
    )


def _risk_chart(view: RunView) -> LineChart:
    lines = tuple(_lines(view, _risk))
    halves = (f"{line.label} {shown(Number(line.y[_HALF], digits=2))}" for line in lines)
    return LineChart(
        f"risk-coverage-{view.slug}",
        f"{view.label}: risk against coverage",
        f"Error rate among the answers given, with half of them given: {'; '.join(halves)}.",
        "share of answers given",
        "error rate among them",
        lines,
        starts_at_zero=True,
        whole_x=False,
    )


def _lines(view: RunView, curve_of: Curve) -> Iterator[Line]:
    for column in paper_columns(view):
        if column.is_there:
            curve = curve_of(view, column)
            yield Line(column.label, _GRID, _at_shares(curve), column.colour, column.stroke, reason=_NOTHING)


def _at_shares(curve: statistics.Curve) -> tuple[float, ...]:
    """The curve's nearest points, so that all curves of a chart have the same shares."""
    if not len(curve.x):
        return (math.nan,) * len(_GRID)
    return tuple(float(curve.y[np.argmin(np.abs(curve.x - share))]) for share in _GRID)


# -- numbers ----------------------------------------------------------------------------------------------------


def _table(views: Sequence[RunView]) -> Table:
    rows = [
        TableRow((view.label, column.label, *_numbers(view, column)))
        for view in views
        for column in (*paper_columns(view), *our_columns(view))
        if column.is_there or column.label in {paper.label for paper in paper_columns(view)}
    ]
    columns = ("run", "column", "PRR", "PRR, at most half rejected", "AURC")
    caption = "Prediction-rejection ratio and area under the risk-coverage curve, at the main table's threshold."
    return Table("rejection", caption, columns, tuple(rows), headings_per_row=2)


def _numbers(view: RunView, column: Column) -> tuple[Number, ...]:
    if not column.is_there:
        return (undefined(column.reason),) * 3
    scores, right = view.scores(*column.measured), _right(view)
    ratios = (statistics.prediction_rejection_ratio(scores, right, max_rejection=share) for share in (1.0, 0.5))
    return (*map(number, ratios), number(statistics.area_under_risk_coverage(scores, view.wrong(view.target))))
