"""What the OpenAPI document says of responses: the result's own schema, and every error with its reason."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI

from ..schema import result_schema
from .bodies import ErrorBody
from .failures import Json

Responses = dict[int | str, dict[str, Any]]

_REASONS = {
    400: "asked for something that cannot be done; the message says what",
    401: "the key is missing or wrong",
    404: "no such model",
    408: "the body did not arrive in time",
    413: "the body is too large",
    415: "the body is not JSON",
    422: "wrong or unknown fields, or given answers that are too much work; the message says which",
    429: "the queue is full; Retry-After says when to come back",
    502: "the model server behind this one failed",
    503: "shutting down, or too busy for so much work",
    504: "the deadline passed",
}


_EVENT = {"type": "object", "required": ["data"], "properties": {"data": {"type": "string"}}}  # `data: {…}`


def errors(*statuses: int) -> Responses:
    """Return what is said of these statuses."""
    return {status: {"model": ErrorBody, "description": _REASONS[status]} for status in statuses}


def answers(schema: Json) -> Responses:
    """Return what is said of a path that answers questions."""
    content = {"application/json": {"schema": schema}, "text/event-stream": {"schema": _EVENT}}
    return {200: {"description": "fine", "content": content}, **errors(*_REASONS)}


RESULT: Json = {"$ref": "#/components/schemas/Result"}
COMPLETION: Json = {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"]}
METRICS: Responses = {200: {"description": "fine", "content": {"text/plain": {"schema": {"type": "string"}}}}}


def describe(app: FastAPI) -> None:
    """Put the result's schema and the key into the OpenAPI document."""
    plain = app.openapi

    def openapi() -> Json:
        if app.openapi_schema is None:
            document = plain()
            result = json.loads(json.dumps(result_schema()).replace("#/$defs/", "#/components/schemas/"))
            parts = document["components"]
            parts["schemas"] = {**result.pop("$defs"), **parts["schemas"], "Result": result}
            parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{}, {"key": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
