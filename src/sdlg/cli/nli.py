"""`sdlg nli fit`: fit the equivalence `answers` for an NLI model on judged answers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import BadOption
from ..options import DEFAULT_NLI, Loading
from .files import quiet_transformers

_EXAMPLES = """examples:
  sdlg nli fit --nli microsoft/deberta-large-mnli --train judged/train.jsonl --dev judged/dev.jsonl
  sdlg nli fit --train train.jsonl --dev dev.jsonl --out fit.json     # only look: nothing is kept for later questions

Judged answers: {"id": "nq1", "question": "…", "answers": [{"text": "…", "right": true}, …]} on each line.
Without --out, the fit is kept in our home folder (SDLG_HOME), and equivalence=answers uses it with that model.
"""


def add_nli(commands: Any) -> None:
    """Add the command and its flags."""
    nli = commands.add_parser("nli", help="fit the judge of meaning to an NLI model")
    fit = nli.add_subparsers(metavar="ACTION", required=True).add_parser(
        "fit", help="fit the equivalence `answers` on judged answers",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    fit.set_defaults(run=_fit)
    fit.add_argument("--nli", default=DEFAULT_NLI, help=f"hub name or folder (default: the embedded {DEFAULT_NLI})")
    fit.add_argument("--train", metavar="FILE", required=True, help="judged answers to fit on")
    fit.add_argument("--dev", metavar="FILE", required=True, help="judged answers to choose and to measure on")
    fit.add_argument("--out", metavar="FILE", help="write the fit here (default: where equivalence=answers looks)")
    fit.add_argument("--device", help="cpu, cuda, … (default: the best there is)")
    fit.add_argument("--debug", action="store_true", help="show tracebacks")


def _fit(parsed: argparse.Namespace) -> int:
    train, dev = Path(parsed.train), Path(parsed.dev)
    for file in (train, dev):
        if not file.is_file():
            raise BadOption(f"there is no file {file} of judged answers")
    quiet_transformers()
    from ..clustering.same_answer import fitted_file
    from ..evaluation.same_answer_fit import fit_same_answer
    from ..nli import load_nli

    nli = load_nli(parsed.nli, Loading(device=parsed.device))
    fit = fit_same_answer(nli, train, dev, _show)
    print(f"{nli.name}: words weigh {fit.words_share:g} × their own fit; threshold {fit.same_answer.threshold}")
    for line in fit.figures:
        print(f"  {line}")
    target = Path(parsed.out) if parsed.out else fitted_file(nli.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    content = {"nli": nli.name, "weights": dict(fit.same_answer.weights), "threshold": fit.same_answer.threshold}
    target.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written to {target}")
    return 0


def _show(doing: str, done: int, total: int) -> None:
    """Show progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{doing}: {done:,} of {total:,}  ", end="\n" if done == total else "", file=sys.stderr, flush=True)
