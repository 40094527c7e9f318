"""Do two answers to one question say the same? A probability, from an NLI model's verdicts and what the words tell.

In: the question, two answers, and the NLI model's verdicts in both directions. Out: p(same), symmetric in the answers.
It is a logistic model over a few features that anyone can read: what the network says both ways, the telling words that
the answers share, and, where the network is known to be blind, quantities (only if the question asks for one), yes and
no, and refusals. Weights and threshold are fitted for each NLI model on answers that people judged: those of
`nli-minilm` and a guess for other models come with the package, `sdlg nli fit` makes a user's own.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..concurrency.limits import check_limit
from ..errors import BadOption
from ..loading.cache_folder import home_folder
from ..nli.base import NliProbabilities
from .answer_words import asked_date, asks_quantity, is_number, named, named_quantities, telling_words
from .declining import declines

Array = NDArray[np.float64]
FEATURES = (
    "entailment",  # log-odds, mean of both directions
    "weaker_entailment",  # log-odds, the less sure direction
    "contradiction",  # log-odds, mean of both directions
    "shared_words",  # 0 to 1
    "overlap",  # 0 to 1
    "names_agree",  # −1, 0 (does not apply), 1
    "dates_agree",  # −1, 0 (does not apply), 1, 4 (decides)
    "quantities_agree",  # −1, 0, 1; the last one, too
    "polarities_agree",  # −2, −1, 0, 1, 2 (decides)
    "refusals_agree",
)


@dataclass(frozen=True, slots=True)
class SameAnswer:
    """A fitted model: what each feature weighs, and from which probability on two answers are one."""

    weights: Mapping[str, float]  # by feature, and "constant"
    threshold: float

    def __post_init__(self) -> None:
        if unknown := set(self.weights) - {"constant", *FEATURES}:
            raise ValueError(f"unknown features {sorted(unknown)}; there are: constant, {', '.join(FEATURES)}")
        if not 0 < self.threshold < 1:
            raise ValueError(f"the threshold is a probability between 0 and 1, not {self.threshold}")

    def probability(
        self, question: str, one: str, other: str, forward: NliProbabilities, backward: NliProbabilities
    ) -> float:
        """That the two answers say the same, as answers to this question."""
        return self._chance(self.score_of_words(question, one, other), forward, backward)

    def same(self, question: str, one: str, other: str, forward: NliProbabilities, backward: NliProbabilities) -> bool:
        """The probability reaches the threshold."""
        return self.are_same(self.score_of_words(question, one, other), forward, backward)

    # The log-odds are a sum: what the words say, which is known before any network is asked, and what the network says.

    def score_of_words(self, question: str, one: str, other: str) -> float:
        """The part of the log-odds that hangs on no network."""
        return self.weights.get("constant", 0.0) + self._weighed(features_of_words(question, one, other))

    def are_same(self, score_of_words: float, forward: NliProbabilities, backward: NliProbabilities) -> bool:
        """The same by what the words say, and both verdicts."""
        return self._chance(score_of_words, forward, backward) >= self.threshold

    def can_be_same(self, score_of_words: float, forward: NliProbabilities) -> bool:
        """Whether any verdict of the other direction would make them one: the score is linear in it, with one kink."""
        entailments, contradictions = (0.0, forward.entailment, 1.0), (0.0, 1.0)
        backwards = [NliProbabilities(c, 0.0, e) for e in entailments for c in contradictions]
        return any(self.are_same(score_of_words, forward, backward) for backward in backwards)

    def _chance(self, score_of_words: float, forward: NliProbabilities, backward: NliProbabilities) -> float:
        return 1 / (1 + math.exp(-(score_of_words + self._weighed(features_of_verdicts(forward, backward)))))

    def _weighed(self, named: Mapping[str, float]) -> float:
        return math.fsum(self.weights.get(name, 0.0) * value for name, value in named.items())


_PACKAGED = Path(__file__).with_name("same_answer.json")
_OTHER_MODELS = "*"  # in the packaged file: for models that nobody has fitted


def fitted_same_answer(nli: str) -> SameAnswer:
    """For an NLI model by its name: what the user fitted (`sdlg nli fit`), what comes with us, or our guess."""
    own = fitted_file(nli)
    return load_same_answer(own) if own.is_file() else _packaged(nli)


def fitted_file(nli: str) -> Path:
    """Where a fit for an NLI model is kept, in our home folder."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "_", nli).strip("_")[-60:]
    return home_folder() / "same_answer" / f"{readable}-{hashlib.sha256(nli.encode()).hexdigest()[:8]}.json"


def fit_fingerprint(nli: str) -> str | None:
    """Return a short hash of the user's own fit for an NLI model; None: the packaged one is used."""
    if not fitted_file(nli).is_file():
        return None
    fit = fitted_same_answer(nli)
    return hashlib.sha256(json.dumps([sorted(fit.weights.items()), fit.threshold]).encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _packaged(nli: str) -> SameAnswer:
    table = json.loads(_PACKAGED.read_text(encoding="utf-8"))
    return _same_answer(table.get(nli, table[_OTHER_MODELS]))


def load_same_answer(file: Path) -> SameAnswer:
    """From the JSON that `sdlg nli fit` writes."""
    try:
        return _same_answer(json.loads(file.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadOption(
            f"{file} is no file of sdlg nli fit ({error}); fit the NLI model again, or delete the file"
        ) from error


def _same_answer(fields: Mapping[str, Mapping[str, float]]) -> SameAnswer:
    weights = {name: float(weight) for name, weight in fields["weights"].items()}
    return SameAnswer(weights, float(fields["threshold"]))  # type: ignore[arg-type]


def features(question: str, one: str, other: str, forward: NliProbabilities, backward: NliProbabilities) -> Array:
    """(len(FEATURES),): the same whichever answer comes first."""
    named = {**features_of_verdicts(forward, backward), **features_of_words(question, one, other)}
    return np.array([named[name] for name in FEATURES])


def features_of_verdicts(forward: NliProbabilities, backward: NliProbabilities) -> dict[str, float]:
    """What the network says of both directions."""
    entailed = [log_odds(verdict.entailment) for verdict in (forward, backward)]
    contradicted = [log_odds(verdict.contradiction) for verdict in (forward, backward)]
    return {
        "entailment": sum(entailed) / 2,
        "weaker_entailment": min(entailed),
        "contradiction": sum(contradicted) / 2,
    }


def features_of_words(question: str, one: str, other: str) -> dict[str, float]:
    """What hangs on no network."""
    words, others = telling_words(question, one), telling_words(question, other)
    return {
        "shared_words": shared_words(words, others),
        "overlap": overlap(words, others),
        "names_agree": names_agree(question, one, other),
        "dates_agree": dates_agree(question, one, other),
        "quantities_agree": quantities_agree(question, one, other),
        "polarities_agree": polarities_agree(question, one, other) * (2.0 if both_polar(one, other) else 1.0),
        "refusals_agree": refusals_agree(one, other),
    }


def log_odds(share: float) -> float:
    """Return them within ±6.9."""
    kept = min(max(share, 1e-3), 1 - 1e-3)
    return math.log(kept / (1 - kept))


# -- words ------------------------------------------------------------------------------------------------------------


def shared_words(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The share of the lighter answer's telling words that the other one has, spelled nearly alike (0 to 1)."""
    few, many = sorted((one, other), key=lambda words: (sum(words.values()), sorted(words)))
    if not few:
        return 0.0
    if _is_acronym(list(few), list(many)):
        return 1.0
    likeness = {word: _likeness(word, many) for word in few}
    return sum(weight * likeness[word] for word, weight in few.items()) / sum(few.values())


def _likeness(word: str, candidates: Iterable[str]) -> float:
    """To the candidate that it resembles most. Long answers have many words: the deadline counts here, too."""
    check_limit()
    return max(_alike(word, candidate) for candidate in candidates)


def overlap(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Of the words that either answer tells, the share that both do (0 to 1)."""
    return len(one.keys() & other.keys()) / max(1, len(one.keys() | other.keys()))


def _is_acronym(few: list[str], many: list[str]) -> bool:
    """UN and United Nations."""
    return len(few) == 1 and len(few[0]) > 1 and "".join(word[0] for word in many).startswith(few[0])


@lru_cache(maxsize=65536)
def _alike(one: str, other: str) -> float:
    """1 for the same word, the share of common letter pairs if it is large, else 0; numbers must be equal."""
    if one == other:
        return 1.0
    if is_number(one) or is_number(other) or min(len(one), len(other)) < 4:
        return 0.0
    pairs, others = ({word[k : k + 2] for k in range(len(word) - 1)} for word in (one, other))
    common = 2 * len(pairs & others) / (len(pairs) + len(others))
    return common if common >= 0.6 else 0.0


def names_agree(question: str, one: str, other: str) -> float:
    """Of the first name in each: 1 if the other answer has it, too, or a part of it; −1 if neither is in the other."""
    names, others = named(question, one), named(question, other)
    if not names or not others:
        return 0.0
    return 1.0 if _is_among(names[0], others) or _is_among(others[0], names) else -1.0


def _is_among(name: frozenset[str], names: Sequence[frozenset[str]]) -> bool:
    return any(name <= other or other <= name for other in names)


# -- where the network is blind: 1 they agree, −1 they do not, 0 it does not apply -------------------------------------

_YES_NO_QUESTION = re.compile(
    r"^\W*(is|are|was|were|do|does|did|can|could|will|would|has|have|had|should|may|must)\b", re.IGNORECASE
)
_YES = re.compile(r"^\W*(yes|yeah|yep|true|correct|right|indeed|certainly|of course)\b", re.IGNORECASE)
_NO = re.compile(
    r"^\W*(no|nope|false|incorrect|wrong)\b|\b(not|never|cannot|no evidence|myth|\w+n['’]t)\b", re.IGNORECASE
)


@lru_cache(maxsize=8192)  # asked twice of each pair: by itself, and by quantities_agree
def dates_agree(question: str, one: str, other: str) -> float:
    """For questions that ask when, if both answers name a year: of a year the year, of a date all that both name.

    4, which decides, where both name all that was asked, once, and agree: whatever else they say was not asked.
    """
    asked = asked_date(question)
    named, others = (named_quantities(question, text) for text in (one, other)) if asked else ({}, {})
    if not (named.get("year") and others.get("year")):
        return 0.0
    verdicts = [named[kind] & others[kind] for kind in asked if kind in named and kind in others]
    if not all(verdicts):
        return -1.0
    is_whole = all(len(one.get(kind, ())) == 1 for one in (named, others) for kind in asked)
    return 4.0 if is_whole else 1.0


def quantities_agree(question: str, one: str, other: str) -> float:
    """For questions that ask for a number or a date: every kind that both answers name has a value in common."""
    if not asks_quantity(question) or dates_agree(question, one, other):
        return 0.0
    named, others = named_quantities(question, one), named_quantities(question, other)
    verdicts = [bool(named[kind] & others[kind]) for kind in named.keys() & others.keys()]
    return 0.0 if not verdicts else 1.0 if all(verdicts) else -1.0


def polarities_agree(question: str, one: str, other: str) -> float:
    """For questions of yes or no; an answer without either word says yes ("Penguins fly")."""
    sides = [_polarity(text) for text in (one, other)]
    if not _YES_NO_QUESTION.search(question) or " or " in question or not any(sides):
        return 0.0
    return (sides[0] or 1.0) * (sides[1] or 1.0)


def both_polar(one: str, other: str) -> bool:
    """Both say yes or no outright, which decides: reasons were not asked."""
    return bool(_polarity(one) and _polarity(other))


def _polarity(text: str) -> float:
    return 1.0 if _YES.search(text) else -1.0 if _NO.search(text) else 0.0


def refusals_agree(one: str, other: str) -> float:
    """Both say that they have no answer, or one of them."""
    return (0.0, -1.0, 1.0)[declines(one) + declines(other)]
