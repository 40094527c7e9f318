"""What measures need and answers lack is computed by the models that may be asked, and only if it is needed."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import tiny_lm
from fakes import FakeNli
from sdlg import Question
from sdlg.measures import inputs_of
from sdlg.measures.inputs import InputModels, compute_inputs
from sdlg.measures.measuring import measure
from sdlg.schema import given_samples


class FakeSimilarity:
    """Texts are as alike as the words they share."""

    name, has_embeddings = "fake", True

    def similarity(self, pairs):
        sets = [(set(a.split()), set(b.split())) for a, b in pairs]
        return np.array([len(a & b) / max(len(a | b), 1) for a, b in sets])

    def embed(self, texts):
        return np.array([[len(text), text.count(" "), 1.0] for text in texts])


def row(*answers, question="Where is the cat?"):
    return Question(question), inputs_of(given_samples(answers))


def test_clusters_and_graphs_come_from_the_nli_model():
    question, samples = row({"text": "Paris"}, {"text": "paris it is"}, {"text": "Lyon"})
    nli = FakeNli({"paris it is": "Paris"})
    found = compute_inputs(samples, question, frozenset({"clusters", "entailment"}), InputModels(nli=nli)).inputs
    assert found.clusters == (0, 0, 1)
    assert found.entailment.shape == (3, 3)
    assert found.entailment[0, 1] > 0.5 > found.entailment[0, 2]


def test_likelihoods_and_relevance_come_from_a_named_model():
    question, samples = row({"text": "the cat sat"}, {"text": "the dog ran"})
    sources = InputModels(tiny_lm("llama"), FakeNli({}), FakeSimilarity())
    found = compute_inputs(samples, question, frozenset({"logprobs", "relevance"}), sources).inputs
    assert [len(r) for r in found.relevance] == [len(steps) for steps in found.logprobs]
    assert all(0 <= value <= 1 for r in found.relevance for value in r)
    assert all(r[-1] == 0.0 for r in found.relevance)  # the ending
    assert all("".join(tokens) == text for tokens, text in zip(found.tokens, found.texts, strict=True))


def test_a_token_without_which_the_text_stays_the_same_is_irrelevant():
    question, samples = row(
        {"text": "a b", "logprobs": [-1.0, -1.0], "tokens": ["a", " b"]},
        {"text": "a", "logprobs": [-1], "tokens": ["a"]},
    )
    found = compute_inputs(samples, question, frozenset({"relevance"}), InputModels(similarity=FakeSimilarity())).inputs
    assert found.relevance[0][1] == pytest.approx(1 - 5 / 6)


def test_p_true_and_self_assessment_are_probabilities_of_the_model(smollm2):
    question, samples = row(
        {"text": "Paris", "cluster": 0}, {"text": "Lyon", "cluster": 1}, question="What is the capital of France?"
    )
    found = compute_inputs(samples, question, frozenset({"p_true", "assessment"}), InputModels(smollm2)).inputs
    assert 0 <= found.p_true <= 1
    assert len(found.assessment) == 2
    assert sum(found.assessment) == pytest.approx(1.0)


def test_total_is_aleatoric_plus_epistemic_for_real_models():
    question, samples = row(
        {"text": "the cat", "cluster": 0}, {"text": "the dog ran", "cluster": 1}, {"text": "the mat", "cluster": 0}
    )
    sources = InputModels(tiny_lm("llama"), others=(tiny_lm("gpt2"), tiny_lm("qwen2")))
    names = [f"{part}_semantic_uncertainty" for part in ("total", "aleatoric", "epistemic")]
    found = measure(samples, question, names, sources).estimates
    total, aleatoric, epistemic = (found[name].value for name in names)
    assert total == pytest.approx(aleatoric + epistemic, abs=1e-12)
    assert epistemic >= 0


def test_unknown_fields_are_gathered_only_if_needed():
    question, samples = row({"text": "a"}, {"text": "b"})
    nli = FakeNli({})
    compute_inputs(samples, question, frozenset({"texts"}), InputModels(nli=nli))
    assert nli.pairs_run == 0
