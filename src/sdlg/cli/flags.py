"""Flags that several commands share, and the pipeline they describe.

Only what people use often has a flag of its own; every field of `Options` and `Loading` is reached by `--set`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from ..concurrency.limits import Limit, limited
from ..errors import UsageError
from ..options import (
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    DEFAULT_NLI,
    LOADING,
    METHODS,
    NONE,
    OPTIONS,
    PACKAGED,
    PRESETS,
    Loading,
    read_setting,
    split_keywords,
)
from .files import names_in, quiet_transformers

if TYPE_CHECKING:
    from ..loaded import Models
    from ..pipeline import Pipeline
    from ..progress import Watch

Load = Callable[..., "Models"]  # makes the models of a command: `Models`, or a fake of the tests


class Parser(argparse.ArgumentParser):
    """Like argparse's, with suggestions. What is wrong is raised as `UsageError`, so that `main` says it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        named.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*arguments, **{**named, "allow_abbrev": False})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is not known is an error here, where the flags that there are can be suggested."""
        if self._subparsers is None:  # before argparse takes the value of a mistyped flag for something else
            for one in args[: args.index("--")] if "--" in args else args:
                name = one.partition("=")[0]
                if name.startswith("--") and " " not in name and name not in self._option_string_actions:
                    self.error(f"unknown argument {name}{self._suggestion(name)}")
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = "" if unknown[0].startswith("-") else '; put a text of several words in quotes: "Who wrote Hamlet?"'
            self.error(f"unknown argument {unknown[0]}{hint}")
        return parsed, unknown

    def _suggestion(self, flag: str) -> str:
        own = [name for name in self._option_string_actions if name.startswith("--")]
        flags = {name.lstrip("-").replace("-", "_"): name for name in own}
        if "set" in flags:
            flags = {name: f"--set {name}=VALUE" for name in (*OPTIONS, *LOADING)} | flags
        close = get_close_matches(flag.lstrip("-").replace("-", "_"), flags, n=1)
        return f"; did you mean {flags[close[0]]}?" if close else ""

    def error(self, message: str) -> NoReturn:
        """Raise, instead of printing the usage and ending the process."""
        _, wrong, choices = message.partition("invalid choice: ")
        value, *names = re.findall(r"[\w.-]+", choices) if wrong else [""]
        close = get_close_matches(value, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"{message}{hint} (see {self.prog} --help)")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add --model and --nli."""
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, metavar="NAME",
        help=f"name of sdlg models, hub name, folder, .gguf or server (default: {DEFAULT_MODEL})",
    )  # fmt: skip
    parser.add_argument(
        "--nli", default=DEFAULT_NLI, metavar="NAME",
        help=f"judge of meaning, or self (default: {DEFAULT_NLI})",
    )  # fmt: skip


def add_showing(parser: argparse.ArgumentParser, verbose: str) -> None:
    """Add what a command that makes results does with them."""
    parser.add_argument("--out", metavar="FILE", help="write JSON lines here; started again, it goes on")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    parser.add_argument("--html", metavar="FILE", help="also write the result as a page, in one file")
    parser.add_argument("-v", "--verbose", action="store_true", help=verbose)
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds for each question (default: none)")


def add_set(parser: argparse.ArgumentParser) -> None:
    """Add --set, for every option."""
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], type=read_setting, metavar="NAME=VALUE",
        help="any other option; repeatable (sdlg list options)",
    )  # fmt: skip


def add_setting(parser: argparse.ArgumentParser, name: str, help: str | None = None) -> None:
    """Add a flag of its own for one option, which is short for --set."""
    option = {**OPTIONS, **LOADING}[name]
    shown = help or option.metadata["help"].replace("%", "%%")
    parser.add_argument(
        _flag(name), dest="settings", action="append", default=[], type=partial(named_setting, name),
        metavar="N" if isinstance(option.default, int | float) else "NAME", help=f"{shown} (default: {option.default})",
    )  # fmt: skip


def named_setting(name: str, value: str) -> tuple[str, Any]:
    """Return one option's name and value, from a flag of its own."""
    return read_setting(f"{name}={value}")


def add_asking(parser: argparse.ArgumentParser) -> None:
    """Add what `lazy_pipeline` reads besides the models: method, preset, measures, calibration and options."""
    add_setting(parser, "samples")
    add_setting(parser, "max_tokens", "longest answer, in tokens")
    parser.add_argument("--method", default=DEFAULT_METHOD, metavar="NAME", help=", ".join(METHODS))
    add_measuring(parser)


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Add what is the same for an answer that is made and one that is given."""
    parser.add_argument(
        "--preset", default="default", metavar="NAME", help=f"where options start: {', '.join(PRESETS)}"
    )
    parser.add_argument(
        "--measures", default="", metavar="NAMES",
        help="show these, too: names with commas, or all (sdlg list measures)",
    )  # fmt: skip
    parser.add_argument(
        "--calibration", default=PACKAGED, metavar="FILE",
        help="made by sdlg calibrate; none (default: one of sdlg's own that fits)",
    )  # fmt: skip
    add_set(parser)


def named_settings(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `Options` and `Loading` that were named, by --set or by a flag; the last one counts."""
    return dict(parsed.settings)


def named_models(parsed: argparse.Namespace) -> list[str]:
    """Return the flags that say which models are used and how, as far as they were given."""
    usual = {"model": DEFAULT_MODEL, "nli": DEFAULT_NLI, "calibration": PACKAGED}
    flags = [f"--{name}" for name, default in usual.items() if getattr(parsed, name) != default]
    return [*flags, *(f"--set {name}" for name in named_settings(parsed) if name in LOADING)]


def lazy_pipeline(parsed: argparse.Namespace, **named: Any) -> Pipeline:
    """Return the pipeline that the flags describe. No model is loaded yet; what is wrong is said now.

    `named` goes to `Pipeline`: `watch`, or what a command has no flag for.
    """
    quiet_transformers()
    from ..pipeline import Pipeline

    options, places = split_keywords(named_settings(parsed))
    given = {name: getattr(parsed, name) for name in ("method", "preset", "calibration") if getattr(parsed, name, None)}
    measures = named_measures(parsed)
    return Pipeline(models=_models(parsed, places), **{"measures": measures, **given, **options, **named})


def named_measures(parsed: argparse.Namespace) -> list[str]:
    """Return the measures that were named; `all` stands for every one."""
    names = names_in(getattr(parsed, "measures", ""))
    if names != ["all"]:
        return names
    from ..measures.table import all_measures

    return list(all_measures())


def _models(parsed: argparse.Namespace, places: Mapping[str, Any]) -> Models:
    from ..loaded import Models

    load: Load = getattr(parsed, "load", None) or Models
    model, nli = (None if name == NONE else name for name in (parsed.model, parsed.nli))
    return load(model, nli, Loading(**places))


def load_models(
    parsed: argparse.Namespace, pipeline: Pipeline, watch: Watch | None = None, *, judge: bool = True
) -> None:
    """Load the models of a lazy pipeline; the judge may wait. A model server has no more time than for a question."""
    from ..models import is_address
    from ..progress import Progress

    seconds = getattr(parsed, "timeout", None) if is_address(parsed.model) else None
    with limited(Limit(seconds)):
        pipeline.models.load(lambda what: watch(Progress("load", what)) if watch else None, judge=judge)
