"""What a report is made of, as frozen records: tables, charts, examples and words, in sections.

A section's module makes them from runs; `page` shows them, `assets` and `serialising` write them to files.
"""

from __future__ import annotations

from dataclasses import dataclass

from .charts import Chart, DotChart, HeatMap, LineChart
from .tables import Table

# -- examples ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer; the changed word is marked."""

    text: str
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class ExampleAnswer:
    """A sampled answer."""

    pieces: tuple[Piece, ...]
    cluster: int
    likelihood: float  # geometric mean of its tokens' probabilities


@dataclass(frozen=True, slots=True)
class Example:
    """A question with the answers of several samplers."""

    question: str
    answer: str
    is_wrong: bool | None  # None: not judged
    score: float
    why_shown: str
    samplers: tuple[tuple[str, tuple[ExampleAnswer, ...]], ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """Some questions of one run."""

    name: str
    title: str
    examples: tuple[Example, ...]
    right_at: str  # which answers count as right


# -- the whole --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Words between tables and charts. A warning stands out."""

    text: str
    kind: str = "plain"  # or warning, finding


Block = Paragraph | Table | LineChart | DotChart | HeatMap | Examples


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline number at the top of the page."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    name: str
    title: str
    intro: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All of it."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    tiles: tuple[tuple[str, tuple[Tile, ...]], ...] = ()  # run → its headline numbers

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every block, in the page's order."""
        return tuple(block for section in self.sections for block in section.blocks)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table."""
        return tuple(block for block in self.blocks if isinstance(block, Table))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Every chart."""
        return tuple(block for block in self.blocks if isinstance(block, LineChart | DotChart | HeatMap))
