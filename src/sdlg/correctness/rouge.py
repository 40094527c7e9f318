"""ROUGE with the rouge-score library: how many words an answer shares with its reference, in order or not.

In: (answer, reference). Out: F1 = 2PR / (P + R), with P = m / |answer| and R = m / |reference| in words, and m
the length of their longest common subsequence (ROUGE-L) or the number of words they share (ROUGE-1).

No stemming, as in the paper's code. Words are those of `words`: the library's on ASCII texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import RunError
from .word_forms import vocabulary, words


class Rouge:
    """One of the library's scores by its name there: `rougeL` or `rouge1`."""

    def __init__(self, name: str, kind: str) -> None:
        try:
            from rouge_score.rouge_scorer import RougeScorer
        except ImportError as error:
            raise RunError(f"{name} needs the package rouge-score. Run: pip install 'sdlg[eval]'") from error
        self.name, self._kind = name, kind
        self._scorer = RougeScorer([kind], tokenizer=_Tokenizer())

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One F1 per (answer, reference)."""
        return [self._score(answer, reference) for answer, reference in pairs]

    def _score(self, answer: str, reference: str) -> float:
        if vocabulary(answer).isdisjoint(words(reference)):  # most aliases of a wrong answer; the library is slow
            return 0.0
        return float(self._scorer.score(reference, answer)[self._kind].fmeasure)


class _Tokenizer:
    """`words` in the shape the library asks for."""

    def tokenize(self, text: str) -> tuple[str, ...]:
        return words(text)
