"""`sdlg models`: what can be fetched by name and what is here; what a model server can do."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .files import quiet_transformers

if TYPE_CHECKING:
    from ..models.server.capabilities import ServerCapabilities
    from ..models.server.served import ServedModel

_EXAMPLES = """examples:
  sdlg models                              # what can be fetched, and what is here
  sdlg models get qwen2.5-coder-1.5b       # fetch it now, or check all of it if it is here
  sdlg models remove smollm2
  sdlg models check http://127.0.0.1:8000/v1

They are kept in the folder models of SDLG_HOME. With SDLG_OFFLINE=1 or HF_HUB_OFFLINE=1 nothing is fetched.
"""
_CHECK_EXAMPLES = """examples:
  sdlg models check http://127.0.0.1:8000/v1                # the only model there
  sdlg models check http://127.0.0.1:8000/v1#my-model --json
  OPENAI_BASE_URL=https://example.org/v1 OPENAI_API_KEY=… sdlg models check server#my-model

How to start vLLM and llama-server: docs/guides/model-servers.md.
"""


def add_models_command(commands: Any) -> None:
    """Add the command and its flags."""
    models = commands.add_parser("models", help="list, fetch and remove models; check a model server", epilog=_EXAMPLES)
    models.set_defaults(run=_list)
    models.add_argument("--json", action="store_true", help="for programs")
    actions = models.add_subparsers(metavar="ACTION")
    for name, run, does in (
        ("get", _get, "fetch a model, or check its files and fetch it anew if one is damaged"),
        ("check-files", _check_files, "read all files of a model and compare their hashes"),
        ("remove", _remove, "delete the files of a model, and what was converted from them"),
    ):
        action = actions.add_parser(name, help=does)
        action.set_defaults(run=run)
        action.add_argument("name", metavar="NAME", help="a name of `sdlg models`")
    check = actions.add_parser("check", help="what a server can do, and which methods work", epilog=_CHECK_EXAMPLES)
    check.set_defaults(run=_check)
    check.add_argument("address", metavar="URL", help="http://host:port/v1#name, or server#name for OPENAI_BASE_URL")
    check.add_argument("--tokenizer", help="for a server that does not name its own: hub name or folder")
    check.add_argument("--retry-seconds", type=float, default=10.0, metavar="S", help="seconds to wait (default: 10)")
    check.add_argument("--json", action="store_true", help="for programs")


# -- models of the catalogue ------------------------------------------------------------------------------------------


def _list(parsed: argparse.Namespace) -> int:
    from ..models.catalogue import CATALOGUE
    from ..models.fetching import held, size_text

    here = {name: held(model) for name, model in CATALOGUE.items()}
    if parsed.json:
        rows = [
            {"name": name, "summary": model.summary, "licence": model.licence, "bytes": model.size,
             "path": str(here[name]) if here[name] else None}
            for name, model in CATALOGUE.items()
        ]  # fmt: skip
        print(json.dumps(rows, indent=1))
        return 0
    for name, model in CATALOGUE.items():
        print(f"{name:<20}{size_text(model.size):>7}  {model.licence:<20}{here[name] or f'sdlg models get {name}'}")
        print(f"    {model.summary}")
    return 0


def _get(parsed: argparse.Namespace) -> int:
    from ..models.catalogue import known_model
    from ..models.fetching import fetch_or_check
    from ..views.progress import fetch_bar

    with fetch_bar() as watch:
        print(fetch_or_check(known_model(parsed.name), watch))
    return 0


def _check_files(parsed: argparse.Namespace) -> int:
    from ..models.catalogue import known_model
    from ..models.fetching import damaged_files

    damaged = damaged_files(known_model(parsed.name))
    for path in damaged:
        print(f"{path} is damaged; run: sdlg models get {parsed.name}")
    if not damaged:
        print(f"{parsed.name}: all files are as they should be")
    return 1 if damaged else 0


def _remove(parsed: argparse.Namespace) -> int:
    from ..models.catalogue import known_model
    from ..models.fetching import held, remove, size_text

    model = known_model(parsed.name)
    freed = remove(model)
    print(f"{model.name}: {size_text(freed)} freed" if freed else f"{model.name}: nothing of it is in the home folder")
    if left := held(model):
        print(f"{left} is of an installed package; run: pip uninstall {model.pieces[0].requirement.split('==')[0]}")
    return 0


# -- a model server ---------------------------------------------------------------------------------------------------


def _check(parsed: argparse.Namespace) -> int:
    quiet_transformers()
    from ..models.server.served import connect

    model = connect(parsed.address, tokenizer=parsed.tokenizer, retry_seconds=parsed.retry_seconds)
    methods = _methods(model)
    if parsed.json:
        print(json.dumps({**asdict(model.server), "exact": model.server.exact, "methods": methods}, indent=1))
        return 0
    rows = {**_facts(model.server), **{f"--method {name}": reason or "works" for name, reason in methods.items()}}
    print(model.name)
    for name, value in rows.items():
        print(f"  {name:<28}{_word(value)}")
    for note in model.server.shortcomings:
        print(f"  note: {note}")
    return 0


def _facts(server: ServerCapabilities) -> dict[str, str | bool | None]:
    return {
        "server": f"{server.kind} {server.version}".strip(),
        "endpoint": f"/v1/{'chat/' if server.endpoint == 'chat' else ''}completions",
        "prompts as token ids": server.takes_ids,
        "token ids in replies": server.tells_ids,
        "log-probabilities": f"{server.top_logprobs} a step" if server.top_logprobs else "none",
        "of the model itself (raw)": server.raw_logprobs,
        "prefix cache": server.prefix_cache,
        "context": f"{server.context_tokens} tokens" if server.context_tokens else None,
        **({"slots": str(server.slots)} if server.slots else {}),
    }


def _word(value: str | bool | None) -> str:
    return value if isinstance(value, str) else {True: "yes", False: "no", None: "does not say"}[value]


def _methods(model: ServedModel) -> dict[str, str]:
    """Return for each method why it does not work; empty: it does."""
    from ..errors import UsageError
    from ..options import METHODS, Options
    from ..sampling import check_method

    reasons = dict.fromkeys(METHODS, "")
    for name in METHODS:
        try:
            check_method(name, model, Options())
        except UsageError as reason:
            reasons[name] = str(reason)
    return reasons
