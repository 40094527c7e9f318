"""Commands in processes of their own, forked from one that has imported everything: a case takes about a second.

In: what to run, and a fault for its process. Out: how it ended, and what it wrote.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

ProcessFault = Callable[[], None]  # called in the child before the work begins
SECONDS = 300.0  # after this it hangs, also on a machine that others use


def no_fault() -> None:
    """Leave the process alone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended."""

    code: int  # negative: by this signal
    output: str  # on both streams

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def check_message(self) -> None:
        """Raise if a user would have seen a traceback, or an error that is not one of ours."""
        assert "Traceback" not in self.output, self.output[-2000:]
        assert "add --debug" not in self.output, f"an error that is not ours: {self.output[-500:]}"


class Child:
    """A process that was begun."""

    def __init__(self, work: Callable[[], int], fault: ProcessFault = no_fault) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            _be_child(work, fault, writing)
        os.close(writing)

    def wait(self, seconds: float = SECONDS) -> Outcome:
        said, end = b"", time.monotonic() + seconds
        try:
            while True:
                ready, _, _ = select.select([self._reading], [], [], max(end - time.monotonic(), 0.0))
                if not ready:
                    raise AssertionError(f"still running after {seconds:g} s; it said: {said.decode()[-500:]}")
                block = os.read(self._reading, 65536)
                if not block:
                    break
                said += block
        finally:
            os.close(self._reading)
            self.kill()
            _, status = os.waitpid(self.pid, 0)
        return Outcome(os.waitstatus_to_exitcode(status), said.decode(errors="replace"))

    def kill(self) -> None:
        """Kill a process that hangs: one that has closed its output is ending by itself."""
        end = time.monotonic() + 5.0
        while time.monotonic() < end:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
            time.sleep(0.002)
        os.kill(self.pid, signal.SIGKILL)

    def send(self, number: int) -> None:
        os.kill(self.pid, number)


def run_in_child(work: Callable[[], int], fault: ProcessFault = no_fault) -> Outcome:
    return Child(work, fault).wait()


def _be_child(work: Callable[[], int], fault: ProcessFault, writing: int) -> None:
    """Run the work and end the process: the parent's buffers and handlers are not ours."""
    code = 70
    try:
        for number in (1, 2):
            os.dup2(writing, number)
        os.close(writing)
        sys.stdin = open(os.devnull)  # noqa: SIM115 (for the whole process)
        time.perf_counter = lambda: 0.0  # all that differs between two runs: without it they are the same to the bit
        fault()
        code = work()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.setprofile(None)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
