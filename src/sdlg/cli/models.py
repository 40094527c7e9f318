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
  sdlg models check http://127.0.0.1:8000/v1#my-model --json
  OPENAI_BASE_URL=https://example.org/v1 OPENAI_API_KEY=… sdlg models check server#my-model

How to start vLLM and llama-server: docs/engines.md.
"""


def add_models_command(commands: Any) -> None:
    """Add the command and its flags."""
    models = commands.add_parser("models", help="ask a model server what it can do")
    actions = models.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser("check", help="what a server can do, and which methods work with it", epilog=_EXAMPLES)
    check.set_defaults(run=_check)
    check.add_argument("address", metavar="URL", help="http://host:port/v1#name, or server#name for OPENAI_BASE_URL")
    check.add_argument("--tokenizer", help="for a server that does not name its own: hub name or folder")
    check.add_argument("--retry-seconds", type=float, default=10.0, metavar="S", help="seconds to wait (default: 10)")
    check.add_argument("--json", action="store_true", help="for programs")


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
