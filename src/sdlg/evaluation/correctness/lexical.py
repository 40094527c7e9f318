"""Metrics that compare words. In: (answer, reference). Out: a number from 0 to 1.

exact_match  1 if both are equal, normalised as in SQuAD: case folded, punctuation and articles out, spaces collapsed
contains     1 if all words of the reference are in the answer, in whatever order; fit for sentences, as ROUGE is not,
             but "not Paris" contains Paris
rouge_l, _1  F1 = 2PR / (P + R), with P = m / |answer| and R = m / |reference| in words, and m the length of their
             longest common subsequence (ROUGE-L) or the number of words they share (ROUGE-1); no stemming, as in the
             paper's code
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence

from ...clustering.answer_words import split_words
from ...errors import RunError
from .words import folded, vocabulary, words

_ARTICLES = frozenset(["a", "an", "the"])
_BRACKETS = re.compile(r"\s*\(.*?\)")


class ExactMatch:
    """1 if the normalised texts are equal, else 0. An empty answer matches nothing."""

    name = "exact_match"

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one number per (answer, reference)."""
        forms = {text: normalised(text) for text in {text for pair in pairs for text in pair}}
        return [float(forms[answer] == forms[reference] != "") for answer, reference in pairs]


def normalised(text: str) -> str:
    """Return what is compared. Of a text that loses everything by that ("The The", "+") it is its folded form."""
    plain = "".join(char for char in folded(text) if not _is_punctuation(char))
    kept = " ".join(word for word in plain.split() if word not in _ARTICLES)
    return kept or folded(text).strip()


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")


class Contains:
    """1 if the answer has all words of the reference, else 0."""

    name = "contains"

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one number per (answer, reference)."""
        return [float(_contains(answer, reference)) for answer, reference in pairs]


def _contains(answer: str, reference: str) -> bool:
    """Numbers, units and accents have one notation ("8,849 metres", "8849 m"). A reference without words ("+") must be
    the answer."""
    wanted = _content_words(without_brackets(reference))
    return wanted <= _content_words(answer) if wanted else normalised(answer) == normalised(reference) != ""


def without_brackets(text: str) -> str:
    """Return the text without what stands in brackets, unless that is all."""
    return _BRACKETS.sub("", text).strip() or text


def _content_words(text: str) -> frozenset[str]:
    return frozenset(word for word in split_words(text) if word not in _ARTICLES)


class Rouge:
    """One of the rouge-score library's scores by its name there: `rougeL` or `rouge1`."""

    def __init__(self, name: str, kind: str) -> None:
        try:
            from rouge_score.rouge_scorer import RougeScorer
        except ImportError as error:
            raise RunError(f"{name} needs the package rouge-score. Run: pip install 'sdlg[eval]'") from error
        self.name, self._kind = name, kind
        self._scorer = RougeScorer([kind], tokenizer=_Tokenizer())

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one F1 per (answer, reference)."""
        return [self._score(answer, reference) for answer, reference in pairs]

    def _score(self, answer: str, reference: str) -> float:
        if vocabulary(answer).isdisjoint(words(reference)):  # most aliases of a wrong answer; the library is slow
            return 0.0
        return float(self._scorer.score(reference, answer)[self._kind].fmeasure)


class _Tokenizer:
    """`words` in the shape the library asks for."""

    def tokenize(self, text: str) -> tuple[str, ...]:
        return words(text)
