"""The API, described: the OpenAPI document and a plain page of it that needs no script and no other host."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from .schemas import ErrorBody

Json = dict[str, Any]

_RESULT = Path(__file__).parent.parent / "formats" / "result.schema.json"
_REASONS = {
    400: "asked for something that cannot be done; the message says what",
    401: "the key is missing or wrong",
    404: "no such model",
    408: "the body did not arrive in time",
    413: "the body is too large",
    415: "the body is not JSON",
    421: "a host name that is not this server's",
    422: "wrong or unknown fields, or given answers that are too much work; the message says which",
    429: "the queue is full; Retry-After says when to come back",
    502: "the model server behind this one failed",
    503: "shutting down, or too busy for so much work",
    504: "the deadline passed",
}


def _errors(*statuses: int) -> dict[int | str, Json]:
    return {status: {"model": ErrorBody, "description": _REASONS[status]} for status in statuses}


def _object(required: Mapping[str, Json]) -> Json:
    return {"type": "object", "required": list(required), "properties": dict(required)}


def _fine(schema: Json, *, streams: bool = False) -> dict[int | str, Json]:
    content: Json = {"application/json": {"schema": schema}}
    if streams:
        content["text/event-stream"] = {"schema": _object({"data": {"type": "string"}})}  # of each event
    return {200: {"description": "fine", "content": content}}


_TEXT, _WHOLE, _LIST, _OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "array"}, {"type": "object"}
_COMPLETION = _object(
    {"id": _TEXT, "object": _TEXT, "created": _WHOLE, "model": _TEXT, "choices": _LIST, "usage": _OBJECT}
)
_ROW = _object({"line": _WHOLE, "question": _TEXT, "clusters": {"type": ["array", "null"]}, "measures": _OBJECT})
_ASKING = _errors(400, 401, 408, 413, 415, 421, 422, 429, 502, 503, 504)
_FACTS = _object(
    {
        "model": _TEXT, "nli": _TEXT, "methods": _LIST, "presets": _LIST, "defaults": _OBJECT, "limits": _OBJECT,
        "calibrated": {"type": "boolean"}, "needs_key": {"type": "boolean"},
    }
)  # fmt: skip

# Per path what FastAPI is told of its responses.
API: Mapping[str, Json] = {
    "uncertainty": {
        "responses": {**_fine({"anyOf": [{"$ref": "#/components/schemas/Result"}, _ROW]}, streams=True), **_ASKING}
    },
    "chat": {"responses": {**_fine(_COMPLETION, streams=True), **_ASKING, **_errors(404)}},
    "completions": {"responses": {**_fine(_COMPLETION, streams=True), **_ASKING, **_errors(404)}},
    "health": {"responses": {**_fine(_object({"status": _TEXT})), **_errors(421, 503)}},
    "models": {"responses": {**_fine(_object({"object": _TEXT, "data": _LIST})), **_errors(401, 421)}},
    "settings": {"responses": {**_fine(_FACTS), **_errors(421)}},
    "metrics": {
        "responses": {200: {"description": "fine", "content": {"text/plain": {"schema": _TEXT}}}, **_errors(401, 421)}
    },
}


def describe(app: FastAPI) -> None:
    """Put the result's own schema and the key into the OpenAPI document."""
    plain = app.openapi

    def openapi() -> Json:
        if app.openapi_schema is None:
            document = plain()
            schema = json.loads(_RESULT.read_text(encoding="utf-8"))
            schema.pop("$schema", None)
            parts = document.setdefault("components", {})
            parts.setdefault("schemas", {})["Result"] = schema
            parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{}, {"key": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def documentation_page(document: Json) -> str:
    """HTML without a script: what every path takes and gives."""
    parts = "".join(_operations(document))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>sdlg: HTTP API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/static/style.css"></head><body><main><h1>sdlg: HTTP API</h1>'
        f'<p>For programs: <a href="/openapi.json">openapi.json</a></p>{parts}</main></body></html>'
    )


def _operations(document: Json) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            about = escape(operation.get("description", ""))
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{about}</p>"
            yield from _fields(operation, document)
            answers = operation["responses"].items()
            items = "".join(f"<li>{status}: {escape(answer['description'])}</li>" for status, answer in answers)
            yield f"<h3>Answers</h3><ul>{items}</ul>"


def _fields(operation: Json, document: Json) -> Iterator[str]:
    if "requestBody" not in operation:
        return
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema = document["components"]["schemas"][name]
    yield "<h3>Body</h3><dl>"
    for field, about in schema["properties"].items():
        needed = " (required)" if field in schema.get("required", ()) else ""
        yield f"<dt><code>{escape(field)}</code>{needed}</dt><dd>{escape(about.get('description', ''))}</dd>"
    yield "</dl>"
