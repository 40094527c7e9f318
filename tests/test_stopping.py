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


@pytest.mark.parametrize(
    "text",
    [
        "Gen. Patton", "Lt. Gen. Smith", "Sgt. Pepper", "Capt. Cook", "Col. Sanders", "Maj. Tom", "Adm. Nelson",
        "Cmdr. Bond", "Pvt. Ryan", "Cpl. Klinger", "Rev. King", "Hon. Lee", "Sen. Obama", "Rep. Lewis", "Gov. Brown",
        "Pres. Lincoln", "Messrs. Holmes", "Fr. Brown", "Msgr. Ryan", "Supt. Lee", "the Sgt. and the Gen. of it",
        "Apple Inc.", "Apple Inc. CEO Tim Cook", "Acme Corp. of Ohio", "Tata Ltd.", "Ford Motor Co. of Dearborn",
        "Warner Bros. Pictures", "King Jr. High", "5th Ave. in New York", "Mt. Everest", "Ft. Knox", "Ste. Anne",
        "Smith vs. Jones", "Smith et al. Nature", "cf. Plato", "viz. Rome", "i.e. Rome", "pp. 3", "Vol. II", "Ch. IV",
        "(c. 1850)", "b. 1950", "d. 1960", "5 p.m. on Monday", "a Ph.D. in law", "D.C. law", "Dept. of State",
        "on Jan. 5", "on Feb. 29", "in Sept. of 1990", "Dec. 25, 1642", "No. 5", "Nos. 5 and 6", "est. 1900",
        "see fig. 2", "Figs. 2 and 3", "apples, etc. and pears",
        "6 ft. tall", "6 ft. 2 in. tall", "a 10-in. pipe", "180 lb. in all", "200 lbs. of it", "8 oz. of tea",
    ],
)  # fmt: skip
def test_an_abbreviation_with_what_follows_it_does_not_end_a_sentence(text):
    assert sentence_end(text) is None


@pytest.mark.parametrize("text", ["No.", "In Jan.", "In Jan. ", "It is 6 ft.", "It is 6 ft. ", "apples, etc."])
def test_what_may_be_either_waits_for_the_next_word(text):
    assert sentence_end(text) is None
    assert sentence_end(f"{text.rstrip()} The rest") == text.index(".")
    assert sentence_end(f"{text.rstrip()}\n") == text.index(".")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("It is Paris.", 11),
        ("In 1776. Then", 7),
        ("U.S. law. More", 8),
        ("No. It is Paris.", 2),  # an answer, not a number
        ("the year he was born in.", 23),  # inches only come after a number
        ("He paid for it in. full", 17),
        ("They got in. 5 others", 11),
        ("He ate a lot of figs.", 20),  # a fruit of many: only "fig." and "Figs." are figures
        ("He came in March.", 16),
        ("She lifts one more rep.", 22),  # titles begin with a capital
        ("He asked the sen.", 16),
        ("It was the general.", 18),
        ("She was called Marco.", 20),  # no "Co." inside a word
        ("He drank zinc.", 13),
        ("It is in the Sept. 5", None),
        ("Her sister is called Jan. She", 24),
        ("It lasted 5 min. He left", 15),
        ("It lasted a min. of time", 15),  # no number, no unit
        ("Sgt. Pepper sang. Then", 16),
    ],
)
def test_sentences_end_at_their_full_stop(text, at):
    assert sentence_end(text) == at


@pytest.mark.parametrize(
    ("text", "kept"),
    [("In Jan.", "In Jan"), ("No.", "No"), ("Apple Inc.", "Apple Inc."), ("Paris.", "Paris"), ("the U.S.", "the U.S.")],
)
def test_at_the_end_token_only_a_sentences_full_stop_belongs_to_the_ending(text, kept):
    characters = ["<end>", *text]

    def spelled(ids):
        return "".join(characters[i] for i in ids if i)

    ids = [*range(1, len(characters)), 0]
    stop = find_stop(StopRule(frozenset({0}), sentence_end=True), ids, spelled)
    assert (stop.reason, spelled(ids[: stop.kept])) == ("eos", kept)


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


def test_a_text_where_several_belong_is_one_of_them():
    import sdlg
    from fakes import fake_pipeline
    from sdlg.options import Options

    assert Decoding(stop_strings="END") == Decoding(stop_strings=("END",))
    assert Decoding(stop_strings=["a", "b"]).stop_strings == ("a", "b")
    assert Options().updated(stop_strings="END").decoding.stop_rule.strings == ("END",)
    script = {"": {"Ev": 1.0}, "Ev": {" END": 1.0}}
    pipeline = fake_pipeline(script, {}, stop_strings="END")
    assert pipeline.ask("q?").answer.text == "Ev"
    assert fake_pipeline(script, {}).changed(stop_strings="END").options == pipeline.options
    asked = sdlg.ask("q?", model=pipeline.models.language_model, nli=pipeline.models.nli, stop_strings="END")
    assert asked.answer.text == "Ev"


@pytest.mark.parametrize(
    "wrong",
    [
        {"stop_strings": ("",)},
        {"stop_strings": ""},
        {"stop_strings": (3,)},
        {"stop_strings": None},
        {"stop_strings": b"END"},
    ],
)
def test_stops_that_are_none_are_refused(wrong):
    from sdlg.errors import BadOption

    with pytest.raises(BadOption):
        Decoding(**wrong)
