"""Clusters: every linkage against a twin, one answer in one cluster, both directions asked, no pair wasted."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdlg.clustering import cluster_answers
from sdlg.nli.base import Judged, NliProbabilities
from sdlg.options import Clustering
from sdlg.records import Cost

ENTAILS, NEUTRAL, CONTRADICTS = (
    NliProbabilities(0.1, 0.1, 0.8),
    NliProbabilities(0.1, 0.8, 0.1),
    NliProbabilities(0.8, 0.1, 0.1),
)


class Table:
    """A judge that looks pairs up, and remembers what it was asked."""

    def __init__(self, verdicts):
        self.verdicts, self.asked = verdicts, []

    def __call__(self, question, pairs):
        self.asked += pairs
        return Judged(tuple(self.verdicts.get(pair, CONTRADICTS) for pair in pairs), Cost(nli_pairs=len(pairs)))


def clusters(texts, verdicts, **options):
    """By the verdicts alone."""
    return cluster_answers("", texts, Table(verdicts), Clustering(**{"equivalence": "strict", **options})).numbers


def both(*pairs, verdict=ENTAILS):
    return {p: verdict for a, b in pairs for p in ((a, b), (b, a))}


def test_one_direction_is_not_equivalence():
    assert clusters(["a", "b"], {("a", "b"): ENTAILS}) == (0, 1)
    assert clusters(["a", "b"], {("b", "a"): ENTAILS}) == (0, 1)
    assert clusters(["a", "b"], both(("a", "b"))) == (0, 0)


def test_neutral_answers_are_equivalent_only_where_contradiction_decides():
    neutral = both(("a", "b"), verdict=NEUTRAL)
    assert clusters(["a", "b"], neutral, equivalence="strict") == (0, 1)
    assert clusters(["a", "b"], neutral, equivalence="not_contradiction") == (0, 0)


def test_equal_texts_are_one_answer_and_are_never_compared():
    judge = Table({})
    texts = ["Paris", " paris", "PARIS ", "Lyon"]
    assert cluster_answers("", texts, judge, Clustering(equivalence="strict")).numbers == (0, 0, 0, 1)
    assert judge.asked == [("Paris", "Lyon")]  # it contradicts, so the other direction is not asked


def test_five_identical_answers_are_one_cluster_without_any_pair():
    judge = Table({})
    assert cluster_answers("", ["x"] * 5, judge, Clustering()).numbers == (0,) * 5
    assert judge.asked == []


def test_linkages_differ_where_equivalence_is_not_transitive():
    chain = both(("a", "b"), ("b", "c"))
    assert clusters(["a", "b", "c"], chain, linkage="greedy_first") == (0, 0, 1)
    assert clusters(["a", "b", "c"], chain, linkage="components") == (0, 0, 0)
    fork = both(("a", "c"), ("b", "c"))
    assert clusters(["a", "b", "c"], fork, linkage="greedy_first") == (0, 1, 0)


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 6))
    return n, {pair for pair in itertools.combinations(range(n), 2) if draw(st.booleans())}


def twin_greedy(n, edges):
    found = []  # lists of members
    for k in range(n):
        home = next((members for members in found if (members[0], k) in edges), None)
        home.append(k) if home else found.append([k])
    return partition(found, n)


def twin_components(n, edges):
    found = [{k} for k in range(n)]
    for a, b in edges:
        one, other = (next(group for group in found if k in group) for k in (a, b))
        if one is not other:
            found.remove(other)
            one |= other
    return partition(found, n)


def partition(groups, n):
    return {frozenset(group) for group in groups if group}


@given(graphs())
@pytest.mark.parametrize(("linkage", "twin"), [("greedy_first", twin_greedy), ("components", twin_components)])
def test_linkages_equal_their_brute_force_twins(linkage, twin, graph):
    n, edges = graph
    texts = [f"answer {k}" for k in range(n)]
    verdicts = both(*((texts[a], texts[b]) for a, b in edges))
    found = clusters(texts, verdicts, linkage=linkage)
    assert partition([[k for k in range(n) if found[k] == number] for number in set(found)], n) == twin(n, edges)
    assert found[0] == 0
    assert list(dict.fromkeys(found)) == list(range(len(set(found))))  # numbered by first appearance
