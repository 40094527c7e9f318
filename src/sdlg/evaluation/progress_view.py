"""A run as it goes, on standard error, and what came of it, on standard output.

In: `RunProgress` after each question. Out: a bar with the time left where there is a terminal, a line every half minute
where there is none; at the end a table.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..views.terminal import visible
from .defaults import HEADLINE_THRESHOLD, headline_metric
from .results import PAPER_COLUMNS, RunResults, load_run, stored_name
from .run import RunProgress, Watch
from .statistics import auroc
from .worker import Announce, silent

FEW = 20  # of a class
_SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def run_progress() -> Iterator[tuple[Watch, Announce]]:
    """Show one run, which calls the two: a question is finished; this is being done now."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _lines(), silent
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("[dim]{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield (
            lambda run: bar.update(task, completed=run.finished, total=run.total),
            lambda doing: bar.update(task, description=escape(visible(doing))),
        )


def _lines() -> Watch:
    """Return what prints a line every half minute, for logs."""
    last = -_SECONDS_BETWEEN_LINES

    def watch(run: RunProgress) -> None:
        nonlocal last
        if run.seconds - last >= _SECONDS_BETWEEN_LINES or run.finished == run.total:
            last, each = run.seconds, run.seconds / max(run.done_now, 1)
            left = each * (run.total - run.finished) / 60
            shown = f"{run.finished}/{run.total} · {each:.1f} s a question · {left:.0f} min left"
            print(f"sdlg: {shown}", file=sys.stderr, flush=True)

    return watch


# -- what came of it --------------------------------------------------------------------------------------------


def print_summary(folder: Path, output: TextIO) -> bool:
    """Print questions, skips, and the AUROC of each method. Return whether any question could be asked."""
    run = load_run(folder)
    console = Console(file=output, highlight=False, soft_wrap=True)
    total, skipped = run.description.data.evaluated, run.skipped
    shown = f"{folder}: {len(run.ids)} of {total} questions of {run.data} went through all stages"
    console.print(visible(shown), markup=False)
    for reason, count in Counter(skipped.values()).most_common(5):
        console.print(visible(f"  {count} skipped: {reason}"), markup=False)
    if run.ids and run.metrics:
        _print_aurocs(run, console)
    if len(skipped) < total:
        done = len(run.ids) + len(skipped) == total
        following = f"sdlg report {folder} -o report.html" if done else f"sdlg eval --out {folder}"
        console.print(f"next: {following}", markup=False)
    return len(skipped) < total


def _print_aurocs(run: RunResults, console: Console) -> None:
    metric = headline_metric(run.metrics)
    wrong = run.wrong(metric, HEADLINE_THRESHOLD)
    right = int((wrong == 0).sum())
    console.print(f"{right} answers are right ({metric} ≥ {HEADLINE_THRESHOLD})")
    table = Table("method", "measure", "AUROC", "95 % interval", box=None, pad_edge=False)
    for label, (sampler, measure) in PAPER_COLUMNS.items():
        for method in run.methods_of(sampler):
            if stored_name(measure) in run.measures(method):
                found = auroc(run.values(method, measure), wrong)
                ends = f"{found.low:.3f} – {found.high:.3f}"
                table.add_row(method, label, *(("–", found.reason) if found.reason else (f"{found.value:.3f}", ends)))
    console.print(table)
    if min(right, len(run.ids) - right) < FEW:
        console.print(
            f"fewer than {FEW} answers are right, or wrong: these AUROCs say little, whatever their intervals"
        )
