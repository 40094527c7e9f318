"""The headline numbers of a run, for the top of the page."""

from __future__ import annotations

from ..statistics import RESAMPLES
from .columns import MULTINOMIAL, SDLG, Column, named_column, paper_columns
from .compute import drawn_samples, tokens_shared
from .elements import Tile
from .sections.growth import auroc_steps, cluster_increase, first_reaching
from .tables import Number
from .views import RunView
from .wording import interval, percent, shown


def tiles_of(view: RunView) -> tuple[Tile, ...]:
    """How good, against what, how diverse, how dear."""
    return tuple(tile for tile in (_auroc(view), _rival(view), _clusters(view), _tokens(view), _reached(view)) if tile)


def _auroc(view: RunView) -> Tile:
    number = named_column(view, SDLG).auroc(view, view.target, resamples=RESAMPLES)
    return Tile(f"AUROC of {SDLG}", shown(number), _interval(number))


def _rival(view: RunView) -> Tile | None:
    """The highest of the paper's other columns."""
    sdlg = named_column(view, SDLG)
    others = [
        (column.auroc(view, view.target).value, column) for column in paper_columns(view) if _counts(view, column)
    ]
    if not others or not sdlg.is_there:
        return None
    rival = max(others, key=lambda pair: pair[0])[1]
    difference = view.difference(sdlg.measured, rival.measured, view.target)
    if not difference.is_defined:
        return None
    return Tile(f"against {rival.label}, the best other", shown(difference), _interval(difference))


def _counts(view: RunView, column: Column) -> bool:
    return column.label != SDLG and column.auroc(view, view.target).is_defined


def _clusters(view: RunView) -> Tile:
    increase = cluster_increase(view, view.samples)
    return Tile(f"clusters over multinomial, {view.samples} sequences", shown(increase), _interval(increase))


def _tokens(view: RunView) -> Tile | None:
    columns = [named_column(view, label) for label in (SDLG, MULTINOMIAL)]
    if not all(column.is_there for column in columns):
        return None
    first, second = (
        sum(tokens_shared(samples, view.samples) for samples in drawn_samples(view, column.method))
        for column in columns
    )
    return Tile("tokens over multinomial, prefixes shared", percent(first / second - 1), "through the language model")


def _reached(view: RunView) -> Tile | None:
    sdlg, multinomial = (named_column(view, label) for label in (SDLG, MULTINOMIAL))
    level = multinomial.auroc(view, view.target)
    if not level.is_defined or not sdlg.is_there:
        return None
    n = first_reaching(auroc_steps(view, sdlg), level.value)
    value = f"{n} of {view.samples}" if n else "not reached"
    return Tile(f"sequences until {MULTINOMIAL}'s AUROC", value, f"{level.value:.3f} with all {view.samples}")


def _interval(number: Number) -> str:
    return f"95 % interval {interval(number)}" if number.has_interval else number.reason
