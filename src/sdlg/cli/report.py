"""`sdlg report`: what runs show, as one page, as files, or as JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..errors import BadOption
from .files import names_in

_EXAMPLES = """examples:
  sdlg report runs/truthfulqa -o report.html                   # one page that needs nothing else
  sdlg report runs/* -o report.html --assets figures/          # also SVG, PNG and CSV files
  sdlg report runs/coqa --json > numbers.json                  # for programs
  sdlg report runs/coqa -o public.html --leave-out examples    # no question and no answer on the page
"""


def add_report(commands: Any) -> None:
    """The command and its flags."""
    report = commands.add_parser(
        "report", help="tables and figures of runs, as one page",
        description="Tables and figures of one or several runs, finished or not.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    report.set_defaults(run=_report)
    report.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="the folder of a run (sdlg eval --out)")
    report.add_argument("-o", "--out", metavar="FILE", type=Path, help="write the page here")
    report.add_argument("--assets", metavar="DIR", type=Path, help="write figures (SVG, PNG) and tables (CSV) here")
    report.add_argument(
        "--leave-out", default="", metavar="SECTIONS", help="with commas; examples: for questions that may not be shown"
    )
    report.add_argument("--json", action="store_true", help="print all numbers as one JSON document")
    report.add_argument("--debug", action="store_true", help="show tracebacks")


def _report(parsed: argparse.Namespace) -> int:
    if not (parsed.out or parsed.assets or parsed.json):
        raise BadOption("say what to make: -o report.html (a page), --assets DIR (files) or --json")
    _check_distinct(parsed.runs)
    from ..evaluation.report import read_report, render_page, report_json, write_assets

    report = read_report(parsed.runs, names_in(parsed.leave_out))
    if parsed.assets:
        write_assets(report, parsed.assets)
    if parsed.out:
        _write(parsed.out, render_page(report))
    if parsed.json:
        sys.stdout.write(report_json(report))
    return 0


def _check_distinct(runs: list[Path]) -> None:
    folders = [run.resolve() for run in runs]
    for run in runs:
        if folders.count(run.resolve()) > 1:
            raise BadOption(f"the run {run} is named twice")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadOption(f"cannot write {path}: {error}") from error
