"""The process of a private llama-server: `python child.py`, started by `private_server`. It needs nothing of ours.

In, on standard input: one line of JSON, what to load and the key (a command line would show it to everybody). Out: one
line, the address. Standard input then stays open as long as whoever started this lives: its end is the end of this
process, however it came. That holds for kill -9, and on every system.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any


def main() -> None:
    """Load, tell the address, wait for the end of whoever started this."""
    wanted = json.loads(sys.stdin.buffer.readline())
    end_with_parent()
    server = _start(wanted)
    print(json.dumps({"address": server.listening_address}), flush=True)
    threading.Event().wait()


def end_with_parent() -> None:
    """End this process when standard input does.

    A thread waits for that. While a model is loaded, which may take long, xllamacpp lets no thread run: Linux is asked
    for a signal as well, whose usual effect is to end the process at once.
    """
    if sys.platform == "linux":
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=_exit_at_end, daemon=True).start()


def _exit_at_end() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)  # there is nothing to finish for nobody


def _start(wanted: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = wanted["file"]
    params.model_alias = {wanted["name"]}
    params.hostnames, params.port = ["127.0.0.1"], 0  # any that is free
    params.api_keys = [wanted["key"]]
    params.n_parallel, params.n_ctx = wanted["slots"], wanted["slots"] * wanted["context_tokens"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = wanted["threads"]
    params.ui = False
    params.cache_ram_mib = 0  # the slot itself holds the prompt; a store of old ones would grow to gigabytes
    if not wanted["gpu"]:
        params.n_gpu_layers = 0
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
