"""What a sentence is about, and what could stand in its place: what says the same, what denies it, what goes elsewhere.

In: a sentence, other texts, a judge of pairs. Out: a relation for each text: the likeliest of three by a logistic model
of what the judge says of both texts alone, and of what their words say after those that were given. It was fitted on
pairs that were labelled by hand (bench/relations.py). A sentence of one or two telling words ("Yes.", "- Paris") is an
answer: another text gives the same answer, or it contradicts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from ..nli.base import NliProbabilities
from ..records import Cost
from ..scoring.alignment import word_spans
from ..sentences import marker_length
from .answer_words import named, named_quantities, telling_words
from .clusters import Judge, answer_key, distinct_answers
from .same_answer import fitted_same_answer, log_odds, shared_words

Relation = Literal["agrees", "contradicts", "elsewhere"]
Weights = Mapping[str, Mapping[str, float]]  # of each relation: of each feature, and "constant"
_PACKAGED = Path(__file__).with_name("relations.json")
_SHARED = 0.4  # of the telling words say what a sentence is about
_MOST_GIVEN = 3  # telling words: of a long sentence more would be claims
_SHORT = 2  # telling words
_ALL = 0.99  # of the telling words
_MOST_QUANTITIES = 2  # kinds that count
_MOST_EXCHANGED = 3  # telling words


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


def relate(
    sentence: str, texts: Sequence[str], judge: Judge, *, about: str = "", asked: str = "", nli: str = ""
) -> Related:
    """Return how each text stands to the sentence. The sentence itself agrees and is not asked about.

    `about` is its beginning, which all texts were given; `asked` is what stands before it, the question first.
    """
    others = distinct_answers([text for text in texts if answer_key(text) != answer_key(sentence)])
    is_short = len(telling_words("", sentence[marker_length(sentence) :])) <= _SHORT
    question = asked if is_short else ""
    forward = judge(question, [(sentence, other) for other in others.values()])
    backward = judge(question, [(other, sentence) for other in others.values()])
    found: dict[str, Relation] = {answer_key(sentence): "agrees"}
    for (key, other), *verdicts in zip(others.items(), forward.probabilities, backward.probabilities, strict=True):
        if is_short:
            is_same = fitted_same_answer(nli).same(asked, sentence, other, *verdicts)
            found[key] = "agrees" if is_same else "contradicts"
        else:
            found[key] = relation_of(features(sentence, other, about, *verdicts), verdicts, packaged_weights())
    return Related(tuple(found[answer_key(text)] for text in texts), forward.cost + backward.cost)


def relation_of(found: Mapping[str, float], verdicts: Sequence[NliProbabilities], weights: Weights) -> Relation:
    """Return the relation with the highest score.

    Texts that entail each other agree, if their numbers do; texts that contradict each other in the same words ("not")
    contradict.
    """
    if all(verdict.entails for verdict in verdicts) and not found["quantities_differ"]:
        return "agrees"
    if all(verdict.contradicts for verdict in verdicts) and found["shared_words"] > _ALL:
        return "contradicts"

    def score(relation: Relation) -> float:
        return math.fsum(weights[relation][feature] * value for feature, value in found.items())

    return max(get_args(Relation), key=score)


def features(
    sentence: str, other: str, about: str, forward: NliProbabilities, backward: NliProbabilities
) -> dict[str, float]:
    """Return what the relation of two texts is judged by."""
    said, else_said = (text.removeprefix(about) for text in (sentence, other))
    quantities, others = named_quantities("", said), named_quantities("", else_said)
    named_by_both = [(quantities[kind], others[kind]) for kind in (quantities.keys() & others.keys()) - {"unit"}]
    differing = sum(bool(own - other_own and other_own - own) for own, other_own in named_by_both)
    agreeing = sum(bool(own & other_own) for own, other_own in named_by_both)
    return {
        "constant": 1.0,
        "contradiction": (log_odds(forward.contradiction) + log_odds(backward.contradiction)) / 2,
        "entailment": max(log_odds(forward.entailment), log_odds(backward.entailment)),
        "quantities_differ": float(min(differing, _MOST_QUANTITIES)),
        "quantities_agree": float(min(agreeing, _MOST_QUANTITIES)),
        "shared_words": shared_words(_even(telling_words("", said)), _even(telling_words("", else_said))),
        "names_exchanged": float(_exchange_names(sentence, other)),
    }


def _exchange_names(sentence: str, other: str) -> bool:
    """Whether each has a name that the other has not, and hardly another word of its own."""
    words, other_words = (telling_words("", text).keys() for text in (sentence, other))
    differing = max(len(words - other_words), len(other_words - words))
    if differing > min(_MOST_EXCHANGED, len(words & other_words)):
        return False
    names, others = named("", sentence), named("", other)
    return _misses_one(names, others) and _misses_one(others, names)


def _misses_one(names: Sequence[frozenset[str]], others: Sequence[frozenset[str]]) -> bool:
    return any(not any(name <= other or other <= name for other in others) for name in names)


@cache
def packaged_weights() -> Weights:
    """Return the weights that come with the package."""
    weights: Weights = json.loads(_PACKAGED.read_text(encoding="utf-8"))
    return weights


def _even(words: Iterable[str]) -> dict[str, float]:
    """All words weigh the same: names, which tell answers apart, are what a contradiction changes."""
    return dict.fromkeys(words, 1.0)
