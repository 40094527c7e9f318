"""What went wrong, as HTTP: a status and OpenAI's error object.

{"error": {"message": "what to do", "type": "invalid_request_error", "code": "prompt_too_long"}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import Cancelled, PromptTooLong, SdlgError, ServerFailed, TimedOut, UsageError


class Failure(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, code, headers)  # all of them, or it could not be unpickled
        self.status, self.message, self.code = status, message, code
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        """OpenAI's error object."""
        return {"error": {"message": self.message, "type": _type_of(self.status), "code": self.code}}


def _type_of(status: int) -> str:
    named = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 504: "timeout_error"}
    return named.get(status, "invalid_request_error" if status < 500 else "server_error")


def bad_request(message: str, code: str = "invalid_request") -> Failure:
    """400, with the reason."""
    return Failure(400, message, code)


# The first that fits counts.
_STATUS: Mapping[type[SdlgError], int] = {
    UsageError: 400,
    ServerFailed: 502,
    TimedOut: 504,
    Cancelled: 503,
}
_CODES: Mapping[type[SdlgError], str] = {PromptTooLong: "context_length_exceeded"}
INTERNAL = "the server failed; its log says why"


def failure_of(error: BaseException) -> Failure:
    """Our own errors say what to do; what others say stays in the log."""
    if isinstance(error, Failure):
        return error
    if not isinstance(error, SdlgError):
        return Failure(500, INTERNAL, "internal_error")
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
    return Failure(status, str(error), _CODES.get(type(error), _snake(type(error).__name__)))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
