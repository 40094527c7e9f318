"""`sdlg ask --server`: the question goes to an `sdlg serve` that has its models loaded. No model is loaded here."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from ..concurrency.limits import Limit
from ..errors import BadOption, BadQuestion, RunError, ServerFailed, TimedOut
from ..options import DEFAULT_METHOD
from .flags import named_measures, named_models, named_settings
from .serve import KEY

if TYPE_CHECKING:
    from ..result import Result

SERVER = "SDLG_SERVER"
_LONGEST_SECONDS = 600.0


def chosen_server(parsed: argparse.Namespace) -> str | None:
    """Return the server that was named; else that of the environment, unless models or files were named."""
    around = os.environ.get(SERVER)
    if not (parsed.server or around):
        return None
    models = named_models(parsed)
    is_one = parsed.question is not None and not parsed.out
    if parsed.server and models:
        raise BadOption(f"--server asks with the server's own models: leave out {', '.join(models)}")
    if parsed.server and not is_one:
        raise BadOption("--server takes one question: type it, and leave out --file and --out")
    return parsed.server or (around if is_one and not models else None)


def ask_server(address: str, parsed: argparse.Namespace, context: str | None) -> Result:
    """Return the server's result, or raise what it says in its place."""
    from ..schema import result_from_json

    if not address.startswith(("http://", "https://")):
        raise BadOption(f"--server must be an address such as http://127.0.0.1:8077, not {address!r}")
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"
    seconds = Limit(parsed.timeout).remaining() or _LONGEST_SECONDS
    request = Request(f"{address.rstrip('/')}/v1/uncertainty", _body(parsed, context), headers)
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=seconds) as reply:
            return result_from_json(reply.read())
    except HTTPError as error:
        raise _error_of(address, error) from error
    except TimeoutError as error:
        raise TimedOut(f"no answer from {address} within {seconds:.3g} s") from error
    except (URLError, OSError, ValueError, BadQuestion) as error:
        reason = getattr(error, "reason", error)
        raise ServerFailed(
            f"no sdlg server answers at {address} ({reason}); start one with sdlg serve, or leave out --server "
            f"(in the environment: {SERVER})"
        ) from error


def _body(parsed: argparse.Namespace, context: str | None) -> bytes:
    asked = {
        "question": parsed.question,
        "context": context,
        "method": None if parsed.method == DEFAULT_METHOD else parsed.method,
        "preset": None if parsed.preset == "default" else parsed.preset,
        "measures": named_measures(parsed) or None,
        "options": named_settings(parsed) or None,
    }
    return json.dumps({name: value for name, value in asked.items() if value is not None}).encode()


def _error_of(address: str, reply: HTTPError) -> Exception:
    """Return the server's error as ours: of what was asked (4xx), or of the server."""
    try:
        message = str(json.load(reply)["error"]["message"])
    except (ValueError, KeyError, TypeError, OSError):
        message = f"status {reply.code}"
    kind = BadQuestion if reply.code in (400, 413, 422) else RunError
    return kind(f"{address}: {message}")
