"""`sdlg check`: a text that one already has, sentence by sentence, as a language model sees it."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from ..concurrency.limits import Limit
from ..errors import BadOption, BadQuestion
from ..options import OPTIONS, options_from, split_keywords
from .ask import answer_many, show_result
from .files import check_output, read_pipe, read_text
from .flags import (
    add_measuring,
    add_models,
    add_showing,
    lazy_pipeline,
    load_models,
    named_setting,
    named_settings,
)
from .show import check_page

_EXAMPLES = """examples:
  sdlg check answer.txt --question "Tell me about Marie Curie."
  cat answer.txt | sdlg check - --question "Who was Marie Curie?" --html checked.html
  sdlg check answers.jsonl --out checked.jsonl       # {"question": …, "answer": …} a line; start again to resume
"""


def add_check(commands: Any) -> None:
    """Add the command and its flags."""
    check = commands.add_parser(
        "check", help="check a text that you already have, sentence by sentence", usage="sdlg check FILE [options]",
        epilog=_EXAMPLES,
        description="Read a given answer with a language model and say of each sentence how sure the model would be\n"
        "of it, and what it would else have said. It knows what the model knows: no source is looked up.",
    )  # fmt: skip
    check.set_defaults(run=_check)
    check.add_argument("file", metavar="FILE", help="the answer, or JSON lines of questions and answers; - is a pipe")
    check.add_argument("--question", metavar="TEXT", help="what was asked; the file then is the answer")
    add_showing(check, "show every sentence's meanings")
    add_models(check)
    check.add_argument(
        "--samples", dest="settings", action="append", default=[], type=partial(named_setting, "sentence_samples"),
        metavar="N",
        help=f"sequences for each sentence, its own included (default: {OPTIONS['sentence_samples'].default})",
    )  # fmt: skip
    add_measuring(check)


def _check(parsed: argparse.Namespace) -> int:
    from ..questions import checked_question
    from ..views.progress import progress_line
    from .question_files import answer_to_check, read_answers

    each = [("sentence_samples", count) for name, count in parsed.settings if name == "samples"]
    parsed.settings = [*each, *parsed.settings, ("unit", "sentences")]
    options_from(parsed.preset, split_keywords(named_settings(parsed))[0])
    Limit(parsed.timeout)
    check_output(parsed.out)
    text = read_pipe() if parsed.file == "-" else read_text(Path(parsed.file))
    if parsed.question is None and not text.lstrip().startswith("{"):
        raise BadOption("say what was asked: --question TEXT (or give JSON lines with question and answer)")
    asked = (
        list(read_answers(text))
        if parsed.question is None
        else [answer_to_check(1, checked_question(parsed.question), text)]
    )
    if len(asked) == 1 and asked[0].question is None:
        raise BadQuestion(asked[0].error)
    if parsed.html is not None:
        if len(asked) > 1 or parsed.out:
            raise BadOption("--html shows one answer: leave out --out, and give one")
        check_page(Path(parsed.html))
    if parsed.out or len(asked) > 1:
        return answer_many(parsed, asked)
    (one,) = asked
    assert one.question is not None
    assert one.answer is not None
    with progress_line() as watch, lazy_pipeline(parsed, watch=watch) as pipeline:
        load_models(parsed, pipeline, watch)
        result = pipeline.check(one.question, one.answer, timeout=parsed.timeout)
    return show_result(parsed, result)
