"""`sdlg nli fit`: fit the equivalence `answers` for an NLI model on judged answers, and say how good that model is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption, RunError
from ..options import DEFAULT_NLI
from .files import quiet_transformers

if TYPE_CHECKING:
    from ..evaluation.same_answer_fit import Fit
    from ..nli import NliModel

_EXAMPLES = """examples:
  sdlg nli fit --nli microsoft/deberta-large-mnli --train judged/train.jsonl --dev judged/dev.jsonl
  sdlg nli fit --nli my-folder --data-dir data      # data/judged_answers/{train,dev}.jsonl, data/nli/*.jsonl
  sdlg nli fit --train train.jsonl --dev dev.jsonl --out fit.json     # only look: nothing is kept for later questions

Judged answers: {"id": "nq1", "question": "…", "answers": [{"text": "…", "right": true}, …]} on each line.
Without --out, the fit is kept in our home folder (SDLG_HOME), and --equivalence answers uses it with that model.
"""
_IN_DATA = {
    "train": "judged_answers/train.jsonl", "dev": "judged_answers/dev.jsonl",
    "snli": "nli/snli_dev.jsonl", "mnli": "nli/mnli_dev_matched.jsonl",
}  # fmt: skip


def add_nli(commands: Any) -> None:
    """The command and its flags."""
    nli = commands.add_parser("nli", help="fit the judge of meaning to an NLI model")
    actions = nli.add_subparsers(metavar="ACTION", required=True)
    fit = actions.add_parser(
        "fit", help="fit the equivalence `answers` on judged answers",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    fit.set_defaults(run=_fit)
    fit.add_argument("--nli", default=DEFAULT_NLI, help=f"hub name or folder (default: the embedded {DEFAULT_NLI})")
    fit.add_argument("--train", metavar="FILE", help="judged answers to fit on")
    fit.add_argument("--dev", metavar="FILE", help="judged answers to choose on")
    fit.add_argument("--snli", metavar="FILE", help="rows with premise, hypothesis and label, to measure on")
    fit.add_argument("--mnli", metavar="FILE", help="the same of another kind")
    fit.add_argument("--data-dir", metavar="DIR", help="where those four files are, if they are not named")
    fit.add_argument("--rows", type=int, default=1000, metavar="N", help="of SNLI and MNLI, each (default: 1000)")
    fit.add_argument("--out", metavar="FILE", help="write the fit here (default: where --equivalence answers looks)")
    fit.add_argument("--device", help="cpu, cuda, … (default: the best there is)")
    fit.add_argument("--debug", action="store_true", help="show tracebacks")


def _fit(parsed: argparse.Namespace) -> int:
    files = _files(parsed)
    quiet_transformers()
    try:
        from ..evaluation.same_answer_fit import fit_same_answer, nli_accuracy
    except ImportError as error:
        raise RunError("fitting needs scikit-learn. Run: pip install 'sdlg[eval]'") from error
    from ..clustering.same_answer import fitted_file
    from ..nli import load_nli

    nli: NliModel = load_nli(parsed.nli, device=parsed.device)
    fit = fit_same_answer(nli, files["train"], files["dev"], _show)
    _print_fit(nli.name, fit)
    for name in ("snli", "mnli"):
        if name in files:
            accuracy, rows = nli_accuracy(nli, files[name], parsed.rows, _show)
            print(f"  {files[name].stem:<24}{accuracy:.3f} of {rows} rows")
    target = Path(parsed.out) if parsed.out else fitted_file(nli.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    content = {"nli": nli.name, "weights": dict(fit.same_answer.weights), "threshold": fit.same_answer.threshold}
    target.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"written to {target}")
    return 0


def _files(parsed: argparse.Namespace) -> dict[str, Path]:
    """Role → file. What is named must be there; what lies in the data folder is used if it is there."""
    files = {}
    for role, place in _IN_DATA.items():
        named = getattr(parsed, role)
        path = Path(named) if named else Path(parsed.data_dir) / place if parsed.data_dir else None
        if path is not None and path.is_file():
            files[role] = path
        elif named:
            raise BadOption(f"--{role} {named}: there is no such file")
    for role in ("train", "dev"):
        if role not in files:
            raise BadOption(f"name the judged answers: --{role} FILE, or --data-dir DIR with {_IN_DATA[role]} in it")
    return files


def _print_fit(name: str, fit: Fit) -> None:
    print(f"{name}: words weigh {fit.words_share:g} × their own fit; threshold {fit.same_answer.threshold}")
    for figure in fit.figures:
        print(
            f"  {figure.source:<6}{figure.equivalence:<24}same {figure.same:.3f}  different {figure.different:.3f}  "
            f"balanced {figure.balanced:.3f} [{figure.low:.3f}, {figure.high:.3f}] of {figure.pairs} pairs"
        )


def _show(doing: str, done: int, total: int) -> None:
    """Progress, where somebody sees it."""
    if sys.stderr.isatty():
        print(f"\r{doing}: {done:,} of {total:,}  ", end="\n" if done == total else "", file=sys.stderr, flush=True)
