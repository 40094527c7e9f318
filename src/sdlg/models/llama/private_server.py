"""A llama-server of our own: a process that loads one GGUF file, listens on loopback, and ends when we do.

In: a file and how much of the machine it may have. Out: an address with a key that only this process has. Whoever asks
for the same file in the same way gets the same server; it ends when nobody holds it, or when this process is gone.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import weakref
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ...concurrency.limits import wait_for
from ...errors import ModelNotFound, ServerFailed
from ..server.address import Address, Secret

_CHILD = Path(__file__).with_name("child.py")
_shared: weakref.WeakValueDictionary[tuple[object, ...], PrivateServer] = weakref.WeakValueDictionary()
_starting = threading.Lock()


def has_llama() -> bool:
    """Whether xllamacpp is installed."""
    return find_spec("xllamacpp") is not None


@dataclass(frozen=True, slots=True)
class ServerSize:
    """How much of the machine a server has."""

    context_tokens: int  # of each slot
    slots: int  # questions at once
    threads: int
    gpu: bool  # whether layers may go to a GPU, if there is one


def shared_server(file: Path, size: ServerSize) -> PrivateServer:
    """The server of this process for this file; started, if there is none or it has ended."""
    state = file.stat()
    key = (file.resolve(), state.st_size, state.st_mtime_ns, size, os.getpid())  # a fork starts its own
    with _starting:  # together, they would each load everything
        server = _shared.get(key)
        if server is None or server.end_reason() is not None:
            server = _shared[key] = PrivateServer(file, size)
        return server


class PrivateServer:
    """A running llama-server. It ends with `stop`, or when nobody holds it."""

    def __init__(self, file: Path, size: ServerSize) -> None:
        self._file = file
        key = Secret(secrets.token_urlsafe(32))
        # A line on standard input, not an argument: all users of a machine can read command lines.
        wanted = {"file": str(file.resolve()), "name": file.stem, "key": key.reveal(), **asdict(size)}
        with tempfile.TemporaryFile() as log:
            self._process = _start(wanted, log)
            self.stop = weakref.finalize(self, _stop, self._process, os.getpid())
            try:
                url = _announced_address(self._process)
            except BaseException:
                self.stop()
                raise
            if url is None:
                raise ModelNotFound(f"llama.cpp cannot load {file}: {_last_error(log) or 'it gives no reason'}")
        self.address = Address(f"{url}/v1", file.stem, key)

    @property
    def process_id(self) -> int:
        """Of the server."""
        return self._process.pid

    def end_reason(self) -> str | None:
        """Why the server is no more; None: it runs."""
        code = self._process.poll()
        if code is None:
            return None
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"the llama-server of {self._file} {how}; was there too little memory?"


def _start(wanted: dict[str, object], log: IO[bytes]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-P", str(_CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        start_new_session=True,  # Ctrl-C is for us: what is under way may still need the server
    )  # fmt: skip
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(wanted).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError as error:
        process.wait()
        raise ServerFailed("the process of a llama-server ended before it began") from error
    return process


def _announced_address(process: subprocess.Popen[bytes]) -> str | None:
    """What the process says when its model is loaded. None: it could not. Waiting ends with the caller's deadline."""
    line: Future[bytes] = Future()
    assert process.stdout is not None
    stdout = process.stdout

    def read() -> None:
        line.set_result(stdout.readline())

    threading.Thread(target=read, name="sdlg-llama-start", daemon=True).start()
    announced = wait_for(line)
    return str(json.loads(announced)["address"]) if announced else None


def _stop(process: subprocess.Popen[bytes], owner: int) -> None:
    """At once: it has nothing to lose. A fork of the process that started it leaves it alone."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _last_error(log: IO[bytes]) -> str:
    """What llama.cpp said last of what went wrong, without its time stamps."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").splitlines()
    errors = [line.split(" E ", 1)[1].strip() for line in lines if " E " in line]
    return "; ".join(dict.fromkeys(errors[:2])) or (lines[-1].strip() if lines else "")
