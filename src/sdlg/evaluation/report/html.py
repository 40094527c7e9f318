"""The report as one HTML file that needs nothing else: no script, no foreign host, light and dark.

In: a `Report`. Out: the page's text. All words are escaped by the template engine; only our own SVG and CSS are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby
from typing import Any

from ...errors import RunError
from .charts import Chart, DotChart, HeatMap, LineChart, numbers_of
from .colours import theme
from .elements import Block, Report
from .tables import Number
from .wording import direction, interval, letter, shown


def render_page(report: Report) -> str:
    """The whole page."""
    template = _environment().get_template("report.html")
    return str(template.render(report=report, style=_style(), grouped=_grouped, draw=_draw, numbers_of=numbers_of))


def _environment() -> Any:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise RunError("the page needs Jinja2: pip install 'sdlg[eval]'") from error
    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_file)
    )
    made.filters.update(shown=shown, interval=interval, letter=letter, direction=direction)
    made.tests["number"] = lambda value: isinstance(value, Number)
    return made


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _style() -> Any:
    from markupsafe import Markup

    themes = [" ".join(f"{name}: {colour};" for name, colour in theme(number).items()) for number in (0, 1)]
    light, dark = f":root {{ {themes[0]} }}", f"@media (prefers-color-scheme: dark) {{ :root {{ {themes[1]} }} }}"
    return Markup(f"{light}\n{dark}\n{_file('report.css')}")


def _draw(chart: Chart) -> Any:
    from markupsafe import Markup

    from .figures import page_svg

    return Markup(page_svg(chart))


def _grouped(blocks: tuple[Block, ...]) -> Iterator[tuple[str, list[Block]]]:
    """Blocks of the same kind together: charts stand side by side."""
    for kind, group in groupby(blocks, key=_kind):
        yield kind, list(group)


def _kind(block: Block) -> str:
    return "charts" if isinstance(block, LineChart | DotChart | HeatMap) else type(block).__name__.lower()
