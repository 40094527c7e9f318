"""What goes wrong, as HTTP: a status and OpenAI's error object, and JSON that every reader takes.

{"error": {"message": "what to do", "type": "invalid_request_error", "code": "context_length_exceeded"}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import Cancelled, PromptTooLong, SdlgError, ServerFailed, TimedOut, UsageError

Json = dict[str, Any]


class Failure(HTTPException):
    """A reply that is an error."""

    def __init__(self, status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        readable = message.encode("utf-8", "replace").decode()  # what clients sent may hold half characters
        super().__init__(status, readable, dict(headers) if headers else None)
        self.code = code

    def to_dict(self) -> Json:
        """Return OpenAI's error object."""
        return {"error": {"message": self.detail, "type": _type_of(self.status_code), "code": self.code}}


def _type_of(status: int) -> str:
    named = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 504: "timeout_error"}
    return named.get(status, "invalid_request_error" if status < 500 else "server_error")


# The first that fits counts.
_STATUS: Mapping[type[SdlgError], int] = {UsageError: 400, ServerFailed: 502, TimedOut: 504, Cancelled: 503}
_CODES: Mapping[type[SdlgError], str] = {PromptTooLong: "context_length_exceeded"}


def failure_of(error: BaseException) -> Failure:
    """Return an error as a reply. Ours say what to do; what other libraries say stays in the log."""
    if isinstance(error, Failure):
        return error
    if not isinstance(error, SdlgError):
        return Failure(500, "the server failed; its log says why", "internal_error")
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
    return Failure(status, str(error), _CODES.get(type(error), name))


def encoded(value: Json) -> bytes:
    """Return one line of JSON. Numbers that are none become null."""
    return to_json(value, inf_nan_mode="null")


class JsonReply(Response):
    """A response whose body is JSON."""

    media_type = "application/json"

    def render(self, content: Json) -> bytes:
        """Return the body."""
        return encoded(content)


def failed(failure: Failure) -> JsonReply:
    """Return the response for an error."""
    return JsonReply(failure.to_dict(), failure.status_code, failure.headers)
