"""What a server says of its own failure: the message in an error's body, and how long to wait."""

from __future__ import annotations

import json
import math
from typing import Any


def failure_message(content: str, longest: int = 300) -> str:
    """What an error's body says, in a line."""
    text = content
    try:
        document: Any = json.loads(text)
        document = document.get("error", document) if isinstance(document, dict) else document
        document = (
            document.get("message") or document.get("detail") or document if isinstance(document, dict) else document
        )
        text = document if isinstance(document, str) else json.dumps(document)
    except (ValueError, RecursionError):
        pass
    return " ".join(text.split())[:longest] or "no reason given"


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Retry-After in seconds; dates are passed over for our own backoff."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return min(max(seconds, 0.0), 60.0) if math.isfinite(seconds) else None
