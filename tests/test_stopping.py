"""When answers end, and what is kept of them."""

from __future__ import annotations

import pytest

from sdlg import ScriptedModel
from sdlg.models.base import DecodeRequest, finished
from sdlg.models.stopping import Stop, find_stop, sentence_end
from sdlg.options import Decoding
from sdlg.records import Question, StopRule

WORDS = ["<end>", "Paris", ".", "\n", " Q", ":", " is", ".\n", " Lyon", "In 1945"]


def text_of(ids):
    return "".join(WORDS[i] for i in ids if i)


@pytest.mark.parametrize(
    ("ids", "rule", "wanted"),
    [
        ([1, 0], StopRule(frozenset({0})), Stop("eos", 1, 2)),
        ([0], StopRule(frozenset({0})), Stop("eos", 0, 1)),
        ([1, 6], StopRule(frozenset({0}), ("\n", " Q:")), None),
        ([1, 3], StopRule(strings=("\n",)), Stop("stop_string", 1, 2)),
        ([1, 4], StopRule(strings=(" Q:",)), None),
        ([1, 4, 5], StopRule(strings=(" Q:",)), Stop("stop_string", 1, 3)),
        ([1, 7], StopRule(strings=("\n",)), Stop("stop_string", 1, 2)),
        ([1] * 60 + [3], StopRule(strings=("\n",)), Stop("stop_string", 60, 61)),
        ([1, 2], StopRule(sentence_end=True), Stop("stop_string", 1, 2)),
        ([9, 2], StopRule(sentence_end=True), None),  # 1945. may go on: 1945.5
        ([9, 2, 6], StopRule(sentence_end=True), Stop("stop_string", 1, 2)),  # the next word was only needed to see it
        ([9, 2, 0], StopRule(frozenset({0}), sentence_end=True), Stop("eos", 1, 3)),
        ([], StopRule(frozenset({0}), ("\n",)), None),
    ],
)
def test_the_rule_finds_the_ending(ids, rule, wanted):
    assert find_stop(rule, ids, text_of) == wanted


@pytest.mark.parametrize(
    "text", ["He lived in St.", "the U.S.", "J.", "pi is 3.", "Dr.", "no full stop", ".", "e.g.", "1. "]
)
def test_abbreviations_and_numbers_do_not_end_sentences(text):
    assert sentence_end(text) is None


@pytest.mark.parametrize(("text", "at"), [("It is Paris.", 11), ("In 1776. Then", 7), ("U.S. law. More", 8)])
def test_sentences_end_at_their_full_stop(text, at):
    assert sentence_end(text) == at


def test_a_stop_string_that_begins_in_the_prefix_takes_its_tokens_back():
    continuation = finished((1, 4), (5,), (-0.5,), Stop("stop_string", 1, 3))
    assert (continuation.token_ids, continuation.dropped, continuation.stop_logprob) == ((), 1, -0.5)


def test_a_stop_string_keeps_the_tokens_before_it_and_the_probability_of_its_own():
    model = ScriptedModel({"": {"Paris": 1.0}, "Paris": {" Q": 1.0}, "Paris Q": {":": 0.75, "x": 0.25}}, stops=(" Q:",))
    found = model.decode(DecodeRequest(model.prompt(Question("?"), "auto"), [()], Decoding())).continuations[0]
    assert (model.text(found.token_ids), found.stop_reason) == ("Paris", "stop_string")
    assert found.stop_logprob == pytest.approx(-0.2876820724517809)
    assert found.decisions == 3


def test_only_the_full_stop_is_charged_not_the_word_after_it():
    continuation = finished((), (9, 2, 6), (-0.1, -0.2, -3.0), Stop("stop_string", 1, 2))
    assert (continuation.token_ids, continuation.stop_logprob, continuation.decisions) == ((9,), -0.2, 3)


def test_users_stops_add_to_the_models_own():
    from fakes import fake_pipeline

    script = {"": {"Paris": 1.0}, "Paris": {" is": 1.0}, "Paris is": {" nice": 1.0}}
    assert fake_pipeline(script, {}).ask("q?").answer.text == "Paris is nice"
    cut = fake_pipeline(script, {}, stop_strings=(" is",)).ask("q?").answer
    assert (cut.text, cut.stop_reason) == ("Paris", "stop_string")
    cut = fake_pipeline(script, {}, stop_ids=(ScriptedModel(script).token_id(" nice"),)).ask("q?").answer
    assert (cut.text, cut.stop_reason) == ("Paris is", "eos")


@pytest.mark.parametrize("wrong", [{"stop_strings": ("",)}, {"stop_strings": (3,)}, {"stop_ids": ("x",)}])
def test_stops_that_are_none_are_refused(wrong):
    from sdlg.errors import BadOption

    with pytest.raises(BadOption):
        Decoding(**wrong)
