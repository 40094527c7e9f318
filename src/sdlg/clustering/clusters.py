"""From answers to clusters of meaning.

In: a question, answers to it, and a judge of pairs. Out: a cluster number per answer, 0 for the first answer's cluster,
numbered by first appearance. Answers with the same text (casefolded) are one; every answer is in exactly one cluster.
With the equivalence `answers` all that decline to answer are one, whatever their words; no judge is asked of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..nli.base import Judged, NliProbabilities
from ..options import Clustering, pick
from ..records import Cost
from .declining import declines
from .equivalence import EQUIVALENCES
from .linkage import LINKAGES, Pairs

Judge = Callable[[str, Pairs], Judged]  # `NliModel.judge`, or a look-up of what one said


@dataclass(frozen=True, slots=True)
class Clusters:
    """A cluster number for each answer, and what finding them cost."""

    numbers: tuple[int, ...]
    cost: Cost


def answer_key(text: str) -> str:
    """Equal for answers that are one and the same but for case and surrounding space."""
    return text.strip().casefold()


def distinct_answers(texts: Sequence[str]) -> dict[str, str]:
    """Key → first spelling, in the order of first appearance."""
    spellings: dict[str, str] = {}
    for text in texts:
        spellings.setdefault(answer_key(text), text)
    return spellings


def cluster_answers(
    question: str, texts: Sequence[str], judge: Judge, options: Clustering, *, nli: str = ""
) -> Clusters:
    """Cluster numbers, one per text. `nli` names the judge: the equivalence `answers` is fitted for each."""
    distinct = distinct_answers(texts)
    equivalent = pick("equivalence", EQUIVALENCES, options.equivalence)(question, nli)
    spent = [Cost()]

    def probabilities(pairs: Pairs) -> Sequence[NliProbabilities]:
        judged = judge(question, pairs)
        spent.append(judged.cost)
        return judged.probabilities

    link = pick("linkage", LINKAGES, options.linkage)
    declining = {key for key, text in distinct.items() if options.equivalence == "answers" and declines(text)}
    answering = {key: text for key, text in distinct.items() if key not in declining}
    numbers = link(list(answering.values()), lambda pairs: equivalent(pairs, probabilities))
    number_of = dict(zip(answering, numbers, strict=True)) | dict.fromkeys(declining, -1)
    by_key = dict(zip(distinct, _by_appearance([number_of[key] for key in distinct]), strict=True))
    return Clusters(tuple(by_key[answer_key(text)] for text in texts), sum(spent, Cost()))


def _by_appearance(numbers: Sequence[int]) -> list[int]:
    renumbered = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
    return [renumbered[number] for number in numbers]
