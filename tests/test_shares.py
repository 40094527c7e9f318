"""Shares: what a reader takes for the model's probability is one, and comes with an interval that holds it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fakes import CAPITAL, MEANINGS, FakeNli, fake_pipeline
from sdlg import Pipeline, ScriptedModel
from sdlg.measures import inputs_of
from sdlg.measures.measuring import measure_all
from sdlg.measures.shares import (
    Tally,
    chao_shen_entropy,
    posterior_entropies,
    share_interval,
    shares_of,
    tally_of,
    wilson,
    without,
)
from sdlg.records import Cost, Draws, Generation, Sample, Sampled

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
            meaning = SPELLINGS.get(cluster.text, cluster.text)
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
    assert result.estimates["share_entropy"].value == pytest.approx(0.0)


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


def test_the_entropy_of_the_shares_has_an_interval_and_says_what_it_is():
    found = fake_pipeline().ask(QUESTION).estimates["share_entropy"]
    assert found.options == {"estimator": "chao_shen", "draws": "5", "drawn_by": "arithmetic"}
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("options", [{"draws": 0}, PAPER])
def test_without_draws_there_are_no_percentages_and_no_entropy_of_them(options):
    result = fake_pipeline(**options).ask(QUESTION)
    assert result.estimates.keys() == {"semantic_entropy"}
    assert {cluster.probability for cluster in result.clusters} == {None}
    assert result.draws == ()


@pytest.mark.parametrize("method", ["sdlg", "multinomial", "arithmetic"])
def test_draws_change_none_of_the_samples_or_their_measures(method):
    asked = {"method": method, "measures": ["PE", "DSE"]}
    with_draws, without = (fake_pipeline(draws=draws, **asked).ask(QUESTION) for draws in (5, 0))
    assert [s.generation for s in with_draws.samples] == [s.generation for s in without.samples]
    for name in ("semantic_entropy", "PE", "DSE"):
        assert with_draws.estimates[name] == without.estimates[name]
    scores = [[cluster.score_share for cluster in result.clusters] for result in (with_draws, without)]
    assert scores[0][: len(scores[1])] == scores[1]


def test_a_model_without_whole_distributions_draws_by_seeds():
    model = ScriptedModel(CAPITAL)
    model.capabilities = replace(model.capabilities, strategies=frozenset({"greedy", "multinomial"}))
    result = Pipeline(model, FakeNli(MEANINGS)).ask(QUESTION)
    assert result.estimates["share_entropy"].options["drawn_by"] == "multinomial"
    assert len(result.draws) == 5


@pytest.mark.parametrize("options", [{}, {"method": "multinomial"}])
def test_what_users_are_shown_is_a_measure_too(options):
    shown = ["share_beyond_answer", "share_entropy"]
    result = fake_pipeline(judged=SPELLINGS, seed=3, measures=shown, **options).ask(QUESTION)
    assert result.estimates["share_beyond_answer"].value == pytest.approx(1 - result.clusters[0].probability)
    assert result.estimates["share_entropy"] == result.share_entropy
    without = measure_all(inputs_of(result.samples), shown)
    assert not without.estimates
    assert "drawn at temperature 1" in without.reasons["share_entropy"]


# -- shares of some of the meanings ---------------------------------------------------------------------------------


def test_shares_of_what_is_kept_are_near_the_truth_and_in_their_intervals():
    """600 distributions over twelve answers: the six likeliest are known, five are drawn, a third is left out."""
    random, errors, naive, held = np.random.default_rng(0), [], [], []
    for _ in range(600):
        masses = random.dirichlet(np.full(12, 0.6)) + 1e-12
        clusters = random.choice(3, size=12, p=[0.3, 0.4, 0.3])
        order = np.argsort(-masses)
        clusters[order[0]] = 0
        truth = masses[clusters == 0].sum() / masses[clusters < 2].sum()
        drawn = random.choice(12, size=5, p=masses / masses.sum())
        known, draws = (tuple(sample(k, masses[k], clusters[k]) for k in map(int, some)) for some in (order[:6], drawn))
        sampled = Sampled(known, (), Cost(), draws=Draws(draws, "multinomial"))
        kept = without(sampled, [one.cluster == 2 for one in (*known, *draws)])
        tally = tally_of(kept.samples, kept.draws)
        low, high = share_interval(tally, 0, 1.0)
        held.append(low - 1e-9 <= truth <= high + 1e-9)
        errors.append(abs(shares_of(tally)[0] - truth))
        naive.append(abs(shares_of(tally_of(kept.samples, replace(kept.draws, left_out=0.0)))[0] - truth))
    assert np.mean(held) > 0.93
    assert np.mean(errors) < 0.7 * np.mean(naive)


@pytest.mark.parametrize("method", ["multinomial", "arithmetic"])
def test_an_answer_that_was_sampled_several_times_has_its_probability_once(method):
    lm = ScriptedModel({"": {"Paris": 0.4, **{f"Town{k}": 0.01 for k in range(60)}}})
    pipeline = Pipeline(lm, FakeNli(), method=method, temperature=0.3, samples=10, draws=200, calibration="none")
    result = pipeline.ask("Which town?")
    paris = next(one for one in result.clusters if one.text == "Paris")
    assert len(paris.members) > 1
    assert paris.low <= 0.4 <= paris.high
    assert paris.probability == pytest.approx(0.4, abs=0.05)
    assert result.share_entropy.value > 0


def test_what_is_too_unlikely_for_a_float_still_has_a_share():
    known = [Sample(Generation("odd", (1,), (-800.0,), "eos"), ("odd",), cluster=0)]
    assert shares_of(tally_of(known, Draws((), "multinomial"))) == pytest.approx([1.0])
