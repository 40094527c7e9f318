"""From run folders to a report: one page that needs nothing else, files, or JSON.

In: folders. Out: a `Report`. A folder that is no run is an error that names it; so is a report of which no run has a
usable question. All words are escaped by the template engine; only our own SVG and CSS are not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ...errors import RunError
from ...options import pick
from ..results import load_run
from .costs import against_cost, compute
from .curves import ablation, heat_maps, rejection, samples
from .figures import drawing, png, svg
from .main_results import comprehensive, halves, main, search
from .overview import examples, overview, why_empty
from .scores import name_runs
from .sections import Chart, Section, Table

_SECTIONS = {
    made.__name__: made
    for made in (
        overview, main, against_cost, samples, compute, heat_maps, rejection, comprehensive, search, ablation, halves,
        examples,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """Sections by name, in the page's order."""

    title: str
    sections: dict[str, Section]

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [table for section in self.sections.values() for table in section.tables]

    @property
    def charts(self) -> list[Chart]:
        """All charts."""
        return [chart for section in self.sections.values() for chart in section.charts]


def read_report(folders: Sequence[Path], leave_out: Sequence[str] = ()) -> Report:
    """Load the runs and make their report, without the sections of these names."""
    for name in leave_out:
        pick("section", _SECTIONS, name)
    runs = name_runs([load_run(folder) for folder in folders])
    ready = [run for run in runs if run.ids]
    if not ready:
        raise RunError("there is nothing to report. " + " ".join(f"{run.run.folder}: {why_empty(run)}" for run in runs))
    made = {
        name: section(runs if name == "overview" else ready)
        for name, section in _SECTIONS.items()
        if name not in leave_out
    }
    names = ", ".join(run.label for run in ready) if len(ready) <= 3 else f"{len(ready)} runs"
    return Report(f"{names}: {sum(len(run.ids) for run in ready):,} questions", made)


# -- the page ---------------------------------------------------------------------------------------------------


def render_page(report: Report) -> str:
    """Return the whole page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files(__package__) / "report.html").read_text(encoding="utf-8"))
    return template.render(report=report, show=_show, draw=_draw)


def _draw(chart: Chart) -> Markup:
    with drawing(chart.name):
        text = svg(chart.draw(chart.frame))
    return Markup(text[text.index("<svg") :])


def _show(table: Table) -> Markup:
    """Return a table as HTML: numbers with their intervals, reasons where there is none, * for the highest of a row."""
    details = {f"{name}{end}" for name in table.frame for end in (" low", " high", " reason")}
    rows = table.frame.to_dict("records")
    names = [name for name in table.frame if name not in details]
    shown = pd.DataFrame([[_cell(row, name, table.highest) for name in names] for row in rows], columns=names)
    with pd.option_context("display.max_colwidth", None):
        return Markup(shown.to_html(index=False, border=0))  # which escapes


def _cell(row: dict[str, Any], name: str, highest: Sequence[str]) -> str:
    text, is_signed = row.get(f"{name} reason"), name.startswith("−")
    if not pd.isna(text):
        return str(text)
    text, low, high = (_text(row.get(f"{name}{end}", math.nan), is_signed) for end in ("", " low", " high"))
    star = "*" if name in highest and row[name] == max(row[other] for other in highest if pd.notna(row[other])) else ""
    return f"{text}{star} ({low}\u00a0to\u00a0{high})" if f"{name} low" in row and low != "–" else f"{text}{star}"


def _text(value: Any, is_signed: bool) -> str:
    if not isinstance(value, float):
        return "–" if pd.isna(value) else f"{value:,}" if isinstance(value, int) else str(value)
    if math.isnan(value):
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 10 else f"{value:.3f}"
    return f"{'+' if is_signed and value > 0 else ''}{text}".replace("-", "−")


# -- files ------------------------------------------------------------------------------------------------------


def write_assets(report: Report, folder: Path) -> list[Path]:
    """Write tables and the numbers of charts as CSV, charts as SVG and PNG."""
    contents: dict[str, bytes] = {}
    for table in report.tables:
        contents[f"{table.name}.csv"] = table.frame.to_csv(index=False, lineterminator="\n").encode()
    for chart in report.charts:
        contents[f"figure-{chart.name}.csv"] = chart.frame.to_csv(index=False, lineterminator="\n").encode()
        with drawing(chart.name):
            figure = chart.draw(chart.frame)
            contents[f"{chart.name}.svg"], contents[f"{chart.name}.png"] = svg(figure).encode(), png(figure)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise RunError(f"cannot write {folder}: {error}") from error
    return [folder / name for name in contents]


def report_json(report: Report) -> str:
    """Return all numbers as one JSON document; undefined ones are null."""
    document = {
        "format": "sdlg.report/1",
        "title": report.title,
        "notes": {name: [*section.warnings, *section.notes] for name, section in report.sections.items()},
        "tables": {table.name: _records(table.frame) for table in report.tables},
        "figures": {chart.name: _records(chart.frame) for chart in report.charts},
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return records
