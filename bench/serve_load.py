"""`sdlg serve` under load: 64 clients on loopback, beside the bare engine in the same run.

    python bench/serve_load.py                        # 60 s of load, embedded models
    python bench/serve_load.py --seconds 10 --clients 16

Three phases, repeated in turns so that other work on the machine hits all alike: the bare engine (a loop around
`Pipeline.ask` in a process of its own), one client after the other (latency), many clients at once (throughput).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

import httpx2

from sdlg.options import SMOLLM2

SAMPLES, TOKENS = 3, 8
THINGS = (
    "Hamlet",
    "the Iliad",
    "Faust",
    "Don Quixote",
    "Emma",
    "Ulysses",
    "the Aeneid",
    "Dracula",
    "Walden",
    "Candide",
)

SERVE = [
    sys.executable, "-m", "sdlg.cli", "serve", "--port", "0", "--model", SMOLLM2, "--samples", str(SAMPLES),
    "--max-tokens", str(TOKENS),
]  # fmt: skip
BARE = f"""
import sys, time
import sdlg
pipeline = sdlg.Pipeline({SMOLLM2!r}, samples={SAMPLES}, max_tokens={TOKENS})
pipeline.ask("Who wrote Hamlet?")
print("ready", flush=True)
things = {THINGS!r}
asked = 0
for line in sys.stdin:
    end, taken = time.monotonic() + float(line), []
    while time.monotonic() < end:
        started = time.monotonic()
        pipeline.ask(f"Who wrote {{things[asked % len(things)]}}, and when ({{asked}})?")
        taken.append(time.monotonic() - started)
        asked += 1
    print(taken, flush=True)
"""


@dataclass
class Load:
    """What clients saw."""

    ends: list[float] = field(default_factory=list)  # when answers came, while all clients were asking
    statuses: Counter[int] = field(default_factory=Counter)
    taken: list[float] = field(default_factory=list)  # seconds, of answers
    refused: list[float] = field(default_factory=list)  # seconds, of 429


@contextmanager
def started(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def bare_seconds(process: subprocess.Popen[str], seconds: float) -> list[float]:
    """How long the bare engine's answers took, one after the other."""
    assert process.stdin is not None
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    found: list[float] = json.loads(line_of(process))
    return found


def resident_megabytes(pid: int | str) -> float:
    """Of a process; `self` is this one."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) / 1024


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """User and system time so far: says what an answer costs whatever else the machine is doing."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(address: str, clients: int, seconds: float, numbers: Iterator[int]) -> Load:
    """So many clients, each asking again when it is answered, and waiting as long as it is told when it is refused."""
    seen, end = Load(), time.monotonic() + seconds
    limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx2.AsyncClient(base_url=address, timeout=120, limits=limits) as client:

        async def ask_on() -> None:
            while (started := time.monotonic()) < end:
                number = next(numbers)
                question = f"Who wrote {THINGS[number % len(THINGS)]}, and when ({number})?"
                response = await client.post("/v1/uncertainty", json={"question": question})
                now = time.monotonic()
                seen.statuses[response.status_code] += 1
                if response.status_code == 429:
                    seen.refused.append(now - started)
                    await asyncio.sleep(max(min(float(response.headers["retry-after"]), end - now), 0))
                else:
                    seen.taken.append(now - started)
                    if now < end:  # later ones are waited for, but the load is no longer full
                        seen.ends.append(now)

        await asyncio.gather(*(ask_on() for _ in range(clients)))
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3, help="turns that the seconds are spread over")
    parser.add_argument("--queue", type=int, default=16, help="of the server")
    parsed = parser.parse_args()
    serve = [*SERVE, "--queue", str(parsed.queue)]
    with started([sys.executable, "-c", BARE]) as engine, started(serve) as server:
        line_of(engine)
        found = re.search(r"http://\S+", line_of(server))
        assert found is not None
        return measure(parsed, engine, server, found[0])


def measure(
    parsed: argparse.Namespace, engine: subprocess.Popen[str], server: subprocess.Popen[str], address: str
) -> int:
    numbers, each = count(), parsed.seconds / parsed.rounds
    asyncio.run(load(address, 4, 5.0, numbers))  # warm
    before, engine_before = resident_megabytes(server.pid), resident_megabytes(engine.pid)
    bare: list[float] = []
    alone: list[float] = []
    loads: list[Load] = []
    spent = 0.0
    engine_begun = processor_seconds(engine)
    for number in range(1, parsed.rounds + 1):
        bare += bare_seconds(engine, each / 2)
        begun = processor_seconds(server)
        loads.append(asyncio.run(load(address, parsed.clients, each, numbers)))
        spent += processor_seconds(server) - begun
        bare += bare_seconds(engine, each / 2)
        alone += asyncio.run(load(address, 1, each / 2, numbers)).taken
        print(f"after round {number} of {parsed.rounds}")
        tell(parsed.clients, bare, alone, loads)
        per_bare = (processor_seconds(engine) - engine_begun) / len(bare)
        per_answer = spent / sum(len(one.taken) for one in loads)
        print(f"processor seconds    {per_bare:.2f} per bare answer, {per_answer:.2f} per served one under load")
        print(f"memory, bare engine  {engine_before:.0f} MB before, {resident_megabytes(engine.pid):.0f} MB now")
        print(f"memory, server       {before:.0f} MB before, {resident_megabytes(server.pid):.0f} MB now", flush=True)
    return 0 if {status for one in loads for status in one.statuses} <= {200, 429} else 1


def tell(clients: int, bare: list[float], alone: list[float], loads: list[Load]) -> None:
    statuses = sum((one.statuses for one in loads), Counter[int]())
    taken = [seconds for one in loads for seconds in one.taken]
    refused = [seconds for one in loads for seconds in one.refused]
    spans = [(len(one.ends) - 1, one.ends[-1] - one.ends[0]) for one in loads if len(one.ends) > 1]
    throughput = sum(answers for answers, _ in spans) / sum(seconds for _, seconds in spans)
    bare_throughput = len(bare) / sum(bare)
    print(f"bare engine          {bare_throughput:.2f} answers/s, p50 {median(bare):.3f} s ({len(bare)} answers)")
    print(f"one client           p50 {median(alone):.3f} s, ratio {median(bare) / median(alone):.3f}")
    print(f"{clients} clients           {throughput:.2f} answers/s, ratio {throughput / bare_throughput:.3f}")
    print(f"                     p50 {median(taken):.2f} s, worst {max(taken):.2f} s, the queue included")
    print(f"                     429 after {median(refused or [0]) * 1000:.0f} ms (median)")
    print(f"statuses             {dict(statuses)}")


if __name__ == "__main__":
    sys.exit(main())
