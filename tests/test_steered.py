"""Diversity-steered sampling: a proposal that may be anything, and weights that are right for every one of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from conftest import tiny_lm
from sdlg.errors import BadOption, NotSupported
from sdlg.formats.codec import read_samples, sample_dict
from sdlg.measures import inputs_of
from sdlg.measures.headline import estimate_all, headline_measure
from sdlg.measures.table import measure_all
from sdlg.models.base import Capabilities, DecodeRequest
from sdlg.models.scripted import END, ScriptedModel
from sdlg.nli.base import Judged, NliProbabilities
from sdlg.options import options_from
from sdlg.records import Cost, Estimate, Question
from sdlg.sampling import SAMPLERS, SamplingRequest, check_method
from sdlg.sampling.steered import effective_size, nearest

SCRIPT = {
    "": {"Paris": 0.6, "Lyon": 0.3, "Nice": 0.1},
    "Paris": {" it is": 0.5, END: 0.5},
    "Lyon": {" it is": 0.2, END: 0.8},
    "Nice": {END: 1.0},
}
TRUTH = {"Paris": 0.3, "Paris it is": 0.3, "Lyon": 0.24, "Lyon it is": 0.06, "Nice": 0.1}


class TownJudge:
    """Answers are alike when they begin with the same town, and a little if not."""

    name, parameters = "towns", None

    def __init__(self, alike=0.95, unlike=0.1):
        self.alike, self.unlike = alike, unlike

    def judge(self, question, pairs):
        shares = [self.alike if one.split()[0] == other.split()[0] else self.unlike for one, other in pairs]
        return Judged(tuple(NliProbabilities(0.0, 1 - p, p) for p in shares), Cost(nli_pairs=len(pairs)))


def sample(seed=0, judge=None, model=None, **changes):
    options = options_from("default", {"seed": seed, "draws": 0, "steering_start": 2.0, **changes})
    model = model or ScriptedModel(SCRIPT)
    return SAMPLERS["steered"](SamplingRequest(Question("Which town?"), model, judge or TownJudge(), options))


def log_weight(one):
    return one.generation.logprob - one.generation.proposal_logprob


def test_weights_are_unbiased_whatever_the_penalty():
    """E[w 1(y)] = p(y) for every answer but the first, each given those before it."""
    rounds = [sample(seed, samples=3).samples for seed in range(3000)]
    for place in (1, 2):
        for text, probability in TRUTH.items():
            worth = [math.exp(log_weight(s[place])) * (s[place].text == text) for s in rounds]
            error = 4 * np.std(worth) / math.sqrt(len(worth))
            assert abs(np.mean(worth) - probability) < error + 1e-3


def test_answers_are_drawn_away_from_those_before_them():
    def repeats(**changes):
        rounds = [sample(seed, samples=2, **changes).texts for seed in range(800)]
        return np.mean([one.split()[0] == other.split()[0] for one, other in rounds])

    assert repeats(steering_start=4.0) < 0.5 * repeats(steering_start=0.0, steering_rate=0.0)


def test_without_strength_it_is_multinomial_sampling():
    steered = sample(steering_start=0.0, steering_rate=0.0, samples=20)
    assert all(abs(log_weight(one)) < 1e-12 for one in steered.samples)
    model, decoding = ScriptedModel(SCRIPT), options_from("default", {"strategy": "multinomial"}).decoding
    prompt = model.prompt(Question("Which town?"), "auto")
    plain = [model.decode(DecodeRequest(prompt, [()], decoding, (0, n))).continuations[0] for n in range(20)]
    assert [one.generation.token_ids for one in steered.samples] == [one.token_ids for one in plain]


def test_the_first_answer_is_an_ordinary_draw_and_a_judge_that_sees_no_likeness_changes_nothing():
    assert log_weight(sample(samples=1).samples[0]) == pytest.approx(0)
    assert all(abs(log_weight(one)) < 1e-12 for one in sample(judge=TownJudge(0.0, 0.0), samples=8).samples)


def test_the_same_seed_gives_the_same_answers_and_the_first_ones_do_not_depend_on_how_many_follow():
    assert sample(7, samples=6).texts == sample(7, samples=6).texts
    assert sample(7, samples=6).texts[:3] == sample(7, samples=3).texts
    assert len({sample(seed, samples=6).texts for seed in range(20)}) > 10


def test_its_entropy_is_that_of_self_normalised_weights():
    samples = [replace(one, cluster=place % 2) for place, one in enumerate(sample(3, samples=7).samples)]
    inputs = inputs_of(samples)
    weights = np.exp([log_weight(one) for one in samples])
    shares = np.array([weights[::2].sum(), weights[1::2].sum()]) / weights.sum()
    expected = -(shares * np.log(shares)).sum()
    estimation = options_from("default", {}).estimation
    name = headline_measure("steered", estimation)
    measured = measure_all(inputs, [name])[name]
    assert isinstance(measured, Estimate)
    assert measured.value == pytest.approx(expected)
    assert estimate_all(inputs, estimation)["semantic_entropy"].value == pytest.approx(expected)


def test_a_stored_answer_keeps_what_it_was_drawn_from():
    samples = sample(samples=4).samples
    assert inputs_of(read_samples([sample_dict(one) for one in samples])).proposals == inputs_of(samples).proposals


def test_its_cost_is_told():
    sampled = sample(samples=5)
    assert sampled.cost.nli_pairs > 0
    assert any("steered answers are worth" in note for note in sampled.notes)


def test_a_pair_is_judged_once_however_many_answers_begin_with_it():
    judged = []

    class Counting(TownJudge):
        def judge(self, question, pairs):
            judged.extend(pairs)
            return super().judge(question, pairs)

    sampled = sample(samples=12, judge=Counting())
    assert len(judged) == len(set(judged)) == sampled.cost.nli_pairs


def test_weights_that_are_all_alike_are_worth_all_answers():
    assert effective_size([-3.0] * 8) == pytest.approx(8)
    assert effective_size([0.0, -800.0]) == pytest.approx(1)


def test_likeness_is_that_to_the_nearest_answer_and_an_empty_text_is_like_none():
    assert nearest(TownJudge().judge, "", ["Paris so", "", "Nice"], ["Lyon", "Paris"]) == ([0.95, 0.0, 0.1], 8)


def test_a_truncated_distribution_and_a_model_that_cannot_be_steered_are_refused():
    with pytest.raises(BadOption, match="--top-p 1"):
        sample(top_p=0.9)
    model = ScriptedModel(SCRIPT)
    model.capabilities = Capabilities(frozenset({"greedy", "multinomial"}), True, None)
    with pytest.raises(NotSupported, match="cannot be steered"):
        check_method("steered", model, options_from("default", {}))


class FixedPenalties:
    """Takes a nat off the likeliest token of every step."""

    min_probability, candidates = 0.001, 5

    def penalties(self, token_ids, candidates):
        return [1.0, *[0.0] * (len(candidates) - 1)]

    def chose(self, token_id):
        pass


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_local_engine_draws_from_the_distribution_whose_probability_it_tells(temperature):
    """Against softmax(log p / T − penalty) of the same step, computed here from the alternatives that it tells."""
    changes = {"strategy": "multinomial", "temperature": temperature, "max_tokens": 6}
    decoding = options_from("default", changes).decoding
    model = tiny_lm("llama")
    prompt = model.prompt(Question("Why?"), "plain")
    request = DecodeRequest(prompt, [()], decoding, 5, alternatives_above=0.0, steering=FixedPenalties())
    (grown,) = model.decode(request).continuations
    assert len(grown.proposal_logprobs) == len(grown.logprobs) + len(grown.ending_logprobs)
    ids = [*grown.token_ids]
    for place, proposal in enumerate(grown.proposal_logprobs[: len(ids)]):
        told = grown.alternatives[place]
        moved = np.array([one.logprob for one in told]) / temperature
        if math.exp(told[0].logprob) > FixedPenalties.min_probability:
            moved[0] -= 1.0
        expected = moved - np.logaddexp.reduce(moved)
        assert proposal == pytest.approx(expected[[one.token_id for one in told].index(ids[place])], abs=1e-4)
