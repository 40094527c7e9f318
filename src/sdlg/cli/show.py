"""`sdlg show`: stored results again, in the terminal or as a page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption
from .files import read_pipe, read_text

if TYPE_CHECKING:
    from ..result import Result

_EXAMPLES = """examples:
  sdlg show results.jsonl                      # every result of sdlg ask --out
  sdlg show results.jsonl 3 -v                 # the third one, with all its details
  sdlg show results.jsonl 3 --html third.html
"""


def add_show(commands: Any) -> None:
    """Add the command and its flags."""
    show = commands.add_parser("show", help="show stored results again", epilog=_EXAMPLES)
    show.set_defaults(run=_show)
    show.add_argument("file", metavar="FILE", help="results of sdlg ask, one a line; - is standard input")
    show.add_argument("lines", metavar="N", nargs="*", type=int, help="which lines, from 1 (default: all)")
    show.add_argument("-v", "--verbose", action="store_true", help="also show the alternatives, notes and cost")
    show.add_argument("--html", metavar="FILE", help="write one result as a page, in one file")


def _show(parsed: argparse.Namespace) -> int:
    from .question_files import stored_rows

    text = read_pipe() if parsed.file == "-" else read_text(Path(parsed.file))
    rows = dict(stored_rows(Path(parsed.file), text.rstrip("\n").encode() + b"\n" if text.strip() else b""))
    if not rows:
        raise BadOption(f"there is no result in {parsed.file}")
    if absent := [number for number in parsed.lines if number not in rows]:
        raise BadOption(f"{parsed.file} has lines 1 to {len(rows)}, not {absent[0]}")
    chosen = {number: rows[number] for number in parsed.lines} if parsed.lines else rows
    if parsed.html is None:
        print_results(chosen.values(), verbose=parsed.verbose, questions=True)
        return 0
    if len(chosen) != 1:
        raise BadOption(f"a page shows one result: name its line, for example sdlg show {parsed.file} 1 --html FILE")
    (row,) = chosen.values()
    if isinstance(row, dict):
        raise BadOption(f"this line has no result: {row['error']}")
    write_page(Path(parsed.html), row)
    return 0


def print_results(rows: Iterable[Result | dict[str, Any]], *, verbose: bool, questions: bool = False) -> None:
    """Print results, with their questions if it must be said which; error lines in words."""
    from rich.console import Console
    from rich.text import Text

    from ..views.terminal import print_result, visible

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a character shows "?"
    console = Console(highlight=False)
    for place, row in enumerate(rows):
        if place:
            console.print()
        question = (row["question"] or f"line {row['line']}") if isinstance(row, dict) else row.question.text
        if questions:
            console.print(Text(visible(question), "bold"))
        if isinstance(row, dict):
            console.print(Text(f"  no answer: {visible(str(row['error']))}"))
        else:
            print_result(console, row, verbose=verbose)


def check_page(path: Path) -> None:
    """Raise if a page could not be written, before anything is loaded."""
    if path.is_dir():
        raise BadOption(f"cannot write {path}: it is a folder; name a file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadOption(f"cannot write {path}: there is no such folder, or it may not be written to")


def write_page(path: Path, result: Result) -> None:
    """Write a result as a page."""
    from ..files import write_whole
    from ..views.html_file import result_page

    write_whole(path, result_page(result).encode())
