"""`sdlg score`: the semantic entropy, and further measures, of answers that one already has."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadOption, BadQuestion, RunError, SdlgError
from ..options import DEFAULT_NLI, NONE
from .files import alone, check_output, open_output, read_pipe, read_text, write_line
from .flags import add_set, lazy_pipeline

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..result import Result

SCORE_FORMAT = "sdlg.score/1"
_NO_MEANINGS = "no answer has a cluster, and no NLI model was named (--nli)"
_EXAMPLES = """examples:
  sdlg score answers.jsonl                                # semantic entropy and meanings
  sdlg score answers.jsonl --measures SAR,EigV --out scores.jsonl
  sdlg score answers.jsonl --model smollm2                # computes likelihoods that are missing
  sdlg score answers.jsonl --nli none --set similarity_model=none      # arithmetic only
  sdlg ask --file questions.txt | sdlg score -            # results of sdlg ask are rows, too

a row (docs/reference/result-format.md):
  {"question": "What is the capital of Australia?", "answers": ["Canberra", "Sydney", "Canberra"]}
  an answer may also be {"text": "Canberra", "logprobs": [-0.1, -0.2], "tokens": […], "cluster": 0, "position": 3}
  a row that cannot be scored gives an error line, and the others are scored
"""


def add_score(commands: Any) -> None:
    """Add the command and its flags."""
    score = commands.add_parser(
        "score", help="measure answers that you already have", usage="sdlg score FILE [options]", epilog=_EXAMPLES,
        description="Measure the uncertainty of given answers. What is missing is computed, or the reason is given.",
    )  # fmt: skip
    score.set_defaults(run=_score)
    score.add_argument("file", metavar="FILE", help="JSON lines; - is standard input")
    score.add_argument("-o", "--out", metavar="FILE", help="write here instead of to standard output")
    score.add_argument("--measures", default="", metavar="NAMES", help="further measures, with commas, or all")
    score.add_argument("--model", default=NONE, metavar="NAME", help="for missing likelihoods (default: none)")
    score.add_argument("--nli", default=DEFAULT_NLI, metavar="NAME", help=f"for meanings (default: {DEFAULT_NLI})")
    add_set(score)


def _score(parsed: argparse.Namespace) -> int:
    if parsed.out and parsed.file != "-" and Path(parsed.out).resolve() == Path(parsed.file).resolve():
        raise BadOption("the output file is the input file; name another one")
    check_output(parsed.out)
    with lazy_pipeline(parsed, calibration=NONE) as pipeline, alone(parsed.out, "sdlg score"):
        with open_output(parsed.out):  # a file that cannot be written is an error before the work
            text = read_pipe() if parsed.file == "-" else read_text(Path(parsed.file))
        if not text.strip():
            raise BadQuestion(f"there is no row in {parsed.file}; put one JSON object on each line")
        failed, count = _write_scores(parsed, _scored(parsed.file, text, pipeline))
    if failed:
        print(f"sdlg: {failed} of {count} rows could not be scored; see their error lines", file=sys.stderr)
    return 1 if failed else 0


def _write_scores(parsed: argparse.Namespace, rows: Iterator[tuple[dict[str, Any], bool]]) -> tuple[int, int]:
    """Write each row as it is made. Return how many failed, and how many there were."""
    outcomes: list[bool] = []
    with open_output(parsed.out) as output:
        for row, fine in rows:
            if not outcomes and parsed.out and output.seekable():
                output.truncate(0)  # not before: a model that cannot be loaded costs no earlier scores
            write_line(output, json.dumps(row, ensure_ascii=False))
            outcomes.append(fine)
    return outcomes.count(False), len(outcomes)


def _scored(file: str, text: str, pipeline: Pipeline) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield what is written for each row, and whether it could be scored. No row ends a file; a model may."""
    from ..schema import error_dict, read_given_row

    for line, row in enumerate(text.split("\n"), start=1):
        if not row.strip():
            continue
        question = None
        try:
            given = read_given_row(row)
            question = given.question.text
            samples = given.samples
            if pipeline.models.model_name and not all(sample.generation.decision_logprobs for sample in samples):
                samples = pipeline.with_likelihoods(given.question, samples)
            result = pipeline.score(given.question, samples, evidence=given.evidence)
        except RunError:  # of a model or its server: what is left is no fault of its rows
            raise
        except Exception as error:  # whatever a stranger's numbers make of the arithmetic
            says = (
                str(error) if isinstance(error, SdlgError) else f"cannot be measured: {type(error).__name__}: {error}"
            )
            print(f"{file}:{line}: {says}", file=sys.stderr)
            yield error_dict(line, question, says), False
        else:
            if len(given.samples) == 1:
                print(f"{file}:{line}: only one answer; what compares answers says little of it", file=sys.stderr)
            yield score_row(line, result), True


def score_row(line: int, result: Result) -> dict[str, Any]:
    """Return what `sdlg score` writes for one row."""
    from ..pipeline import NOT_COMPARED

    asked_for, is_compared = result.setup.measures, NOT_COMPARED not in result.notes
    return {
        "format": SCORE_FORMAT,
        "line": line,
        "question": result.question.text,
        "answer": result.answer.text,
        "semantic_entropy": result.semantic_entropy if is_compared else None,
        "clusters": [
            {"text": cluster.text, "share": cluster.share, "members": list(cluster.members)}
            for cluster in (result.clusters if is_compared else ())
        ],
        "measures": {name: result.estimates[name].value for name in asked_for if name in result.estimates},
        "unavailable": {**({} if is_compared else {"semantic_entropy": _NO_MEANINGS}), **result.unavailable},
    }
