"""`sdlg serve` as a command that is disturbed: what it must give is its replies, before and after."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from random import Random

from fakes import fake_models
from sdlg.cli import main

from . import commands
from .children import Child, Outcome, ProcessFault, no_fault

BODIES = [
    {"question": "Question 0?", "samples": 3},
    {"question": "Question 1?", "samples": 4, "method": "multinomial"},
    {"question": "Q?", "answers": [{"text": text, "logprobs": [-1.0]} for text in "ab"], "measures": ["PE"]},
]


def serve() -> int:
    """Run the server, in the child."""
    os.environ.pop("SDLG_SERVER_KEY", None)
    return main(
        ["serve", "--port", str(commands.PORT), "--model", "scripted", "--set", "similarity_model=none"], fake_models
    )


@dataclass
class Session:
    """A server that runs, and its client."""

    child: Child

    @classmethod
    def begin(cls, fault: ProcessFault = no_fault) -> Session:
        return cls(Child(serve, fault))

    def is_up(self, seconds: float = 60.0) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return False
            try:
                with urllib.request.urlopen(f"{url()}/healthz", timeout=2.0):
                    return True
            except OSError:
                time.sleep(0.01)
        return False

    def replies(self) -> list[bytes | None]:
        """One for each body; None: there was none."""
        return [post(body) for body in BODIES]

    def end(self) -> Outcome:
        self.child.send(signal.SIGTERM)
        return self.child.wait(60.0)


def url() -> str:
    return f"http://127.0.0.1:{commands.PORT}"


def post(body: object) -> bytes | None:
    request = urllib.request.Request(
        f"{url()}/v1/uncertainty", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60.0) as reply:
            return bytes(reply.read())
    except urllib.error.HTTPError as refusal:
        raise AssertionError(f"{refusal.code}: {refusal.read()[:300]!r}") from None
    except (OSError, ValueError, EOFError):
        return None
    except Exception as error:  # http.client's own, of a reply that was broken off
        if type(error).__module__ == "http.client":
            return None
        raise


def hang_up_half_way(random: Random) -> None:
    """A client that leaves while it asks, or while it is answered."""
    body = json.dumps(BODIES[random.randrange(3)]).encode()
    lines = ["POST /v1/uncertainty HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    whole = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
    with socket.create_connection(("127.0.0.1", commands.PORT)) as line:
        line.sendall(whole[: random.randint(1, len(whole))])
        time.sleep(random.random() * 0.05)
