"""Whether an answer is its reference, word for word. In: (answer, reference). Out: 1 or 0.

Both are normalised as in SQuAD: case folded, punctuation out, the articles a, an and the out, white space collapsed.
A text that loses everything by that ("The The", "+") is compared by its folded form alone.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence

from .word_forms import folded

_ARTICLES = frozenset(["a", "an", "the"])


class ExactMatch:
    """1 if the normalised texts are equal, else 0. An empty answer matches nothing."""

    name = "exact_match"

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number per (answer, reference)."""
        forms = {text: normalised(text) for text in {text for pair in pairs for text in pair}}
        return [float(forms[answer] == forms[reference] != "") for answer, reference in pairs]


def normalised(text: str) -> str:
    """What is compared."""
    plain = "".join(char for char in folded(text) if not _is_punctuation(char))
    kept = " ".join(word for word in plain.split() if word not in _ARTICLES)
    return kept or folded(text).strip()


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")
