"""`sdlg score`: measures of answers that one already has."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption, BadQuestion, Interrupted, SdlgError
from ..options import DEFAULT_NLI, DEFAULT_SIMILARITY, Clustering
from .files import (
    check_output,
    is_plain_file,
    names_in,
    open_output,
    quiet_transformers,
    read_pipe,
    read_text,
    write_line,
)

if TYPE_CHECKING:
    from ..formats.answers import AnswersRow
    from ..measures.base import Measure
    from ..measures.inputs import InputModels

_EXAMPLES = """examples:
  sdlg score answers.jsonl                                         # all measures; clusters by the embedded NLI model
  sdlg score answers.jsonl --measures 'SE*_SDLG,SAR,number_of_clusters' -o scores.jsonl
  sdlg score answers.jsonl --model smollm2                         # likelihoods that are missing, by this model
  sdlg score answers.jsonl --nli none --similarity-model none            # arithmetic only
  sdlg ask --file questions.txt | sdlg score -                     # results of sdlg ask are rows, too

a row:
  {"question": "Where is the Louvre?", "answers": [{"text": "Paris", "logprobs": [-0.1, -0.2]}, {"text": "Lyon"}]}
  an answer may also have "tokens", "cluster", "substitution": {"position": 3}; `sdlg list measures` says who needs what
  a row has at most 8,000,000 characters, 1,000 answers, 100,000 characters or tokens in each; a row that cannot be
  scored gives an error line, and the others are scored
"""


def add_score(commands: Any) -> None:
    """The command and its flags."""
    score = commands.add_parser(
        "score", help="measure answers that you already have",
        description="Measure the uncertainty of given answers. What is missing is computed, or the reason is told.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    score.set_defaults(run=_score)
    score.add_argument("file", metavar="FILE", help="JSON lines; - is standard input")
    score.add_argument("-o", "--out", metavar="FILE", help="write here instead of to standard output")
    score.add_argument("--measures", default="", metavar="NAMES", help="names or aliases, with commas (default: all)")
    score.add_argument("--model", metavar="NAME", help="a language model for missing likelihoods (default: none)")
    score.add_argument("--nli", default=DEFAULT_NLI, metavar="NAME", help="for missing clusters; none: do without")
    score.add_argument(
        "--similarity-model",
        default=DEFAULT_SIMILARITY,
        metavar="NAME",
        help="sentence encoder or cross-encoder, or none",
    )
    score.add_argument(
        "--other-models", default="", metavar="NAMES", help="for aleatoric and epistemic parts, with commas"
    )
    for option in fields(Clustering):
        choices = ", ".join(option.metadata["choices"])
        score.add_argument(f"--{option.name}", default=option.default, help=f"how clusters are made: {choices}")
    score.add_argument("--prompt", default="auto", help="for --model: auto, chat, plain (default: auto)")
    score.add_argument("--dtype", help="for --model: float32, bfloat16, …")
    score.add_argument("--device", help="cpu, cuda, … (default: the best there is)")
    score.add_argument("--debug", action="store_true", help="show tracebacks")


def _score(parsed: argparse.Namespace) -> int:
    from ..formats.answers import read_rows
    from ..measures.table import all_measures, find_measures

    if parsed.out and parsed.file != "-" and Path(parsed.out).resolve() == Path(parsed.file).resolve():
        raise BadOption("the output file is the input file; name another one")
    check_output(parsed.out)
    measures = find_measures(names_in(parsed.measures)) or all_measures()
    lines = _text(parsed.file).split("\n")
    if not any(line.strip() for line in lines):
        raise BadQuestion(f"there is no row in {parsed.file}; put one JSON object on each line")
    # Rows are read twice: kept as records, all of them together would take many times the file's size.
    models = _input_models(parsed, read_rows(lines), measures)
    with _alone(parsed.out):
        _make_empty(parsed.out)
        with open_output(parsed.out) as output:
            failures = [_score_row(parsed.file, row, measures, models, output) for row in read_rows(lines)]
    if any(failures):
        print(
            f"sdlg: {sum(failures)} of {len(failures)} rows could not be scored; see their error lines", file=sys.stderr
        )
    return 1 if any(failures) else 0


def _alone(path: str | None) -> AbstractContextManager[None]:
    """Two processes that write to one file would mix their rows."""
    from ..formats.files import one_writer

    return one_writer(Path(path), "sdlg score") if path and is_plain_file(Path(path)) else nullcontext()


def _text(file: str) -> str:
    return read_pipe() if file == "-" else read_text(Path(file))


def _make_empty(path: str | None) -> None:
    if path is not None and Path(path).is_file():
        Path(path).write_bytes(b"")


def _score_row(file: str, row: AnswersRow, measures: Mapping[str, Measure], models: InputModels, output: Any) -> bool:
    """Write the row's measures, or what is wrong with it. Whether it failed."""
    from ..formats.answers import error_row

    try:
        made = _measured(file, row, measures, models)
    except Interrupted:  # a server that is gone ends the file: what is left is no fault of its rows
        raise
    except Exception as error:  # whatever a stranger's numbers make of the arithmetic: no row ends a file
        text = str(error) if isinstance(error, SdlgError) else f"cannot be measured: {type(error).__name__}: {error}"
        print(f"{file}:{row.line}: {text}", file=sys.stderr)
        made, failed = error_row(row, text), True
    else:
        failed = False
    write_line(output, json.dumps(made, ensure_ascii=False))
    return failed


def _measured(file: str, row: AnswersRow, measures: Mapping[str, Measure], models: InputModels) -> dict[str, Any]:
    from ..formats.answers import row_dict
    from ..measures.measuring import measure

    if row.question is None or row.inputs is None:
        raise BadQuestion(row.error)
    if len(row.inputs) == 1:
        print(f"{file}:{row.line}: only one answer; what compares answers says little of it", file=sys.stderr)
    return row_dict(row, measure(row.inputs, row.question, measures, models))


def _input_models(
    parsed: argparse.Namespace, rows: Iterable[AnswersRow], measures: Mapping[str, Measure]
) -> InputModels:
    """Load only what some row lacks and some measure needs."""
    from ..measures.inputs import NLI_FIELDS, SIMILARITY_FIELDS, InputModels
    from ..measures.measuring import needed_fields

    clustering = Clustering(parsed.equivalence, parsed.linkage)
    if parsed.other_models and not parsed.model:
        raise BadOption("--other-models needs --model, the model that the answers are from")
    needs = needed_fields(measures)
    missing = frozenset[str]().union(*(needs - row.inputs.known for row in rows if row.inputs is not None))
    quiet_transformers()
    model, nli, similarity, others = None, None, None, []
    if parsed.model:
        from ..models import load_scorer

        model = load_scorer(parsed.model, device=parsed.device, dtype=parsed.dtype)
        others = [load_scorer(name, device=parsed.device, dtype=parsed.dtype) for name in names_in(parsed.other_models)]
    if parsed.nli != "none" and missing & NLI_FIELDS:
        from ..nli import load_nli

        nli = load_nli(parsed.nli, device=parsed.device, language_model=model)
    if parsed.similarity_model != "none" and missing & SIMILARITY_FIELDS:
        from ..similarity import load_similarity

        similarity = load_similarity(parsed.similarity_model, device=parsed.device)
    return InputModels(model, nli, similarity, tuple(others), parsed.prompt, clustering)
