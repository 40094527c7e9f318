"""A line on standard error that says what is being done, if there is a terminal to show it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from ..models.catalogue import KnownModel
from ..progress import Progress
from .terminal import visible

_SAYS = {
    "load": "loading the",
    "answer": "answering:",
    "scores": "scoring the words of:",
    "branches": "growing alternatives:",
    "clusters": "comparing meanings",
    "sentence": "measured:",
}


class ProgressLine:
    """Call it with a `Progress`; use it as a context manager."""

    def __init__(self) -> None:
        self.title = ""
        self._console = Console(file=sys.stderr)
        self._status: Any = self._console.status("starting") if self._console.is_terminal else None

    def __call__(self, progress: Progress) -> None:
        """Show what is being done."""
        if self._status is not None:
            shown = Text(f"{self.title}{_SAYS[progress.stage]} ")
            shown.append(visible(progress.text[-60:].replace("\n", " ")), "dim")
            self._status.update(shown)

    def __enter__(self) -> ProgressLine:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()


def progress_line() -> ProgressLine:
    """Return a new line."""
    return ProgressLine()


@contextmanager
def fetch_bar() -> Iterator[Callable[[KnownModel, int, int], None]]:
    """Show on a terminal how much of a model is fetched."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    console = Console(file=sys.stderr)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def show(model: KnownModel, done: int, total: int) -> None:
            if model.name not in tasks:
                tasks[model.name] = bar.add_task(model.name)
            bar.update(tasks[model.name], completed=done, total=total)

        yield show
