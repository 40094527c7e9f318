"""From which answers match to clusters: two linkages.

In: distinct texts and a way to ask which pairs match. Out: a number per text, equal for those of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Pairs = Sequence[tuple[str, str]]
Matcher = Callable[[Pairs], Sequence[bool]]


def greedy_first(texts: Sequence[str], match: Matcher) -> list[int]:
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


def components(texts: Sequence[str], match: Matcher) -> list[int]:
    """Connected components of the graph of matches."""
    numbers = list(range(len(texts)))
    pairs = [(i, j) for j in range(len(texts)) for i in range(j)]
    for (i, j), yes in zip(pairs, match([(texts[i], texts[j]) for i, j in pairs]), strict=True):
        if yes and numbers[i] != numbers[j]:
            old, new = numbers[j], numbers[i]
            numbers = [new if number == old else number for number in numbers]
    return numbers


LINKAGES: Mapping[str, Callable[[Sequence[str], Matcher], list[int]]] = {
    "greedy_first": greedy_first,
    "components": components,
}
