"""Words of the answer: the probability of another meaning at each, and what no branch has explored."""

from __future__ import annotations

import pytest

from fakes import fake_pipeline

QUESTION = "What is the capital of France?"


def test_a_word_has_the_mass_of_what_means_something_else_there():
    words = {word.text: word for word in fake_pipeline(samples=20).ask(QUESTION).words}
    assert words["Paris"].other_meaning == pytest.approx(0.25 + 0.15)  # Lyon, Nice; " paris" is the answer's word
    assert words["Paris"].unexplored == pytest.approx(0.05)
    assert words["is"].other_meaning == 0.0  # "was" means the same
    assert words["It"].other_meaning == pytest.approx(0.1)  # "Paris" means the same, "Lyon" does not


def test_a_word_of_several_tokens_is_left_at_each_of_them():
    script = {"": {"Mar": 0.8, "Lyon": 0.2}, "Mar": {"seille": 0.5, "bella": 0.4, "burg": 0.1}}
    (word,) = fake_pipeline(script, {}, samples=3, positions="all").ask(QUESTION).words
    assert word.other_meaning + word.unexplored == pytest.approx(1 - 0.8 * 0.5)
    assert word.other_meaning == pytest.approx(0.2 + 0.8 * 0.4)
    assert word.unexplored == pytest.approx(0.8 * 0.1)


def test_words_have_no_other_meanings_where_nothing_branched():
    for method in ("multinomial", "arithmetic"):
        words = fake_pipeline(method=method).ask(QUESTION).words
        assert {(word.other_meaning, word.unexplored) for word in words} == {(None, None)}
