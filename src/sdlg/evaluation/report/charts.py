"""Charts as frozen records: what is to be drawn, in words and numbers. `figures` draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .tables import Cell, Number, Table, TableRow


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart. The colour and the stroke stand for what it is, on every chart alike."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]  # NaN: a gap
    colour: str = "grey"  # a name in figures.COLOURS
    stroke: str = "solid"  # or dotted, dashed
    is_point: bool = False  # single points instead of a line
    reason: str = ""  # why there are gaps


def line_of(label: str, x: Sequence[float], numbers: Sequence[Number], colour: str, stroke: str) -> Line:
    """Numbers as a line, with the reason of its first gap."""
    reason = next((number.reason for number in numbers if not number.is_defined), "")
    return Line(label, tuple(x), tuple(number.value for number in numbers), colour, stroke, reason=reason)


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over a common axis."""

    name: str
    title: str
    alternative: str  # what the chart shows, in words
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    starts_at_zero: bool = False
    whole_x: bool = True  # the x axis counts something


@dataclass(frozen=True, slots=True)
class DotChart:
    """Numbers with their intervals, one below the other."""

    name: str
    title: str
    alternative: str
    x_label: str
    labels: tuple[str, ...]
    numbers: tuple[Number, ...]
    colours: tuple[str, ...]
    chance: float = math.nan  # a reference level


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A number, its sign shown by colour, for each pair of x and y. NaN: undefined, hatched."""

    name: str
    title: str
    alternative: str
    x_label: str
    y_label: str
    x: tuple[str, ...]
    y: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]  # [y][x]
    strongest: float = 0.05  # the size that has the strongest shade
    reason: str = ""  # why some are undefined


Chart = LineChart | DotChart | HeatMap


def numbers_of(chart: Chart) -> Table:
    """What a chart shows, as a table."""
    columns, rows = _NUMBERS[type(chart)](chart)
    return Table(chart.name, f"{chart.title}.", columns, rows)


def _line_numbers(chart: LineChart) -> Numbers:
    places = sorted({x for line in chart.lines for x in line.x})
    points = [dict(zip(line.x, line.y, strict=True)) for line in chart.lines]
    rows = [
        TableRow((f"{x:g}", *(_point(at, x, line.reason) for at, line in zip(points, chart.lines, strict=True))))
        for x in places
    ]
    return (chart.x_label, *(line.label for line in chart.lines)), tuple(rows)


def _point(at: dict[float, float], x: float, reason: str) -> Cell:
    return Number(at[x], reason=reason) if x in at else ""


def _dot_numbers(chart: DotChart) -> Numbers:
    return ("", chart.x_label), tuple(TableRow(pair) for pair in zip(chart.labels, chart.numbers, strict=True))


def _heat_numbers(chart: HeatMap) -> Numbers:
    rows = [
        TableRow((y, *(Number(value, reason=chart.reason, signed=True) for value in values)))
        for y, values in zip(chart.y, chart.values, strict=True)
    ]
    return (f"{chart.y_label} \\ {chart.x_label}", *chart.x), tuple(rows)


Numbers = tuple[tuple[str, ...], tuple[TableRow, ...]]
_NUMBERS: Mapping[type, Callable[[Any], Numbers]] = {
    LineChart: _line_numbers,
    DotChart: _dot_numbers,
    HeatMap: _heat_numbers,
}
