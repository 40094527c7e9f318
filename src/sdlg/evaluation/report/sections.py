"""What a section of the report holds: a sentence, tables, charts, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows with a caption. Columns `X low`, `X high` and `X reason` belong to column `X` and are shown in its cell."""

    name: str
    caption: str
    frame: pd.DataFrame
    highest: tuple[str, ...] = ()  # columns of which each row's highest is bold
    is_folded: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Numbers and how they are drawn."""

    name: str
    caption: str
    frame: pd.DataFrame
    draw: Callable[[pd.DataFrame], Figure]


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page."""

    title: str
    intro: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()  # findings, and reasons why something is not shown
    warnings: Sequence[str] = ()
    examples: Sequence[dict[str, Any]] = ()


def table(name: str, caption: str, rows: Rows, highest: Sequence[str] = (), *, is_folded: bool = False) -> list[Table]:
    """Make a table without the intervals and reasons that no row has; no table of no rows."""
    frame = pd.DataFrame(rows).replace("", None)
    details = [name for name in frame.columns if name.endswith((" low", " high", " reason"))]
    empty = [name for name in details if frame[name].isna().all()]
    return [Table(name, caption, frame.drop(columns=empty), tuple(highest), is_folded)] if rows else []


def chart(name: str, caption: str, rows: Rows, y: str, draw: Callable[[pd.DataFrame], Figure]) -> list[Chart]:
    """Make a chart of the rows in which y is defined; no chart of no rows."""
    frame = pd.DataFrame(rows)
    if frame.empty or not frame[y].notna().any():
        return []
    return [Chart(name, caption, frame, draw)]
