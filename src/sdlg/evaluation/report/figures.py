"""Charts by matplotlib, without a screen and without its global state: one panel for each run.

In: a tidy DataFrame. Out: a matplotlib figure; `svg` and `png` make files of it. The same numbers give the same bytes.
Colours are Okabe and Ito's, which colour-blind readers can tell apart; markers and strokes say the same.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

BLUE, RED, GREEN, PURPLE, ORANGE, GREY = "#0072b2", "#d55e00", "#00795a", "#b0558a", "#9a6a00", "#6f6e69"
# The colour is the sampler's, dotted is the improper estimator, dashed has no clusters.
Look = tuple[str, str, str]
LOOKS: Mapping[str, Look] = {
    "SE*_SDLG": (BLUE, "o", "-"), "SE*_MS": (RED, "s", "-"), "SE_MS": (RED, "s", ":"), "SE*_DBS": (GREEN, "^", "-"),
    "SAR": (PURPLE, "D", "--"), "PE": (ORANGE, "v", "--"), "LN-PE": (GREY, "P", "--"),
}  # fmt: skip
_STROKES = ("-", "--", ":")
# A word in the label → the sampler's colour, and the markers of the scores that share it.
_SAMPLERS = {
    "SDLG": (BLUE, "o*p"), "multinomial": (RED, "sXd"), "beam": (GREEN, "^<>"), "SAR": (PURPLE, "DdX"),
    "arithmetic": (ORANGE, "vhH"), "answer": (GREY, "PX*"),
}  # fmt: skip
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "font.size": 9, "legend.frameon": False, "grid.color": "#dddbd4",
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.titlesize": 9,
}  # fmt: skip
_WIDTH, _HEIGHT, _ACROSS = 3.9, 3.0, 3  # inches of a panel; panels in a row


def lines(frame: pd.DataFrame, x: str, y: str, by: str, panel: str = "run", from_zero: bool = False) -> Figure:
    """Draw a line for each value of `by`; a point where it has one x only."""
    figure, panels = _panels(frame, panel)
    looks = _looks(frame[by])
    for axes, (_, rows) in panels:
        for label, line in rows.groupby(by, sort=False):
            colour, marker, stroke = looks[label]
            axes.plot(line[x], line[y], color=colour, marker=marker if len(line) <= 20 else "", ls=stroke, ms=4.5)
        axes.set(xlabel=x, ylabel=y)
        axes.grid(axis="y")
        if from_zero:
            axes.set_ylim(bottom=0)
    for label, (colour, marker, stroke) in looks.items():
        figure.axes[0].plot([], [], color=colour, marker=marker, ls=stroke, ms=4.5, label=label)
    longest = max(map(len, looks))
    ncols = max(1, int(figure.get_figwidth() * 15 / (longest + 6)))
    figure.set_figheight(figure.get_figheight() + 0.17 * math.ceil(len(looks) / ncols))
    figure.legend(loc="outside lower center", ncols=ncols, fontsize=8)
    return figure


def dots(frame: pd.DataFrame, x: str, by: str, panel: str = "run", line: float = 0.5) -> Figure:
    """Draw a point with its interval (columns `x low`, `x high`) for each value of `by`."""
    figure, panels = _panels(frame, panel, share=True)
    looks = _looks(frame[by])
    labels = list(looks)
    for axes, (_, rows) in panels:
        for row in rows.to_dict("records"):
            colour, marker, _ = looks[row[by]]
            place = labels.index(row[by])
            axes.plot([row[f"{x} low"], row[f"{x} high"]], [place, place], color=colour, lw=2)
            axes.plot(row[x], place, color=colour, marker=marker)
        axes.axvline(line, color=GREY, ls=":", lw=1)
        axes.set_yticks(range(len(labels)), labels)
        axes.set(xlabel=x, ylim=(len(labels) - 0.5, -0.5))
        axes.grid(axis="x")
    return figure


def heat(frame: pd.DataFrame, x: str, y: str, value: str, panel: str = "run") -> Figure:
    """Draw a map with its numbers in hundredths; purple is above 0, orange below, grey undefined."""
    figure, panels = _panels(frame, panel)
    strongest = max(0.05, float(np.nan_to_num(frame[value].abs().max())))
    shades = mpl.colormaps["PuOr"].with_extremes(bad="#cccccc")
    for axes, (_, rows) in panels:
        grid = rows.pivot(index=y, columns=x, values=value)
        axes.pcolormesh(grid.to_numpy(), cmap=shades, vmin=-1.6 * strongest, vmax=1.6 * strongest)
        for (row, column), number in np.ndenumerate(grid.to_numpy()):
            if math.isfinite(number):
                axes.text(column + 0.5, row + 0.5, f"{round(100 * number)}", ha="center", va="center", fontsize=7)
        axes.set_xticks(np.arange(grid.shape[1]) + 0.5, [f"{one:g}" for one in grid.columns])
        axes.set_yticks(np.arange(grid.shape[0]) + 0.5, [f"{one:g}" for one in grid.index])
        axes.set(xlabel=x, ylabel=y)
    return figure


def _panels(frame: pd.DataFrame, panel: str, share: bool = False) -> tuple[Figure, Iterator[tuple[Any, Any]]]:
    groups = list(frame.groupby(panel, sort=False))
    across = min(_ACROSS, len(groups))
    down = math.ceil(len(groups) / across)
    figure = Figure(figsize=(_WIDTH * max(across, 1.4), _HEIGHT * down + 0.4), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False, sharex=share, sharey=share).flat)
    for one, (name, _) in zip(axes, groups, strict=False):
        one.set_title(name)
    for unused in axes[len(groups) :]:
        unused.set_axis_off()
    return figure, zip(axes, groups, strict=False)


def _looks(labels: pd.Series) -> dict[str, Look]:
    """Return each label's colour, marker and stroke: its own, or one that no other has."""
    named, looks = list(dict.fromkeys(labels)), dict[str, Look]()
    anything = [(colour, markers[0], stroke) for stroke in _STROKES for colour, markers in _SAMPLERS.values()]
    for label in sorted(named, key=lambda name: not _own_looks(name)):  # those that have a choice come last
        free = _own_looks(label) or anything
        looks[label] = next((look for look in free if look not in looks.values()), free[0])
    return {label: looks[label] for label in named}


def _own_looks(label: str) -> list[Look]:
    families = (family for word, family in _SAMPLERS.items() if word in label)
    colour, markers = next(families, ("", ""))
    return [LOOKS[label]] if label in LOOKS else [(colour, *pair) for pair in zip(markers, _STROKES, strict=False)]


@contextmanager
def drawing(name: str) -> Iterator[None]:
    """Draw within it. Ids in an SVG file follow from the name, so that a page can hold several."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")  # a name in a script that the font lacks
        yield


def svg(figure: Figure) -> str:
    """Return the figure as an SVG document."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return file.getvalue()


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG file, sharp enough for print."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=200, metadata={"Software": None})
    return file.getvalue()
