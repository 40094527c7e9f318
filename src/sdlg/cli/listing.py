"""`sdlg list`: what there is to choose from. `sdlg schema`: the JSON schema of a result."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

_SCHEMA = Path(__file__).parents[1] / "formats" / "result.schema.json"


def add_list(commands: Any) -> None:
    """The command and its flags."""
    listing = commands.add_parser("list", help="list measures, methods or presets")
    listing.add_argument("what", choices=("measures", "methods", "presets"))
    listing.add_argument("--json", action="store_true", help="all that is known of each, for programs")
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
        return 0
    for row in rows:
        also = f" ({', '.join(row['aliases'])})" if row.get("aliases") else ""
        print(f"{row['name']}{also}\n    {row['summary']}")
        if row.get("equation"):
            print(f"    {row['equation']}")
        if "needs" in row:
            direction = "less" if row["higher_is_less_certain"] else "more"
            print(f"    {row['unit']}; higher is {direction} certain; needs {', '.join(row['needs'])}; {row['cost']}")
    return 0


def _measures() -> list[dict[str, Any]]:
    from ..formats.codec import finite
    from ..measures.table import all_measures

    return [
        {
            "name": measure.name,
            "aliases": list(measure.aliases),
            "summary": measure.summary,
            "equation": measure.equation,
            "unit": measure.unit,
            "higher_is_less_certain": measure.higher_is_less_certain,
            "range": finite([measure.low, measure.high]),  # JSON has no infinity: null is unbounded
            "needs": sorted(measure.needs),
            "cost": measure.cost,
        }
        for measure in all_measures().values()
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
