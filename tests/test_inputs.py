"""What measures need and the samples lack, computed by models; and why it could not be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conftest import tiny_lm
from fakes import FakeNli
from sdlg.errors import BadQuestion
from sdlg.measures import MeasureInputs
from sdlg.measures.inputs import InputModels, compute_inputs, evidence_dict, with_evidence
from sdlg.measures.measuring import measure
from sdlg.records import Question

WHERE = Question("Where is the cat?")


class FakeSimilarity:
    """Texts are as alike as the words they share."""

    name, has_embeddings = "fake", True

    def similarity(self, pairs):
        sets = [(set(a.split()), set(b.split())) for a, b in pairs]
        return np.array([len(a & b) / max(len(a | b), 1) for a, b in sets])

    def embed(self, texts):
        return np.array([[len(text), text.count(" "), 1.0] for text in texts])


def computed(inputs, *needs, **models):
    return compute_inputs(inputs, WHERE, frozenset(needs), InputModels(**models)).inputs


def test_clusters_and_entailment_come_from_the_nli_model():
    nli = FakeNli({"paris it is": "Paris"})
    found = computed(MeasureInputs(texts=("Paris", "paris it is", "Lyon")), "clusters", "entailment", nli=nli)
    assert found.clusters == (0, 0, 1)
    assert found.entailment.shape == (3, 3)
    assert found.entailment[0, 1] > 0.5 > found.entailment[0, 2]


def test_likelihoods_and_relevance_come_from_a_named_model():
    asked = MeasureInputs(texts=("the cat sat", "the dog ran"))
    found = computed(asked, "logprobs", "relevance", model=tiny_lm("llama"), similarity=FakeSimilarity())
    assert [len(row) for row in found.relevance] == [len(steps) for steps in found.logprobs]
    assert all(0 <= value <= 1 for row in found.relevance for value in row)
    assert all(row[-1] == 0.0 for row in found.relevance)  # the ending
    assert all("".join(tokens) == text for tokens, text in zip(found.tokens, found.texts, strict=True))


def test_a_token_without_which_the_text_stays_the_same_is_irrelevant():
    asked = MeasureInputs(texts=("a b", "a"), logprobs=((-1.0, -1.0), (-1.0,)), tokens=(("a", " b"), ("a",)))
    found = computed(asked, "relevance", similarity=FakeSimilarity())
    assert found.relevance[0][1] == pytest.approx(1 - 5 / 6)


def test_similarities_are_symmetric_and_embeddings_one_per_answer():
    found = computed(MeasureInputs(texts=("a b", "a", "c")), "similarity", "embeddings", similarity=FakeSimilarity())
    assert (found.similarity == found.similarity.T).all()
    assert found.embeddings.shape == (3, 3)


def test_p_true_and_self_assessment_are_probabilities_of_the_model(smollm2):
    found = computed(MeasureInputs(texts=("Here", "There"), clusters=(0, 1)), "p_true", "assessment", model=smollm2)
    assert 0 <= found.p_true <= 1
    assert len(found.assessment) == 2
    assert sum(found.assessment) == pytest.approx(1.0)


def test_what_is_known_or_not_needed_is_not_computed():
    nli = FakeNli({})
    computed(MeasureInputs(texts=("a", "b"), clusters=(0, 1)), "texts", "clusters", nli=nli)
    assert nli.pairs_run == 0


def test_a_field_that_cannot_be_computed_has_a_reason_and_the_others_are_there():
    asked = MeasureInputs(texts=tuple(f"{n}" for n in range(27)), clusters=tuple(range(27)))
    found = computed(asked, "assessment", "similarity", "entailment", "logprobs", similarity=FakeSimilarity())
    assert found.similarity is not None
    assert found.unavailable == {
        "logprobs": "no language model was named (--model)",
        "entailment": "no NLI model was named (--nli)",
        "assessment": "27 clusters are more than there are letters",
    }


def test_total_is_aleatoric_plus_epistemic_for_real_models():
    asked = MeasureInputs(texts=("the cat", "the dog ran", "the mat"), identities=(0, 1, 2), clusters=(0, 1, 0))
    models = InputModels(tiny_lm("llama"), others=(tiny_lm("gpt2"), tiny_lm("qwen2")))
    names = [f"{part}_semantic_uncertainty" for part in ("total", "aleatoric", "epistemic")]
    found = measure(asked, WHERE, names, models)
    total, aleatoric, epistemic = (found.estimates[name].value for name in names)
    assert total == pytest.approx(aleatoric + epistemic, abs=1e-12)
    assert epistemic >= 0
    assert found.cost.forward_tokens > 0


def test_a_measure_that_cannot_be_had_does_not_cost_the_others():
    """The frame of P(True) does not fit a context of 128 tokens; the answer does."""
    found = measure(
        MeasureInputs(texts=("the cat",), logprobs=((-1.0,),)), WHERE, ["P(True)", "PPL"], InputModels(tiny_lm("llama"))
    )
    assert found.estimates.keys() == {"PPL"}
    assert "128" in found.reasons["P(True)"]


def test_evidence_is_read_as_it_was_written_and_checked():
    inputs = MeasureInputs(texts=("a", "b"), logprobs=((-1.0,), (-2.0, -1.0)))
    known = {
        "similarity": [[1.0, 0.5], [0.5, 1.0]], "entailment": [[1.0, 0.25], [0.75, 1.0]], "p_true": 0.5,
        "relevance": [[0.5], [0.25, 0.0]], "other_logprobs": [[-1.0, -3.0]],
    }  # fmt: skip
    assert evidence_dict(with_evidence(inputs, known)) == known
    for name, value in (
        ("entailment", [[1.0, 1e300], [0.5, 1.0]]),
        ("similarity", [[1.0, math.nan], [0.5, 1.0]]),
        ("similarity", [1.0, 0.5]),
        ("p_true", [0.5, 0.5]),
        ("p_true", "high"),
        ("other_logprobs", [[-1.0]]),
        ("moon", 1),
    ):
        with pytest.raises(BadQuestion):
            with_evidence(inputs, {name: value})
