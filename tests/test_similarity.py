"""Similarity models: the embedded one, and others by name."""

from __future__ import annotations

import pytest
import transformers as t

from conftest import minilm_tokenizer
from sdlg.errors import ModelNotFound, NotSupported
from sdlg.similarity import load_similarity
from sdlg.similarity.encoders import CrossEncoder, SentenceEncoder


def test_the_embedded_encoder_finds_paraphrases_alike():

    encoder = load_similarity("minilm")
    same, other, equal = encoder.similarity(
        [("The cat sleeps.", "A cat is sleeping."), ("The cat sleeps.", "Stocks fell."), ("x", "x")]
    )
    assert other < 0.4 < same < 1.0
    assert equal == 1.0
    rows = encoder.embed(["a", "b", "a"])
    assert (rows[0] == rows[2]).all()
    assert (rows**2).sum(axis=1) == pytest.approx(1.0)


def test_cross_encoders_and_sentence_encoders_load_by_name(tmp_path):

    small = {
        "vocab_size": len(minilm_tokenizer()),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    for name, model in (
        ("cross", t.BertForSequenceClassification(t.BertConfig(**small, num_labels=1))),
        ("bi", t.BertModel(t.BertConfig(**small))),
        ("three", t.BertForSequenceClassification(t.BertConfig(**small, num_labels=3))),
    ):
        model.save_pretrained(tmp_path / name)
        minilm_tokenizer().save_pretrained(tmp_path / name)
    cross, both = load_similarity(str(tmp_path / "cross")), load_similarity(str(tmp_path / "bi"))
    assert isinstance(cross, CrossEncoder)
    assert isinstance(both, SentenceEncoder)
    assert 0 < cross.similarity([("a", "b")])[0] < 1
    assert cross.similarity([("a", "a")])[0] == 1
    with pytest.raises(NotSupported, match="embeddings"):
        cross.embed(["a"])
    with pytest.raises(NotSupported, match="3 outputs"):
        load_similarity(str(tmp_path / "three"))
    with pytest.raises(ModelNotFound):
        load_similarity("/nowhere/at-all")
