"""The paper's main table with intervals and paired differences, and further measures beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...results import PAPER_COLUMNS
from ...statistics import RESAMPLES
from ..charts import DotChart
from ..columns import OUR_COLUMNS, SDLG, Column, named_column, our_columns, paper_columns
from ..elements import Block, Paragraph, Section
from ..tables import Number, Table, TableRow, undefined
from ..views import RunView, Target, metric_name
from ..wording import said

_INTRO = (
    "AUROC: how often a wrong answer has the higher score than a right one; 0.5 is chance, 1 is perfect. In small "
    "print: bootstrap intervals (95 %) over the questions. A difference with an arrow has an interval that excludes 0."
)

Columns = Callable[[RunView], tuple[Column, ...]]


def main_table(views: Sequence[RunView]) -> Section:
    """Main results."""
    blocks: list[Block] = [_chart(view) for view in views]
    blocks += [_paper_table(views), *_findings(views), _our_table(views)]
    return Section("main-results", "Main results", _INTRO, tuple(blocks))


def targets_of(view: RunView) -> tuple[Target, ...]:
    """The main table's verdicts: with, and where there are any without, the stock references."""
    return (view.target, replace(view.target, stock=False)) if view.run.has_stock else (view.target,)


def row_label(view: RunView, target: Target) -> str:
    """The run, and whether stock references count."""
    return view.label if target.stock else f"{view.label}, without stock references"


def mark_highest(numbers: Sequence[Number]) -> list[Number]:
    """The highest of a row is marked, and all that equal it."""
    highest = max((number.value for number in numbers if number.is_defined), default=None)
    return [number.marked("highest") if number.value == highest else number for number in numbers]


# -- the tables -------------------------------------------------------------------------------------------------


def _paper_table(views: Sequence[RunView]) -> Table:
    targets = " and ".join(sorted({str(view.target) for view in views}))
    caption = f"AUROC of the paper's seven methods; an answer is right at {targets}. Bold: the highest of its row."
    return _table(views, "main", caption, tuple(PAPER_COLUMNS), paper_columns)


def _our_table(views: Sequence[RunView]) -> Table:
    caption = "AUROC of further measures, and how the paper's SDLG column compares with them."
    made = _table(views, "further-measures", caption, tuple(OUR_COLUMNS), our_columns)
    names = (f"{label}: {measure} of {family} samples" for label, (family, measure) in OUR_COLUMNS.items())
    return replace(made, notes=(f"{'; '.join(names)}.", *made.notes))


def _table(views: Sequence[RunView], name: str, caption: str, labels: tuple[str, ...], columns_of: Columns) -> Table:
    rows = [row for view in views for target in targets_of(view) for row in _rows(view, target, columns_of(view))]
    notes = [note for view in views for note in column_notes(view, columns_of(view))]
    return Table(name, caption, ("run", *labels), tuple(rows), notes=tuple(notes))


def _rows(view: RunView, target: Target, columns: Sequence[Column]) -> Iterator[TableRow]:
    numbers = [column.auroc(view, target, resamples=RESAMPLES) for column in columns]
    yield TableRow((row_label(view, target), *mark_highest(numbers)))
    sdlg = named_column(view, SDLG)
    yield TableRow(
        (f"{SDLG} minus this", *(_difference(view, sdlg, column, target) for column in columns)), is_minor=True
    )


def _difference(view: RunView, first: Column, second: Column, target: Target) -> Number:
    for column in (second, first):
        if not column.is_there:
            return undefined(column.reason, signed=True)
    if first == second:
        return undefined("the same column", signed=True)
    return view.difference(first.measured, second.measured, target)


def column_notes(view: RunView, columns: Sequence[Column]) -> Iterator[str]:
    """Which setting a column has, and what it leaves out."""
    tuned = [f"{column.label}: {column.method}" for column in columns if column.is_tuned]
    if tuned:
        yield f"{view.label}: settings tuned on the first half of the questions: {', '.join(tuned)}."
    for column in columns:
        if not column.is_there:
            yield f"{view.label}: no {column.label}: {column.reason}."
        elif left_out := _left_out(view, column):
            yield f"{view.label}: {column.label} {left_out}."


def _left_out(view: RunView, column: Column) -> str:
    used = column.auroc(view, view.target).questions or 0
    reasons = view.run.reasons(column.method, column.measure)
    why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
    return f"rests on {used} of {view.size} questions{why}" if used < view.size else ""


# -- what may be said -------------------------------------------------------------------------------------------


def _findings(views: Sequence[RunView]) -> Iterator[Paragraph]:
    for view in views:
        for target in targets_of(view):
            yield Paragraph(f"{row_label(view, target)}: {_finding(view, target)}", "finding")


def _finding(view: RunView, target: Target) -> str:
    columns = [column for column in paper_columns(view) if column.is_there]
    numbers = [column.auroc(view, target) for column in columns]
    defined = [(number.value, column) for number, column in zip(numbers, columns, strict=True) if number.is_defined]
    if not defined:
        return f"no AUROC is defined: {numbers[0].reason if numbers else 'the run has none of these methods'}."
    best = max(defined, key=lambda pair: pair[0])[1]
    tuned = [column.label for _, column in defined if column.is_tuned]
    return f"{_compared(view, target, best, defined)}{_tuned_words(tuned)}"


def _tuned_words(labels: list[str]) -> str:
    if not labels:
        return ""
    return f" The settings of {', '.join(labels)} were tuned on half of these very questions, which favours them."


def _compared(view: RunView, target: Target, best: Column, defined: list[tuple[float, Column]]) -> str:
    near = [other.label for _, other in defined if other != best and not _is_apart(view, best, other, target)]
    if len(defined) == 1:
        return f"{best.label} is the only one that is defined."
    if not near:
        return f"{best.label} is the highest, and its difference to each of the others excludes 0."
    return f"{best.label} is the highest, but the paired difference does not exclude 0 for {', '.join(near)}."


def _is_apart(view: RunView, best: Column, other: Column, target: Target) -> bool:
    return view.difference(best.measured, other.measured, target).excludes_zero


# -- the chart --------------------------------------------------------------------------------------------------


def _chart(view: RunView) -> DotChart:
    columns = [column for column in (*paper_columns(view), *our_columns(view)) if column.is_there]
    numbers = mark_highest([column.auroc(view, view.target, resamples=RESAMPLES) for column in columns])
    descriptions = (f"{column.label} {said(number)}" for column, number in zip(columns, numbers, strict=True))
    return DotChart(
        f"auroc-{view.slug}",
        f"{view.label}: AUROC with {view.samples} sequences",
        f"AUROC with 95 % intervals at {view.target}: {'; '.join(descriptions)}.",
        f"AUROC ({metric_name(view.target.metric)} ≥ {view.target.threshold:g})",
        tuple(column.label for column in columns),
        tuple(numbers),
        tuple(column.colour for column in columns),
        chance=0.5,
    )
