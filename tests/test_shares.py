"""Shares: what a reader takes for the model's probability is one, and comes with an interval that holds it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fakes import CAPITAL, MEANINGS, FakeNli, fake_pipeline
from sdlg import Pipeline, ScriptedModel
from sdlg.measures.shares import (
    Tally,
    chao_shen_entropy,
    posterior_entropies,
    share_interval,
    shares_of,
    tally_of,
    wilson,
)
from sdlg.records import Draws, Generation, Sample

QUESTION = "What is the capital of France?"
# p of each meaning of CAPITAL; "It is paris" is "It is Paris" but for case.
TRUTH = {
    "paris": 0.6 * 0.9 * (0.55 + 0.05) + 0.6 * 0.1 + 0.3,
    "It is Lyon": 0.6 * 0.9 * 0.25,
    "It is Nice": 0.6 * 0.9 * 0.15,
    "Lyon": 0.1,
}
SPELLINGS = {**MEANINGS, "It is paris": "paris"}
WAYS = [{}, {"samples": 3}, {"method": "multinomial"}, {"method": "arithmetic"}, {"branch_strategy": "multinomial"}]
PAPER = {"preset": "paper", "strategy": "greedy", "branch_strategy": "greedy"}


def sample(name: int, probability: float, cluster: int) -> Sample:
    return Sample(Generation(str(name), (name,), (math.log(probability),), "eos", ()), cluster=cluster)


@pytest.mark.parametrize("options", WAYS)
def test_shares_are_the_models_probabilities_on_average(options):
    shares: dict[str, float] = {}
    for seed in range(150):
        result = fake_pipeline(judged=SPELLINGS, seed=seed, **options).ask(QUESTION)
        for cluster in result.clusters:
            meaning = SPELLINGS.get(result.text_of(cluster), result.text_of(cluster))
            shares[meaning] = shares.get(meaning, 0.0) + cluster.probability / 150
    assert shares == pytest.approx(TRUTH, abs=0.03)


def test_shares_sum_to_one_and_lie_in_their_intervals():
    for method in ("sdlg", "multinomial", "arithmetic"):
        for seed in range(10):
            clusters = fake_pipeline(method=method, seed=seed).ask(QUESTION).clusters
            assert math.fsum(cluster.probability for cluster in clusters) == pytest.approx(1.0)
            assert all(0 <= one.low <= one.probability <= one.high <= 1 + 1e-9 for one in clusters)


def test_intervals_hold_the_truth():
    held = 0
    for seed in range(200):
        own = fake_pipeline(seed=seed, samples=3).ask(QUESTION).clusters[0]
        held += own.low <= TRUTH["paris"] + 1e-9 and TRUTH["paris"] - 1e-9 <= own.high
    assert held >= 180


def test_a_certain_answer_has_all_probability_and_nothing_is_drawn():
    result = fake_pipeline({"": {"Paris": 1.0}}).ask(QUESTION)
    (own,) = result.clusters
    assert (own.low, own.probability, own.high) == pytest.approx((1.0, 1.0, 1.0))
    assert result.draws == ()
    assert result.semantic_entropy == pytest.approx(0.0)


def test_known_answers_count_exactly_and_draws_share_the_rest():
    known = [sample(1, 0.5, 0), sample(2, 0.1, 1)]
    draws = Draws((sample(1, 0.5, 0), sample(3, 0.05, 1), sample(4, 0.05, 2), sample(5, 0.05, 2)), "multinomial")
    tally = tally_of(known, draws)
    assert tally.rest == pytest.approx(0.4)
    assert tally.counts.tolist() == [0, 1, 2]  # the first draw is known already
    assert shares_of(tally) == pytest.approx([0.5, 0.1 + 0.4 / 3, 0.4 * 2 / 3])


def test_a_share_is_never_below_what_was_found_for_certain():
    tally = Tally(np.zeros(2), np.array([0.0, 5.0]), 1.0, np.array([0.4, 0.1]))
    assert shares_of(tally) == pytest.approx([0.4, 0.6])
    low, high = share_interval(tally, 0, 1.0)
    assert low == pytest.approx(0.4)
    assert high <= 0.9


def test_wilson_is_the_published_formula():
    assert wilson(2, 10) == pytest.approx((0.0567, 0.5098), abs=1e-4)
    assert wilson(0, 10)[0] == 0.0


def test_chao_shen_of_equal_draws_is_nothing_and_of_many_draws_the_entropy():
    assert chao_shen_entropy(Tally(np.zeros(1), np.array([9.0]), 1.0, np.zeros(1))) == pytest.approx(0.0)
    many = Tally(np.zeros(2), np.array([5000.0, 5000.0]), 1.0, np.zeros(2))
    assert chao_shen_entropy(many) == pytest.approx(math.log(2), abs=1e-3)
    assert np.median(posterior_entropies(many, np.random.default_rng(0))) == pytest.approx(math.log(2), abs=0.01)


def test_the_headline_has_an_interval_and_says_what_it_is():
    headline = fake_pipeline().ask(QUESTION).estimates["semantic_entropy"]
    assert headline.options == {"estimator": "chao_shen", "draws": "5", "drawn_by": "arithmetic"}
    assert headline.low <= headline.value <= headline.high


@pytest.mark.parametrize("options", [{"draws": 0}, PAPER])
def test_without_draws_the_headline_is_the_papers_and_there_are_no_percentages(options):
    result = fake_pipeline(**options).ask(QUESTION)
    assert "weighting" in result.estimates["semantic_entropy"].options
    assert {cluster.probability for cluster in result.clusters} == {None}
    assert result.draws == ()


@pytest.mark.parametrize("method", ["sdlg", "multinomial", "arithmetic", "steered"])
@pytest.mark.parametrize("draws", [0, 5])
def test_the_score_that_ranks_is_the_papers_with_draws_and_without(method, draws):
    result = fake_pipeline(method=method, draws=draws).ask(QUESTION)
    plain = fake_pipeline(method=method, draws=0).ask(QUESTION)
    assert result.score == plain.score
    assert result.to_dict()["score"] == {"name": result.score_name, "value": result.score}
    assert result.estimates[result.score_name].value == result.score


def test_draws_change_none_of_the_samples_or_their_measures():
    with_draws, without = (fake_pipeline(draws=draws).ask(QUESTION) for draws in (5, 0))
    assert [s.generation for s in with_draws.samples] == [s.generation for s in without.samples]
    for name, estimate in without.estimates.items():
        if name != "semantic_entropy":
            assert with_draws.estimates[name] == estimate
    scores = [[cluster.score_share for cluster in result.clusters] for result in (with_draws, without)]
    assert scores[0][: len(scores[1])] == scores[1]


def test_a_model_without_whole_distributions_draws_by_seeds():
    model = ScriptedModel(CAPITAL)
    model.capabilities = replace(model.capabilities, strategies=frozenset({"greedy", "multinomial"}))
    result = Pipeline(model, FakeNli(MEANINGS)).ask(QUESTION)
    assert result.estimates["semantic_entropy"].options["drawn_by"] == "multinomial"
    assert len(result.draws) == 5


# -- where it wavers --------------------------------------------------------------------------------------------


def test_a_word_wavers_by_the_mass_of_what_means_something_else_there():
    words = {word.text: word for word in fake_pipeline(samples=20).ask(QUESTION).words}
    assert words["Paris"].wavering == pytest.approx(0.25 + 0.15)  # Lyon, Nice; " paris" is the answer's word
    assert words["Paris"].not_looked_at == pytest.approx(0.05)
    assert words["is"].wavering == 0.0  # "was" means the same
    assert words["It"].wavering == pytest.approx(0.1)  # "Paris" means the same, "Lyon" does not


def test_a_word_of_several_tokens_is_left_at_each_of_them():
    script = {"": {"Mar": 0.8, "Lyon": 0.2}, "Mar": {"seille": 0.5, "bella": 0.4, "burg": 0.1}}
    (word,) = fake_pipeline(script, {}, samples=3, positions="all").ask(QUESTION).words
    assert word.wavering + word.not_looked_at == pytest.approx(1 - 0.8 * 0.5)
    assert word.wavering == pytest.approx(0.2 + 0.8 * 0.4)
    assert word.not_looked_at == pytest.approx(0.8 * 0.1)


def test_nothing_is_said_to_waver_where_nothing_was_branched():
    for method in ("multinomial", "arithmetic"):
        words = fake_pipeline(method=method).ask(QUESTION).words
        assert {(word.wavering, word.not_looked_at) for word in words} == {(None, None)}
