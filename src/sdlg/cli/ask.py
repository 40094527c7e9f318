"""`sdlg ask`: questions in, answers and how sure the model is of them out. Flags derive from the options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..concurrency.in_flight import run_in_flight
from ..errors import BadOption, BadQuestion, Cancelled, Interrupted, RunError, SdlgError, ServerFailed
from ..options import flat_options, options_from
from .files import check_output, is_plain_file, open_output, read_pipe, read_text, write_line
from .flags import add_asking, add_models, add_options, load_pipeline, named_options, named_setup
from .through_server import ask_server, chosen_server

if TYPE_CHECKING:
    from ..formats.questions import Asked, Finished
    from ..formats.results import Result
    from ..pipeline import Pipeline

EXAMPLES = """examples:
  sdlg ask "Who wrote Hamlet?"
  sdlg ask "Who is she?" --context @story.txt --samples 5
  sdlg ask "Who wrote Hamlet?" --json | jq .score.value
  sdlg ask "Who wrote Hamlet?" --html hamlet.html        # the same as a page to look at, in one file
  sdlg ask --file questions.txt --out results.jsonl      # one JSON result per line; start again to resume
  cat questions.jsonl | sdlg ask > results.jsonl
  sdlg ask "Who wrote Hamlet?" --model http://127.0.0.1:8000/v1#my-model     # a model server: vLLM, llama-server, …
  sdlg ask "Who wrote Hamlet?" --server http://127.0.0.1:8077     # a running sdlg serve: no model is loaded here
  sdlg ask "Why is the sky blue?" --model HuggingFaceTB/SmolLM2-360M-Instruct --nli microsoft/deberta-large-mnli
"""


def add_ask(commands: Any) -> None:
    """The command and its flags."""
    ask = commands.add_parser(
        "ask", help="answer questions and say how sure the model is of what it means",
        description="Answer a question, explore likely answers with other meanings, and measure the semantic entropy.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    ask.set_defaults(run=_ask)
    ask.add_argument("question", nargs="?", metavar="QUESTION", help="left out: read questions from a pipe, one a line")
    ask.add_argument("--file", metavar="FILE", help="questions, one a line: text, or JSON with question and context")
    ask.add_argument("--out", metavar="FILE", help="write JSON lines here; started again, it goes on where it stopped")
    ask.add_argument("--context", metavar="TEXT|@FILE", help="a text to read before the question")
    ask.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    ask.add_argument("--html", metavar="FILE", help="also write the result as a page in one file, to look at offline")
    ask.add_argument("--no-color", action="store_true", help="no colours (also: NO_COLOR, or a pipe)")
    ask.add_argument("--debug", action="store_true", help="show tracebacks")
    ask.add_argument(
        "--server", metavar="URL",
        help="ask a running sdlg serve, which has its models loaded (default: SDLG_SERVER, if no model is named)",
    )  # fmt: skip
    ask.add_argument("--timeout", type=float, metavar="S", help="seconds for each question (default: none)")
    add_asking(add_models(ask))
    add_options(ask)


def _ask(parsed: argparse.Namespace) -> int:
    changes = named_options(parsed)
    options_from(parsed.preset, changes)  # a wrong option is told before anything is loaded
    context = _context(parsed.context)
    if parsed.question is not None and not parsed.question.strip():
        raise BadQuestion('the question is empty; type one, for example: sdlg ask "Who wrote Hamlet?"')
    if parsed.question is not None and parsed.file:
        raise BadOption("give a question or --file, not both")
    if parsed.html is not None:
        _check_page(parsed)
    check_output(parsed.out)
    server = chosen_server(parsed)
    if parsed.question is not None and not parsed.out:
        return _ask_one(parsed, context, server)
    return _ask_many(parsed, changes, context)


def _check_page(parsed: argparse.Namespace) -> None:
    """A page that could not be written is told before anything is loaded."""
    if parsed.question is None or parsed.file or parsed.out:
        raise BadOption("--html shows one question: type it, and leave out --file and --out")
    path = Path(parsed.html)
    try:
        new = not path.exists()
        path.open("a").close()
        if new:
            path.unlink()
    except OSError as error:
        raise BadOption(f"cannot write {path}: {error}") from error


def _context(value: str | None) -> str | None:
    if value is None or not value.startswith("@"):
        return value
    return read_text(Path(value[1:]))


def _ask_one(parsed: argparse.Namespace, context: str | None, server: str | None) -> int:
    from rich.console import Console

    from ..views.progress import progress_line
    from ..views.terminal import print_result

    with progress_line() as watch:
        if server:
            result = ask_server(server, parsed, context)
        else:
            result = load_pipeline(parsed, watch=watch).ask(parsed.question, context=context, timeout=parsed.timeout)
    if parsed.json:
        write_line(sys.stdout, result.to_json())
    else:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a character shows "?"
        print_result(Console(no_color=parsed.no_color or None, highlight=False), result)
    if parsed.html is not None:
        _write_page(Path(parsed.html), result)
    return 0


def _write_page(path: Path, result: Result) -> None:
    from ..views.html_file import result_page

    try:
        path.write_text(result_page(result), encoding="utf-8", newline="\n")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error}") from error


def _ask_many(parsed: argparse.Namespace, changes: dict[str, object], context: str | None) -> int:
    """Questions from a file, a pipe, or the one that was typed, to JSON lines. 1 if any could not be answered."""
    from ..formats.files import one_writer
    from ..formats.questions import Finished

    asked = _questions(parsed, context)
    if not parsed.out or not is_plain_file(Path(parsed.out)):
        return _answer_all(parsed, asked, Finished())
    with one_writer(Path(parsed.out), "sdlg ask"):
        before = _answered_before(parsed, changes, asked)
        is_complete = before.count >= len(asked) and not before.again
        return 0 if is_complete else _answer_all(parsed, asked, before)


def _answered_before(parsed: argparse.Namespace, changes: dict[str, object], asked: list[Asked]) -> Finished:
    """Which of the questions the output file has already, made with the same options."""
    from ..formats.questions import finished_lines

    models = {"model": parsed.model, "nli": parsed.nli, "method": parsed.method.replace("-", "_")}
    options = flat_options(asdict(options_from(parsed.preset, changes)))
    run = {**models, **options, **flat_options(asdict(named_setup(parsed)))}
    before = finished_lines(Path(parsed.out), asked, run)
    if before.count:
        left = before.count < len(asked) or before.again
        then = "going on" if left else "nothing is left to do"
        again = f", {len(before.again)} of them broken off and asked again" if before.again else ""
        print(f"sdlg: {parsed.out} holds {before.count} of {len(asked)} results{again}; {then}", file=sys.stderr)
    return before


def _answer_all(parsed: argparse.Namespace, asked: list[Asked], before: Finished) -> int:
    """Write a line for each question that is not done. 1 if any could not be answered."""
    from ..formats.questions import replace_line
    from ..views.progress import progress_line

    with progress_line() as watch:
        with open_output(parsed.out):  # a file that cannot be written is told before anything is loaded
            pipeline = load_pipeline(parsed, watch=watch)
        answer = partial(_answers, parsed, pipeline)
        failed, finished = 0, before.count - len(before.again)
        for place, (line, fine) in zip(before.again, answer([asked[place] for place in before.again]), strict=True):
            replace_line(Path(parsed.out), place, line)
            failed, finished = failed + (not fine), finished + 1
            watch.title = f"{finished}/{len(asked)} done, "
        with open_output(parsed.out) as output:  # not before: the file may be another one by now
            for line, fine in answer(asked[before.count :]):
                write_line(output, line)
                failed, finished = failed + (not fine), finished + 1
                watch.title = f"{finished}/{len(asked)} done, "
    if failed:
        count = len(asked) - before.count + len(before.again)
        print(f"sdlg: {failed} of {count} questions could not be answered; see their error lines", file=sys.stderr)
    return 1 if failed else 0


def _answers(parsed: argparse.Namespace, pipeline: Pipeline, asked: list[Asked]) -> Iterator[tuple[str, bool]]:
    """A line for each question, in their order, and whether it was answered."""
    work = partial(_answer_line, pipeline, parsed.timeout)
    with closing(run_in_flight(work, asked, parsed.in_flight or pipeline.in_flight)) as answers:
        for _, answered in answers:  # an error ends what is under way
            yield answered.result()


def _questions(parsed: argparse.Namespace, context: str | None) -> list[Asked]:
    from ..formats.questions import Asked, read_questions
    from ..records import Question

    if parsed.question is not None:
        return [Asked(1, Question(parsed.question, context))]
    if parsed.file:
        text = read_text(Path(parsed.file))
    elif sys.stdin is None or sys.stdin.isatty():
        raise BadQuestion('no question; type one, for example: sdlg ask "Who wrote Hamlet?" (or --file, or a pipe)')
    else:
        text = read_pipe()
    asked = list(read_questions(text.split("\n"), context))  # not splitlines(): JSON may hold U+2028
    if not asked:
        raise BadQuestion(f"there is no question in {parsed.file or 'the input'}; put one on each line")
    return asked


def _answer_line(pipeline: Pipeline, timeout: float | None, asked: Asked) -> tuple[str, bool]:
    """A server that is gone ends the run: what is left is done when it is started again."""
    from ..formats.lines import seal
    from ..formats.questions import error_line

    if asked.question is None:
        return seal(error_line(asked, asked.error)), False
    try:
        return seal(pipeline.ask(asked.question, timeout=timeout).to_json()), True
    except (ServerFailed, Cancelled):
        raise
    except SdlgError as error:
        return seal(error_line(asked, str(error), retry=isinstance(error, Interrupted))), False
