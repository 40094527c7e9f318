"""The baselines' search over temperatures and penalties: chosen on one half of the questions, told on the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...results import PAPER_COLUMNS
from ...statistics import RESAMPLES
from ..charts import LineChart, line_of
from ..columns import (
    FAMILY_NAMES,
    MULTINOMIAL,
    SDLG,
    Column,
    column_of,
    is_measured,
    mean_over_thresholds,
    methods_of,
    named_column,
    settings_of,
    tuning_score,
)
from ..elements import Block, Paragraph, Section
from ..tables import Number, Table, TableRow
from ..views import RunView
from .growth import auroc_numbers

_INTRO = (
    "Baselines have a temperature or a penalty that must be found; the paper's SDLG has none. Each column takes the "
    "setting with the highest mean AUROC over all thresholds on the first half of the questions (by a hash of their "
    "ids). Its AUROC on the other half is what to expect of it elsewhere."
)
_WITHOUT = (
    "This report was built without a run that has several settings of a sampler, so it has no search: "
    "nothing in it was tuned."
)
_COLOURS = ("vermillion", "orange", "purple", "green", "grey")


def search(views: Sequence[RunView]) -> Section:
    """All settings of all samplers that have several."""
    rows = [row for view in views for row in _rows(view)]
    if not rows:
        blocks: tuple[Block, ...] = (Paragraph(_WITHOUT),)
    else:
        blocks = (_table(rows), *(_chart(view) for view in views if len(methods_of(view, "multinomial")) > 1))
    return Section("search", "Search over temperatures and penalties", _INTRO, blocks)


def _table(rows: list[TableRow]) -> Table:
    columns = ("run", "column", "setting", "AUROC", "mean over thresholds", "chosen by", "on the other half", "choice")
    caption = (
        "Every setting. AUROC: all questions. Chosen by: mean over thresholds on the first half. On the other half: "
        "AUROC at the main table's threshold."
    )
    return Table("search", caption, columns, tuple(rows), headings_per_row=3)


def _rows(view: RunView) -> Iterator[TableRow]:
    for label, (family, measure) in PAPER_COLUMNS.items():
        if len(methods_of(view, family)) < 2:
            continue
        chosen = column_of(view, label, family, measure)
        for method in methods_of(view, family):
            if is_measured(view, method, measure):
                yield _row(view, Column(label, method, measure), method == chosen.method)


def _row(view: RunView, column: Column, is_tuned: bool) -> TableRow:
    measured = column.measured
    whole = column.auroc(view, view.target, resamples=RESAMPLES)
    mean = Number(mean_over_thresholds(view, *measured), reason="undefined at every threshold")
    half = Number(tuning_score(view, *measured), reason="undefined at every threshold")
    other = view.auroc(*measured, view.target, half="second", resamples=RESAMPLES)
    mark = "tuned" if is_tuned else ""
    return TableRow(
        (view.label, column.label, setting_name(column.method), whole.marked(mark), mean, half, other, mark)
    )


def setting_name(method: str) -> str:
    """The settings alone, or "as it is"."""
    return ", ".join(f"{name} {value}" for name, value in settings_of(method).items()) or "as it is"


def _chart(view: RunView) -> LineChart:
    """SE* at every temperature, and SDLG's, against the number of samples."""
    sampled = tuple(range(1, view.samples + 1))
    columns = [_at(view, method) for method in methods_of(view, "multinomial")]
    available = [column for column in (named_column(view, SDLG), *columns) if column.is_there]
    lines = tuple(
        line_of(column.label, sampled, auroc_numbers(view, column), colour, stroke)
        for column, (colour, stroke) in zip(available, _looks(len(available)), strict=True)
    )
    return LineChart(
        f"temperatures-{view.slug}",
        f"{view.label}: AUROC at every setting of {FAMILY_NAMES['multinomial']} sampling",
        f"AUROC of SE* against the number of sequences: {len(columns)} settings of multinomial sampling, and SDLG.",
        "number of sequences",
        "AUROC",
        lines,
    )


def _at(view: RunView, method: str) -> Column:
    measure = PAPER_COLUMNS[MULTINOMIAL][1]
    return Column(setting_name(method), method, measure, "" if is_measured(view, method, measure) else "not measured")


def _looks(count: int) -> list[tuple[str, str]]:
    """SDLG's blue, then the samplers': colours, and when they are used up, other strokes."""
    others = [
        (_COLOURS[k % len(_COLOURS)], ("solid", "dashed", "dotted")[k // len(_COLOURS) % 3]) for k in range(count)
    ]
    return [("blue", "solid"), *others][:count]
