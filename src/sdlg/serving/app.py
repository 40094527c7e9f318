"""The application: which path does what. `create_app(pipeline, settings)` is all that others need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from .. import __version__
from ..errors import SdlgError
from ..formats.results import Result
from ..options import PRESETS
from ..pipeline import Pipeline, Watch
from ..records import Question
from .admission import Admission, shutting_down
from .browser_files import page_file
from .chat import Completion, chat_completion, text_completion
from .documents import API, describe, documentation_page
from .engine import Ask, Engine, Score
from .failures import Failure, bad_request, failure_of
from .guards import Guards
from .metrics import Counted, Metrics
from .replies import Reply
from .schemas import ChatBody, CompletionBody, UncertaintyBody
from .settings import Settings
from .stream_events import Chunks, OurEvents, RowEvents
from .streaming import EventStream, disconnected, stopped
from .wire import JsonAnswer, failed

T = TypeVar("T")

log = logging.getLogger("sdlg.serving")

# FastAPI's own would put questions into its records.
_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip


class Service:
    """What the paths share."""

    def __init__(self, pipeline: Pipeline, settings: Settings) -> None:
        self.settings, self.engine = settings, Engine(pipeline, settings)
        places = settings.in_flight or pipeline.in_flight
        self.admission = Admission(places, settings.queue, settings.deadline, settings.grace)
        self.metrics = Metrics(self.admission)

    def answered(self, ask: Ask, watch: Watch | None = None) -> Result:
        """In a worker thread."""
        result = ask(watch)
        self.metrics.result(result)
        return result

    async def whole(
        self, request: Request, work: Callable[[], T], form: Callable[[T], dict[str, Any]], amount: int = 0
    ) -> Response:
        """The work's result in one piece; a client that goes away takes its work with it."""
        with self.admission.enter(amount) as slot:
            working = asyncio.ensure_future(self.admission.run(slot, work))
            gone = asyncio.ensure_future(disconnected(request.receive))
            try:
                await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await stopped(gone, working)
        if working.cancelled():
            raise Failure(499, "the client went away", "gone")
        return JsonAnswer(form(working.result()))

    async def complete(self, request: Request, completion: Completion) -> Response:
        """OpenAI's two paths, once it is known what is asked."""
        ask, reply = completion.ask, Reply(completion, self.engine.name)
        if not completion.stream:
            return await self.whole(request, lambda: self.answered(ask), reply.whole)
        return self.streamed(lambda watch: self.answered(ask, watch), Chunks(reply, ask))

    def streamed(self, work: Callable[[Watch], T], teller: Any, amount: int = 0) -> Response:
        """The same as a stream."""
        return EventStream(self.admission, self.admission.enter(amount), work, teller, self.settings)


def create_app(pipeline: Pipeline, settings: Settings | None = None) -> FastAPI:
    """An ASGI application that asks this pipeline. Its desk is `app.state.desk`."""
    service = Service(pipeline, settings or Settings())
    app = FastAPI(
        title="sdlg", version=__version__, docs_url=None, redoc_url=None, telemetry=_NO_TELEMETRY,
        description="How sure is a language model of what it means?",
    )  # fmt: skip
    app.state.admission, app.state.service = service.admission, service
    _add_questions(app, service)
    _add_facts(app, service)
    _add_pages(app)
    _add_errors(app)
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(
        Guards, settings=service.settings, limits=service.engine.limits, check_room=service.admission.check_room
    )
    if service.settings.origins:  # outside the guards: a browser asks for leave without the key
        app.add_middleware(
            CORSMiddleware, allow_origins=service.settings.origins, allow_methods=["GET", "POST"],
            allow_headers=["*"], expose_headers=["Retry-After"],
        )  # fmt: skip
    app.add_middleware(Counted, metrics=service.metrics, paths=paths)
    return app


def _add_questions(app: FastAPI, service: Service) -> None:
    engine = service.engine

    @app.post("/v1/uncertainty", **API["uncertainty"])
    async def uncertainty(request: Request, body: UncertaintyBody) -> Response:
        """Answer a question, or take given answers, and say how sure the model is: the full result."""
        if body.answers is not None:
            score = score_of(engine, body)
            if body.stream:
                return service.streamed(lambda _: score(), RowEvents(), score.work)
            return await service.whole(request, score, dict, score.work)
        ask = ask_of(engine, body)
        if body.stream:
            return service.streamed(lambda watch: service.answered(ask, watch), OurEvents(ask))
        return await service.whole(request, lambda: service.answered(ask), Result.to_dict)

    @app.post("/v1/chat/completions", **API["chat"])
    async def chat_completions(request: Request, body: ChatBody) -> Response:
        """OpenAI's chat completions, with an `uncertainty` object."""
        return await service.complete(request, chat_completion(engine, body))

    @app.post("/v1/completions", **API["completions"])
    async def completions(request: Request, body: CompletionBody) -> Response:
        """OpenAI's completions: the model writes on from the prompt as it is; with an `uncertainty` object."""
        return await service.complete(request, text_completion(engine, body))


def ask_of(engine: Engine, body: UncertaintyBody) -> Ask:
    """A question with its options, wherever in the body they stand."""
    named = body.model_dump(include={"samples", "seed", "max_tokens", "stop_at", "temperature"}, exclude_none=True)
    options = body.options or {}
    if twice := set(named) & set(options):
        raise bad_request(f"given twice, in the body and in its options: {', '.join(sorted(twice))}")
    question = Question(body.question, body.context, system=body.system)
    return engine.ask(
        question, method=body.method, preset=body.preset, measures=body.measures or (), options={**named, **options}
    )


def score_of(engine: Engine, body: UncertaintyBody) -> Score:
    """Given answers. What only sampling needs would be left unused, so it is refused."""
    unused = body.model_dump(exclude={"question", "context", "answers", "measures", "stream"}, exclude_none=True)
    if unused:
        raise bad_request(f"answers are given, nothing is sampled: leave out {', '.join(unused)}")
    return engine.score(Question(body.question, body.context), body.answers or [], body.measures or ())


def _add_facts(app: FastAPI, service: Service) -> None:
    engine, pipeline, options = service.engine, service.engine.pipeline, service.engine.pipeline.options

    @app.get("/healthz", **API["health"])
    async def healthz() -> Response:
        """Whether questions are taken."""
        return failed(shutting_down()) if service.admission.draining else JsonAnswer({"status": "ok"})

    @app.get("/v1/models", **API["models"])
    async def models() -> Response:
        """OpenAI's list, with one model in it."""
        model = {"id": engine.name, "object": "model", "created": 0, "owned_by": "sdlg"}
        return JsonAnswer({"object": "list", "data": [model]})

    @app.get("/v1/settings", **API["settings"])
    async def settings() -> Response:
        """What may be asked of this server."""
        defaults = {"method": pipeline.method, "samples": options.samples, "max_tokens": options.decoding.max_tokens}
        limits = {
            name: getattr(engine.limits, name)
            for name in ("samples", "max_tokens", "prompt_characters", "answers", "given_work")
        }
        return JsonAnswer(
            {
                "model": engine.name,
                "nli": pipeline.nli.name,
                "methods": engine.methods,
                "presets": list(PRESETS),
                "defaults": {**defaults, "seed": options.seed, "preset": pipeline.preset},
                "limits": limits,
                "calibrated": engine.calibrated,
                "needs_key": service.settings.key is not None,
            }
        )

    @app.get("/metrics", **API["metrics"])
    async def metrics() -> Response:
        """For Prometheus."""
        text, kind = service.metrics.exposed()
        return Response(text, media_type=kind)


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return page_file("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return page_file(name)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(documentation_page(app.openapi()), media_type="text/html")


def _add_errors(app: FastAPI) -> None:
    describe(app)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        problems = [f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in error.errors()]
        shown = "; ".join(problem[:200] for problem in problems[:8])
        return failed(Failure(422, f"the body does not fit: {shown}", "invalid_body"))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        texts = {
            404: "there is nothing at this path; GET /docs lists what there is",
            405: "this path takes no {method}",
        }
        message = texts.get(error.status_code, str(error.detail)).format(method=request.method[:20])
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
        return failed(Failure(error.status_code, message, code, error.headers))

    @app.exception_handler(SdlgError)
    @app.exception_handler(Failure)
    async def sdlg_error(_: Request, error: Exception) -> Response:
        failure = failure_of(error)
        if failure.status == 500:
            log.error("a request failed", exc_info=error)
        return failed(failure)
