"""How right an answer is: exact match, ROUGE, BLEURT, and true references against false ones."""

from __future__ import annotations

import math
import re
import string
import sys
import unicodedata
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import minilm_tokenizer
from sdlg.errors import BadOption, BadQuestion, ModelNotFound, RunError, UnknownName
from sdlg.evaluation.correctness import METRICS, THRESHOLDS, is_correct, judge, load_metrics
from sdlg.evaluation.correctness.lexical import ExactMatch, normalised
from sdlg.evaluation.correctness.words import folded, words

ROUGE_L, ROUGE_1, EXACT_MATCH = load_metrics(["rouge_l", "rouge_1", "exact_match"])
LEXICAL = [ROUGE_L, ROUGE_1, EXACT_MATCH]

ascii_texts = st.text(st.characters(max_codepoint=127), max_size=60)
few_words = st.lists(st.sampled_from(["cat", "dog", "sat", "将", "🚁", "é"]), min_size=1, max_size=7).map(" ".join)
anything = st.text(max_size=30)


def score(metric, answer, reference):
    return metric.scores([(answer, reference)])[0]


# -- exact match ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("The Beatles!", "beatles", 1),
        ("  an  Apple\ta day ", "apple day", 1),
        ("U.S.", "US", 1),
        ("O’Brien", "O'Brien", 1),
        ("Straße", "STRASSE", 1),
        ("CO₂", "co2", 1),
        ("cafe\u0301", "café", 1),
        ("Paris", "Paris, France", 0),
        ("theatre", "atre", 0),
        ("東京", "東京", 1),
        ("東京。", "東京", 1),
        ("東京", "大阪", 0),
        ("🚁", "🚁", 1),
        ("🚁", "🚀", 0),
        ("The", "the", 1),  # nothing is left of either: compared as they are
        ("The", "a", 0),
        ("+", "+", 1),
        ("+", "-", 0),
        ("", "", 0),
        ("", "the", 0),
        (" ", "Paris", 0),
    ],
)
def test_exact_match_ignores_case_punctuation_articles_and_spaces_only(answer, reference, expected):
    assert score(EXACT_MATCH, answer, reference) == expected
    assert score(EXACT_MATCH, reference, answer) == expected


def squad_normalised(text):
    """The published recipe, written again, for ASCII."""
    text = "".join(char for char in text.lower() if char not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


@given(st.text(st.sampled_from(string.printable), max_size=40))
def test_exact_match_normalises_ascii_as_squad_does(text):
    assert normalised(text) == (squad_normalised(text) or text.lower().strip())


# -- words ------------------------------------------------------------------------------------------------------


@given(ascii_texts)
def test_ascii_texts_have_the_words_of_the_rouge_library(text):
    from rouge_score.tokenizers import DefaultTokenizer

    assert list(words(text)) == DefaultTokenizer().tokenize(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("🚁", ["🚁"]),
        ("a red 🚁!", ["a", "red", "🚁"]),
        ("❤️", ["❤"]),
        ("👨‍👩‍👧", ["👨", "👩", "👧"]),
        ("将棋。", ["将", "棋"]),
        ("ソニー株式会社", [*"ソニー株式会社"]),
        ("iPhoneを", ["iphone", "を"]),
        ("शतरंज का खेल", ["शतरंज", "का", "खेल"]),
        ("أنور السادات", ["أنور", "السادات"]),
        ("Михаил Горбачёв", ["михаил", "горбачёв"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("서울 특별시", ["서울", "특별시"]),
        ("Beyoncé", ["beyoncé"]),
        ("beyonce\u0301", ["beyoncé"]),
        ("Ａ１", ["a1"]),
        ("CO₂", ["co2"]),
        ("½", ["1", "2"]),  # as 1/2
        ("“well–known”", ["well", "known"]),
        ("Google™", ["google"]),
        ("−459.67 °F", ["459", "67", "f"]),  # as -459.67 F
        ("£5", ["5"]),  # as $5
        ("£", ["£"]),  # but not nothing
        ("∞", ["∞"]),
        (" \u3000", []),
    ],
)
def test_other_scripts_and_symbols_have_words(text, expected):
    assert list(words(text)) == expected


@given(st.text(st.characters(categories=["L", "M", "N", "Zs"]), max_size=30))
def test_how_characters_are_composed_does_not_matter(text):
    composed, taken_apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert words(composed) == words(taken_apart)
    assert score(EXACT_MATCH, composed, taken_apart) == bool(text.strip())


@given(anything)
def test_only_blank_or_ascii_texts_have_no_words(text):
    if not text.isascii() and folded(text).strip():
        assert words(text)


# -- ROUGE ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reference", "rouge_l", "rouge_1"),
    [
        # 6 and 5 words; "the cat on mat" in order, the same four in any order: P = 4/6, R = 4/5
        ("the cat sat on the mat", "The cat is on mat.", 8 / 11, 8 / 11),
        ("b a", "a b", 1 / 2, 1),
        ("to be or not to be", "not to be", 6 / 9, 6 / 9),
        ("a a a", "a", 2 / 4, 2 / 4),  # a word counts as often as both have it
        ("Paris", "The city of Paris", 2 / 5, 2 / 5),
        ("Lyon", "The city of Paris", 0, 0),
        ("東京都", "東京", 4 / 5, 4 / 5),
        ("🚁", "🚁", 1, 1),
        ("", "Paris", 0, 0),
        ("?!", "?!", 0, 0),  # ASCII without a word, as in the library
    ],
)
def test_rouge_by_hand(answer, reference, rouge_l, rouge_1):
    assert score(ROUGE_L, answer, reference) == pytest.approx(rouge_l)
    assert score(ROUGE_1, answer, reference) == pytest.approx(rouge_1)


def longest_common_subsequence(first, second):
    """By trying every subsequence."""
    return max(
        size
        for size in range(len(first) + 1)
        for kept in combinations(first, size)
        if all(word in rest for rest in [iter(second)] for word in kept)
    )


@settings(max_examples=60)
@given(few_words, few_words)
def test_rouge_equals_brute_force(answer, reference):
    first, second = answer.split(), reference.split()
    shared = (Counter(first) & Counter(second)).total()
    total = len(first) + len(second)
    assert score(ROUGE_L, answer, reference) == pytest.approx(2 * longest_common_subsequence(first, second) / total)
    assert score(ROUGE_1, answer, reference) == pytest.approx(2 * shared / total)


@given(ascii_texts, ascii_texts)
def test_rouge_of_ascii_texts_is_the_library_s(answer, reference):
    from rouge_score.rouge_scorer import RougeScorer

    expected = RougeScorer(["rougeL", "rouge1"]).score(reference, answer)
    assert score(ROUGE_L, answer, reference) == expected["rougeL"].fmeasure
    assert score(ROUGE_1, answer, reference) == expected["rouge1"].fmeasure


@given(few_words)
def test_identical_texts_score_1(text):
    assert [score(metric, text, text) for metric in LEXICAL] == [1, 1, 1]


@given(anything, anything)
def test_scores_are_symmetric_and_within_0_and_1(first, second):
    for metric in LEXICAL:
        value = score(metric, first, second)
        assert 0 <= value <= 1
        assert value == pytest.approx(score(metric, second, first), abs=1e-12)


@given(few_words)
def test_texts_without_a_common_word_score_0(text):
    assert [score(metric, text, "nothing of the kind") for metric in LEXICAL] == [0, 0, 0]


@given(anything, anything)
def test_order_matters_to_rouge_l_only(first, second):
    assert score(ROUGE_L, first, second) <= score(ROUGE_1, first, second) + 1e-12


# -- true and false references ----------------------------------------------------------------------------------


def test_the_best_false_reference_is_subtracted_from_the_best_true_one():
    scores = judge("a red cat", ["cat", "a red cat"], ["a red dog", "blue"], LEXICAL)
    assert scores == pytest.approx({"rouge_l": 1 - 2 / 3, "rouge_1": 1 - 2 / 3, "exact_match": 1})
    assert judge("a red dog", ["cat", "a red cat"], ["a red dog"], [ROUGE_L]) == pytest.approx({"rouge_l": 2 / 3 - 1})


def test_without_false_references_nothing_is_subtracted():
    assert judge("Paris", ["Lyon", "Paris"], [], LEXICAL) == {"rouge_l": 1, "rouge_1": 1, "exact_match": 1}


def test_a_reference_that_is_true_and_false_leaves_0():
    assert judge("no comment", ["no comment"], ["no comment"], [ROUGE_L]) == {"rouge_l": 0}


@given(few_words, st.lists(few_words, min_size=1, max_size=4), st.lists(few_words, max_size=4))
def test_judging_is_the_difference_of_two_maxima(answer, true, false):
    for metric in LEXICAL:
        best = max(score(metric, answer, reference) for reference in true)
        worst = max([score(metric, answer, reference) for reference in false], default=0)
        assert judge(answer, true, false, [metric]) == {metric.name: best - worst}


@pytest.mark.parametrize("answer", ["", " \n"])
def test_an_empty_answer_scores_0(answer):
    assert judge(answer, ["Paris"], ["Lyon"], LEXICAL) == {"rouge_l": 0, "rouge_1": 0, "exact_match": 0}


@pytest.mark.parametrize("true", [[], ["", " "]])
def test_no_true_reference_is_an_error(true):
    with pytest.raises(BadQuestion, match="no true reference"):
        judge("Paris", true, ["Lyon"], LEXICAL)


class Counting:
    name = "counting"

    def __init__(self):
        self.calls = []

    def scores(self, pairs):
        self.calls.append(list(pairs))
        return [float(len(reference)) for _, reference in pairs]


def test_references_are_scored_once_and_in_one_batch():
    metric = Counting()
    assert judge("x", ["aa", "aa", "", "bbb"], ["bbb", "c", "c"], [metric]) == {"counting": 0}
    assert metric.calls == [[("x", "aa"), ("x", "bbb"), ("x", "c")]]


# -- thresholds -------------------------------------------------------------------------------------------------


def test_thresholds_are_tenths():
    assert THRESHOLDS == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_rounding_never_decides_what_is_correct(threshold):
    for tenths in range(10):
        minuend = round(threshold + tenths / 10, 1)
        assert is_correct(minuend - tenths / 10, threshold)
    assert is_correct(math.nextafter(threshold, 0), threshold)
    assert not is_correct(threshold - 1e-6, threshold)
    assert not is_correct(math.nan, threshold)


def test_arrays_are_correct_one_by_one():
    assert is_correct(np.array([0.7 - 0.4, 0.29, math.nan, 1.0]), 0.3).tolist() == [True, False, False, True]


# -- BLEURT -----------------------------------------------------------------------------------------------------

PAIRS = [
    ("a cat", "the cat sat on the mat"),
    ("the dog ran away from home", "a dog"),
    ("the cat sat on the mat", "a cat"),
    ("🚁", "helicopter"),
    ("", "Paris"),
]


def save_tiny(folder, *, outputs=1, positions=64, headless=False):
    """A random BERT with so many outputs on the embedded model's tokenizer, in a folder."""
    import torch
    import transformers as t

    tokenizer = minilm_tokenizer()
    config = t.BertConfig(
        num_labels=outputs, vocab_size=len(tokenizer), max_position_embeddings=positions,
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(5)
    model = t.BertModel(config) if headless else t.BertForSequenceClassification(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("bleurt"))


@pytest.fixture(scope="module")
def tiny_bleurt(tiny_folder):
    return load_metrics(["bleurt"], bleurt=str(tiny_folder), device="cpu")[0]


def test_bleurt_is_the_raw_output_for_reference_then_answer(tiny_folder, tiny_bleurt):
    import torch
    from transformers import BertForSequenceClassification

    model, tokenizer = BertForSequenceClassification.from_pretrained(tiny_folder).eval(), minilm_tokenizer()
    for answer, reference in PAIRS:
        first = [tokenizer.cls_token_id, *tokenizer.encode(reference, add_special_tokens=False), tokenizer.sep_token_id]
        second = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.sep_token_id]
        segments = [0] * len(first) + [1] * len(second)
        with torch.no_grad():
            raw = model(torch.tensor([first + second]), token_type_ids=torch.tensor([segments])).logits.item()
        assert score(tiny_bleurt, answer, reference) == pytest.approx(raw, abs=1e-5)


def test_bleurt_in_a_batch_is_bleurt_one_by_one(tiny_bleurt):
    many = [(f"{answer} {k}", reference) for k in range(9) for answer, reference in PAIRS]  # more than one batch
    one_by_one = [score(tiny_bleurt, *pair) for pair in many]
    assert tiny_bleurt.scores(many) == pytest.approx(one_by_one, abs=1e-5)
    assert len({round(value, 4) for value in one_by_one}) > 30
    assert tiny_bleurt.scores([]) == []


def test_bleurt_tells_the_answer_from_the_reference(tiny_bleurt):
    there, back = tiny_bleurt.scores([PAIRS[0], PAIRS[2]])
    assert abs(there - back) > 1e-3


def test_bleurt_runs_a_repeated_pair_once(tiny_bleurt):
    before = tiny_bleurt.pairs_run
    values = tiny_bleurt.scores([PAIRS[0], PAIRS[1], PAIRS[0]])
    assert values[0] == values[2]
    assert tiny_bleurt.pairs_run == before + 2


def test_bleurt_cuts_what_the_model_cannot_hold(tiny_bleurt):
    long = "cat " * 500
    # 64 positions, three of them special: 61 for two texts of the same length
    assert score(tiny_bleurt, long, long) == pytest.approx(score(tiny_bleurt, "cat " * 31, "cat " * 30), abs=1e-5)
    assert score(tiny_bleurt, "Paris", long) == pytest.approx(score(tiny_bleurt, "Paris", "cat " * 60), abs=1e-5)


def test_bleurt_is_judged_with_the_others(tiny_bleurt):
    scores = judge("a cat", ["the cat", "a cat"], ["a dog"], [ROUGE_L, tiny_bleurt])
    true, same, false = tiny_bleurt.scores([("a cat", "the cat"), ("a cat", "a cat"), ("a cat", "a dog")])
    assert scores["bleurt"] == pytest.approx(max(true, same) - false, abs=1e-5)
    assert judge("", ["the cat"], [], [tiny_bleurt]) == {"bleurt": 0}


# -- what cannot be loaded --------------------------------------------------------------------------------------


def test_an_unknown_metric_lists_the_choices():
    with pytest.raises(UnknownName, match=re.escape(", ".join(sorted(METRICS)))):
        load_metrics(["rouge_l", "bleu"])


def test_every_metric_is_loaded_once_under_its_name(tiny_folder):
    loaded = load_metrics([*METRICS, "rouge_l"], bleurt=str(tiny_folder), device="cpu")
    assert [metric.name for metric in loaded] == list(METRICS)
    assert isinstance(next(metric for metric in loaded if metric.name == "exact_match"), ExactMatch)


@pytest.mark.parametrize("checkpoint", [None, "", " "])
def test_bleurt_without_a_checkpoint_names_the_option(checkpoint):
    with pytest.raises(BadOption, match="--bleurt CHECKPOINT"):
        load_metrics(["bleurt"], bleurt=checkpoint)


def test_a_missing_extra_names_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(
        RunError, match=re.escape("rouge_l needs the package rouge-score. Run: pip install 'sdlg[eval]'")
    ):
        load_metrics(["exact_match", "rouge_l"])


def test_a_folder_without_a_model_is_not_found(tmp_path):
    with pytest.raises(ModelNotFound, match=r"cannot load the BLEURT checkpoint '.*': .*Elron/bleurt-base-512"):
        load_metrics(["bleurt"], bleurt=str(tmp_path))
    with pytest.raises(ModelNotFound, match="cannot load the BLEURT checkpoint 'no-such/checkpoint'"):
        load_metrics(["bleurt"], bleurt="no-such/checkpoint")


def test_a_checkpoint_of_a_foreign_type_is_not_found(tmp_path):
    save_tiny(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"model_type": "bert"', '"model_type": "bleurt"'))
    with pytest.raises(ModelNotFound, match="need classes of their own"):
        load_metrics(["bleurt"], bleurt=str(tmp_path))


def test_a_checkpoint_without_a_tokenizer_is_not_found(tmp_path):
    save_tiny(tmp_path)
    for file in tmp_path.glob("*token*"):
        file.unlink()
    with pytest.raises(ModelNotFound, match="it has no tokenizer"):
        load_metrics(["bleurt"], bleurt=str(tmp_path))


def test_broken_weights_are_not_found(tmp_path):
    save_tiny(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelNotFound, match="cannot load the BLEURT checkpoint"):
        load_metrics(["bleurt"], bleurt=str(tmp_path))


def test_a_classifier_is_not_bleurt(tmp_path):
    with pytest.raises(ModelNotFound, match="is not a BLEURT checkpoint: it has 3 outputs, not one"):
        load_metrics(["bleurt"], bleurt=str(save_tiny(tmp_path, outputs=3)))


def test_a_model_without_a_trained_head_is_not_bleurt(tmp_path):
    with pytest.raises(ModelNotFound, match=r"no weights for classifier\.bias, classifier\.weight"):
        load_metrics(["bleurt"], bleurt=str(save_tiny(tmp_path, headless=True)))


def test_an_unknown_device_is_an_error(tiny_folder):
    with pytest.raises(BadOption, match="cannot use the device 'toaster'"):
        load_metrics(["bleurt"], bleurt=str(tiny_folder), device="toaster")
