"""JSON on the wire: valid for every reader. Numbers that are none become null, half characters a question mark."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from ..formats.codec import finite
from .failures import Failure


def encoded(value: Any) -> bytes:
    """One line of JSON."""
    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


class JsonAnswer(Response):
    """A response whose body is JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return encoded(content)


def failed(failure: Failure) -> JsonAnswer:
    """The response for an error."""
    return JsonAnswer(failure.to_dict(), failure.status, failure.headers)
