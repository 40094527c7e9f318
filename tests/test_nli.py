"""NLI models: labels by name, no wasted pairs, gradients that agree with finite differences."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from conftest import minilm_tokenizer, tiny_nli
from sdlg.errors import LabelNotFound, ModelNotFound
from sdlg.nli import load_nli
from sdlg.nli.classifier import SequenceClassifier, label_indices
from sdlg.records import Cost

QUESTION = "What is the capital of France?"


@pytest.mark.parametrize(
    ("labels", "contradiction"),
    [
        (("contradiction", "neutral", "entailment"), 0),
        (("ENTAILMENT", "NEUTRAL", "CONTRADICTION"), 2),
        (("entailment", "contradictory"), 1),
    ],
)
def test_labels_are_found_by_name_in_any_order(labels, contradiction):
    assert label_indices(dict(enumerate(labels)), "x")["contradiction"] == contradiction


@pytest.mark.parametrize(
    "labels", [("LABEL_0", "LABEL_1", "LABEL_2"), ("entailment", "not_entailment"), ("neutral", "contradiction")]
)
def test_a_missing_label_is_an_error_that_names_what_is_there(labels):
    with pytest.raises(LabelNotFound, match=labels[0]):
        label_indices(dict(enumerate(labels)), "x")


def test_label_order_does_not_change_a_verdict():
    one, other = tiny_nli(), tiny_nli(labels=("contradiction", "neutral", "entailment"))
    swapped = copy.deepcopy(other.model)
    order = [2, 1, 0]
    with torch.no_grad():
        swapped.classifier.weight.copy_(other.model.classifier.weight[order])
        swapped.classifier.bias.copy_(other.model.classifier.bias[order])
    swapped.config.id2label = {0: "entailment", 1: "neutral", 2: "contradiction"}
    reordered = SequenceClassifier(swapped, minilm_tokenizer())
    pairs = [("Paris.", "Lyon."), ("Lyon.", "Paris.")]
    judged, again = one.judge(QUESTION, pairs), reordered.judge(QUESTION, pairs)
    for a, b in zip(judged.probabilities, again.probabilities, strict=True):
        assert (a.contradiction, a.neutral, a.entailment) == pytest.approx(
            (b.contradiction, b.neutral, b.entailment), abs=1e-6
        )
    assert np.allclose(
        one.input_gradients(QUESTION, "Paris.").premise_gradients,
        reordered.input_gradients(QUESTION, "Paris.").premise_gradients,
    )


def test_equal_texts_and_repeated_pairs_cost_nothing():
    judged = tiny_nli().judge(QUESTION, [("a", "a"), ("a", "b"), ("a", "b"), ("b", "a")])
    assert judged.cost == Cost(nli_pairs=2)
    assert judged.probabilities[0].entails
    assert judged.probabilities[1] == judged.probabilities[2]


def test_batched_verdicts_equal_single_ones():
    nli = tiny_nli()
    pairs = [(f"answer number {k} " * (k % 5 + 1), "Lyon.") for k in range(40)]
    together = nli.judge(QUESTION, pairs).probabilities
    for pair, verdict in list(zip(pairs, together, strict=True))[::7]:
        assert verdict.entailment == pytest.approx(nli.judge(QUESTION, [pair]).probabilities[0].entailment, abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "deberta", "bart"])
def test_gradients_agree_with_finite_differences(family):
    nli = SequenceClassifier(copy.deepcopy(tiny_nli(family).model).double(), minilm_tokenizer(), name=family)
    found = nli.input_gradients(QUESTION, "It is Paris.")
    statement = f"{QUESTION} It is Paris."
    inputs = dict(nli.tokenizer(statement, statement, return_tensors="pt"))
    leaf = nli._embedding.weight.detach()[inputs["input_ids"][0]].clone()
    sides = nli.tokenizer(statement, statement).sequence_ids(0)
    premise = [k for k, side in enumerate(sides) if side == 0][-len(found.spans) :]
    step = 1e-5
    for piece, column in ((0, 3), (2, 17), (3, 30)):
        ends = []
        for sign in (1, -1):
            moved = leaf.clone()
            moved[premise[piece], column] += sign * step
            with torch.no_grad():
                ends.append(float(nli.contradiction_loss(moved, inputs)))
        found_here = found.premise_gradients[piece, column]
        assert found_here == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-7)


def test_spans_are_those_of_the_answers_pieces():
    found = tiny_nli().input_gradients(QUESTION, "It is Paris.")
    assert ["It is Paris."[a:b] for a, b in found.spans] == ["It", "is", "Paris", "."]


def test_a_very_long_question_loses_its_beginning_not_the_answer():
    nli = tiny_nli()
    long = "word " * 10_000
    found = nli.input_gradients(long, "It is Paris.")
    assert ["It is Paris."[a:b] for a, b in found.spans] == ["It", "is", "Paris", "."]
    verdicts = nli.judge(long, [("Paris.", "Lyon."), ("Paris.", "Paris.")]).probabilities
    assert verdicts[1].entails
    assert verdicts[0] != verdicts[1]


@pytest.mark.parametrize("seed", range(40))
def test_a_question_of_long_words_still_fits(seed):
    """A word that is cut may need more pieces than before."""
    import random

    draw = random.Random(seed)
    stems = ["incomprehensib", "antidisestablishment", "counterrevolutionar", "electroencephalo", "Übermensch", "x-ray"]
    question = " ".join(
        draw.choice(stems) + draw.choice(["ly", "arianism", "ies", "graphy", "", "-ness"]) for _ in range(150)
    )
    nli = tiny_nli()
    statement, begin = nli._statement(question, "It is Paris.")
    assert statement[begin:] == "It is Paris."
    assert len(nli.tokenizer(statement, statement).input_ids) <= 512
    nli.judge(question, [("Paris.", "Lyon.")])


def test_a_very_long_answer_loses_its_end():
    found = tiny_nli().input_gradients(QUESTION, "It is Paris. " + "word " * 2000)
    assert found.spans[0] == (0, 2)
    assert len(found.spans) < 600


def test_candidates_are_embedded_as_the_mean_of_their_pieces():
    nli = tiny_nli()
    table = nli._embedding.weight.detach().numpy()
    ids = nli.tokenizer("schweitzer", add_special_tokens=False).input_ids
    rows = nli.embed([("Albert ", "Schweitzer"), ("", ""), ("x ", "schweitzer")])
    assert np.allclose(rows[0], table[ids].mean(axis=0))
    assert np.allclose(rows[0], rows[2])
    assert not rows[1].any()


def test_unknown_models_are_told_apart_from_broken_ones():
    with pytest.raises(ModelNotFound, match="nowhere"):
        load_nli("/nowhere/at-all")
    with pytest.raises(ModelNotFound, match="int"):
        load_nli(3)  # type: ignore[arg-type]


def test_the_embedded_model_knows_paris_from_lyon(nli_minilm):
    same, other = nli_minilm.judge(QUESTION, [("Paris.", "The capital is Paris."), ("Paris.", "Lyon.")]).probabilities
    assert same.entails
    assert other.contradicts
    found = nli_minilm.input_gradients(QUESTION, "The capital of France is Paris.")
    norms = np.linalg.norm(found.embeddings * found.premise_gradients, axis=1)
    assert found.spans[int(norms.argmax())] == (25, 30)  # "Paris"
