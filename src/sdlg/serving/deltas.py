"""A growing text as pieces that never have to be taken back.

In: the text so far, again and again. Out: what is new and certain. Half a character (U+FFFD), white space at either end
(answers are stripped) and what may become a stop string are held back until more is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..models.prompts import PLAIN_STOPS

HALF = "\N{REPLACEMENT CHARACTER}"


class Deltas:
    """What was sent of one answer."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stops)
        self._perhaps = (*self._stops, *PLAIN_STOPS)  # the latter only end answers to plain prompts
        self._sent = ""

    def grow(self, text: str) -> str:
        """What can be sent of the text so far."""
        return self._new(self._certain(text.lstrip()))

    def finish(self, text: str) -> str:
        """The rest of the finished answer; nothing if more than it was sent already."""
        return self._new(text)

    def _new(self, text: str) -> str:
        if not text.startswith(self._sent):
            return ""
        new, self._sent = text[len(self._sent) :], text
        return new

    def _certain(self, text: str) -> str:
        ends = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        text = text[: min(ends, default=len(text))].rstrip(HALF)
        held = max((_overlap(text, stop) for stop in self._perhaps), default=0)
        return text[: len(text) - held].rstrip()


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of the text could begin the stop string."""
    return next((n for n in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:n])), 0)
