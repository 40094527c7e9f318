"""A run as it goes, on standard error, and what came of it, on standard output.

In: `Progress` after each question. Out: a bar with rate, time left and running AUROC where there is a terminal, a line
every half minute where there is none; at the end a table.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from ..correctness import is_correct
from ..views.terminal import visible
from .defaults import HEADLINE_THRESHOLD, headline_metric
from .results import PAPER_COLUMNS, RunResults, load_run, stored_name
from .run import RunProgress
from .statistics import Figure, auroc

THRESHOLD = HEADLINE_THRESHOLD
FEW = 20  # of a class
_SECONDS_BETWEEN_LINES = 30.0


class RunningAuroc:
    """The paper's estimator of each method against the best judge there is, of the questions so far."""

    def __init__(self) -> None:
        self._wrong: list[bool] = []
        self._scores: dict[str, list[float]] = {}

    def add(self, progress: RunProgress) -> None:
        """One more question."""
        values = progress.rows.get("measure", {}).get("values", {})
        scores = progress.rows.get("judge", {}).get("scores", {})
        if not scores or not values:
            return
        self._wrong.append(not is_correct(scores[headline_metric(tuple(scores))], THRESHOLD))
        for method, measures in values.items():
            curve = measures.get(stored_name(headline(method)))
            last = curve[-1] if curve else None
            self._scores.setdefault(method, []).append(float("nan") if last is None else last)

    def __str__(self) -> str:
        if len(self._wrong) < 2:
            return ""
        right = len(self._wrong) - sum(self._wrong)
        shown = [f"{right}/{len(self._wrong)} right"]
        for method, scores in self._scores.items():
            value = auroc(scores, self._wrong, resamples=0).value if len(scores) == len(self._wrong) else float("nan")
            if value == value:  # NaN: one class only, so far
                shown.append(f"{method.split(':')[0]} {value:.2f}")
        return " · ".join(shown)


def headline(method: str) -> str:
    """The paper's proper semantic entropy of a method's samples."""
    return PAPER_COLUMNS["SE*_SDLG"][1] if method.split(":")[0] == "sdlg" else PAPER_COLUMNS["SE*_MS"][1]


class RunProgressLine:
    """Use it as a context manager; hand `watch` and `announce` to the run."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._running, self._last_line = RunningAuroc(), 0.0
        texts = (TextColumn("{task.fields[shown]}"), TextColumn("[dim]{task.fields[doing]}"))
        columns = (BarColumn(), MofNCompleteColumn(), *texts)
        self._bar = Bar(*columns, console=self._console, transient=True) if self._console.is_terminal else None
        self._task = self._bar.add_task("", total=None, shown="", doing="") if self._bar else None

    def watch(self, progress: RunProgress) -> None:
        """A question is finished."""
        self._running.add(progress)
        shown = f"{_rate(progress)} · {_time_left(progress.seconds_left)} {self._running}"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=progress.finished, total=progress.total, shown=shown)
        elif time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES or progress.finished == progress.total:
            self._last_line = time.monotonic()
            print(f"sdlg: {progress.finished}/{progress.total} · {shown}", file=sys.stderr, flush=True)

    def announce(self, doing: str) -> None:
        """What is being done now."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, doing=escape(visible(doing)))

    def __enter__(self) -> RunProgressLine:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def run_progress() -> RunProgressLine:
    """For one run."""
    return RunProgressLine()


def _rate(progress: RunProgress) -> str:
    return f"{progress.seconds / max(progress.done_now, 1):.1f} s a question"


def _time_left(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s left"
    return f"{minutes} min left" if minutes < 120 else f"{minutes / 60:.1f} h left"


# -- what came of it --------------------------------------------------------------------------------------------


def print_summary(folder: Path, output: TextIO) -> None:
    """Questions, skips, and the AUROC of each method."""
    run = load_run(folder)
    console = Console(file=output, highlight=False, soft_wrap=True)
    evaluated = run.config["data"]["evaluated"]
    shown = f"{folder}: {len(run.ids)} of {evaluated} questions of {run.data} went through all stages"
    console.print(visible(shown), markup=False)
    for reason, count in Counter(run.skipped.values()).most_common(5):
        console.print(visible(f"  {count} skipped: {reason}"), markup=False)
    if run.ids and run.metrics:
        metric = headline_metric(run.metrics)
        right = int((run.wrong(metric, THRESHOLD) == 0).sum())
        console.print(f"{right} answers are right ({metric} ≥ {THRESHOLD})")
        console.print(_auroc_table(run))
        if min(right, len(run.ids) - right) < FEW:
            console.print(
                f"fewer than {FEW} answers are right, or wrong: these AUROCs say little, whatever their intervals"
            )
    console.print(f"next: sdlg report {folder} -o report.html", markup=False)


def _auroc_table(run: RunResults) -> Table:
    table = Table("method", "measure", "AUROC", "95 % interval", box=None, pad_edge=False)
    wrong = run.wrong(headline_metric(run.metrics), THRESHOLD)
    for label, (sampler, measure) in PAPER_COLUMNS.items():
        for method in run.methods_of(sampler):
            if stored_name(measure) in run.measures(method):
                table.add_row(method, label, *_shown(auroc(run.values(method, measure), wrong)))
    return table


def _shown(figure: Figure) -> tuple[str, str]:
    if figure.reason:
        return "–", figure.reason
    return f"{figure.value:.3f}", f"{figure.low:.3f} – {figure.high:.3f}"
