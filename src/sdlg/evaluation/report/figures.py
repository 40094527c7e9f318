"""Charts as SVG and PNG, by matplotlib without a screen and without its global figure state.

In: a chart record. Out: `page_svg` for a page (colours are CSS variables, no title: the caption has it), `file_svg` and
`file_png` to stand alone. The same record gives the same bytes.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...errors import RunError
from .charts import Chart, DotChart, HeatMap, Line, LineChart
from .colours import COLOURS, HEAT, heat_level, variable_names

try:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise RunError("figures need matplotlib: pip install 'sdlg[eval]'") from error

LIGHT = {name: light for name, (light, _) in COLOURS.items()}
_STROKES: Mapping[str, Any] = {"solid": "-", "dotted": (0, (1, 1.6)), "dashed": (0, (4, 2))}
_MARKERS: Mapping[str, str] = {
    "blue": "o", "vermillion": "s", "green": "^", "purple": "D", "orange": "v", "grey": "P"
}  # fmt: skip
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "sdlg",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a model's name is no formula
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": LIGHT["soft"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.7,
    "hatch.color": LIGHT["grey"],
    "hatch.linewidth": 0.5,
    "xtick.color": LIGHT["soft"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.color": LIGHT["soft"],
    "ytick.labelcolor": LIGHT["ink"],
    "text.color": LIGHT["ink"],
    "legend.frameon": False,
    "legend.labelcolor": LIGHT["ink"],
}
_WIDTH, _HEIGHT = 5.2, 3.5  # inches; small, so that the text stays readable on a phone

# -- the three forms --------------------------------------------------------------------------------------------


def page_svg(chart: Chart) -> str:
    """Inline SVG that follows the page's theme and font; hidden from screen readers, who get the words instead."""
    with _styled():
        text = _svg(_draw(chart, ""), "none")
    text = text[text.index("<svg") :]
    for pattern, replacement in _FOR_PAGES:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    for colour, variable in variable_names().items():
        text = text.replace(colour, f"var({variable})")
    return _own_ids(text, chart.name).strip()


_FOR_PAGES = (
    (r"<metadata>.*?</metadata>", ""),
    (r"<style.*?</style>", ""),  # it would style the whole page
    (r"^<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg aria-hidden="true" focusable="false" \1>'),
    (r"xlink:href", "href"),
    (r"font-family: [^;\"]*", "font-family: inherit"),
)


def file_svg(chart: Chart) -> str:
    """An SVG file."""
    with _styled():
        return _svg(_draw(chart, chart.title), LIGHT["surface"])


def file_png(chart: Chart) -> bytes:
    """A PNG file, sharp enough for print."""
    with _styled():
        figure, target = _draw(chart, chart.title), io.BytesIO()
        FigureCanvasAgg(figure)
        figure.savefig(target, format="png", dpi=200, facecolor=LIGHT["surface"], metadata={"Software": None})
        return target.getvalue()


@contextmanager
def _styled() -> Iterator[None]:
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")  # a name in a script that the font lacks
        yield


def _svg(figure: Figure, background: str) -> str:
    target = io.StringIO()
    FigureCanvasSVG(figure)
    figure.savefig(target, format="svg", facecolor=background, metadata={"Date": None})
    return target.getvalue()


def _own_ids(text: str, name: str) -> str:
    """Ids that nothing refers to go; the others get the chart's name, since a page holds many charts."""
    used = set(re.findall(r"(?:href=\"|url\()#([^\")]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", text)
    return re.sub(r"(href=\"|url\()#", rf"\1#{name}-", text)


# -- drawing ----------------------------------------------------------------------------------------------------


def _draw(chart: Chart, title: str) -> Figure:
    return _DRAWERS[type(chart)](chart, title)


def _new_figure(title: str, height: float = _HEIGHT) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    if title:
        figure.suptitle(title, fontsize=9.5)
    return figure, axes


def _draw_lines(chart: LineChart, title: str) -> Figure:
    longest = max((len(line.label) for line in chart.lines), default=0)
    across = 3 if longest <= 14 else 2 if longest <= 26 else 1
    figure, axes = _new_figure(title, _HEIGHT + 0.16 * math.ceil(len(chart.lines) / across))
    for line in chart.lines:
        _draw_line(axes, line)
    if not any(math.isfinite(y) for line in chart.lines for y in line.y):
        reason = "\n".join(textwrap.wrap(f"undefined: {chart.lines[0].reason}", 55))
        axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center", color=LIGHT["soft"])
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    axes.grid(axis="y")
    if chart.starts_at_zero:
        axes.set_ylim(bottom=0)
    if chart.whole_x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower center", ncols=across, fontsize=8.5, handlelength=2.6, columnspacing=1.2)
    return figure


def _draw_line(axes: Any, line: Line) -> None:
    colour, marker = LIGHT[line.colour], _MARKERS[line.colour]
    face = LIGHT["surface"] if line.stroke != "solid" else colour
    shown = marker if len(line.x) <= 20 else ""
    axes.plot(
        line.x, line.y, color=colour, linestyle="" if line.is_point else _STROKES[line.stroke], linewidth=1.7,
        marker="X" if line.is_point else shown, markersize=8 if line.is_point else 4.5, markerfacecolor=face,
        markeredgewidth=1, label=line.label, clip_on=False, zorder=3,
    )  # fmt: skip


def _draw_dots(chart: DotChart, title: str) -> Figure:
    figure, axes = _new_figure(title, 0.9 + 0.3 * len(chart.labels))
    for place, (number, colour) in enumerate(zip(chart.numbers, chart.colours, strict=True)):
        _draw_dot(axes, place, number, LIGHT[colour], _MARKERS[colour])
    if math.isfinite(chart.chance):
        axes.axvline(chart.chance, color=LIGHT["soft"], linewidth=0.9, linestyle=(0, (2, 3)), zorder=1)
    axes.set(xlabel=chart.x_label, ylim=(len(chart.labels) - 0.4, -0.6))
    axes.set_yticks(range(len(chart.labels)), chart.labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    return figure


def _draw_dot(axes: Any, place: int, number: Any, colour: str, marker: str) -> None:
    beside = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left", "fontsize": 9}
    if not number.is_defined:
        axes.text(1.02, place, "–", **beside)
        return
    if number.has_interval:
        axes.plot([number.low, number.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="round")
    axes.plot([number.value], [place], color=colour, marker=marker, markersize=6.5, linestyle="")
    weight = "bold" if number.mark == "highest" else "normal"
    axes.text(1.02, place, f"{number.value:.3f}", fontweight=weight, **beside)


def _draw_heat(chart: HeatMap, title: str) -> Figure:
    figure, axes = _new_figure(title, 1.0 + 0.27 * len(chart.y))
    for y, row in enumerate(chart.values):
        for x, value in enumerate(row):
            _draw_cell(axes, x, y, value, chart.strongest)
    axes.set(xlim=(0, len(chart.x)), ylim=(0, len(chart.y)), xlabel=chart.x_label, ylabel=chart.y_label)
    axes.set_xticks([x + 0.5 for x in range(len(chart.x))], chart.x)
    axes.set_yticks([y + 0.5 for y in range(len(chart.y))], chart.y)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    return figure


def _draw_cell(axes: Any, x: int, y: int, value: float, strongest: float) -> None:
    box = (x + 0.03, y + 0.04), 0.94, 0.92
    if not math.isfinite(value):
        axes.add_patch(Rectangle(*box, facecolor="none", hatch="/////", linewidth=0))
        return
    axes.add_patch(Rectangle(*box, facecolor=HEAT[heat_level(value, strongest)][0], linewidth=0))
    text = f"{100 * value:+.0f}".replace("-", "−")
    text = "0" if text in ("+0", "−0") else text
    axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=8, in_layout=False)


_DRAWERS: Mapping[type, Callable[[Any, str], Figure]] = {
    LineChart: _draw_lines,
    DotChart: _draw_dots,
    HeatMap: _draw_heat,
}
