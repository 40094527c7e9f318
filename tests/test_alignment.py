"""Tokens, text and words, for tokenizers of three kinds and for texts of many."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdlg.scoring.alignment import overlapping, surface_in_context, token_spans, visible_start, word_at, word_spans

TEXTS = [
    "The capital of France is Paris.", " leading space", "two  spaces", "line one\nline two", "naïve café",
    "東京は日本の首都です。",
    "👩‍👩‍👧 family 🎉", "x", "", "   ", "Ελλάδα και Ζ", "don't re-use it", "ภาษาไทย", "a\tb",
]  # fmt: skip


@cache
def byte_level():
    from transformers import AutoTokenizer

    from sdlg.models.transformers.gguf import smollm2_folder

    return AutoTokenizer.from_pretrained(smollm2_folder())


@cache
def sentencepiece_style():
    """Unigram with ▁ markers, byte fallback, and a decoder that drops the first space, as Llama-2's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = [
        "<unk>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *("▁" + w for w in ("the", "capital", "is", "line", "", "Paris")),
    ]
    pieces += list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,'-")
    scores = [(piece, -2.0 if len(piece) > 2 and "0x" not in piece else -6.0) for piece in pieces]
    backend = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", unk_token="<unk>")


TOKENIZERS = {"byte-level": byte_level, "sentencepiece": sentencepiece_style}


def parts(kind, text):
    tokenizer = TOKENIZERS[kind]()
    ids = tokenizer(text, add_special_tokens=False).input_ids
    return ids, lambda some: tokenizer.decode(list(some), skip_special_tokens=True, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS)
def test_spans_cover_the_stripped_text_in_order(kind, text):
    check_spans(kind, text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.sampled_from(sorted(TOKENIZERS)))
def test_spans_cover_any_text(text, kind):
    check_spans(kind, text)


def check_spans(kind, text):
    ids, text_of = parts(kind, text)
    spans, shown = token_spans(ids, text_of), text_of(ids).strip()
    assert len(spans) == len(ids)
    covered = "".join(shown[a:b] for a, b in dict.fromkeys(spans))
    assert covered == shown
    assert all(a <= b <= c for (a, b), (_, c) in pairwise(spans))
    assert max((b for _, b in spans), default=0) == len(shown)


def test_bytes_of_one_character_share_its_span():
    ids, text_of = parts("byte-level", "🦆 duck")
    spans = token_spans(ids, text_of)
    first = [span for span in spans if span[0] == 0]
    assert len(first) >= 2
    assert set(first) == {(0, 1)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sat.", ["The", "cat", "sat."]),
        ("  a\n b ", ["a", "b"]),
        ("", []),
        ("東京 is", ["東", "京", "is"]),
        ("日本a", ["日", "本", "a"]),
        ("😀 ok", ["😀", "ok"]),
    ],
)
def test_words_are_decided_on_the_text(text, words):
    assert [text[a:b] for a, b in word_spans(text)] == words


@given(st.text(max_size=60))
def test_words_hold_every_visible_character_once(text):
    spans = word_spans(text)
    assert "".join(text[a:b] for a, b in spans) == "".join(c for c in text if not c.isspace())
    for number, (start, end) in enumerate(spans):
        assert all(word_at(spans, at) == number for at in range(start, end))


def test_a_candidate_is_spelled_as_it_would_follow():
    ids, text_of = parts("sentencepiece", "the capital")
    token = TOKENIZERS["sentencepiece"]().convert_tokens_to_ids("▁Paris")
    assert surface_in_context(ids, token, text_of) == " Paris"
    assert surface_in_context([], token, text_of) == "Paris"


def test_small_things():
    assert overlapping((2, 5), [(0, 2), (1, 3), (4, 9), (5, 6)]) == [1, 2]
    assert visible_start("a  b", (1, 4)) == 3
    assert visible_start("a  b", (1, 3)) is None
