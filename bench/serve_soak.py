"""`sdlg serve` for a quarter of an hour among 32 clients, held to what docs/reference/reliability.md promises.

    python bench/serve_soak.py                # 15 minutes: make soak
    python bench/serve_soak.py --minutes 2

Small questions, streams that break off and wrong keys come first without, then beside large given answers, of which
some are too large and some are given up by their clients. Exit code 1: a promise is broken. What else the machine does
disturbs the latencies, so the load that it had before is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from subprocess import Popen

import httpx2

from serve_load import SERVE, THINGS, line_of, resident_megabytes, started

KEY = "soak"
SMALL_SHARE, LARGE_SHARE, BREAKING_SHARE = 4 / 32, 8 / 32, 12 / 32  # of the clients; the rest have wrong keys
MOST_RATIO, MOST_STOP_SECONDS, KEPT_PROMPTS_MB, SLACK_MB = 2.0, 5.0, 256, 64
FINE = {200, 429, 503}
WORDS = ("river", "king", "city", "war", "play", "great", "small", "house", "tree", "book", "sun", "moon", "star")


@dataclass
class Seen:
    """What became of the requests of one phase."""

    statuses: Counter[tuple[str, int | str]] = field(default_factory=Counter)
    small_seconds: list[float] = field(default_factory=list)

    def p95(self) -> float:
        ordered = sorted(self.small_seconds)
        return ordered[int(0.95 * (len(ordered) - 1))] if ordered else float("nan")


@dataclass
class Clients:
    """All clients of a phase, until its end."""

    client: httpx2.AsyncClient
    end: float
    seen: Seen = field(default_factory=Seen)
    numbers: count[int] = field(default_factory=count)
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def question(self) -> str:
        number = next(self.numbers)
        return f"Who wrote {THINGS[number % len(THINGS)]}, and when ({number})?"

    def answers(self, most: int, words: int) -> list[dict[str, str]]:
        texts = (" ".join(self.chance.choices(WORDS, k=words)) for _ in range(self.chance.randint(most // 2, most)))
        return [{"text": text} for text in texts]

    async def keep_on(self, kind: str, act: Callable[[], Awaitable[httpx2.Response | None]]) -> None:
        """Do it again and again; whoever is told to come back later does."""
        while time.monotonic() < self.end:
            try:
                response = await act()
            except (httpx2.HTTPError, OSError) as error:
                self.seen.statuses[kind, type(error).__name__] += 1
                continue
            if response is None:  # broken off on purpose
                self.seen.statuses[kind, "left"] += 1
                continue
            self.seen.statuses[kind, response.status_code] += 1
            wait = float(response.headers.get("retry-after", 0)) or (0 if response.status_code == 200 else 0.2)
            await asyncio.sleep(max(min(wait, self.end - time.monotonic()), 0))

    async def small(self) -> httpx2.Response:
        began = time.monotonic()
        response = await self.client.post("/v1/uncertainty", json={"question": self.question()})
        if response.status_code == 200:
            self.seen.small_seconds.append(time.monotonic() - began)
        return response

    async def large(self) -> httpx2.Response:
        """Mostly within the limit; sometimes the 22 KB that once blocked the server for minutes."""
        much = self.chance.random() < 0.1
        answers = self.answers(100, 90)[:50] if much else self.answers(20, 12)
        return await self.client.post("/v1/uncertainty", json={"question": self.question(), "answers": answers})

    async def leaving(self) -> httpx2.Response | None:
        """Gives up a large request after a moment."""
        try:
            async with asyncio.timeout(self.chance.uniform(0.5, 3)):
                return await self.large()
        except TimeoutError:
            return None

    async def breaking(self) -> httpx2.Response | None:
        """A stream of which only the beginning is read."""
        body = {"question": self.question(), "stream": True}
        async with self.client.stream("POST", "/v1/uncertainty", json=body) as response:
            if response.status_code != 200:
                await response.aread()
                return response
            async for _ in response.aiter_lines():
                break
        return None

    async def wrong_key(self) -> httpx2.Response:
        return await self.client.get("/v1/models", headers={"Authorization": "Bearer wrong"})


async def phase(address: str, seconds: float, kinds: dict[str, int], numbers: count[int]) -> Seen:
    """So many clients of each kind for so long."""
    limits = httpx2.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(base_url=address, timeout=180, limits=limits, headers=headers) as client:
        clients = Clients(client, time.monotonic() + seconds, numbers=numbers)
        await asyncio.gather(
            *(clients.keep_on(kind, getattr(clients, kind)) for kind, many in kinds.items() for _ in range(many))
        )
    return clients.seen


def mixed(clients: int) -> dict[str, int]:
    small, large, breaking = (max(1, round(clients * share)) for share in (SMALL_SHARE, LARGE_SHARE, BREAKING_SHARE))
    leaving = large // 2
    others = max(1, clients - small - large - breaking)
    return {"small": small, "large": large - leaving, "leaving": leaving, "breaking": breaking, "wrong_key": others}


def seconds_to_end(server: Popen[str], address: str) -> float:
    """From SIGTERM to the end, beside large work."""

    async def beside() -> float:
        work = asyncio.ensure_future(phase(address, 3, {"large": 4, "small": 2}, count(10**6)))
        await asyncio.sleep(2)
        began = time.monotonic()
        server.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.wait, 60)
        taken = time.monotonic() - began
        await work
        return taken

    return asyncio.run(beside())


def soak(parsed: argparse.Namespace, server: Popen[str], address: str) -> list[str]:
    """All phases; what was promised and not kept."""
    kinds, numbers = mixed(parsed.clients), count()
    alone_seconds = max(parsed.minutes * 60 / 5, 20)
    asyncio.run(phase(address, 5, {"small": 1}, numbers))  # warm
    without = {kind: many for kind, many in kinds.items() if kind not in ("large", "leaving")}
    alone = asyncio.run(phase(address, alone_seconds, without, numbers))
    begun = asyncio.run(phase(address, min(60.0, parsed.minutes * 30), kinds, numbers))
    early = resident_megabytes(server.pid)
    beside = asyncio.run(phase(address, max(parsed.minutes * 60 - 60, parsed.minutes * 30), kinds, numbers))
    late = resident_megabytes(server.pid)
    beside.statuses.update(begun.statuses)
    beside.small_seconds += begun.small_seconds
    ratio, stopping = beside.p95() / alone.p95(), seconds_to_end(server, address)
    print(f"small questions  p95 without large ones {alone.p95():.2f} s ({len(alone.small_seconds)}), ", end="")
    print(f"beside them {beside.p95():.2f} s ({len(beside.small_seconds)}), ratio {ratio:.2f}")
    print(f"memory           {early:.0f} MB after the first minute, {late:.0f} MB at the end", end="")
    print(f" (prompts kept by design: at most {KEPT_PROMPTS_MB} MB)")
    for kind in kinds:
        told = {status: many for (name, status), many in beside.statuses.items() if name == kind}
        print(f"{kind:<16} {told}")
    print(f"SIGTERM          {stopping:.1f} s to the end beside large work")
    bad = {key: many for key, many in (alone.statuses + beside.statuses).items() if not is_fine(key[1])}
    broken = {
        f"small questions take {ratio:.2f} times as long": not ratio <= MOST_RATIO,
        f"memory has grown by {late - early:.0f} MB": late - early > KEPT_PROMPTS_MB + SLACK_MB,
        f"requests without a proper answer: {bad}": bool(bad),
        f"{stopping:.1f} s from SIGTERM to the end": stopping > MOST_STOP_SECONDS,
    }
    return [promise for promise, is_broken in broken.items() if is_broken]


def is_fine(status: int | str) -> bool:
    """An answer, a 4xx, a 503, or left by the client itself."""
    return status == "left" or (isinstance(status, int) and (status in FINE or 400 <= status < 500))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--clients", type=int, default=32)
    parsed = parser.parse_args()
    os.environ["SDLG_SERVER_KEY"] = KEY
    print(f"load before      {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with started(SERVE) as server:
        address = re.search(r"http://\S+", line_of(server))
        assert address is not None
        broken = soak(parsed, server, address[0])
    for promise in broken:
        print(f"BROKEN: {promise}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
