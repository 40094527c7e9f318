"""The sampler on scripts: exact sequences, likelihoods and branch masses, and every edge of the method."""

from __future__ import annotations

import itertools
import math

import pytest

from fakes import FakeNli, fake_pipeline
from sdlg import ScriptedModel
from sdlg.errors import NotSupported
from sdlg.options import options_from
from sdlg.records import Question
from sdlg.sampling import SAMPLERS, SamplingRequest

CITY = {
    "": {"It": 0.7, "Paris": 0.3},
    "It": {" is": 0.8, " was": 0.2},
    "It is": {" Paris": 0.6, " Lyon": 0.4},
    "It was": {" Rome": 0.9, " Paris": 0.1},
}


def sample(script, question="Where?", stops=(), **options):
    return SAMPLERS["sdlg"](
        SamplingRequest(
            Question(question), ScriptedModel(script, stops=stops), FakeNli({}), options_from("default", options)
        )
    )


def test_branches_leave_the_answer_at_one_token_and_go_on_greedily():
    sampled = sample(CITY)
    assert sampled.generations[0].text == "It is Paris"
    assert {s.text for s in sampled.generations[1:]} == {"Paris", "It was Rome", "It is Lyon"}
    for branch in sampled.samples[1:]:
        generation, change = branch.generation, branch.substitution
        assert generation.token_ids[: change.position] == sampled.generations[0].token_ids[: change.position]
        assert generation.token_ids[change.position] == change.token_id
        assert generation.logprobs[change.position] == pytest.approx(change.logprob)


def test_likelihoods_are_those_of_the_whole_sequence():
    by_text = {s.text: s for s in sample(CITY).generations}
    assert math.exp(by_text["It was Rome"].logprob) == pytest.approx(0.7 * 0.2 * 0.9)
    assert math.exp(by_text["It is Paris"].logprob) == pytest.approx(0.7 * 0.8 * 0.6)


def test_samples_count_all_sequences_and_fewer_are_said_to_be_fewer():
    assert len(sample(CITY, samples=3).generations) == 3
    assert len(sample(CITY, samples=1).generations) == 1
    few = sample(CITY, samples=10)
    assert len(few.generations) == 4
    assert "4 of 10 sequences" in few.notes[0]


def test_the_end_is_a_candidate_that_keeps_the_prefix_and_costs_nothing():
    sampled = sample({"": {"Yes": 1.0}, "Yes": {" indeed": 0.6, "<end>": 0.4}}, draws=0)
    answer, branch = sampled.generations
    assert (answer.text, branch.text, branch.stop_reason) == ("Yes indeed", "Yes", "eos")
    assert math.exp(branch.logprob) == pytest.approx(0.4)
    assert sampled.samples[1].substitution.ends_answer
    assert sampled.cost.generated_tokens == 3  # Yes, indeed, end: all of them the answer's


def test_a_replacement_that_completes_a_stop_string_takes_all_of_it_back():
    script = {"": {"Paris": 1.0}, "Paris": {" Q": 1.0}, "Paris Q": {" now": 0.6, ":": 0.4}}
    answer, branch = sample(script, stops=(" Q:",)).generations
    assert (answer.text, branch.text, branch.stop_reason) == ("Paris Q now", "Paris", "stop_string")
    assert math.exp(branch.logprob) == pytest.approx(0.4)


def test_an_empty_answer_branches_at_its_first_position():
    sampled = sample({"": {"<end>": 0.6, "No": 0.3, "Yes": 0.1}})
    assert [s.text for s in sampled.generations] == ["", "No", "Yes"]
    assert sampled.generations[0].stop_logprob == pytest.approx(math.log(0.6))


def test_an_answer_without_alternatives_stands_alone():
    sampled = sample({"": {"Yes": 1.0}})
    assert [s.text for s in sampled.generations] == ["Yes"]
    assert "lower min_probability" in sampled.notes[0]


def test_a_sequence_that_exists_already_is_skipped_for_the_next_candidate():
    """A dropped stop string makes two branches equal: only one is kept, and the next candidate is drawn."""
    script = {
        "": {"A": 0.5, "B": 0.3, "C": 0.2},
        "A": {" x": 0.4, " Q": 0.35, "\n": 0.25},
        "A Q": {":": 1.0},
    }
    texts = [s.text for s in sample(script, stops=("\n", " Q:"), samples=5).generations]
    assert sorted(texts) == ["A", "A x", "B", "C"]


def test_a_cut_answer_is_said_to_be_cut():
    sampled = sample({"": {"a": 1.0}, "a": {" a": 1.0}, "a a": {" a": 1.0}}, max_tokens=2)
    assert sampled.generations[0].stop_reason == "length"
    assert any("cut at 2 tokens" in note for note in sampled.notes)


def test_what_a_model_cannot_do_is_told_before_any_work():
    model = ScriptedModel(CITY)
    model.decode = None  # any decoding would fail
    with pytest.raises(NotSupported, match="beam"):
        SAMPLERS["sdlg"](SamplingRequest(Question("q"), model, FakeNli({}), options_from("paper", {})))


def test_same_seed_gives_the_same_samples():
    options = {"branch_strategy": "multinomial", "strategy": "multinomial"}
    texts = [[s.text for s in sample(CITY, seed=seed, **options).generations] for seed in (1, 1, 2, 3, 4, 5)]
    assert texts[0] == texts[1]
    assert len({tuple(t) for t in texts}) > 1


def test_one_word_answers_are_branched_by_importance():
    sampled = sample({"": {"Paris": 0.5, "Rome": 0.2, "Lyon": 0.3}})
    assert [s.text for s in sampled.generations] == ["Paris", "Lyon", "Rome"]


# -- branch mass ------------------------------------------------------------------------------------------------


def outputs(script, text=""):
    """All outputs of a script with their probabilities."""
    for token, p in script.get(text, {"<end>": 1.0}).items():
        if token == "<end>":
            yield text, p
        else:
            for rest, q in outputs(script, text + token):
                yield rest, p * q


def test_the_answer_and_all_branches_partition_all_probability():
    """Word starts everywhere and no floor: coverage is 1, and masses are those of the strata, enumerated."""
    result = fake_pipeline(CITY, {}).ask("Where?")
    assert result.coverage == pytest.approx(1.0)
    truth = dict(outputs(CITY))
    assert sum(truth.values()) == pytest.approx(1.0)
    for sample_ in result.samples[1:]:
        change = sample_.substitution
        prefix = result.tokens[: change.position]
        beginning = "".join((*prefix, sample_.generation.text[len("".join(prefix)) :][: len(change.replacement) + 1]))
        stratum = sum(
            p for text, p in truth.items() if text.startswith(beginning.rstrip()) and text != result.answer.text
        )
        weight = math.exp(sum(result.answer.logprobs[: change.position])) * change.importance
        assert weight == pytest.approx(stratum)


def test_coverage_grows_with_the_number_of_samples():
    shares = [fake_pipeline(CITY, {}, samples=n).ask("Where?").coverage for n in (1, 2, 3, 4)]
    assert all(a < b for a, b in itertools.pairwise(shares))


SURE = {"": {"Paris": 0.9, "Lyon": 0.095, "Nice": 0.003, "Rome": 0.002}}


@pytest.mark.parametrize(
    ("unexplored", "texts"),
    [(0.2, ["Paris"]), (0.05, ["Paris", "Lyon"]), (0.004, ["Paris", "Lyon", "Nice"]), (0.0, None)],
)
def test_branching_stops_when_little_probability_is_left(unexplored, texts):
    """After Paris .1 is left, after Lyon .005, after Nice .002: known before a branch is decoded."""
    sampled = sample(SURE, samples=4, draws=0, unexplored=unexplored)
    assert list(sampled.texts) == (texts or ["Paris", "Lyon", "Nice", "Rome"])
    assert bool(sampled.notes) == (texts is not None)
