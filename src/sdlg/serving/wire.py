"""JSON on the wire: valid for every reader. Numbers that are none become null, half characters a question mark."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import Response

from .failures import Failure


def finite(value: Any) -> Any:
    """The same with null for NaN and infinities, which JSON does not know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


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
