"""`sdlg list`: what there is to choose from. `sdlg schema`: the JSON schema of a result. `sdlg path`: folders."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..measures import Measure

Row = dict[str, Any]
_COUNTABLE = 1e9  # a higher bound is as good as none


def add_list(commands: Any) -> None:
    """Add the command and its flags."""
    listing = commands.add_parser("list", help="list measures, methods, options or presets")
    listing.add_argument("what", choices=tuple(_LISTS), metavar="WHAT", help=", ".join(_LISTS))
    listing.add_argument("-v", "--verbose", action="store_true", help="everything about each measure")
    listing.add_argument("--json", action="store_true", help="the same, for programs")
    listing.set_defaults(run=_list)


def add_schema(commands: Any) -> None:
    """Add the command."""
    schema = commands.add_parser("schema", help="print the JSON schema of a result")
    schema.set_defaults(run=_schema)


def add_path(commands: Any) -> None:
    """Add the command."""
    path = commands.add_parser("path", help="print where sdlg keeps files for another program")
    path.add_argument("what", choices=tuple(_FOLDERS), metavar="NAME", help="lm-eval: its ready tasks")
    path.set_defaults(run=_path)


def _path(parsed: argparse.Namespace) -> int:
    print(Path(__file__).parents[1] / _FOLDERS[parsed.what])
    return 0


def _list(parsed: argparse.Namespace) -> int:
    rows = _LISTS[parsed.what]()
    if parsed.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    elif parsed.what == "measures":
        print("\n".join(_measure_lines(verbose=parsed.verbose)))
    elif parsed.what == "options":
        _print_options(rows)
    else:
        print("\n".join(f"{row['name']}\n    {row['summary']}" for row in rows))
    return 0


# -- measures ---------------------------------------------------------------------------------------------------


def _measure_lines(*, verbose: bool) -> Iterator[str]:
    """Yield one line per measure, by idea; those to start with are marked."""
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


def _measures() -> list[Row]:
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


# -- methods, presets, options ----------------------------------------------------------------------------------


def _methods() -> list[Row]:
    from ..sampling import SAMPLERS

    return [{"name": name, "summary": (sampler.__doc__ or "").strip()} for name, sampler in SAMPLERS.items()]


def _presets() -> list[Row]:
    from ..options import PRESETS

    usual = PRESETS["default"].to_dict()
    rows = {name: preset.to_dict() for name, preset in PRESETS.items()}
    changes = {name: {k: v for k, v in row.items() if v != usual[k]} for name, row in rows.items()}
    return [
        {
            "name": name,
            "summary": ", ".join(f"{k}={v}" for k, v in changes[name].items()) or "as sdlg list options has it",
            "options": row,
        }
        for name, row in rows.items()
    ]


def _options() -> list[Row]:
    from ..options import LOADING, OPTIONS, OptionNames

    options = [_option(OPTIONS[name], "Options") for name in OptionNames.__annotations__]  # those used most come first
    return [*options, *(_option(option, "Loading") for option in LOADING.values())]


def _option(option: Field[Any], record: str) -> Row:
    from ..options import PRESETS

    limits = option.metadata
    presets = {name: getattr(preset, option.name, option.default) for name, preset in PRESETS.items()}
    return {
        "name": option.name,
        "of": record,
        "default": option.default,
        "choices": list(limits["choices"]) if "choices" in limits else None,
        "range": [limits["low"], limits["high"]] if "low" in limits else None,
        "summary": limits["help"],
        "presets": {name: value for name, value in presets.items() if value != option.default},
    }


def _print_options(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print("--set NAME=VALUE on the command line; in Python keyword arguments of ask and Pipeline")
    for record, title in (("Options", "what shapes a result"), ("Loading", "where and how models run")):
        console.print(f"\n{record}: {title}", style="bold")
        table = Table.grid(padding=(0, 2))
        for row in rows:
            if row["of"] == record:
                table.add_row(f"  {row['name']}", _short(row["default"]), f"{row['summary']}{_limits(row)}")
        console.print(table)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "–" if value is None or value == () else str(value)


def _limits(row: Row) -> str:
    parts = [", ".join(row["choices"])] if row["choices"] else []
    low, high = row["range"] or (None, None)
    parts += [f"at least {low}" if high > _COUNTABLE else f"{low:g} to {high:,.10g}"] if high else []
    parts += [f"preset {name}: {value}" for name, value in row["presets"].items()]
    return f" ({'; '.join(parts)})" if parts else ""


def _schema(_: argparse.Namespace) -> int:
    from ..schema import result_schema

    print(json.dumps(result_schema(), indent=1))
    return 0


_FOLDERS = {"lm-eval": "integrations/lm_eval_tasks"}
_LISTS = {"measures": _measures, "methods": _methods, "options": _options, "presets": _presets}
