"""`sdlg serve`: questions over HTTP, for OpenAI's clients and for browsers."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from ..errors import BadOption
from ..serving.settings import LIMITS, Settings, read_limit
from .flags import add_asking, add_models, lazy_pipeline, load_models

if TYPE_CHECKING:
    from ..pipeline import Pipeline

KEY = "SDLG_SERVER_KEY"

_EXAMPLES = f"""examples:
  sdlg serve                                           # on http://127.0.0.1:8077
  sdlg serve --model http://127.0.0.1:8000/v1#my-model # before vLLM, llama-server, …
  {KEY}=$(openssl rand -hex 24) sdlg serve --host 0.0.0.0
  curl http://127.0.0.1:8077/v1/uncertainty -H 'Content-Type: application/json' \\
    -d '{{"question": "Who wrote Hamlet?"}}'

clients send the key of {KEY} as `Authorization: Bearer KEY`
"""


def add_serve(commands: Any) -> None:
    """Add the command and its flags."""
    serve = commands.add_parser(
        "serve", help="answer questions over HTTP, for OpenAI's clients and in the browser",
        usage="sdlg serve [options]", epilog=_EXAMPLES,
        description="Serve answers and how sure the model is of them: OpenAI's API, our own, and a page.",
    )  # fmt: skip
    serve.set_defaults(run=_serve)
    serve.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1, this machine only)")
    serve.add_argument("--port", type=int, default=8077, metavar="N", help="default: 8077; 0: any that is free")
    _add_limit(serve, "queue", "requests that may wait")
    _add_limit(serve, "deadline", "seconds per request")
    serve.add_argument(
        "--limit", dest="limits", action="append", default=[], type=read_limit, metavar="NAME=VALUE",
        help="any other limit (docs/reference/server.md); repeatable",
    )  # fmt: skip
    serve.add_argument("--allow-anyone", action="store_true", help="listen beyond this machine without a key")
    serve.add_argument(
        "--allow-origin", action="append", default=[], metavar="URL", help="a page that may read answers (CORS)"
    )
    add_models(serve)
    add_asking(serve)


def _add_limit(serve: argparse.ArgumentParser, name: str, help: str) -> None:
    serve.add_argument(
        f"--{name}", dest="limits", action="append", default=[], type=partial(_limit, name), metavar="N",
        help=f"{help} (default: {LIMITS[name]:g})",
    )  # fmt: skip


def _limit(name: str, value: str) -> tuple[str, int | float]:
    return read_limit(f"{name}={value}")


def _serve(parsed: argparse.Namespace) -> int:
    settings = _settings(parsed)
    try:
        from ..serving.listening import end_process, open_socket, serve
    except ModuleNotFoundError as error:
        raise BadOption(f"{error}. The server is an extra: pip install 'sdlg[serve]'") from error
    pipeline = lazy_pipeline(parsed)  # a wrong option is an error before anything is loaded
    with open_socket(parsed.host, parsed.port) as listener:
        host, port = f"[{parsed.host}]" if ":" in parsed.host else parsed.host, listener.getsockname()[1]
        app, name = _app(parsed, pipeline, settings), pipeline.models.model_name
        started = partial(print, f"sdlg: {name} on http://{host}:{port}", flush=True)
        end_process(0 if serve(app, listener, started) else 130)


def _app(parsed: argparse.Namespace, pipeline: Pipeline, settings: Settings) -> Any:
    from ..sampling import check_method
    from ..serving.app import create_app

    print(f"sdlg: loading {pipeline.models.model_name} …", file=sys.stderr)
    load_models(parsed, pipeline)
    check_method(pipeline.method, pipeline.models.language_model, pipeline.options)  # what every question would need
    return create_app(pipeline, settings)


def _settings(parsed: argparse.Namespace) -> Settings:
    key, is_local = os.environ.get(KEY, "").strip() or None, is_loopback(parsed.host)
    if not is_local and key is None and not parsed.allow_anyone:
        raise BadOption(
            f"anyone who can reach {parsed.host} could use the model: set a key in {KEY}, or say --allow-anyone"
        )
    if not 0 <= parsed.port <= 65_535:
        raise BadOption(f"--port must be from 0 to 65535, not {parsed.port}")
    own = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    hosts = (own, "localhost", "127.0.0.1", "[::1]") if is_local else ()
    return Settings(**dict(parsed.limits), key=key, hosts=hosts, origins=tuple(parsed.allow_origin))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
