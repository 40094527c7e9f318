"""`sdlg serve`: questions over HTTP, for OpenAI's clients and for browsers."""

from __future__ import annotations

import argparse
import os
import sys
from ipaddress import ip_address
from typing import Any

from ..errors import BadOption
from ..options import options_from
from ..serving.settings import Limits, Settings
from .flags import add_asking, add_models, add_options, load_pipeline, named_options

KEY = "SDLG_SERVER_KEY"

_EXAMPLES = f"""examples:
  sdlg serve                                             # the embedded models, on http://127.0.0.1:8077
  sdlg serve --samples 5 --max-tokens 32 --queue 32 --deadline 30
  sdlg serve --model http://127.0.0.1:8000/v1#my-model   # before a model server: vLLM, llama-server, …
  {KEY}=$(openssl rand -hex 24) sdlg serve --host 0.0.0.0

  curl http://127.0.0.1:8077/v1/uncertainty -H 'Content-Type: application/json' -d '{{"question": "Who wrote Hamlet?"}}'

the key is read from the environment ({KEY}); clients send it as `Authorization: Bearer KEY`
Ctrl-C finishes what is done within --grace seconds, refuses what waits, then exits; a second one stops at once
"""


def add_serve(commands: Any) -> None:
    """The command and its flags."""
    serve = commands.add_parser(
        "serve", help="answer questions over HTTP, as OpenAI's clients expect it, and in the browser",
        description="Serve answers and how sure the model is of them: OpenAI's API, our own, and a page.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    serve.set_defaults(run=_serve)
    serve.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1, this machine only)")
    serve.add_argument("--port", type=int, default=8077, metavar="N", help="default: 8077; 0: any that is free")
    _add_limits(serve)
    serve.add_argument("--allow-anyone", action="store_true", help=f"listen beyond this machine without a key ({KEY})")
    serve.add_argument(
        "--allow-origin", action="append", default=[], metavar="URL", help="a page that may read answers (CORS)"
    )
    serve.add_argument("--debug", action="store_true", help="show tracebacks")
    add_asking(add_models(serve))
    add_options(serve)


def _add_limits(serve: argparse.ArgumentParser) -> None:
    """How much may be asked, and how long it may take: the defaults are the settings'."""
    usual = Settings()
    for flag, sort, default, text in (
        ("--queue", int, usual.queue, "requests that may wait"),
        ("--deadline", float, usual.deadline, "seconds per request"),
        ("--grace", float, usual.grace, "seconds to finish answers in when told to stop"),
        ("--limit-samples", int, usual.limits.samples, "most per request"),
        ("--limit-tokens", int, usual.limits.max_tokens, "longest answer"),
        ("--limit-characters", int, usual.limits.prompt_characters, "longest prompt"),
        ("--limit-work", int, usual.limits.given_work, "characters that models read to measure given answers"),
    ):
        shown = {int: "N", float: "S"}[sort]
        serve.add_argument(flag, type=sort, default=default, metavar=shown, help=f"{text} (default: {default:.10g})")


def _serve(parsed: argparse.Namespace) -> int:
    options_from(parsed.preset, named_options(parsed))  # a wrong option is told before anything is loaded
    settings = _settings(parsed)
    try:
        from ..serving.listening import end_process, open_socket, serve
    except ModuleNotFoundError as error:
        raise BadOption(f"{error}. The server is an extra: pip install 'sdlg[serve]'") from error
    with open_socket(parsed.host, parsed.port) as listener:
        app, address = _app(parsed, settings), _address(parsed.host, listener.getsockname()[1])
        told = f"sdlg: {app.state.service.engine.name} on {address}"
        end_process(0 if serve(app, listener, lambda: print(told, flush=True)) else 130)


def _settings(parsed: argparse.Namespace) -> Settings:
    key = os.environ.get(KEY, "").strip() or None
    local = is_loopback(parsed.host)
    if not local and key is None and not parsed.allow_anyone:
        raise BadOption(
            f"anyone who can reach {parsed.host} could use the model: set a key in {KEY}, or say --allow-anyone"
        )
    if not 0 <= parsed.port <= 65_535:
        raise BadOption(f"--port must be from 0 to 65535, not {parsed.port}")
    limits = Limits(
        parsed.limit_samples, parsed.limit_tokens, parsed.limit_characters, given_work=parsed.limit_work
    )  # fmt: skip
    return Settings(
        queue=parsed.queue, deadline=parsed.deadline, grace=parsed.grace, key=key,
        hosts=_hosts(parsed.host) if local else (), origins=tuple(parsed.allow_origin), in_flight=parsed.in_flight,
        limits=limits,
    )  # fmt: skip


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _hosts(host: str) -> tuple[str, ...]:
    own = f"[{host}]" if ":" in host else host.lower()
    return tuple(dict.fromkeys((own, "localhost", "127.0.0.1", "[::1]")))


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _app(parsed: argparse.Namespace, settings: Settings) -> Any:
    from ..models import checked_name
    from ..sampling import check_method
    from ..serving.app import create_app

    print(f"sdlg: loading {checked_name(parsed.model)} …", file=sys.stderr)
    similarity = None if parsed.similarity_model == "none" else parsed.similarity_model
    pipeline = load_pipeline(parsed, similarity_model=similarity)
    check_method(pipeline.method, pipeline.model, pipeline.options)  # what every question would need
    return create_app(pipeline, settings)
