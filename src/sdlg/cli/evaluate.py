"""`sdlg eval`: the experiments. A run is made question by question, and can be stopped at any moment."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption
from ..evaluation.defaults import DEFAULT_METHODS, DEFAULT_METRICS
from ..options import DEFAULT_MODEL, DEFAULT_NLI, DEFAULT_SIMILARITY, flag_of
from .files import names_in, quiet_transformers
from .flags import add_gradients, add_models, add_options, named_engine, named_options

if TYPE_CHECKING:
    from ..evaluation.plan import Plan
    from ..evaluation.run import Engine

_EXAMPLES = """examples:
  sdlg eval --data questions.jsonl --out runs/mine         # {"question": "…", "references": ["…"]} on each line
  sdlg eval --data triviaqa --limit 300 --samples 10 --out runs/trivia \\
      --methods sdlg,multinomial:temperature=0.5,diverse-beam:penalty=0.5
  sdlg eval --out runs/trivia                              # go on where it stopped, after whatever stopped it
  sdlg eval measure --out runs/trivia --measures SAR,EigV  # one stage only: nothing is generated again
  sdlg eval judge --out runs/trivia --metrics bleurt --bleurt Elron/bleurt-base-512
  sdlg eval export --out runs/trivia                       # Parquet tables beside the JSON lines
  sdlg eval --data coqa --out runs/coqa --engine ray --ray-address auto
  sdlg eval --data triviaqa --out runs/served --model http://127.0.0.1:8000/v1#my-model --in-flight 32
  sdlg report runs/trivia -o report.html

data sets: truthfulqa, coqa, triviaqa (from the hub, or from --data-dir), coqa_test, open_questions (from --data-dir),
or any JSONL file with question, references, optionally false_references, context, id.
stages: generate → cluster → measure → judge; none named: all of them.
"""
_DEFAULTS = {
    "model": DEFAULT_MODEL, "nli": DEFAULT_NLI, "preset": "default", "similarity_model": DEFAULT_SIMILARITY,
    "gradients": DEFAULT_NLI,
}  # fmt: skip
_STAGES = ("generate", "cluster", "measure", "judge", "export")


def add_eval(commands: Any) -> None:
    """The command and its flags."""
    command = commands.add_parser(
        "eval", help="run experiments on data sets: generate, cluster, measure, judge",
        description="How well does a measure tell wrong answers from right ones? Makes or resumes a run.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.set_defaults(run=_eval)
    command.add_argument("stage", nargs="?", choices=_STAGES, metavar="STAGE", help=", ".join(_STAGES))
    command.add_argument("--out", required=True, metavar="DIR", help="the run's folder; one that exists is resumed")
    command.add_argument(
        "--data", metavar="NAME|FILE", help="truthfulqa, coqa, coqa_test, triviaqa, open_questions or a JSONL file"
    )
    command.add_argument(
        "--data-dir", metavar="DIR", help="where the named data sets are (default: SDLG_DATA, the hub)"
    )
    command.add_argument("--limit", type=int, metavar="N", help="so many questions, drawn by the seed (default: all)")
    command.add_argument(
        "--methods", metavar="NAMES",
        help=f"with commas; options after colons (default: {', '.join(DEFAULT_METHODS)})",
    )  # fmt: skip
    command.add_argument("--measures", default="", metavar="NAMES", help="default: all that need no further model")
    command.add_argument("--metrics", default="", metavar="NAMES", help=f"default: {','.join(DEFAULT_METRICS)}; bleurt")
    command.add_argument("--bleurt", metavar="CHECKPOINT", help="a PyTorch BLEURT model, for the metric bleurt")
    command.add_argument(
        "--clusterings", default="", metavar="NAMES", help="further ones to measure with, as in strict+components"
    )
    command.add_argument("--engine", default="local", choices=("local", "ray"), help="ray: spread over a cluster")
    command.add_argument("--ray-address", metavar="ADDRESS", help="of the cluster (default: one on this machine)")
    command.add_argument("--workers", type=int, metavar="N", help="for ray: how many (default: 2)")
    command.add_argument("--debug", action="store_true", help="show tracebacks")
    add_gradients(add_models(command, "--model-engine"))
    add_options(command)


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
    from ..evaluation.run_models import RuntimeConfig
    from ..evaluation.store import STAGES

    plan = _plan(parsed, folder)
    with run_progress() as progress:
        run_evaluation(
            plan,
            folder,
            data_dir=Path(parsed.data_dir) if parsed.data_dir else None,
            stages=(parsed.stage,) if parsed.stage else STAGES,
            runtime=RuntimeConfig(
                parsed.device,
                parsed.tokenizer,
                parsed.retry_seconds,
                parsed.in_flight,
                named_engine(parsed, "model_engine"),
            ),
            engine=_engine(parsed),
            watch=progress.watch,
            announce=progress.announce,
        )
    print_summary(folder, sys.stdout)
    return 0


def _plan(parsed: argparse.Namespace, folder: Path) -> Plan:
    """As named on the command line, or, with no data named, as the run in the folder was begun."""
    from ..evaluation.plan import make_plan, plan_from, with_additions
    from ..evaluation.store import Store
    from ..models import chosen_engine

    store = Store(folder)
    begun = plan_from(store.read_description()["plan"]) if store.description.exists() else None
    measures, clusterings = tuple(names_in(parsed.measures)), tuple(names_in(parsed.clusterings))
    metrics = tuple(names_in(parsed.metrics))
    if parsed.bleurt and "bleurt" not in metrics:
        metrics = (*(metrics or DEFAULT_METRICS), "bleurt")
    if parsed.data is None and begun is None:
        raise BadOption(f"{folder} is no run yet; name the data to begin one: --data triviaqa, or a JSONL file")
    if parsed.data is None:
        _refuse_changes(parsed, begun, folder)
        plan = begun
    else:
        plan = make_plan(
            parsed.data, model=parsed.model, nli=parsed.nli, preset=parsed.preset, changes=named_options(parsed),
            methods=tuple(names_in(parsed.methods)) if parsed.methods else DEFAULT_METHODS,
            measures=measures, metrics=metrics or DEFAULT_METRICS, clusterings=clusterings, limit=parsed.limit,
            similarity_model=parsed.similarity_model, dtype=parsed.dtype, bleurt=parsed.bleurt,
            gradients=parsed.gradients, engine=chosen_engine(parsed.model, parsed.model_engine),
        )  # fmt: skip
    assert plan is not None
    named = replace(plan, bleurt=parsed.bleurt or plan.bleurt)
    if (
        begun
        and begun.bleurt != named.bleurt
        and any("bleurt" in row["scores"] for row in store.rows("judge").values())
    ):
        raise BadOption(f"{folder} was judged with --bleurt {begun.bleurt}, not {named.bleurt}; use the same")
    return with_additions(named, begun, measures=measures, metrics=metrics, clusterings=clusterings)


def _refuse_changes(parsed: argparse.Namespace, begun: Plan | None, folder: Path) -> None:
    """Options beside --out would be passed over silently: a run keeps those it was begun with."""
    changed = [
        *named_options(parsed),
        *(name for name in ("limit", "methods", "dtype") if getattr(parsed, name) is not None),
    ]
    for name, default in _DEFAULTS.items():
        if getattr(parsed, name) not in (default, getattr(begun, name)):
            changed.append(name)
    if changed:
        flag = flag_of(changed[0])
        raise BadOption(
            f"{folder} keeps the options it was begun with; leave out {flag}, or name --data and another --out"
        )


def _engine(parsed: argparse.Namespace) -> Engine:
    from ..evaluation.run import local_engine

    if parsed.engine == "local":
        if parsed.ray_address or parsed.workers is not None:
            raise BadOption("--ray-address and --workers are for --engine ray")
        return local_engine
    from ..evaluation.ray_engine import ray_engine

    return ray_engine(parsed.ray_address, 2 if parsed.workers is None else parsed.workers)
