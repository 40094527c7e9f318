"""Whether an answer says what a reference says, as an answer to the question: the judge of `equivalence=answers`.

In: a question, an answer, references. Out: the probability that the answer is the same as the reference that it shares
most telling words with. One reference for each answer, so two NLI pairs, however many aliases there are; a text that is
a reference word for word is right without any.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...clustering.answer_words import telling_words
from ...clustering.same_answer import fitted_same_answer, shared_words
from ...nli.base import NliModel
from .lexical import normalised, without_brackets


class SameAnswerMetric:
    """The equivalence of an NLI model as a metric."""

    name = "same_answer"

    def __init__(self, nli: NliModel) -> None:
        self._nli, self._same_answer = nli, fitted_same_answer(nli.name)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One probability per (answer, reference), of answers to no question in particular."""
        return [self.best("", answer, [reference]) for answer, reference in pairs]

    def best(self, question: str, answer: str, references: Sequence[str]) -> float:
        """The probability for the nearest reference."""
        if any(normalised(answer) == normalised(reference) for reference in references):
            return 1.0
        words = telling_words(question, answer)
        plain = [without_brackets(reference) for reference in references]
        nearest = max(plain, key=lambda text: (shared_words(words, telling_words(question, text)), -len(text)))
        forward, backward = self._nli.judge(question, [(answer, nearest), (nearest, answer)]).probabilities
        return self._same_answer.probability(question, answer, nearest, forward, backward)
