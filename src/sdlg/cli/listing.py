"""`sdlg list`: what there is to choose from. `sdlg schema`: the JSON schema of a result."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..measures import Measure

_SCHEMA = Path(__file__).parents[1] / "formats" / "result.schema.json"


def add_list(commands: Any) -> None:
    """The command and its flags."""
    listing = commands.add_parser("list", help="list measures, methods or presets")
    listing.add_argument("what", choices=("measures", "methods", "presets"))
    listing.add_argument("-v", "--verbose", action="store_true", help="everything about each measure")
    listing.add_argument("--json", action="store_true", help="the same, for programs")
    listing.add_argument("--debug", action="store_true", help="show tracebacks")
    listing.set_defaults(run=_list)


def add_schema(commands: Any) -> None:
    """The command."""
    schema = commands.add_parser("schema", help="print the JSON schema of a result")
    schema.set_defaults(run=_schema)


def _list(parsed: argparse.Namespace) -> int:
    rows = {"measures": _measures, "methods": _methods, "presets": _presets}[parsed.what]()
    if parsed.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    elif parsed.what == "measures":
        print("\n".join(_measure_lines(verbose=parsed.verbose)))
    else:
        for row in rows:
            print(f"{row['name']}\n    {row['summary']}")
    return 0


def _measure_lines(*, verbose: bool) -> Iterator[str]:
    """One line per measure, by idea; those to start with are marked."""
    from ..measures.table import START_WITH, all_measures, grouped_measures

    width = max(len(_names(measure)) for measure in all_measures().values())
    yield "* start with these; -v for equations, needs, costs and references"
    for title, measures in grouped_measures().items():
        yield f"\n{title}"
        for measure in measures:
            mark = "*" if measure.name in START_WITH else " "
            yield f"{mark} {_names(measure):{width}}  {measure.summary}"
            if verbose:
                direction = "less" if measure.higher_is_less_certain else "more"
                yield f"    {measure.equation}"
                yield f"    {measure.unit}; higher is {direction} certain; needs {', '.join(sorted(measure.needs))}"
                yield f"    costs {measure.cost}; {measure.reference}"


def _names(measure: Measure) -> str:
    return f"{measure.name} ({', '.join(measure.aliases)})" if measure.aliases else measure.name


def _measures() -> list[dict[str, Any]]:
    from ..measures.table import START_WITH, grouped_measures

    return [
        {
            "name": measure.name,
            "aliases": list(measure.aliases),
            "group": title,
            "start_with": measure.name in START_WITH,
            "summary": measure.summary,
            "equation": measure.equation,
            "unit": measure.unit,
            "higher_is_less_certain": measure.higher_is_less_certain,
            "range": [bound if math.isfinite(bound) else None for bound in (measure.low, measure.high)],
            "needs": sorted(measure.needs),
            "cost": measure.cost,
            "reference": measure.reference,
        }
        for title, measures in grouped_measures().items()
        for measure in measures
    ]


def _methods() -> list[dict[str, Any]]:
    from ..sampling import SAMPLERS

    return [{"name": name, "summary": (sampler.__doc__ or "").strip()} for name, sampler in SAMPLERS.items()]


def _presets() -> list[dict[str, Any]]:
    from dataclasses import asdict

    from ..options import PRESETS, flat_options

    rows = {name: flat_options(asdict(options)) for name, options in PRESETS.items()}
    return [
        {"name": name, "summary": ", ".join(f"{k}={v}" for k, v in row.items()), "options": row}
        for name, row in rows.items()
    ]


def _schema(_: argparse.Namespace) -> int:
    print(_SCHEMA.read_text(encoding="utf-8"), end="")
    return 0
