"""The command line: parse, call, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import SdlgError
from .ask import EXAMPLES, add_ask
from .calibrate import add_calibrate
from .check import add_check
from .evaluate import add_eval
from .files import open_missing_streams
from .flags import Load, Parser
from .listing import add_list, add_path, add_schema
from .mcp import add_mcp
from .models import add_models_command
from .nli import add_nli
from .report import add_report
from .score import add_score
from .serve import add_serve
from .show import add_show

_DEBUG = "--debug"  # of every command: show the traceback


def main(arguments: Sequence[str] | None = None, load: Load | None = None) -> int:
    """Run a command. Return its exit code: 0 fine, 1 the run failed, 2 it was asked wrongly.

    `load` makes the models in place of `Models`, for tests.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    open_missing_streams()
    try:
        parsed = _parser().parse_args([one for one in given if one != _DEBUG])
        parsed.load = load
        code = int(parsed.run(parsed))
        sys.stdout.flush()  # a reader that has gone is noticed here, not at exit
        return code
    except KeyboardInterrupt:
        print("sdlg: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except Exception as error:
        if _DEBUG in given:
            raise
        return _failed(error)


def _drop_output() -> None:
    """Forget what standard output could not take, or the interpreter complains at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    _drop_output()
    if isinstance(error, SdlgError):
        print(f"sdlg: {error}", file=sys.stderr)
        return error.exit_code
    print(f"sdlg: {type(error).__name__}: {error} (add {_DEBUG} for the traceback)", file=sys.stderr)
    return 1


def _parser() -> Parser:
    parser = Parser(prog="sdlg", description="How sure is a language model of what it means?", epilog=EXAMPLES)
    parser.add_argument("--version", action="version", version=f"sdlg {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (
        add_ask, add_check, add_show, add_score, add_eval, add_report, add_calibrate, add_serve, add_models_command,
        add_mcp, add_nli, add_list, add_schema, add_path,
    ):  # fmt: skip
        add(commands)
    return parser
