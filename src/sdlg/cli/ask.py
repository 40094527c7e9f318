"""`sdlg ask`: questions in, answers and how sure the model is of them out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..concurrency.limits import Limit
from ..errors import BadOption, BadQuestion, Cancelled, Interrupted, SdlgError, ServerFailed
from ..options import options_from, split_keywords
from .files import alone, check_output, open_output, read_pipe, read_text, write_line
from .flags import add_asking, add_models, add_showing, lazy_pipeline, load_models, named_settings
from .show import check_page, print_results, write_page

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..result import Result
    from .question_files import Asked, Finished

EXAMPLES = """examples:
  sdlg ask "Who wrote Hamlet?"
  sdlg ask "Who is she?" --context @story.txt --samples 5 --set temperature=0.7
  sdlg ask "Who wrote Hamlet?" --json | jq .semantic_entropy
  sdlg ask --file questions.txt --out results.jsonl      # start again to resume
  sdlg ask "Who?" --model http://127.0.0.1:8000/v1#name  # vLLM, llama-server, …
  sdlg ask "Who?" --server http://127.0.0.1:8077         # a running sdlg serve
"""


def add_ask(commands: Any) -> None:
    """Add the command and its flags."""
    ask = commands.add_parser(
        "ask", help="answer questions and say how sure the model is of what it means",
        usage="sdlg ask [QUESTION] [options]", epilog=EXAMPLES,
        description="Answer a question, explore likely answers with other meanings, and measure the\n"
        "semantic entropy: how sure the model is of what it means.",
    )  # fmt: skip
    ask.set_defaults(run=_ask)
    ask.add_argument("question", nargs="?", metavar="QUESTION", help="left out: a pipe is read, one question a line")
    ask.add_argument("--file", metavar="FILE", help="questions, one a line: text, or JSON with context")
    ask.add_argument("--context", metavar="TEXT|@FILE", help="a text to read before the question")
    add_showing(ask, "also show the alternatives, notes and cost")
    ask.add_argument("--server", metavar="URL", help="ask a running sdlg serve (default: SDLG_SERVER)")
    add_models(ask)
    add_asking(ask)


def _ask(parsed: argparse.Namespace) -> int:
    """Check all that was named before any model is loaded, then ask."""
    from .through_server import chosen_server

    options_from(parsed.preset, split_keywords(named_settings(parsed))[0])
    Limit(parsed.timeout)
    context = _context(parsed.context)
    if parsed.question is not None and parsed.file:
        raise BadOption("give a question or --file, not both")
    is_one = parsed.question is not None and not parsed.out
    if parsed.html is not None:
        if not is_one:
            raise BadOption("--html shows one question: type it, and leave out --file and --out")
        check_page(Path(parsed.html))
    check_output(parsed.out)
    server = chosen_server(parsed)
    return _ask_one(parsed, context, server) if is_one else answer_many(parsed, _questions(parsed, context))


def _context(value: str | None) -> str | None:
    return read_text(Path(value[1:])) if value is not None and value.startswith("@") else value


def _ask_one(parsed: argparse.Namespace, context: str | None, server: str | None) -> int:
    from ..questions import checked_question
    from ..views.progress import progress_line
    from .through_server import ask_server

    question = checked_question(parsed.question, context)
    with progress_line() as watch:
        if server:
            result = ask_server(server, parsed, context)
        else:
            with lazy_pipeline(parsed, watch=watch) as pipeline:
                load_models(parsed, pipeline, watch, judge=False)  # nobody waits for it to see the first word
                result = pipeline.ask(question, timeout=parsed.timeout)
    return show_result(parsed, result)


def show_result(parsed: argparse.Namespace, result: Result) -> int:
    """Print one result as the flags say."""
    if parsed.json:
        write_line(sys.stdout, result.to_json())
    else:
        print_results([result], verbose=parsed.verbose)
    if parsed.html is not None:
        write_page(Path(parsed.html), result)
    return 0


# -- many questions ---------------------------------------------------------------------------------------------


def answer_many(parsed: argparse.Namespace, asked: list[Asked]) -> int:
    """Ask questions, or check answers, and write JSON lines. 1 if any has no result."""
    from ..views.progress import progress_line
    from .question_files import Finished, finished_lines

    out = parsed.out
    with progress_line() as watch, lazy_pipeline(parsed, watch=watch) as pipeline, alone(out, "sdlg ask"):
        before = finished_lines(Path(out), asked, pipeline) if out else Finished()
        is_complete = before.count >= len(asked) and not before.again
        if before.count:
            then = "nothing is left to do" if is_complete else "going on"
            again = f", {len(before.again)} of them broken off and asked again" if before.again else ""
            print(f"sdlg: {out} holds {before.count} of {len(asked)} results{again}; {then}", file=sys.stderr)
        return 0 if is_complete else _answer_all(parsed, pipeline, watch, asked, before)


def _questions(parsed: argparse.Namespace, context: str | None) -> list[Asked]:
    from ..questions import checked_question
    from .question_files import Asked, read_questions

    if parsed.question is not None:
        return [Asked(1, checked_question(parsed.question, context))]
    if parsed.file:
        text = read_text(Path(parsed.file))
    elif sys.stdin is None or sys.stdin.isatty():
        raise BadQuestion('no question; type one, for example: sdlg ask "Who wrote Hamlet?" (or --file, or a pipe)')
    else:
        text = read_pipe()
    asked = list(read_questions(text, context))
    if not asked:
        raise BadQuestion(f"there is no question in {parsed.file or 'the input'}; put one on each line")
    return asked


def _answer_all(
    parsed: argparse.Namespace, pipeline: Pipeline, watch: Any, asked: list[Asked], before: Finished
) -> int:
    """Write a line for each question that is not done. 1 if any could not be answered."""
    from ..sampling import check_method, check_reads_texts
    from .question_files import replace_line

    with open_output(parsed.out):  # a file that cannot be written is an error before anything is loaded
        load_models(parsed, pipeline, watch)
    if any(one.answer is None for one in asked):  # or every line would be the same error
        check_method(pipeline.method, pipeline.models.language_model, pipeline.options)
    if any(one.answer is not None for one in asked):
        check_reads_texts(pipeline.models.language_model)
    failed, finished = 0, before.count - len(before.again)

    def count(fine: bool) -> None:
        nonlocal failed, finished
        failed, finished = failed + (not fine), finished + 1
        watch.title = f"{finished}/{len(asked)} done, "

    answer = partial(_answers, pipeline, parsed.timeout)
    for place, (line, fine) in zip(before.again, answer([asked[place] for place in before.again]), strict=True):
        replace_line(Path(parsed.out), place, line)
        count(fine)
    with open_output(parsed.out) as output:  # not before: replacing a line makes another file
        for line, fine in answer(asked[before.count :]):
            write_line(output, line)
            count(fine)
    if failed:
        total = len(asked) - before.count + len(before.again)
        print(f"sdlg: {failed} of {total} questions could not be answered; see their error lines", file=sys.stderr)
    return 1 if failed else 0


def _answers(pipeline: Pipeline, timeout: float | None, asked: list[Asked]) -> Iterator[tuple[str, bool]]:
    """Yield a line for each question, in their order, and whether it was answered."""
    from ..concurrency.in_flight import run_in_flight

    work = partial(_answer_line, pipeline, timeout)
    with closing(run_in_flight(work, asked, pipeline.in_flight)) as answers:
        for _, answered in answers:  # an error ends what is under way
            yield answered.result()


def _answer_line(pipeline: Pipeline, timeout: float | None, asked: Asked) -> tuple[str, bool]:
    """Return the line of one question. A server that is gone ends the run, which can be resumed."""
    from ..files import seal

    if asked.question is None:
        return asked.error_line(asked.error), False
    try:
        if asked.answer is not None:
            return seal(pipeline.check(asked.question, asked.answer, timeout=timeout).to_json()), True
        return seal(pipeline.ask(asked.question, timeout=timeout).to_json()), True
    except (ServerFailed, Cancelled):
        raise
    except SdlgError as error:
        return asked.error_line(str(error), retry=isinstance(error, Interrupted)), False
    except Exception as error:  # whatever is wrong with one question, the others are answered
        return asked.error_line(f"{type(error).__name__}: {error}"), False
