"""Whether an answer names its reference. In: (answer, reference). Out: 1 or 0.

All words of the reference must be in the answer, in whatever order; articles and what stands in brackets do not count.
Numbers, units and accents have one notation ("8,849 metres" and "8849 m"). It is fit for sentences, as ROUGE is not;
but "not Paris" contains Paris.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..clustering.answer_words import split_words
from .exact_match import normalised

_ARTICLES = frozenset(["a", "an", "the"])
_BRACKETS = re.compile(r"\s*\(.*?\)")


class Contains:
    """1 if the answer has all words of the reference, else 0."""

    name = "contains"

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number per (answer, reference)."""
        return [float(contains(answer, reference)) for answer, reference in pairs]


def contains(answer: str, reference: str) -> bool:
    """Whether the answer has all words of the reference. Where that has none ("+"), it must be the answer."""
    wanted = _words(without_brackets(reference))
    return wanted <= _words(answer) if wanted else normalised(answer) == normalised(reference) != ""


def without_brackets(text: str) -> str:
    """The text without what stands in brackets, unless that is all."""
    return _BRACKETS.sub("", text).strip() or text


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in split_words(text) if word not in _ARTICLES)
