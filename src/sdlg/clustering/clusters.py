"""From answers to clusters of meaning (method.md §5).

In: answers and a judge of pairs. Out: a cluster number per answer, 0 for the first answer's cluster, numbered by first
appearance. Answers with the same text (casefolded) are one; every answer is in exactly one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..nli.base import NliProbabilities
from ..options import Clustering, pick

Judge = Callable[[Sequence[tuple[str, str]]], list[NliProbabilities]]
Matcher = Callable[[Sequence[tuple[str, str]]], list[bool]]

# What one direction must say; two answers are equivalent if both directions say it.
_AGREES: Mapping[str, Callable[[NliProbabilities], bool]] = {
    "strict": lambda verdict: verdict.entails,
    "not_contradiction": lambda verdict: not verdict.contradicts,
}


def answer_key(text: str) -> str:
    """Equal for answers that are one and the same but for case and surrounding space."""
    return text.strip().casefold()


def distinct_answers(texts: Sequence[str]) -> dict[str, str]:
    """Key → first spelling, in the order of first appearance."""
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(answer_key(text), text)
    return found


def cluster_answers(texts: Sequence[str], judge: Judge, options: Clustering) -> tuple[int, ...]:
    """Cluster numbers, one per text."""
    keys = list(map(answer_key, texts))
    distinct = distinct_answers(texts)
    agrees = pick("equivalence", _AGREES, options.equivalence)

    def match(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return _both_directions(pairs, judge, agrees)

    numbers = pick("linkage", _LINKAGES, options.linkage)(list(distinct.values()), match)
    by_key = dict(zip(distinct, _by_appearance(numbers), strict=True))
    return tuple(by_key[key] for key in keys)


def _both_directions(
    pairs: Sequence[tuple[str, str]], judge: Judge, agrees: Callable[[NliProbabilities], bool]
) -> list[bool]:
    """The second direction is only asked where the first one agreed."""
    forward = [agrees(verdict) for verdict in judge(pairs)]
    asked = [k for k, yes in enumerate(forward) if yes]
    backward = judge([(pairs[k][1], pairs[k][0]) for k in asked])
    for k, verdict in zip(asked, backward, strict=True):
        forward[k] = agrees(verdict)
    return forward


def _greedy_first(texts: Sequence[str], match: Matcher) -> list[int]:
    """Join the first cluster whose first member matches. One round per cluster: all that are left against its first."""
    numbers = [-1] * len(texts)
    left = list(range(len(texts)))
    while left:
        first, *rest = left
        numbers[first] = first
        joined = match([(texts[first], texts[k]) for k in rest])
        for k, yes in zip(rest, joined, strict=True):
            if yes:
                numbers[k] = first
        left = [k for k in rest if numbers[k] < 0]
    return numbers


def _all_pairs(texts: Sequence[str], match: Matcher) -> dict[tuple[int, int], bool]:
    pairs = [(i, j) for j in range(len(texts)) for i in range(j)]
    return dict(zip(pairs, match([(texts[i], texts[j]) for i, j in pairs]), strict=True))


def _components(texts: Sequence[str], match: Matcher) -> list[int]:
    """Connected components of the graph of matches."""
    numbers = list(range(len(texts)))
    for (i, j), yes in _all_pairs(texts, match).items():
        if yes and numbers[i] != numbers[j]:
            old, new = numbers[j], numbers[i]
            numbers = [new if number == old else number for number in numbers]
    return numbers


def _last_match(texts: Sequence[str], match: Matcher) -> list[int]:
    """Join the cluster of the last earlier answer that matches (the authors' code: later matches overwrite)."""
    matched = _all_pairs(texts, match)
    numbers: list[int] = []
    for j in range(len(texts)):
        earlier = [i for i in range(j) if matched[i, j]]
        numbers.append(numbers[earlier[-1]] if earlier else j)
    return numbers


_LINKAGES: Mapping[str, Callable[[Sequence[str], Matcher], list[int]]] = {
    "greedy_first": _greedy_first,
    "components": _components,
    "last_match": _last_match,
}


def _by_appearance(numbers: Sequence[int]) -> list[int]:
    renumbered = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
    return [renumbered[number] for number in numbers]
