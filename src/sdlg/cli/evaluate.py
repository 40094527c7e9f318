"""`sdlg eval`: the experiments. A run is made question by question, and can be stopped at any moment."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption
from ..evaluation.defaults import DEFAULT_METHODS, DEFAULT_METRICS
from ..options import DEFAULT_MODEL, DEFAULT_NLI, PRESETS, Loading, split_keywords
from .files import names_in, quiet_transformers
from .flags import add_models, add_set, add_setting, named_settings

if TYPE_CHECKING:
    from ..evaluation.plan import Plan
    from ..evaluation.run import Engine

_EXAMPLES = """examples:
  sdlg eval --data questions.jsonl --out runs/mine         # {"question": "…", "references": ["…"]} on each line
  sdlg eval --data triviaqa --limit 300 --out runs/trivia --methods sdlg,multinomial:temperature=0.5
  sdlg eval --out runs/trivia                              # go on where it stopped, after whatever stopped it
  sdlg eval measure --out runs/trivia --measures SAR,EigV  # one stage only: nothing is generated again
  sdlg eval judge --out runs/trivia --bleurt Elron/bleurt-base-512
  sdlg eval export --out runs/trivia                       # Parquet tables beside the JSON lines
  sdlg eval --data coqa --out runs/coqa --ray auto --workers 4
  sdlg eval --data triviaqa --out runs/served --model http://127.0.0.1:8000/v1#my-model --set in_flight=32
  sdlg report runs/trivia -o report.html

data: truthfulqa, coqa, triviaqa (from the hub, or from --data-dir), coqa_test, open_questions (from --data-dir),
or any JSONL file with question, references, optionally false_references, context, id.
stages: generate (samples and their clusters) → measure → judge; none named: all of them.
"""
_USUAL = {"model": DEFAULT_MODEL, "nli": DEFAULT_NLI, "preset": "default", "limit": None}
_STAGES = ("generate", "measure", "judge", "export")


def add_eval(commands: Any) -> None:
    """Add the command and its flags."""
    command = commands.add_parser(
        "eval", help="run experiments on data sets: generate, measure, judge",
        description="How well does a measure tell wrong answers from right ones? Makes or resumes a run.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.set_defaults(run=_eval)
    command.add_argument("stage", nargs="?", choices=_STAGES, metavar="STAGE", help=", ".join(_STAGES))
    command.add_argument("--out", required=True, metavar="DIR", help="the run's folder; one that exists is resumed")
    command.add_argument("--data", metavar="NAME|FILE", help="a data set by name, or a JSONL file")
    command.add_argument(
        "--data-dir", metavar="DIR", help="where the named data sets are (default: SDLG_DATA, the hub)"
    )
    command.add_argument("--limit", type=int, metavar="N", help="so many questions, drawn by the seed (default: all)")
    command.add_argument(
        "--methods", default="", metavar="NAMES",
        help=f"with commas; options after colons (default: {', '.join(DEFAULT_METHODS)})",
    )  # fmt: skip
    command.add_argument("--measures", default="", metavar="NAMES", help="default: all that need no further model")
    command.add_argument("--metrics", default="", metavar="NAMES", help=f"default: {','.join(DEFAULT_METRICS)}")
    command.add_argument("--bleurt", metavar="CHECKPOINT", help="judge by this PyTorch BLEURT model, too")
    command.add_argument("--ray", nargs="?", const="", metavar="ADDRESS", help="spread it over a Ray cluster, or here")
    command.add_argument("--workers", type=int, metavar="N", help="for --ray: how many (default: 2)")
    add_models(command)
    command.add_argument("--preset", default="default", help=f"where options start: {', '.join(PRESETS)}")
    add_setting(command, "samples")
    add_setting(command, "max_tokens")
    add_set(command)


def _eval(parsed: argparse.Namespace) -> int:
    folder = Path(parsed.out)
    if parsed.stage == "export":
        from ..evaluation.export import export_run

        for path in export_run(folder):
            print(path)
        return 0
    quiet_transformers()
    from ..evaluation.progress_view import print_summary, run_progress
    from ..evaluation.run import run_evaluation
    from ..evaluation.store import STAGES

    plan = _plan(parsed, folder)
    with run_progress() as (watch, announce):
        run_evaluation(
            plan,
            folder,
            data_dir=Path(parsed.data_dir) if parsed.data_dir else None,
            stages=(parsed.stage,) if parsed.stage else STAGES,
            engine=_engine(parsed, plan),
            watch=watch,
            announce=announce,
        )
    return 0 if print_summary(folder, sys.stdout) else 1


def _plan(parsed: argparse.Namespace, folder: Path) -> Plan:
    """Return the plan as named on the command line, or, with no data named, as the run in the folder was begun."""
    from ..evaluation.plan import make_plan, parse_method, with_additions
    from ..evaluation.store import Store

    store = Store(folder)
    begun = store.read_description().plan if store.description.exists() else None
    options, loading = split_keywords(named_settings(parsed))
    named = {name: getattr(parsed, name) for name, usual in _USUAL.items() if getattr(parsed, name) != usual}
    methods, measures, metrics = (tuple(names_in(getattr(parsed, n))) for n in ("methods", "measures", "metrics"))
    if parsed.bleurt and "bleurt" not in metrics:
        metrics = (*(metrics or DEFAULT_METRICS), "bleurt")
    if parsed.data is not None:
        plan = make_plan(
            parsed.data, changes=options, methods=methods or DEFAULT_METHODS, measures=measures,
            metrics=metrics or DEFAULT_METRICS, bleurt=parsed.bleurt, loading=Loading(**loading), **{**_USUAL, **named},
        )  # fmt: skip
    elif begun is None:
        raise BadOption(f"{folder} is no run yet; name the data to begin one: --data triviaqa, or a JSONL file")
    else:  # what was named and differs is refused by name when the run is taken up
        chosen = begun.options.updated(**options)
        names = tuple(parse_method(name, chosen).name for name in methods) or begun.methods
        loaded = replace(begun.loading, **loading)
        plan = replace(begun, options=chosen, loading=loaded, methods=names, **named)
    return with_additions(plan, begun or plan, measures=measures, metrics=metrics, bleurt=parsed.bleurt)


def _engine(parsed: argparse.Namespace, plan: Plan) -> Engine:
    from ..evaluation.run import local_engine

    if parsed.ray is not None:
        from ..evaluation.ray_engine import ray_engine

        return ray_engine(parsed.ray or None, 2 if parsed.workers is None else parsed.workers)
    if parsed.workers is not None:
        raise BadOption("--workers is for --ray")
    if load := getattr(parsed, "load", None):
        return partial(local_engine, models=load(plan.model, plan.nli, plan.loading))
    return local_engine
