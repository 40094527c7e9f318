"""Two answers mean the same when they answer the question alike: everyday cases, and what words tell.

The cases were written before anything was tuned; docs/contributing/tried/meaning.md has what was changed in their view.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import CAPITAL, FakeNli
from sdlg import Pipeline, ScriptedModel
from sdlg.cli import main
from sdlg.clustering import cluster_answers
from sdlg.clustering.answer_words import named_quantities, split_words, telling_words
from sdlg.clustering.same_answer import (
    FEATURES,
    SameAnswer,
    dates_agree,
    features,
    features_of_words,
    fit_fingerprint,
    fitted_file,
    fitted_same_answer,
    overlap,
    polarities_agree,
    quantities_agree,
    shared_words,
)
from sdlg.errors import BadOption, ModelNotFound
from sdlg.evaluation.correctness import AGREEMENT, judge
from sdlg.evaluation.correctness.lexical import Contains
from sdlg.evaluation.correctness.same_answer import SameAnswerMetric
from sdlg.evaluation.defaults import DEFAULT_METRICS, headline_metric
from sdlg.evaluation.report import read_report
from sdlg.models.base import NO_STOPS
from sdlg.nli import load_nli
from sdlg.nli.base import Judged, NliProbabilities
from sdlg.nli.language_model_judge import LanguageModelJudge
from sdlg.options import Clustering
from sdlg.records import Cost
from synthetic_run import write_run

# fmt: off
EVERYDAY = [  # question, an answer, another one, whether they mean the same
    ("What is the capital of Australia?", "Canberra",
     "Sydney", False),
    ("What is the capital of Australia?", "The capital of Australia is Sydney.",
     "The capital of Australia is Perth.", False),
    ("What is the capital of Turkey?", "Ankara.",
     "The capital of Turkey is Ankara, not Istanbul as many believe.", True),
    ("What is the capital of Canada?", "The capital of Canada is Ottawa, Ontario.",
     "It's Ottawa.", True),
    ("What is the capital of Brazil?", "Rio de Janeiro is the capital of Brazil.",
     "São Paulo is the capital of Brazil.", False),
    ("Which river runs through Vienna?", "The Danube",
     "The Rhine", False),
    ("When did the Berlin Wall fall?", "The Berlin Wall fell on 9 November 1989.",
     "November 9, 1989", True),
    ("When did the Titanic sink?", "The Titanic sank on April 15, 1912.",
     "The Titanic sank on April 5, 1912.", False),
    ("In what year did the Second World War end?", "1945",
     "It ended in 1945, when Japan surrendered in September.", True),
    ("When was the iPhone first released?", "The first iPhone was released in June 2007 in the United States.",
     "The first iPhone was released in June 2009 in the United States.", False),
    ("Who invented the telephone?", "Alexander Graham Bell invented the telephone.",
     "The telephone was invented by Alexander Graham Bell, a Scottish-born scientist, in 1876.", True),
    ("Who invented the telephone?", "Thomas Edison invented the telephone in 1876.",
     "Alexander Graham Bell invented the telephone in 1876.", False),
    ("Who was the first person to walk on the Moon?", "Neil Armstrong",
     "Buzz Aldrin", False),
    ("Who wrote Pride and Prejudice?", "Jane Austen",
     "Austen wrote it.", True),
    ("Who painted the Mona Lisa?", "Da Vinci",
     "It was painted by Leonardo da Vinci.", True),
    ("Who is the author of The Hobbit?", "The Hobbit was written by C. S. Lewis.",
     "The Hobbit was written by George Orwell.", False),
    ("How many players are on a soccer team on the field?", "Eleven",
     "11 players", True),
    ("How many planets are there in the solar system?", "There are eight planets in the solar system.",
     "There are nine planets in the solar system.", False),
    ("What is the population of Iceland?", "About 380,000 people live in Iceland.",
     "Roughly 380 thousand", True),
    ("How many bones does an adult human have?", "An adult human has 206 bones.",
     "An adult human has 208 bones.", False),
    ("Is the Great Wall of China visible from the Moon?", "No, it is not visible from the Moon.",
     "No.", True),
    ("Is a tomato a fruit?", "Yes, botanically it is a fruit.",
     "No, it is a vegetable.", False),
    ("Can penguins fly?", "Penguins cannot fly.",
     "No, they are flightless birds.", True),
    ("Does sugar make children hyperactive?", "Yes, sugar makes them hyperactive.",
     "There is no evidence that sugar makes children hyperactive.", False),
    ("How tall is Mount Everest?", "8,849 metres",
     "Mount Everest is 8849 m tall.", True),
    ("How long is a marathon?", "42.195 kilometres",
     "A marathon is 42.195 km long.", True),
    ("How fast does light travel?", "About 300,000 kilometres per second",
     "About 300,000 miles per hour", False),
    ("At what temperature does water boil at sea level?", "100 °C",
     "Water boils at 100 degrees Celsius at sea level.", True),
    ("What happens if you swallow chewing gum?", "It stays in your stomach for seven years.",
     "It does not stay in your stomach; it passes through your digestive system.", False),
    ("Did Einstein fail mathematics at school?", "Einstein failed mathematics as a boy.",
     "Einstein never failed mathematics.", False),
    ("Who won the 1998 World Cup?", "France",
     "I don't know.", False),
    ("What is the name of my neighbour's dog?", "I'm sorry, I don't have that information.",
     "I do not know.", True),
    ("What is the tallest building in Chile?", "I'm not sure which building in Chile is the tallest.",
     "The tallest building in Chile is the Gran Torre Santiago.", False),
    ("What is the chemical symbol for gold?", "The chemical symbol for gold is Au.",
     "Au, from the Latin word aurum, which means shining dawn.", True),
    ("Which planet is the largest in the solar system?", "Jupiter is the largest planet.",
     "Jupiter, a gas giant with at least 79 known moons, is the largest planet in the solar system.", True),
    ("What language is spoken in Brazil?", "Portuguese is the official language and is spoken by almost everyone.",
     "People in Brazil speak Portuguese.", True),
    ("Where was Marie Curie born?", "Marie Curie was born in Warsaw in 1867.",
     "Marie Curie was born in Warsaw, Poland, and later moved to Paris.", True),
    ("Who was the first President of the United States?",
     "Thomas Jefferson was the first President of the United States.",
     "Abraham Lincoln was the first President of the United States.", False),
    ("Which country has the largest population in Africa?", "Egypt has the largest population in Africa.",
     "It is Egypt.", True),
    ("Who was king of England in 1530?", "Henry VIII",
     "Henry VII", False),
]
# fmt: on
WRONG = {  # the embedded model joins what is two
    ("How fast does light travel?", "About 300,000 miles per hour"),
    ("Who was king of England in 1530?", "Henry VII"),
}
ENTAILS, CONTRADICTS = NliProbabilities(0.02, 0.08, 0.9), NliProbabilities(0.9, 0.08, 0.02)


def joined(nli, question, one, other, **options):
    return cluster_answers(question, [one, other], nli.judge, Clustering(**options), nli=nli.name).numbers == (0, 0)


def test_everyday_cases_are_right_but_for_those_that_are_named(nli_minilm):
    wrong = {(q, other) for q, one, other, same in EVERYDAY if joined(nli_minilm, q, one, other) != same}
    assert len(EVERYDAY) == 40
    assert wrong <= WRONG


@pytest.mark.parametrize("linkage", ["greedy_first", "components"])
def test_capitals_are_as_many_meanings_as_they_are_and_an_extra_clause_is_none(nli_minilm, linkage):
    def clusters(question, texts):
        return cluster_answers(question, texts, nli_minilm.judge, Clustering(linkage=linkage), nli=nli_minilm.name)

    cities = [f"The capital of Australia is {city}." for city in ("Canberra", "Sydney", "Perth", "Melbourne")]
    texts = [*cities, "Sydney", "It is Canberra."]
    assert clusters("What is the capital of Australia?", texts).numbers == (0, 1, 2, 3, 1, 0)
    bell = [
        "Alexander Graham Bell invented the telephone.",
        "The telephone was invented by Alexander Graham Bell in 1876.",
        "Alexander Graham Bell, a Scottish-born scientist, invented the telephone.",
        "Thomas Edison invented the telephone.",
    ]
    assert clusters("Who invented the telephone?", bell).numbers == (0, 0, 0, 1)


@pytest.mark.parametrize(("question", "one", "other"), [case[:3] for case in EVERYDAY])
def test_features_do_not_depend_on_which_answer_comes_first(question, one, other):
    forward, backward = ENTAILS, CONTRADICTS
    assert features(question, one, other, forward, backward).tolist() == pytest.approx(
        features(question, other, one, backward, forward).tolist()
    )


def test_features_by_hand():
    row = dict(zip(FEATURES, features("Who wrote it?", "Jane Austen", "Austen", ENTAILS, CONTRADICTS), strict=True))
    assert row["weaker_entailment"] == pytest.approx(-3.892, abs=1e-3)  # log(.02 / .98)
    assert row["shared_words"] == 1.0  # all of "Austen"
    assert row["overlap"] == 0.5
    assert row["quantities_agree"] == row["polarities_agree"] == row["refusals_agree"] == 0.0


def test_numbers_dates_and_units_have_one_notation():
    assert split_words("8,849 metres") == split_words("8849 m") == ("8849", "metre")
    assert split_words("Roughly 380 thousand")[1:] == ("380000",)
    assert split_words("Twenty-one") == ("21",)
    assert named_quantities("When?", "on 9 November 1989") == {"day": {"9"}, "month": {"nov"}, "year": {"1989"}}


def test_quantities_only_speak_where_one_is_asked_for():
    assert quantities_agree("How many?", "12 men", "twelve") == 1.0
    assert quantities_agree("How many?", "12 men", "13") == -1.0
    assert quantities_agree("Who was it?", "Bell, in 1876", "Bell, in 1875") == 0.0


def test_dates_speak_where_one_is_asked_for_and_only_for_what_was_asked():
    assert dates_agree("When was it?", "in 1912", "in April 1912") == 1.0
    assert dates_agree("When was it?", "April 15, 1912", "April 5, 1912") == -1.0
    assert dates_agree("When was it?", "April 15, 1912, at sea", "On 15 April 1912 after a storm") == 4.0
    assert dates_agree("In which year was it?", "November 9, 1989", "October 3, 1989") == 4.0
    assert dates_agree("What year was it?", "1989", "November 9, 1990") == -1.0
    assert dates_agree("Who was it?", "Bell, in 1876", "Bell, in 1875") == 0.0
    assert dates_agree("When was it?", "in spring", "in 1912") == 0.0
    assert quantities_agree("When was it?", "in 1912", "in 1913") == 0.0  # the date has said it


def test_yes_and_no_only_speak_where_the_question_asks_for_them():
    assert polarities_agree("Can penguins fly?", "No.", "They cannot fly.") == 1.0
    assert polarities_agree("Can penguins fly?", "Penguins fly.", "They cannot.") == -1.0
    assert polarities_agree("Why do birds fly?", "No idea.", "They have wings.") == 0.0


def test_who_says_yes_or_no_outright_has_decided_it():
    asked = "Is the Earth flat?"
    both = features_of_words(asked, "No, it is not flat.", "The Earth is not flat; it is nearly a sphere.")
    implied = features_of_words(asked, "Yes.", "The Earth is flat.")
    assert (both["polarities_agree"], implied["polarities_agree"]) == (2.0, 1.0)
    assert features_of_words(asked, "Yes.", "No.")["polarities_agree"] == -2.0


def test_words_of_the_question_and_small_ones_tell_nothing():
    assert telling_words("Who invented the telephone?", "Bell invented the telephone") == {"bell": 1.0}
    assert shared_words({"bell": 1.0}, {"edison": 1.0}) == 0.0
    assert shared_words({}, {"edison": 1.0}) == overlap({}, {}) == 0.0
    assert shared_words({"un": 1.0}, {"united": 1.0, "nation": 1.0}) == 1.0


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(["", " ", "…", "42", "Paris"], 2)))
def test_answers_without_words_are_no_accident(one, other):
    assert all(abs(value) < 10 for value in features("", one, other, ENTAILS, ENTAILS))


def test_a_users_own_fit_comes_first_and_a_damaged_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    packaged = fitted_same_answer("some/model")
    assert packaged == fitted_same_answer("another/model")
    file = fitted_file("some/model")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"nli": "some/model", "weights": {"constant": 1.0}, "threshold": 0.6}))
    assert fitted_same_answer("some/model") == SameAnswer({"constant": 1.0}, 0.6)
    own = fit_fingerprint("some/model")
    assert own is not None
    assert fit_fingerprint("another/model") is None
    file.write_text('{"weights": {"constant": 1}, "threshold": 0.60}')  # the same fit, written otherwise
    assert fit_fingerprint("some/model") == own
    file.write_text('{"weights": {"constant": 1.0}, "threshold": 0.61}')
    assert fit_fingerprint("some/model") != own
    file.write_text('{"weights": {"magic": 1.0}, "threshold": 0.6}')
    with pytest.raises(BadOption, match="magic"):
        fitted_same_answer("some/model")


# -- a language model as the judge --------------------------------------------------------------------------------


class AskedModel(ScriptedModel):
    """Remembers what it was asked."""

    def __init__(self, script, alternatives=None):
        super().__init__(script)
        self.capabilities = replace(self.capabilities, alternatives=alternatives)
        self.asked = []

    def prompt(self, question, style, stop=NO_STOPS):
        self.asked.append(question.text)
        return super().prompt(question, style, stop)


def test_a_language_model_judges_by_the_probabilities_of_the_three_words():
    model = AskedModel({"": {"Ent": 0.6, "contradiction": 0.1, " neutral": 0.1, "Maybe": 0.2}, "Ent": {"ailment": 1.0}})
    judge = LanguageModelJudge(model, FakeNli(), name="self")
    verdict = judge.judge("Who wrote it?", [("Austen", "Jane Austen")]).probabilities[0]
    shares = (verdict.contradiction, verdict.neutral, verdict.entailment)
    assert shares == pytest.approx((0.125, 0.125, 0.75))
    assert all(text in model.asked[0] for text in ("Who wrote it?", "Answer 1: Austen", "Answer 2: Jane Austen"))


@pytest.mark.parametrize(
    ("reply", "label"),
    [("I'd say Contradiction", "contradiction"), ("It entails it", "entailment"), ("No idea", "neutral")],
)
def test_where_only_words_are_said_the_word_is_the_verdict(reply, label):
    model = AskedModel({"": {reply: 1.0}}, alternatives=0)
    verdict = LanguageModelJudge(model, FakeNli(), name="self").judge("", [("a", "b")]).probabilities[0]
    assert getattr(verdict, label) == 1.0


def test_a_pair_is_asked_about_once_and_equal_texts_never():
    model = AskedModel({"": {"neutral": 1.0}})
    judge = LanguageModelJudge(model, FakeNli(), name="self")
    judged = judge.judge("Q", [("a", "b"), ("a", "b"), ("a", "a"), ("b", "a")])
    assert (judged.cost.nli_pairs, len(model.asked)) == (2, 2)
    assert judged.probabilities[2].entailment == 1.0
    assert judge.judge("Q", [("a", "b")]).cost == Cost()
    assert judge.judge("another question", [("a", "b")]).cost.nli_pairs == 1


def test_clusters_come_from_the_language_model_and_gradients_from_the_encoder():
    encoder = FakeNli(name="encoder")
    judge = LanguageModelJudge(AskedModel({"": {"entailment": 1.0}}), encoder, name="self")
    result = Pipeline(ScriptedModel(CAPITAL), judge, samples=4, equivalence="strict").ask("What is the capital?")
    assert len(result.clusters) == 1
    assert (encoder.pairs_run, encoder.gradients_run) == (0, 1)
    assert result.cost.nli_pairs > 0
    assert result.cost.nli_gradients == 1
    assert any("gradients are those of encoder" in note for note in result.notes)


def test_self_is_the_model_that_answers():
    model = AskedModel({"": {"neutral": 0.9, "entailment": 0.1}})
    nli = load_nli("self", language_model=lambda: model)
    assert nli.judge("Q", [("a", "b")]).probabilities[0].neutral == pytest.approx(0.9)
    assert nli.name == "self"
    with pytest.raises(ModelNotFound, match="--model"):
        load_nli("self")


def test_a_served_model_judges(serve, plain_environment):
    address = serve("llama", {"": {"entailment": 0.7, "neutral": 0.2, "contradiction": 0.1}}).url
    nli = load_nli(address)
    judged = nli.judge("Q", [("a", "b"), ("b", "a"), ("a", "c")])
    assert [round(verdict.entailment, 3) for verdict in judged.probabilities] == [0.7, 0.7, 0.7]
    assert (judged.cost.nli_pairs, judged.cost.requests) == (3, 3)


# -- right or wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("The capital of France is Paris.", "Paris", True),
        ("It is 8,849 metres tall.", "8849 m", True),
        ("Bell, Alexander Graham", "Alexander Graham Bell", True),
        ("São Paulo", "Sao Paulo (city)", True),
        ("It is Lyon.", "Paris", False),
        ("", "Paris", False),
        ("+", "+", True),
    ],
)
def test_an_answer_contains_its_reference_in_any_order_and_notation(answer, reference, right):
    assert Contains().scores([(answer, reference)]) == [float(right)]


def test_the_same_answer_is_right_and_another_one_is_not(nli_minilm):
    metric = SameAnswerMetric(nli_minilm)

    def score(answer, right, wrong=()):
        return judge(answer, right, wrong, [metric], question="Who invented the telephone?")["same_answer"]

    assert score("It was invented by Alexander Graham Bell, a Scottish-born scientist.", ["A. G. Bell", "Bell"]) > 0.5
    assert score("Thomas Edison invented the telephone.", ["Alexander Graham Bell"]) < 0.5
    assert score("Thomas Edison invented the telephone.", ["Alexander Graham Bell"], ["Edison"]) < 0
    assert score("alexander graham bell", ["Alexander Graham Bell"]) == 1.0


def test_the_network_is_asked_about_the_nearest_reference_only():
    nli = FakeNli({"It was Bell.": "bell", "Graham Bell": "bell"})
    metric = SameAnswerMetric(nli)
    assert metric.best("Who was it?", "It was Bell.", ["Edison", "Graham Bell", "Meucci (inventor)"]) > 0.5
    assert nli.pairs_run == 2


def test_every_usual_metric_says_how_far_it_agrees_with_people():
    assert set(DEFAULT_METRICS) <= set(AGREEMENT)
    best = max(AGREEMENT, key=lambda name: AGREEMENT[name].sentences + AGREEMENT[name].short)
    assert DEFAULT_METRICS[0] == best == headline_metric(DEFAULT_METRICS)
    assert headline_metric(("exact_match", "rouge_l")) == "rouge_l"


@pytest.mark.parametrize(("words", "warned"), [(1, False), (9, True)])
def test_the_report_warns_where_rouge_judges_sentences(tmp_path, words, warned):
    folder = write_run(tmp_path / "x", questions=20, samples=2, methods=("sdlg",), metrics=("rouge_l",))
    file = folder / "generate.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        if "answer" in row:
            row["answer"]["generation"]["text"] = " ".join(["word"] * words)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    warnings = read_report([folder]).sections["overview"].warnings
    assert any("answers are sentences" in text for text in warnings) == warned


# -- fitting ------------------------------------------------------------------------------------------------------


def test_a_fit_separates_what_the_network_separates(tmp_path, monkeypatch, capsys):
    """Judged answers that share no words: all that can be learned is what the fake network says."""
    meanings = {f"w{k}{side}": f"m{k}{side in 'ab'}" for k in range(60) for side in "abc"}
    rows = [
        {
            "id": f"nq-{k}",
            "question": f"Which one, {k}?",
            "answers": [{"text": f"w{k}{side}", "right": side != "c"} for side in "abc"],
        }
        for k in range(60)
    ]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    monkeypatch.setattr("sdlg.nli.load_nli", lambda *_, **__: FakeNli(meanings))
    assert main(["nli", "fit", "--nli", "fake-nli", "--train", str(file), "--dev", str(file)]) == 0
    assert "balanced 1.000" in capsys.readouterr().out
    judge_pair = FakeNli(meanings).judge
    numbers = cluster_answers("Which?", ["w1a", "w1b", "w1c"], judge_pair, Clustering(), nli="fake-nli").numbers
    assert numbers == (0, 0, 1)
    assert main(["nli", "fit", "--train", "nowhere.jsonl", "--dev", str(file)]) == 2


# -- the second direction ---------------------------------------------------------------------------------------

shares = st.floats(0.0, 1.0)
verdicts = st.tuples(shares, shares).map(lambda pair: NliProbabilities(pair[0], 0.0, min(pair[1], 1 - pair[0])))
ANSWERS = ("Canberra", "The capital is Canberra.", "Sydney", "I don't know", "In 1901", "", "No, it is not.")


@given(verdicts, verdicts, st.sampled_from(ANSWERS), st.sampled_from(ANSWERS), st.sampled_from(["nli-minilm", "other"]))
def test_a_direction_that_is_not_asked_could_not_have_decided(forward, backward, one, other, nli):
    """Whatever it would have said, the verdict is the one of both directions."""
    judge, question = fitted_same_answer(nli), "When did Canberra become the capital of Australia?"
    if judge.same(question, one, other, forward, backward):
        assert judge.can_be_same(judge.score_of_words(question, one, other), forward)


weights = st.dictionaries(st.sampled_from(["constant", *FEATURES]), st.floats(-5, 5))


@given(verdicts, verdicts, st.floats(-10, 10), weights, st.floats(0.01, 0.99))
def test_nor_could_it_for_any_other_fit(forward, backward, words, weights, threshold):
    judge = SameAnswer(weights, threshold)
    if judge.are_same(words - 1e-9, forward, backward):
        assert judge.can_be_same(words, forward)


def test_where_one_direction_decides_the_other_is_not_asked():
    asked = []

    def judge(question, pairs):
        asked.extend(pairs)
        return Judged(tuple(CONTRADICTS if "Sydney" in pair else ENTAILS for pair in pairs), Cost())

    texts = ["Canberra", "Sydney", "It is Canberra"]
    clusters = cluster_answers("What is the capital?", texts, judge, Clustering(), nli="nli-minilm")
    assert clusters.numbers == (0, 1, 0)
    assert ("Sydney", "Canberra") not in asked
    assert ("It is Canberra", "Canberra") in asked
