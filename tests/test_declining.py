"""Answers that decline to answer are told from those that answer, and are one meaning."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from fakes import fake_pipeline
from results import RESULTS, made
from sdlg.clustering import cluster_answers
from sdlg.clustering.declining import declines
from sdlg.nli.base import Judged, NliProbabilities
from sdlg.options import Clustering
from sdlg.records import Cost
from sdlg.views.terminal import print_result

DECLINING = (
    "I am unable to address your query due to its political implications.",
    "I apologize, but Wikipedia is not affiliated with us. I cannot provide information on that.",
    "As a large language model, I don't have memories.",
    "As an AI, I am committed to not discussing specific individuals.",
    "I don't know.",
    "I don’t know",
    "I do not have that information.",
    "I'm sorry, but I can't assist with that.",
    "As an AI language model, I do not have access to your personal data.",
    "Can you tell me more?",
    "I'm not sure.",
    "Could you please provide more context?",
    "It is impossible to predict the price of gold.",
    "unknown",
    "Unknown.",
    "I am not aware of any such person.",
    "I cannot answer this without more information.",
    "It is not known.",
    "There is not enough information to say.",
    "I have no idea who that was.",
    "What would you like to know about it?",
    "I'm an AI language model created by Alibaba Cloud, so I don't have a name for you.",
    "I couldn't find anything about that.",
    "As an AI, I am committed to accuracy. However, I cannot give real-time data.",
    "Please specify which Springfield you mean.",
    "I am unable to answer that.",
    "The answer is unknown.",
)
ANSWERING = (
    "The war ended in 1945. As an AI language model, it is important to note that I do not take sides.",
    "As an AI language model, I firmly believe that the Earth is round.",
    "The answer is clear: Paris.",
    "The name is known to everybody.",
    "It is available since 1990.",
    "Canberra",
    "",
    "The capital of Australia is Canberra.",
    "There was no king of France in 1950.",
    "No.",
    "Paris?",
    "I don't know for certain, but it is probably Canberra.",
    "As an AI I have no taste, but many people like Python.",
    "He is known as the Iron Duke.",
    "You can use `s[::-1]`.",
    "The Unknown Soldier",
    "What is a helicopter?",
    "I cannot see the future. However, gold has risen for years.",
    "The film is about a man who does not know his name.",
    "Information theory",
    "It is known as the Emerald Isle.",
    "You need to import os.",
)


@pytest.mark.parametrize("text", DECLINING)
def test_declining(text: str) -> None:
    assert declines(text)


@pytest.mark.parametrize("text", ANSWERING)
def test_answering(text: str) -> None:
    assert not declines(text)


def test_all_that_decline_are_one_meaning_and_nobody_is_asked_of_them():
    texts = ["Paris", "I don't know.", "Lyon", "Can you tell me more?", "paris", "As an AI, I cannot say."]
    asked = []

    def judge(question, pairs):
        asked.extend(pairs)
        return Judged((NliProbabilities(1.0, 0.0, 0.0),) * len(pairs), Cost())

    clusters = cluster_answers("What is it?", texts, judge, Clustering(), nli="nli-minilm")
    assert clusters.numbers == (0, 1, 2, 1, 0, 1)
    assert {text for pair in asked for text in pair} == {"Paris", "Lyon"}
    # The paper's equivalence knows nothing of this.
    strict = cluster_answers("What is it?", texts, judge, Clustering(equivalence="strict"), nli="nli-minilm")
    assert strict.numbers == (0, 1, 2, 3, 0, 4)


def test_views_say_so():
    result = made([(("Paris",), (0.4, 0.5, 0.6)), (("I don't know.", "No idea."), (0.4, 0.5, 0.6))])
    assert [cluster.kind for cluster in result.clusters] == ["answer", "declines"]
    assert result.to_dict()["clusters"][1]["kind"] == "declines"
    assert "declines: I don't know." in shown(result)
    assert "this answer declines: I cannot answer that." in shown(RESULTS["refused"])


def shown(result) -> str:
    console = Console(file=StringIO(), width=100)
    print_result(console, result)
    return console.file.getvalue()


def test_they_can_be_left_out_of_the_estimates():
    script = {"": {"Paris": 0.5, "I don't know": 0.3, "Lyon": 0.2}}
    as_meaning = fake_pipeline(script, {}, draws=0).ask("Where?")
    left_out = fake_pipeline(script, {}, draws=0, declining="left_out").ask("Where?")
    without = fake_pipeline({"": {"Paris": 0.5, "Lyon": 0.2}}, {}, draws=0).ask("Where?")
    assert left_out.semantic_entropy == pytest.approx(without.semantic_entropy)
    assert left_out.semantic_entropy < as_meaning.semantic_entropy
    assert [one.text for one in left_out.clusters] == [one.text for one in as_meaning.clusters]  # they are still shown
    refusing = {"": {"I don't know": 0.6, "Paris": 0.4}}
    assert (
        fake_pipeline(refusing, {}, draws=0, declining="left_out").ask("Where?").semantic_entropy
        == fake_pipeline(refusing, {}, draws=0).ask("Where?").semantic_entropy
    )
