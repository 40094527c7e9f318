"""Stop rules: when an answer ends and which of its tokens came before the end (method.md §2).

In: a `StopRule`, the answer's ids so far. Out: why it ended, and how many ids to keep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..records import StopReason, StopRule

# A full stop ends a sentence unless it follows an initial ("U.S.", "J. Smith") or a common abbreviation.
_ABBREVIATIONS = "St|Mr|Mrs|Ms|Dr|Prof|Mt|Ft|Jr|Sr|vs|etc|No|Vol|approx|ca|e\\.g|i\\.e|[A-Za-z]"
_ABBREVIATED = re.compile(rf"(?:^|[\s(.])(?:{_ABBREVIATIONS})$")

TextOf = Callable[[Sequence[int]], str]

# Stop strings are short: this many last tokens are enough to see one.
_WINDOW = 24


@dataclass(frozen=True, slots=True)
class Stop:
    """An ending: its reason, how many of the answer's ids come before it, and up to which id it goes."""

    reason: StopReason
    kept: int
    end: int  # ids after this one were only needed to see the ending


def find_stop(rule: StopRule, ids: Sequence[int], text_of: TextOf) -> Stop | None:
    """Whether the last id of `ids` ends the answer."""
    if not ids:
        return None
    if ids[-1] in rule.token_ids:
        return _at_end_token(rule, ids, text_of)
    if not (rule.strings or rule.sentence_end):
        return None
    first = max(0, len(ids) - _WINDOW)
    tail = ids[first:]
    found = _first_ending(rule, text_of(tail))
    if found is None:
        return None
    kept = _tokens_within(tail, found[0], text_of)
    end = next(n for n in range(kept, len(tail) + 1) if len(text_of(tail[:n])) >= found[1])
    return Stop("stop_string", first + kept, first + end)


def _at_end_token(rule: StopRule, ids: Sequence[int], text_of: TextOf) -> Stop:
    """Where sentences end answers, a full stop before the end token belongs to the ending."""
    kept = len(ids) - 1
    text = text_of(ids[:kept]).rstrip() if rule.sentence_end else ""
    if text.endswith(".") and sentence_end(text + " ") == len(text) - 1:
        kept = _tokens_within(ids[:kept], len(text) - 1, text_of)
    return Stop("eos", kept, len(ids))


def _tokens_within(ids: Sequence[int], characters: int, text_of: TextOf) -> int:
    """How many leading ids fit into so many characters."""
    kept = len(ids)
    while kept and len(text_of(ids[:kept])) > characters:
        kept -= 1
    return kept


def cut_at_ending(rule: StopRule, text: str) -> str:
    """A text up to its first ending, where its tokens are not known."""
    found = _first_ending(rule, text)
    return text if found is None else text[: found[0]]


def _first_ending(rule: StopRule, text: str) -> tuple[int, int] | None:
    """Where the first ending in a text begins and where it is complete."""
    found = [(text.find(string), text.find(string) + len(string)) for string in rule.strings if string in text]
    if rule.sentence_end and (at := sentence_end(text)) is not None:
        found.append((at, at + 1))
    return min(found, default=None)


def sentence_end(text: str) -> int | None:
    """Offset of the first full stop that ends a sentence: not "St.", "U.S.", "3.5" or the "1." of a list."""
    for match in re.finditer(r"\.(?=\s|$)", text):
        before = text[: match.start()]
        may_go_on = before[-1:].isdigit() and match.end() == len(text)  # "3." may become "3.5"
        if before.strip() and not may_go_on and not _ABBREVIATED.search(before) and not before.strip().isdigit():
            return match.start()
    return None
