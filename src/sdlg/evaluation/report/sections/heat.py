"""Heat maps of the AUROC difference, SDLG minus multinomial, over the number of samples and the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..charts import HeatMap
from ..columns import MULTINOMIAL, SDLG, Column, named_column
from ..elements import Block, Paragraph, Section
from ..views import RunView, Target, metric_name
from .comprehensive import metrics_of

_INTRO = (
    f"AUROC of {SDLG} minus that of {MULTINOMIAL}, in hundredths, for every number of sequences and every threshold. "
    "Blue and +: SDLG is better. Orange and −: multinomial is. Hatched: undefined, since only one class is there."
)
_LEAST = 0.05  # a smaller difference never gets the strongest shade
Grid = tuple[tuple[float, ...], ...]


def heat_maps(views: Sequence[RunView]) -> Section:
    """One map for each run and metric."""
    blocks: list[Block] = []
    for view in views:
        blocks += _maps(view)
    return Section("heat-maps", "SDLG minus multinomial", _INTRO, tuple(blocks))


def _maps(view: RunView) -> list[Block]:
    pair = named_column(view, SDLG), named_column(view, MULTINOMIAL)
    for column in pair:
        if not column.is_there:
            return [Paragraph(f"{view.label}: no heat map, since {column.reason}.")]
    grids = {metric: _grid(view, metric, *pair) for metric in metrics_of(view)}
    strengths = [abs(value) for grid in grids.values() for row in grid for value in row if math.isfinite(value)]
    strongest = max([_LEAST, *strengths])
    return [_map(view, metric, grid, strongest) for metric, grid in grids.items()]


def _grid(view: RunView, metric: str, sdlg: Column, multinomial: Column) -> Grid:
    return tuple(
        tuple(_difference(view, Target(metric, threshold), n, sdlg, multinomial) for n in range(1, view.samples + 1))
        for threshold in view.run.thresholds
    )


def _difference(view: RunView, target: Target, n: int, sdlg: Column, multinomial: Column) -> float:
    return sdlg.auroc(view, target, n).value - multinomial.auroc(view, target, n).value


def _map(view: RunView, metric: str, grid: Grid, strongest: float) -> HeatMap:
    defined = [value for row in grid for value in row if math.isfinite(value)]
    better = sum(value > 0 for value in defined)
    mean = f", {sum(defined) / len(defined):+.3f} in the mean" if defined else ""
    return HeatMap(
        f"heat-{metric.replace('_', '-')}-{view.slug}",
        f"{view.label}: AUROC of SDLG minus multinomial, {metric_name(metric)}",
        f"SDLG is better in {better} of {len(defined)} defined cells{mean}.",
        "number of sequences",
        "threshold",
        tuple(str(n) for n in range(1, view.samples + 1)),
        tuple(f"{threshold:.1f}" for threshold in view.run.thresholds),
        grid,
        strongest,
        "only one class is there at this threshold, or a measure has no value with so few sequences",
    )
