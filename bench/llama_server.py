"""A real llama-server (PyPI's xllamacpp) with the embedded GGUF, as a process of its own that can be killed.

    python bench/llama_server.py PORT [SLOTS]

In tests and benchmarks: `with llama_server() as url: …`.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

from sdlg.models.fetching import fetched
from sdlg.options import SMOLLM2

CONTEXT = 2048  # tokens of each slot


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def llama_server(port: int | None = None, slots: int = 4, *, key: str = "") -> Iterator[str]:
    """Start one and wait until it answers; its address with /v1."""
    process, url = start(port or free_port(), slots, key=key)
    try:
        yield url
    finally:
        stop(process)


def start(port: int, slots: int = 4, *, key: str = "") -> tuple[subprocess.Popen[bytes], str]:
    """A process and its address. Whoever starts it stops it."""
    command = [sys.executable, __file__, str(port), str(slots), key]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
                if reply.status == 200:
                    return process, f"http://127.0.0.1:{port}/v1"
        except (URLError, OSError):
            time.sleep(0.1)
    stop(process)
    raise RuntimeError(f"llama-server did not start on port {port}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """At once: it has nothing to lose."""
    process.kill()
    process.wait()


def main(port: str, slots: str = "4", key: str = "") -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(fetched(SMOLLM2))
    params.model_alias = {SMOLLM2}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = int(slots)
    params.n_ctx = CONTEXT * int(slots)
    params.cpuparams.n_threads = 2
    if key:
        params.api_keys = [key]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
