"""The reliability plot: risks against the share of answers that were wrong. Uses matplotlib.

In: out-of-fold bins. Out: the bytes of a figure as SVG, PNG or PDF. The same bins give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..calibration import Bin
from ..errors import BadOption, RunError

try:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
except ImportError as error:
    raise RunError("the reliability plot needs matplotlib: pip install 'sdlg[eval]'") from error

_STYLE: dict[Any, Any] = {"svg.hashsalt": "sdlg", "svg.fonttype": "none", "text.parse_math": False, "font.size": 9}
_UNDATED: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def plot_format(path: Path) -> str:
    """Return the format that a file's name asks for."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in _UNDATED:
        raise BadOption(f"cannot draw {path}: its name must end in {', '.join(f'.{name}' for name in _UNDATED)}")
    return suffix


def reliability_bytes(bins: Sequence[Bin], title: str, file_format: str) -> bytes:
    """Return the plot as a file."""
    file = io.BytesIO()
    with rc_context(_STYLE):
        reliability_figure(bins, title).savefig(file, format=file_format, dpi=150, metadata=_UNDATED[file_format])
    return file.getvalue()


def reliability_figure(bins: Sequence[Bin], title: str) -> Figure:
    """Draw a point for each bin, its area by the number of answers, with its 95 % interval, and the diagonal."""
    figure = Figure(figsize=(4.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=0)
    risks, shares = [one.risk for one in bins], [one.wrong / one.n for one in bins]
    below = [share - one.share_low for share, one in zip(shares, bins, strict=True)]
    above = [one.share_high - share for share, one in zip(shares, bins, strict=True)]
    axes.errorbar(risks, shares, yerr=[below, above], fmt="none", ecolor="#0072b2", elinewidth=1.0, capsize=2)
    n, most = sum(one.n for one in bins), max(one.n for one in bins)
    axes.scatter(risks, shares, s=[12 + 36 * one.n / most for one in bins], color="#0072b2")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set_title(title, fontsize=8)
    axes.set(xlabel="risk, out of fold", ylabel=f"share of wrong answers ({n} answers, {len(bins)} bins)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
