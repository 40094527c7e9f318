"""`sdlg models check`: what a model server can do, and what that means for each method."""

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
  sdlg models check http://127.0.0.1:8000/v1                # the only model there
  sdlg models check http://127.0.0.1:8000/v1#my-model
  OPENAI_BASE_URL=https://example.org/v1 OPENAI_API_KEY=… sdlg models check server#my-model
  sdlg models check http://127.0.0.1:8080/v1 --json

How to start vLLM and llama-server: docs/engines.md.
"""


def add_models_command(commands: Any) -> None:
    """The command and its flags."""
    models = commands.add_parser("models", help="ask a model server what it can do")
    actions = models.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser(
        "check", help="what a server can do, and which methods work with it",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    check.set_defaults(run=_check)
    check.add_argument("address", metavar="URL", help="http://host:port/v1#name, or server#name for OPENAI_BASE_URL")
    check.add_argument("--tokenizer", help="for a server that does not name its own: hub name or folder")
    check.add_argument("--retry-seconds", type=float, default=10.0, metavar="S", help="seconds to wait (default: 10)")
    check.add_argument("--json", action="store_true", help="for programs")
    check.add_argument("--debug", action="store_true", help="show tracebacks")


def _check(parsed: argparse.Namespace) -> int:
    quiet_transformers()
    from ..models.server.served import connect

    model = connect(parsed.address, tokenizer=parsed.tokenizer, retry_seconds=parsed.retry_seconds)
    methods = _methods(model)
    if parsed.json:
        print(json.dumps({**asdict(model.server), "exact": model.server.exact, "methods": methods}, indent=1))
        return 0
    print(f"{model.name}")
    for name, value in _rows(model.server):
        print(f"  {name:<28}{value}")
    for name, reason in methods.items():
        print(f"  --method {name:<19}{reason or 'works'}")
    for note in model.server.shortcomings:
        print(f"  note: {note}")
    return 0


def _rows(server: ServerCapabilities) -> list[tuple[str, str]]:
    unknown = "does not say"
    how_many = f"{server.top_logprobs} a step" if server.top_logprobs else "none"
    return [
        ("server", f"{server.kind} {server.version}".strip()),
        ("endpoint", f"/v1/{'chat/' if server.endpoint == 'chat' else ''}completions"),
        ("prompts as token ids", _yes_or_no(server.takes_ids)),
        ("token ids in replies", _yes_or_no(server.tells_ids)),
        ("log-probabilities", how_many),
        ("of the model itself (raw)", unknown if server.raw_logprobs is None else _yes_or_no(server.raw_logprobs)),
        ("prefix cache", unknown if server.prefix_cache is None else _yes_or_no(server.prefix_cache)),
        ("context", f"{server.context_tokens} tokens" if server.context_tokens else unknown),
        *([("slots", str(server.slots))] if server.slots else []),
    ]


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _methods(model: ServedModel) -> dict[str, str]:
    """Method → why it does not work; nothing: it does."""
    from ..errors import UsageError
    from ..options import METHODS, Options
    from ..sampling import check_method

    reasons = {}
    for name in METHODS:
        try:
            check_method(name, model, Options())
            reasons[name] = ""
        except UsageError as reason:
            reasons[name] = str(reason)
    return reasons
