"""The application: which path does what. `create_app(pipeline, settings)` is all that others need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from .. import __version__
from ..errors import SdlgError
from ..options import PRESETS
from ..pipeline import Pipeline
from ..progress import Watch
from ..result import Result
from .admission import Admission, shutting_down
from .asked import Asked, able_methods, asked_by
from .bodies import ChatBody, CompletionBody, UncertaintyBody
from .completions import Completion, chat_completion, text_completion
from .events import Events, Form, OurForm
from .failures import Failure, Json, JsonReply, failed, failure_of
from .guards import Guards
from .metrics import Counted, Metrics
from .openapi import COMPLETION, METRICS, RESULT, answers, describe, errors
from .replies import Reply
from .settings import SHOWN_LIMITS, Settings
from .streaming import EventStream, disconnected, stopped

log = logging.getLogger("sdlg.serving")

# FastAPI's own would put questions into its records.
_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip


class Service:
    """What the paths share."""

    def __init__(self, pipeline: Pipeline, settings: Settings) -> None:
        self.pipeline, self.settings = pipeline, settings.widened(pipeline.options)
        self.name = pipeline.models.model_name
        self.admission = Admission(pipeline.in_flight, settings.queue, settings.deadline, settings.grace)
        self.metrics = Metrics(self.admission)

    def answered(self, asked: Asked, watch: Watch | None = None) -> Result:
        """Answer, in a worker thread."""
        result = asked.answer(watch)
        self.metrics.result(result)
        return result

    async def whole(self, request: Request, asked: Asked, form: Callable[[Result], Json]) -> Response:
        """Reply in one piece; a client that goes away takes its work with it."""
        with self.admission.enter(asked.characters) as slot:
            working = asyncio.ensure_future(self.admission.run(slot, lambda: self.answered(asked)))
            gone = asyncio.ensure_future(disconnected(request.receive))
            try:
                await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await stopped(gone, working)
        if working.cancelled():
            raise Failure(499, "the client went away", "gone")
        return JsonReply(form(working.result()))

    def streamed(self, asked: Asked, form: Form) -> Response:
        """Reply as a stream."""
        slot, events = self.admission.enter(asked.characters), Events(form, asked)
        return EventStream(self.admission, slot, partial(self.answered, asked), events, self.settings)

    async def complete(self, request: Request, completion: Completion) -> Response:
        """Reply as OpenAI does."""
        asked, reply = completion.asked, Reply(completion, self.name)
        if completion.stream:
            return self.streamed(asked, reply)
        return await self.whole(request, asked, reply.whole)


def create_app(pipeline: Pipeline, settings: Settings | None = None) -> FastAPI:
    """Return an ASGI application that asks this pipeline. Its admission is `app.state.admission`."""
    service = Service(pipeline, settings or Settings())
    app = FastAPI(
        title="sdlg", version=__version__, docs_url=None, redoc_url=None, telemetry=_NO_TELEMETRY,
        description="How sure is a language model of what it means?",
    )  # fmt: skip
    app.state.admission, app.state.service = service.admission, service
    _add_questions(app, service)
    _add_facts(app, service)
    _add_page(app)
    _add_errors(app)
    describe(app)
    _add_middleware(app, service)
    return app


def _add_middleware(app: FastAPI, service: Service) -> None:
    """Add what every request passes; the last one added is the first to see it."""
    settings = service.settings
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(ServerErrorMiddleware, handler=_unexpected)
    app.add_middleware(Guards, settings=settings, check_room=service.admission.check_room)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=settings.hosts or ("*",), www_redirect=False)
    if settings.origins:  # outside the guards: a browser asks for leave without the key
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["GET", "POST"], allow_headers=["*"],
            expose_headers=["Retry-After"],
        )  # fmt: skip
    app.add_middleware(Counted, metrics=service.metrics, paths=paths)


def _add_questions(app: FastAPI, service: Service) -> None:
    pipeline, settings = service.pipeline, service.settings

    @app.post("/v1/uncertainty", responses=answers(RESULT))
    async def uncertainty(request: Request, body: UncertaintyBody) -> Response:
        """Answer a question, or take given answers, and say how sure the model is: the full result."""
        asked = asked_by(pipeline, settings, body)
        if body.stream:
            return service.streamed(asked, OurForm())
        return await service.whole(request, asked, Result.to_dict)

    @app.post("/v1/chat/completions", responses=answers(COMPLETION))
    async def chat_completions(request: Request, body: ChatBody) -> Response:
        """OpenAI's chat completions, with an `uncertainty` object."""
        return await service.complete(request, chat_completion(pipeline, settings, body))

    @app.post("/v1/completions", responses=answers(COMPLETION))
    async def completions(request: Request, body: CompletionBody) -> Response:
        """OpenAI's completions: the model writes on from the prompt as it is; with an `uncertainty` object."""
        return await service.complete(request, text_completion(pipeline, settings, body))


def _add_facts(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", responses=errors(503))
    async def healthz() -> Response:
        """Whether questions are taken."""
        return failed(shutting_down()) if service.admission.draining else JsonReply({"status": "ok"})

    @app.get("/v1/models", responses=errors(401))
    async def models() -> Response:
        """OpenAI's list, with one model in it."""
        model = {"id": service.name, "object": "model", "created": 0, "owned_by": "sdlg"}
        return JsonReply({"object": "list", "data": [model]})

    @app.get("/v1/settings")
    async def settings() -> Response:
        """What may be asked of this server."""
        return JsonReply(_settings(service))

    @app.get("/metrics", responses={**METRICS, **errors(401)})
    async def metrics() -> Response:
        """For Prometheus."""
        text, kind = service.metrics.exposed()
        return Response(text, media_type=kind)


def _settings(service: Service) -> Json:
    pipeline, options = service.pipeline, service.pipeline.options
    return {
        "model": service.name,
        "nli": pipeline.models.nli_name,
        "methods": able_methods(pipeline),
        "presets": list(PRESETS),
        "defaults": {
            "method": pipeline.method, "samples": options.samples, "max_tokens": options.max_tokens,
            "seed": options.seed, "preset": pipeline.preset,
        },
        "limits": {name: getattr(service.settings, name) for name in SHOWN_LIMITS},
        "calibrated": bool(pipeline.calibrations.all),
        "needs_key": service.settings.key is not None,
    }  # fmt: skip


def _add_page(app: FastAPI) -> None:
    files = StaticFiles(packages=[("sdlg", "browser")])
    app.mount("/static", files)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        faults = error.errors()
        if any(fault["type"] == "json_invalid" for fault in faults):
            return failed(Failure(400, f"the body is not valid JSON: {faults[0]['ctx']['error']}", "invalid_json"))
        problems = [f"{'.'.join(map(str, fault['loc'][1:])) or 'body'}: {fault['msg']}" for fault in faults]
        shown = "; ".join(problem[:200] for problem in problems[:8])
        return failed(Failure(422, f"the body does not fit: {shown}", "invalid_body"))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        if isinstance(error, Failure):
            return failed(error)
        code = HTTPStatus(error.status_code).name.lower()
        message = f"{error.detail}; GET /openapi.json lists what there is"
        return failed(Failure(error.status_code, message, code, error.headers))

    @app.exception_handler(SdlgError)
    async def ours(_: Request, error: Exception) -> Response:
        failure = failure_of(error)
        if failure.status_code == 500:
            log.error("a request failed", exc_info=error)
        return failed(failure)


async def _unexpected(_: Request, error: Exception) -> Response:
    """Say that there is a bug, without its details: uvicorn logs them."""
    return failed(failure_of(error))
