"""What Prometheus may know: counts and durations, never a text."""

from __future__ import annotations

import math
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..result import Result
from .admission import Admission

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_NATS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3)
GONE = 499  # the client went away before it was answered


class Metrics:
    """All of one application."""

    def __init__(self, admission: Admission) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = Counter("sdlg_requests", "Requests by path and status.", ["path", "status"], registry=own)
        self._seconds = Histogram(
            "sdlg_request_seconds", "From the first byte to the last.", ["path"], buckets=_SECONDS, registry=own
        )
        self._tokens = Counter("sdlg_tokens", "Of prompts; decisions of the model.", ["kind"], registry=own)
        self._stages = Counter("sdlg_stage_seconds", "Where answering spends its time.", ["stage"], registry=own)
        self._entropy = Histogram(
            "sdlg_semantic_entropy_nats", "Of the answers; higher is less certain.", buckets=_NATS, registry=own
        )
        Gauge("sdlg_running", "Requests that are computed, given up or not.", registry=own).set_function(
            lambda: admission.running
        )
        Gauge("sdlg_waiting", "Requests in the queue.", registry=own).set_function(lambda: admission.waiting)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def result(self, result: Result) -> None:
        """Count an answer. Any thread may call it."""
        self._tokens.labels("prompt").inc(result.cost.prompt_tokens)
        self._tokens.labels("generated").inc(result.cost.generated_tokens)
        for stage, seconds in result.cost.seconds.items():
            self._stages.labels(stage).inc(max(seconds, 0.0))
        if math.isfinite(result.semantic_entropy):
            self._entropy.observe(result.semantic_entropy)

    def exposed(self) -> tuple[bytes, str]:
        """Return the text that Prometheus reads, and its type."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4


class Counted:
    """ASGI middleware, outermost: counts every request once, whatever becomes of it."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: frozenset[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Watch the status go by."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started = GONE, time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"  # names that clients make up are endless
            self._metrics.request(path, status, time.perf_counter() - started)
