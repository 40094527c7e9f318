"""Is it still so on the other half? Every sampler and measure on two fixed halves of the questions.

The choice is made on the first half, by AUROC. Its rank and its paired differences on the second half are what such a
choice is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..columns import SDLG, named_column, paper_name
from ..elements import Block, Paragraph, Section
from ..tables import Number, Table, TableRow
from ..views import MethodMeasure, RunView
from ..wording import said

_INTRO = (
    "The questions are split in two by a hash of their ids, the same way for every run. Whatever is best on the first "
    "half was partly lucky there; the second half tells how it does on questions that had no say in the choice."
)
_SHOWN = 12  # rows before the fold


@dataclass(frozen=True, slots=True)
class _Entry:
    """A sampler and a measure on both halves."""

    measured: MethodMeasure
    first: Number
    second: Number


def halves(views: Sequence[RunView]) -> Section:
    """The choice in words, and all that could have been chosen."""
    blocks: list[Block] = []
    for view in views:
        blocks += _of_run(view)
    return Section("halves", "Half and half", _INTRO, tuple(blocks))


def _of_run(view: RunView) -> Iterator[Block]:
    entries = _entries(view)
    yield Paragraph(f"{view.label}: {_choice_words(view, entries)}", "finding")
    ranks = _ranks([entry.second.value for entry in entries])
    rows = [_row(place, entry, ranks[place - 1]) for place, entry in enumerate(entries, start=1)]
    sizes = f"{int(view.first_half.sum())} and {int((~view.first_half).sum())} questions"
    columns = ("rank, first half", "sampler", "measure", "in the paper", "AUROC, first half", "AUROC, second half",
               "rank, second half")  # fmt: skip
    caption = f"{view.label}: the best by AUROC on the first half at {view.target} ({sizes})."
    yield Table(f"halves-{view.slug}", caption, columns, tuple(rows[:_SHOWN]), headings_per_row=3)
    if len(rows) > _SHOWN:
        caption = f"{view.label}: all the others."
        yield Table(f"halves-{view.slug}-others", caption, columns, tuple(rows[_SHOWN:]), 3, is_folded=True)


def _entries(view: RunView) -> list[_Entry]:
    """Highest on the first half first; undefined ones last."""
    everything = [(method, measure) for method in view.run.methods for measure in view.measures(method)]
    entries = [
        _Entry(one, *(view.auroc(*one, view.target, half=half) for half in ("first", "second"))) for one in everything
    ]
    return sorted(entries, key=lambda entry: -entry.first.value if entry.first.is_defined else math.inf)


def _row(place: int, entry: _Entry, rank: int | None) -> TableRow:
    shown = place if entry.first.is_defined else Number(math.nan, reason=entry.first.reason)
    other = rank if rank is not None else Number(math.nan, reason=entry.second.reason)
    return TableRow((shown, *entry.measured, paper_name(*entry.measured), entry.first, entry.second, other))


def _ranks(values: list[float]) -> list[int | None]:
    """1 for the highest; equals share the better rank; None for NaN."""
    numbers = np.array(values)
    return [None if math.isnan(value) else int(1 + np.sum(numbers > value)) for value in values]


def _choice_words(view: RunView, entries: list[_Entry]) -> str:
    defined = [entry for entry in entries if entry.first.is_defined and entry.second.is_defined]
    if not defined:
        reason = next((half.reason for entry in entries for half in (entry.first, entry.second) if half.reason), "")
        return f"no choice can be made: {reason or 'nothing was measured'}."
    chosen = defined[0]
    rank = _ranks([entry.second.value for entry in defined])[0]
    best = max(defined, key=lambda entry: entry.second.value)
    return (
        f"on the first half {_named(chosen.measured)} is best with {chosen.first.value:.3f}. On the second half it has "
        f"{chosen.second.value:.3f}, rank {rank} of {len(defined)}{_against(view, chosen, best)}."
    )


def _against(view: RunView, chosen: _Entry, best: _Entry) -> str:
    """Paired differences on the second half to the best there and to the paper's SDLG column."""
    rivals = {f"the best there, {_named(best.measured)}": best.measured}
    column = named_column(view, SDLG)
    if column.is_there:
        rivals[SDLG] = column.measured
    comparisons = [
        f"{said(difference)} against {name}"
        for name, rival in rivals.items()
        if rival != chosen.measured
        and (difference := view.difference(chosen.measured, rival, view.target, half="second")).is_defined
    ]
    return f"; paired difference there {' and '.join(comparisons)}" if comparisons else ""


def _named(measured: MethodMeasure) -> str:
    return f"{paper_name(*measured) or measured[1]} of {measured[0]}"
