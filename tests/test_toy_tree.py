"""The toy tree and the synthetic example are exact: what the benches say of estimators can be trusted."""

from __future__ import annotations

import math
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

import synthetic_example
import toy_model
import toy_study
from conftest import vectors
from sdlg.measures import MeasureInputs, semantic
from sdlg.measures.branches import branch_log_masses
from sdlg.measures.table import find_measure
from sdlg.measures.tokens import total_logprobs
from toy_model import Meaning, Tree, Words, make_tree, random_tree
from toy_study import Way, sample

GREEDY = Way("sdlg")
SAMPLED = Way("sdlg", {"branch_strategy": "multinomial"})
ALL_BRANCHES = {"min_probability": 0.0}


def tiny_tree(answer_ends: float = 0.6) -> Tree:
    """Words a and b, two deep: a (.7) then a, b or the end; the second word alone decides what is meant."""
    going_on = (1 - answer_ends) / 2
    distributions = {(): np.array([0.7, 0.3, 0.0]), (0,): np.array([going_on, going_on, answer_ends]),
                     (1,): np.array([0.5, 0.25, 0.25])}  # fmt: skip
    meanings = {(0,): (0,), (1,): (0,), (0, 0): (1,), (0, 1): (2,), (1, 0): (1,), (1, 1): (2,)}
    return Tree(distributions, meanings, depth=2, branching=2)


@pytest.fixture(scope="module")
def trees() -> list[Tree]:
    return [random_tree(np.random.default_rng(seed)) for seed in range(4)]


# -- the tree is exact ------------------------------------------------------------------------------------------


def test_outputs_sum_to_one(trees):
    for tree in [tiny_tree(), *trees]:
        assert math.fsum(tree.outputs.values()) == pytest.approx(1.0, abs=1e-12)
        assert math.fsum(tree.meaning_masses.values()) == pytest.approx(1.0, abs=1e-12)


def test_true_entropy_is_the_closed_form():
    masses = (0.7 * 0.6 + 0.3 * 0.25, 0.7 * 0.2 + 0.3 * 0.5, 0.7 * 0.2 + 0.3 * 0.25)
    assert tiny_tree().semantic_entropy == pytest.approx(-sum(p * math.log(p) for p in masses), abs=1e-12)


@pytest.mark.parametrize("way", toy_study.WAYS.values(), ids=toy_study.WAYS)
def test_every_sampler_gives_the_likelihoods_of_the_tree(trees, way):
    for tree in trees[:3]:
        samples = sample(tree, way, 8, seed=1)
        for text, total in zip(samples.texts, total_logprobs(samples), strict=True):
            assert math.exp(total) == pytest.approx(tree.outputs[toy_model.words_of(text)], rel=1e-9)


def test_beam_search_finds_the_likeliest_outputs_per_token_if_it_is_wide_enough(trees):
    tree = min(trees, key=lambda tree: len(tree.outputs))
    found = sample(tree, Way("beam"), 5, seed=0, beams=100)
    possible = [words for words, p in tree.outputs.items() if p > 0]
    likeliest = sorted(possible, key=lambda words: -math.log(tree.outputs[words]) / (len(words) + 1))[:5]  # and the end
    assert [toy_model.words_of(text) for text in found.texts] == likeliest


def test_clusters_are_the_meanings(trees):
    samples = sample(trees[0], Way("multinomial"), 20, seed=3)
    meanings = [trees[0].meanings[toy_model.words_of(text)] for text in samples.texts]
    assert len(set(zip(meanings, samples.clusters, strict=True))) == len(set(meanings)) == len(set(samples.clusters))


def test_growing_samplers_give_the_same_first_sequences_whatever_is_asked_for(trees):
    for way in (way for way in toy_study.WAYS.values() if way.grows):
        few, many = (sample(trees[1], way, count, seed=2) for count in (4, 12))
        assert many.first(4).identities == few.identities
        assert many.first(4).clusters == few.clusters


# -- branch mass ------------------------------------------------------------------------------------------------


def test_all_branches_cover_everything_but_what_comes_after_the_answers_end(trees):
    for tree in [tiny_tree(), *trees]:
        samples = sample(tree, GREEDY, 1000, seed=0, **ALL_BRANCHES)
        expected = 1.0 - toy_model.mass_after_end(tree)
        assert find_measure("coverage")(samples) == pytest.approx(expected, abs=1e-9)


def test_all_branches_cover_everything_if_the_answer_cannot_go_on():
    tree = tiny_tree(answer_ends=1.0)
    assert toy_model.mass_after_end(tree) == pytest.approx(0.0, abs=1e-12)
    samples = sample(tree, GREEDY, 1000, seed=0, **ALL_BRANCHES)
    assert find_measure("coverage")(samples) == pytest.approx(1.0, abs=1e-12)


def test_branch_mass_with_sampled_branches_is_unbiased_per_stratum():
    """Every stratum's mass is exact, and each meaning's share of it comes out within 4 standard errors."""
    tree, runs = make_tree(np.random.default_rng(0), depth=3, branching=4, concentration=1.0), 400
    found: dict[Words, Counter[Meaning]] = {}
    for seed in range(runs):
        samples = sample(tree, SAMPLED, 1000, seed=seed, **ALL_BRANCHES)
        answer, *branches = map(toy_model.words_of, samples.texts)
        masses = np.exp(branch_log_masses(samples)[1:])
        for words, mass in zip(branches, masses, strict=True):
            stratum = stratum_of(words, answer)
            assert mass == pytest.approx(sum(exact_strata(tree, answer)[stratum].values()), rel=1e-9)
            found.setdefault(stratum, Counter())[tree.meanings[words]] += 1
    exact = exact_strata(tree, answer)
    assert set(found) == set(exact)
    assert sum(len(masses) > 1 for masses in exact.values()) >= 5  # enough that are not certain
    for stratum, masses in exact.items():
        for meaning, mass in masses.items():
            share = mass / sum(masses.values())
            standard_error = math.sqrt(share * (1 - share) / runs)
            assert abs(found[stratum][meaning] / runs - share) <= 4 * standard_error + 1e-9


def stratum_of(words: Words, answer: Words) -> Words:
    """What a branch shares with the answer, and the word it left it with; an early end is a stratum of its own."""
    at = next((k for k, (a, b) in enumerate(zip(words, answer, strict=False)) if a != b), len(words))
    return words[: at + 1] if at < len(words) else (*words, -1)


@lru_cache(maxsize=4)
def exact_strata(tree: Tree, answer: Words) -> dict[Words, dict[Meaning, float]]:
    """{stratum: {meaning: mass}} by enumeration of all outputs but the answer and what goes on after it."""
    found: dict[Words, dict[Meaning, float]] = {}
    for words, p in tree.outputs.items():
        if words[: len(answer)] != answer:
            masses = found.setdefault(stratum_of(words, answer), {})
            masses[tree.meanings[words]] = masses.get(tree.meanings[words], 0.0) + p
    return found


def test_informed_scores_point_to_the_places_that_matter():
    matter, rest = [], []
    for seed in range(60):
        tree = make_tree(np.random.default_rng(seed), depth=4, branching=4, concentration=0.5)
        answer = sample(tree, GREEDY, 1, seed=0).texts[0]
        words = toy_model.words_of(answer)
        nli = toy_model.TreeNli(tree, informed=True, seed=seed)
        norms = np.linalg.norm(nli.input_gradients("?", answer).premise_gradients, axis=1)
        for place, norm in enumerate(norms / norms.mean()):
            changed = [(*words[:place], other, *words[place + 1 :]) for other in range(tree.branching)]
            changes = sum(tree.meanings[text] != tree.meanings[words] for text in changed)
            (matter if changes > 1 else rest).append(norm)
    assert np.mean(matter) > np.mean(rest) + 0.2


# -- the synthetic example --------------------------------------------------------------------------------------


def test_the_synthetic_examples_limits_are_the_given_ones():
    given = vectors("estimator")["asymptotics"]
    paper, second = synthetic_example.EXAMPLES
    assert list(paper.p_y) == given["p_y"]
    assert list(paper.clusters) == given["cluster"]
    assert paper.truth == pytest.approx(given["truth"])
    for name, key in (
        ("Monte Carlo shares", "truth"),
        ("sum, duplicates counted", "limit_sum_with_duplicates"),
        ("sum, unique", "limit_sum_unique"),
        ("mean within cluster", "limit_official_notebook_mean_within_cluster"),
    ):
        assert synthetic_example.limit(synthetic_example.ESTIMATORS[name], paper) == pytest.approx(given[key])
    other = given["second_example"]
    assert list(second.p_y) == other["p_y"]
    assert second.truth == pytest.approx(other["truth"])
    mean = synthetic_example.limit(synthetic_example.mean_within_cluster, second)
    assert mean == pytest.approx(other["limit_official_notebook_mean_within_cluster"])


def test_many_samples_come_near_the_limits():
    paper = synthetic_example.EXAMPLES[0]
    for line in synthetic_example.measure(paper, runs=100, most=500):
        if line.samples == 500:
            limit = synthetic_example.limit(synthetic_example.ESTIMATORS[line.estimator], paper)[0]
            assert line.mean == pytest.approx(limit, abs=0.006)


def test_the_examples_sums_are_those_of_the_package():
    paper = synthetic_example.EXAMPLES[0]
    draws = np.random.default_rng(5).choice(4, size=7, p=paper.p_y)
    logprobs = tuple((math.log(paper.p_y[y]),) for y in draws)
    samples = MeasureInputs(logprobs, tuple(draws.tolist()), tuple(paper.clusters[y] for y in draws))
    counts = np.bincount(draws, minlength=4)[None].astype(float)
    distinct = np.unique(draws, return_index=True)[1].tolist()
    for kept, estimator in ((None, synthetic_example.sum_counted), (distinct, synthetic_example.sum_unique)):
        masses = semantic.cluster_log_masses(samples, total_logprobs(samples), kept)
        assert estimator(counts, paper)[0] == pytest.approx(semantic.shares(masses), abs=1e-12)
