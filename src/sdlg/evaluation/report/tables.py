"""Numbers and tables as frozen records, without any drawing. An undefined number is NaN and carries its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its 95 % interval, or the reason why there is none."""

    value: float  # NaN: undefined
    low: float = math.nan
    high: float = math.nan
    reason: str = ""  # why it is undefined
    questions: int | None = None  # how many it rests on
    signed: bool = False  # a difference: shown with its sign
    percent: bool = False
    digits: int = 3
    mark: str = ""  # "highest", "tuned": shown beside it

    @property
    def is_defined(self) -> bool:
        """Whether there is a value."""
        return math.isfinite(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def excludes_zero(self) -> bool:
        """For differences: whether the interval lies on one side of 0."""
        return self.has_interval and (self.low > 0 or self.high < 0)

    def marked(self, mark: str) -> Number:
        """The same with a mark."""
        return replace(self, mark=mark)


def undefined(reason: str, **fields: int | bool) -> Number:
    """No number, and why."""
    return Number(math.nan, reason=reason, **fields)  # type: ignore[arg-type]  # counts and flags only


Cell = str | int | Number


@dataclass(frozen=True, slots=True)
class TableRow:
    """Cells under the table's headings; the first `Table.headings_per_row` name the row."""

    cells: tuple[Cell, ...]
    is_minor: bool = False  # belongs to the row before it and is shown smaller


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings."""

    name: str  # of its file and its place on the page
    caption: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    headings_per_row: int = 1
    notes: tuple[str, ...] = ()
    is_folded: bool = False  # long, and not the first thing to look at

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"table {self.name}: {len(row.cells)} cells under {len(self.columns)} headings")
