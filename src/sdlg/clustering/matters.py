"""What could stand in a sentence's place: which texts say it, too, which contradict it, which go on to something else.

In: a sentence, other texts, a judge of pairs. Out: a relation for each text. A text contradicts the sentence if the
judge, which reads both alone, says so in one direction and sees no entailment in the other, and if they speak of the
same matter: of the telling words of the one that has fewer the other has two in five. Without that a change of subject
would count like a contradiction, for networks take two statements of different things for contradictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..nli.base import NliProbabilities
from ..records import Cost
from .answer_words import split_words, telling_words
from .clusters import Judge, answer_key, distinct_answers
from .same_answer import shared_words

Relation = Literal["agrees", "contradicts", "elsewhere"]
_SHARED, _FEWEST = 0.4, 2  # of the telling words; set by hand


@dataclass(frozen=True, slots=True)
class Related:
    """A relation for each text, and what finding them cost."""

    relations: tuple[Relation, ...]
    cost: Cost


def relate(sentence: str, texts: Sequence[str], judge: Judge) -> Related:
    """Return how each text stands to the sentence. The sentence itself agrees and is not asked about."""
    others = distinct_answers([text for text in texts if answer_key(text) != answer_key(sentence)])
    forward = judge("", [(sentence, other) for other in others.values()])
    backward = judge("", [(other, sentence) for other in others.values()])
    found: dict[str, Relation] = {answer_key(sentence): "agrees"}
    for (key, other), *verdicts in zip(others.items(), forward.probabilities, backward.probabilities, strict=True):
        found[key] = _relation(sentence, other, verdicts)
    return Related(tuple(found[answer_key(text)] for text in texts), forward.cost + backward.cost)


def _relation(sentence: str, other: str, verdicts: Sequence[NliProbabilities]) -> Relation:
    if any(verdict.entails for verdict in verdicts):
        return "agrees"
    if not _speak_of_the_same(sentence, other):
        return "elsewhere"
    return "contradicts" if any(verdict.contradicts for verdict in verdicts) else "agrees"


def _speak_of_the_same(sentence: str, other: str) -> bool:
    """All words weigh the same: names, which tell answers apart, are what a contradiction changes."""
    words, others = telling_words("", sentence), telling_words("", other)
    if min(len(words), len(others)) < _FEWEST:  # "It is Paris.": its small words are its matter
        return shared_words(_even(split_words(sentence)), _even(split_words(other))) >= _SHARED
    return shared_words(_even(words), _even(others)) >= _SHARED


def _even(words: Iterable[str]) -> dict[str, float]:
    return dict.fromkeys(words, 1.0)
