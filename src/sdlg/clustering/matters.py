"""What a sentence is about, and what could stand in its place: what says it, too, what denies it, what goes elsewhere.

In: a sentence, other texts, a judge of pairs. Out: a relation for each text. A text contradicts the sentence if the
judge, which reads both alone, says so in one direction and sees no entailment in the other, and if they speak of the
same matter: of the telling words of the one that has fewer the other has two in five. Without that a change of subject
would count like a contradiction, for networks take two statements of different things for contradictions. A text that
the judge finds neutral agrees if what both go on to say, after the words that were given, is of the same matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..nli.base import NliProbabilities
from ..records import Cost
from ..scoring.alignment import word_spans
from ..sentences import marker_length
from .answer_words import split_words, telling_words
from .clusters import Judge, answer_key, distinct_answers
from .same_answer import shared_words

Relation = Literal["agrees", "contradicts", "elsewhere"]
_SHARED, _FEWEST = 0.4, 2  # of the telling words; set by hand
_MOST_GIVEN = 3  # telling words: of a long sentence more would be claims


def matter_ends(sentence: str) -> int:
    """Return how many of its first characters say what it is about: two in five of its telling words, at most three.

    "Curie was born | on November 7, 1867, in Warsaw." What goes on from there speaks of the same matter.
    """
    first = marker_length(sentence)
    telling = telling_words("", sentence[first:]).keys()
    count = min(int(_SHARED * len(telling)), _MOST_GIVEN)
    ends = [end for _, end in word_spans(sentence) if end > first]
    told = (end for end in ends if len(telling & telling_words("", sentence[first:end]).keys()) >= count)
    return next(told, 0) if count else 0


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
    if any(verdict.contradicts for verdict in verdicts):
        return "contradicts" if _speak_of_the_same(sentence, other) else "elsewhere"
    about = sentence[: matter_ends(sentence)]
    said = (text.removeprefix(about) for text in (sentence, other))
    return "agrees" if _speak_of_the_same(*said) else "elsewhere"


def _speak_of_the_same(sentence: str, other: str) -> bool:
    """All words weigh the same: names, which tell answers apart, are what a contradiction changes."""
    words, others = telling_words("", sentence), telling_words("", other)
    if min(len(words), len(others)) < _FEWEST:  # "It is Paris.": its small words are its matter
        return shared_words(_even(split_words(sentence)), _even(split_words(other))) >= _SHARED
    return shared_words(_even(words), _even(others)) >= _SHARED


def _even(words: Iterable[str]) -> dict[str, float]:
    return dict.fromkeys(words, 1.0)
