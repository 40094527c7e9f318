"""A report as files for programs: JSON, and CSV for every table. NaN becomes null with its reason beside it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ...formats.codec import finite
from .elements import Examples, Paragraph, Report
from .tables import Cell, Number, Table

FORMAT = "sdlg.report/1"


# -- JSON -------------------------------------------------------------------------------------------------------


def report_json(report: Report) -> str:
    """All numbers as one document."""
    return json.dumps(_report(report), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _report(report: Report) -> dict[str, Any]:
    blocks = report.blocks
    return {
        "format": FORMAT,
        "runs": [{"name": name, "headlines": [asdict(tile) for tile in tiles]} for name, tiles in report.tiles],
        "words": [asdict(block) for block in blocks if isinstance(block, Paragraph)],
        "tables": {table.name: _table(table) for table in report.tables},
        "charts": {chart.name: {"kind": type(chart).__name__, **finite(asdict(chart))} for chart in report.charts},
        "examples": {block.name: finite(asdict(block)) for block in blocks if isinstance(block, Examples)},
    }


def _table(table: Table) -> dict[str, Any]:
    rows = [[_cell(cell) for cell in row.cells] for row in table.rows]
    return {"caption": table.caption, "columns": list(table.columns), "rows": rows, "notes": list(table.notes)}


def _cell(cell: Cell) -> Any:
    if not isinstance(cell, Number):
        return cell
    fields = {name: getattr(cell, name) for name in ("value", "low", "high", "reason", "questions", "mark")}
    return {name: value for name, value in finite(fields).items() if name == "value" or value not in (None, "")}


# -- CSV --------------------------------------------------------------------------------------------------------


def table_csv(table: Table) -> str:
    """One line per row. A column of numbers is followed by its interval's ends and reasons, where there are any."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    kinds = [_extras([row.cells[place] for row in table.rows]) for place in range(len(table.columns))]
    writer.writerow(
        [name for column, extras in zip(table.columns, kinds, strict=True) for name in _names(column, extras)]
    )
    for row in table.rows:
        writer.writerow([part for cell, extras in zip(row.cells, kinds, strict=True) for part in _parts(cell, extras)])
    return target.getvalue()


def _extras(cells: list[Cell]) -> tuple[str, ...]:
    numbers = [cell for cell in cells if isinstance(cell, Number)]
    ends = ("low", "high") if any(number.has_interval for number in numbers) else ()
    return (*ends, *(("reason",) if any(not number.is_defined for number in numbers) else ()))


def _names(column: str, extras: tuple[str, ...]) -> Iterator[str]:
    yield column
    yield from (f"{column} {extra}".strip() for extra in extras)


def _parts(cell: Cell, extras: tuple[str, ...]) -> Iterator[object]:
    """An undefined number is an empty field; so is what plain cells do not have."""
    if not isinstance(cell, Number):
        yield from (cell, *("" for _ in extras))
        return
    yield from (finite(getattr(cell, name)) for name in ("value", *extras))
