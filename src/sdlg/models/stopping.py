"""Stop rules: when an answer ends and which of its tokens came before the end (method.md §2).

In: a `StopRule`, the answer's ids so far. Out: why it ended, and how many ids to keep.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass

from ..records import StopReason, StopRule

# A full stop ends a sentence unless it follows an initial ("U.S.", "J. Smith") or a common abbreviation.
_ABBREVIATIONS = "St|Mr|Mrs|Ms|Dr|Prof|Mt|Ft|Jr|Sr|vs|etc|No|Vol|approx|ca|e\\.g|i\\.e|[A-Za-z]"
_ABBREVIATED = re.compile(rf"(?:^|[\s(.])(?:{_ABBREVIATIONS})$")

# Stop strings are short: this many last tokens are enough to see one.
_WINDOW = 24


@dataclass(frozen=True, slots=True)
class Stop:
    """An ending: its reason and how many of the answer's ids come before it."""

    reason: StopReason
    kept: int


def find_stop(rule: StopRule, ids: Many[int], text_of: Callable[[Many[int]], str]) -> Stop | None:
    """Whether the last id of `ids` ends the answer."""
    if ids and ids[-1] in rule.token_ids:
        return Stop("eos", len(ids) - 1)
    if not ids or not (rule.strings or rule.sentence_end):
        return None
    first = max(0, len(ids) - _WINDOW)
    tail = ids[first:]
    cut = _cut(rule, text_of(tail))
    if cut is None:
        return None
    kept = len(tail) - 1
    while kept and len(text_of(tail[:kept])) > cut:
        kept -= 1
    return Stop("stop_string", first + kept)


def _cut(rule: StopRule, text: str) -> int | None:
    found = [text.find(string) for string in rule.strings if string in text]
    if rule.sentence_end and (end := sentence_end(text)) is not None:
        found.append(end)
    return min(found, default=None)


def sentence_end(text: str) -> int | None:
    """Offset of the first full stop that ends a sentence: not "St.", "U.S." or "3.5"."""
    for match in re.finditer(r"\.(?=\s|$)", text):
        before = text[: match.start()]
        may_go_on = before[-1:].isdigit() and match.end() == len(text)  # "3." may become "3.5"
        if before.strip() and not may_go_on and not _ABBREVIATED.search(before):
            return match.start()
    return None
