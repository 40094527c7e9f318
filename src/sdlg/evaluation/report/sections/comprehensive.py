"""The paper's comprehensive table: three metrics, three thresholds, seven columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...results import PAPER_COLUMNS
from ...statistics import RESAMPLES
from ..columns import paper_columns
from ..elements import Section
from ..tables import Table, TableRow
from ..views import RunView, Target, metric_name
from .main_table import column_notes, mark_highest

THRESHOLDS = (0.3, 0.5, 1.0)
_INTRO = "The same columns for three correctness metrics and three thresholds. Bold: the highest of its row."


def comprehensive(views: Sequence[RunView]) -> Section:
    """One table for each run."""
    return Section("comprehensive", "Comprehensive results", _INTRO, tuple(map(_table, views)))


def metrics_of(view: RunView) -> tuple[str, ...]:
    """ROUGE-L, ROUGE-1 and BLEURT; exact match where there is no BLEURT."""
    third = "bleurt" if "bleurt" in view.metrics else "exact_match"
    return tuple(metric for metric in ("rouge_l", "rouge_1", third) if metric in view.metrics) or view.metrics


def _table(view: RunView) -> Table:
    notes = [*column_notes(view, paper_columns(view))]
    if "bleurt" not in view.metrics:
        notes.append("No BLEURT scores in this run; exact match stands in its place, where it was judged.")
    columns = ("metric", "threshold", "right", "wrong", *PAPER_COLUMNS)
    caption = f"{view.label}: AUROC by metric and threshold."
    return Table(f"comprehensive-{view.slug}", caption, columns, tuple(_rows(view)), 2, tuple(notes))


def _rows(view: RunView) -> Iterator[TableRow]:
    for metric in metrics_of(view):
        for threshold in THRESHOLDS:
            target = Target(metric, threshold)
            wrong = view.wrong(target)
            numbers = [column.auroc(view, target, resamples=RESAMPLES) for column in paper_columns(view)]
            counts = int((wrong == 0).sum()), int((wrong == 1).sum())
            yield TableRow((metric_name(metric), f"≥\u00a0{threshold:g}", *counts, *mark_highest(numbers)))
