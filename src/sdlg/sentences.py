"""A text in sentences. sentencex knows abbreviations, numbers and quotations in many languages; a line always ends one.

In: a text. Out: its parts in order, with their places. Code blocks are parts of their own, and what claims nothing (a
heading, a lead-in, a question, a greeting) is told from what does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from .records import SentenceKind

_FENCE = re.compile(  # a block of code, also in an item of a list; a line with marks at both ends is none
    r"^[ \t]*(?:(?:\d{1,3}[.)]|[-*+•])[ \t]+)?(`{3,}|~{3,})[^`\n]*\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_MARKERS = re.compile(r"^[\s>#*+\-•–]*(?:\d+[.)])?[\s*_`>#\-]*|[\s*_`]+$")  # of headings, lists and emphasis
_OPENING = re.compile(
    r"(?:sure|certainly|of course|absolutely|great question|(?:hello|hi)(?: there)?)\b(?:[,!.]+\s*|$)", re.IGNORECASE
)
_LEAD_IN = re.compile(r"(?:let me know|i hope (?:this|that|it|you)|feel free|thank you|thanks(?! to))\b", re.IGNORECASE)
_ITEM = re.compile(r"(?:\d{1,3}[.)]|[-*+•])\s+")
_LINE = re.compile(r"[^\n]*(?:\n\s*)?")  # with the line ends after it
_OTHER_SPACE = re.compile(r"[^\S ]")  # some of them, after one capital letter, break sentencex off


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence, a line or a code block of a text: its characters, without white space at its ends."""

    text: str
    start: int
    end: int
    kind: SentenceKind


def cut_into_parts(text: str) -> list[Part]:
    """Return all parts of a text, in order."""
    parts: list[Part] = []
    at = 0
    for fence in _FENCE.finditer(text):
        parts += _sentences(text, at, fence.start())
        parts.append(_trimmed(text, fence.start(), fence.end(), "code"))
        at = fence.end()
    return parts + list(_sentences(text, at, len(text)))


def _sentences(text: str, start: int, end: int) -> Iterator[Part]:
    while start < end:
        length = first_sentence(text[start:end])
        part = _trimmed(text, start, start + length, "claim")
        if part.text:
            yield part if _claims(part.text) else replace(part, kind="lead")
        start += length


def _trimmed(text: str, start: int, end: int, kind: SentenceKind) -> Part:
    piece = text[start:end]
    return Part(piece.strip(), start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip()), kind)


def _claims(sentence: str) -> bool:
    """Whether a sentence says something that could be wrong."""
    plain = _OPENING.sub("", _MARKERS.sub("", sentence), count=1)
    if sentence.lstrip().startswith("#") or plain.endswith((":", "?", "？", "؟", "：")) or _LEAD_IN.match(plain):
        return False
    return any(map(str.isalnum, plain))


def is_one_word(text: str) -> bool:
    """Whether a text is a single word; a script without spaces may say much in one."""
    return text.isascii() and len(text.split()) < 2


def marker_length(line: str) -> int:
    """Return how many characters mark a line as an item of a list; 0: it is none."""
    item = _ITEM.match(line)
    return item.end() if item else 0


def first_sentence(text: str) -> int:
    """Return how many characters the first sentence has, with the white space after it; all, if there is one only."""
    lead = len(text) - len(text.lstrip())
    line = _LINE.match(text, lead)
    assert line is not None
    if not line.group().strip():
        return len(text)
    marker = marker_length(line.group())  # "1. " is no sentence
    length = marker + _first_in_line(line.group()[marker:])
    is_whole = length >= len(line.group().rstrip())
    return lead + (len(line.group()) if is_whole else length)


@lru_cache(maxsize=4096)
def _first_in_line(line: str) -> int:
    from sentencex import segment

    return len(next(iter(segment("en", _OTHER_SPACE.sub(" ", line))), ""))
