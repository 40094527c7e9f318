"""The three scores and the ranking: vectors, invariants, and any tokenizer with any other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import tiny_nli, vectors
from fakes import FakeNli
from sdlg import ScriptedModel
from sdlg.options import PRESETS, Scoring
from sdlg.records import Alternative, Generation, Question, StopRule
from sdlg.scoring import score_answer
from sdlg.scoring.candidates import find_candidates, find_places, normalised
from sdlg.scoring.scores import (
    combined_rank,
    cosine_substitution,
    dense_ranks,
    ranked_order,
    word_attribution,
)

V = vectors("scoring")


def test_attribution_vectors():
    z, g = np.array(V["E"])[V["init"]], np.array(V["grad"])
    assert [word_attribution(z[k : k + 1], g[k : k + 1]) for k in range(3)] == pytest.approx(V["A_token"], abs=1e-9)
    assert [word_attribution(z[w], g[w]) for w in V["words"]] == pytest.approx(V["A_word"], abs=1e-9)


def test_substitution_vectors():
    table, g = np.array(V["E"]), np.array(V["grad"])
    for row in V["candidates"]:
        z = table[V["init"][row["pos"]]]
        assert cosine_substitution(z, table[[row["id"]]], g[row["pos"]])[0] == pytest.approx(row["S_cos"], abs=1e-9)


def columns():
    rows = V["candidates"]
    return tuple(np.array([row[name] for row in rows]) for name in ("A", "S_cos", "I")), rows


def test_rank_vectors():
    (a, s, i), rows = columns()
    for name, score in (("rA", a), ("rS", s), ("rI", i)):
        assert dense_ranks(score).tolist() == [row[name] for row in rows]
    thirds = (1 / 3, 1 / 3, 1 / 3)
    assert combined_rank((a, s, i), thirds).tolist() == pytest.approx([r["mean_rank"] for r in rows], abs=1e-9)


def test_order_vectors():
    scores, rows = columns()
    rank = combined_rank(scores, (1 / 3, 1 / 3, 1 / 3))
    order = ranked_order(rank, scores[2], [r["pos"] for r in rows], [r["id"] for r in rows])
    assert [[rows[k]["word"], rows[k]["id"]] for k in order] == V["order_dense"]


SCORES = st.lists(st.floats(-5, 5), min_size=1, max_size=12)


@given(SCORES)
def test_dense_ranks_equal_their_brute_force_twin(values):
    higher = [{other for other in values if other > value} for value in values]
    assert dense_ranks(np.array(values)).tolist() == [len(others) + 1 for others in higher]


def test_zero_vectors_score_zero():
    assert cosine_substitution(np.ones(3), np.ones((1, 3)), np.ones(3))[0] == 0
    assert cosine_substitution(np.ones(3), np.zeros((1, 3)), np.zeros(3))[0] == 0
    assert word_attribution(np.zeros((0, 3)), np.zeros((0, 3))) == 0


# -- candidates -------------------------------------------------------------------------------------------------

SCRIPT = {
    "": {"Paris": 0.5, "paris": 0.1, "Lyon": 0.2, " lyon": 0.1, "  ": 0.05, "<end>": 0.05},
    "Paris": {" is": 0.6, "<end>": 0.3, "ian": 0.1},
    "Paris is": {" nice": 0.9995, " big": 0.0005},
}


def scripted(script=SCRIPT, **scoring):
    model = ScriptedModel(script)
    prompt = model.prompt(Question("Where?"), "auto")
    from sdlg.options import Options
    from sdlg.sampling.sdlg import initial_answer

    options = Options(**scoring)
    answer = initial_answer(model, prompt, options, lambda stage, text: None).generation
    places = find_places(model, answer, options.scoring)
    return model, answer, find_candidates(model, answer, places, prompt.stop, options.scoring)


def test_candidates_are_likely_tokens_that_spell_another_word():
    _, answer, found = scripted()
    assert answer.text == "Paris is nice"
    assert [(c.position, c.surface, round(c.mass, 4), c.ends_answer) for c in found] == [
        (0, "Lyon", 0.2, False),  # "paris" is the original's word; blanks are no word
        (0, " lyon", 0.1, False),
        (1, "", 0.3, True),  # the end is a candidate after the first position only
        (1, "ian", 0.1, False),
    ]


FORMAT = {
    "": {"Paris": 0.4, " Q": 0.2, "Q": 0.1, "Queen": 0.1, "\n": 0.1, "<end>": 0.1},
    "Paris": {" is": 0.4, " Q": 0.2, ".": 0.1, "<end>": 0.1, "\n": 0.1, ".\n": 0.1},
}


def test_the_prompts_format_is_no_candidate_where_it_is_banned():
    """The authors' code bans the end of text, a new line, "Q" and " Q"; the full stop that ends an answer may come."""
    model = ScriptedModel(FORMAT, stops=("\n", " Q:"))
    stop = model.prompt(Question("?"), "auto").stop | StopRule(sentence_end=True)
    texts = ["", "Paris"]
    answer = Generation(
        "Paris is", tuple(map(model.token_id, ("Paris", " is"))), (-1.0, -1.0), "eos", -1.0,
        tuple(tuple(model.next_tokens(text)) for text in texts),
    )  # fmt: skip

    def surfaces(banned):
        options = Scoring(banned=banned)
        candidates = find_candidates(model, answer, find_places(model, answer, options), stop, options)
        return [(c.position, c.surface, c.ends_answer, round(c.mass, 4)) for c in candidates]

    assert surfaces("format") == [(0, "Queen", False, 0.1), (1, "", True, 0.1)]
    assert surfaces("none") == [
        (0, " Q", False, 0.2),
        (0, "Q", False, 0.1),
        (0, "Queen", False, 0.1),
        (1, " Q", False, 0.2),
        (1, "", True, 0.4),
    ]


def test_the_papers_preset_bans_the_format_and_asks_without_a_template():
    from sdlg.options import PRESETS

    assert (PRESETS["paper"].scoring.banned, PRESETS["paper"].prompt) == ("format", "plain")
    assert (PRESETS["default"].scoring.banned, PRESETS["default"].prompt) == ("none", "auto")


def test_candidates_are_above_the_threshold():
    assert {c.surface for c in scripted(min_probability=0.11)[2] if c.position == 1} == {""}
    assert {c.surface for c in scripted(min_probability=0.0)[2] if c.position == 2} == {" big"}


def test_words_that_continue_are_no_places_unless_all_are_asked_for():
    script = {"": {"Ein": 0.6, "New": 0.4}, "Ein": {"stein": 0.7, "horn": 0.3}}
    assert {c.position for c in scripted(script)[2]} == {0}
    assert {c.position for c in scripted(script, positions="all")[2]} == {0, 1}


def test_the_whole_word_counts_as_the_original_too():
    script = {"": {"Ein": 0.6, "Einstein": 0.4}, "Ein": {"stein": 1.0}}
    assert scripted(script)[2] == []


@pytest.mark.parametrize(("one", "other"), [(" Paris", "paris"), ("ﬁne", "FINE"), ("Straße", "STRASSE")])
def test_spellings_of_one_word_are_the_same(one, other):
    assert normalised(one) == normalised(other)


# -- the whole scoring ------------------------------------------------------------------------------------------


def test_an_empty_answer_is_ranked_by_importance_alone():
    model = ScriptedModel({"": {"<end>": 0.6, "Yes": 0.1, "No": 0.3}})
    answer = Generation("", (), (), "eos", math.log(0.6), (tuple(model.next_tokens("")),))
    scored = score_answer("Q?", answer, model.prompt(Question("Q?"), "auto").stop, model, FakeNli(), Scoring())
    assert [s.replacement for s in scored.substitutions] == ["No", "Yes"]
    assert scored.words == ()


def test_one_word_answers_are_ranked_by_importance_alone():
    model = ScriptedModel({"": {"Paris": 0.5, "Lyon": 0.2, "Rome": 0.3}})
    answer = Generation(
        "Paris", (model.token_id("Paris"),), (math.log(0.5),), "eos", 0.0, (tuple(model.next_tokens("")),)
    )
    stop = model.prompt(Question("Q?"), "auto").stop
    by_substitution = Scoring(attribution_weight=0, importance_weight=0)
    found = score_answer("Q?", answer, stop, model, FakeNli(), by_substitution).substitutions
    assert [s.replacement for s in found] == ["Rome", "Lyon"]
    assert [s.rank for s in found] == [1, 2]
    assert found[0].substitution < found[1].substitution  # else the two could not be told apart


def test_candidates_are_scored_as_in_the_paper_but_that_any_may_be_tried():
    assert PRESETS["paper"].scoring == replace(PRESETS["default"].scoring, banned="format")


def test_a_shared_vocabulary_reduces_to_the_paper():
    """One LM token per NLI piece: A and S are the formulas on the NLI model's own table."""
    nli = tiny_nli()
    model = ScriptedModel(
        {"": {"paris": 0.6, "lyon": 0.4}, "paris": {" is": 0.7, " was": 0.3}, "paris is": {" big": 1.0}}
    )
    tokens = ["paris", " is", " big"]
    ids = tuple(model.token_id(token) for token in tokens)
    steps = tuple(tuple(model.next_tokens("".join(tokens[:k]))) for k in range(3))
    answer = Generation("paris is big", ids, (-0.5, -0.3, 0.0), "eos", 0.0, steps)
    options = Scoring()
    stop = model.prompt(Question("q"), "auto").stop
    found = {s.replacement: s for s in score_answer("where", answer, stop, model, nli, options).substitutions}
    input_gradients = nli.input_gradients("where", "paris is big")
    table = nli._embedding.weight.detach().double().numpy()
    for position, word in ((0, "lyon"), (1, "was")):
        z, g = input_gradients.embeddings[position], input_gradients.premise_gradients[position]
        (piece,) = nli.tokenizer(word, add_special_tokens=False).input_ids
        assert found[word].attribution == pytest.approx(float(np.linalg.norm(z * g)), rel=1e-9)
        assert found[word].substitution == pytest.approx(cosine_substitution(z, table[[piece]], g)[0], rel=1e-9)
    assert found["was"].importance == pytest.approx(0.3)


def test_attribution_is_of_the_whole_word_by_the_premises_gradients():
    """ "xylo" is a token of the language model; both it and the word are several pieces of the NLI model."""
    nli, text = tiny_nli(), "xylophonist played"
    model = ScriptedModel(
        {"": {"xylo": 0.6, "harpist": 0.4}, "xylo": {"phonist": 1.0}, "xylophonist": {" played": 1.0}}
    )
    tokens = ["xylo", "phonist", " played"]
    steps = tuple(tuple(model.next_tokens("".join(tokens[:k]))) for k in range(3))
    answer = Generation(text, tuple(map(model.token_id, tokens)), (-0.5, 0.0, 0.0), "eos", 0.0, steps)
    stop = model.prompt(Question("q"), "auto").stop
    (found,) = score_answer("who", answer, stop, model, nli, Scoring()).substitutions
    read = nli.input_gradients("who", text)
    pieces = [k for k, span in enumerate(read.spans) if span[0] < len("xylophonist") and span[1] > 0]
    assert 1 < len(pieces) < len(read.spans)
    of_word = np.abs(read.embeddings[pieces] * read.premise_gradients[pieces]).mean(axis=0)
    assert found.attribution == pytest.approx(np.linalg.norm(of_word), rel=1e-9)


def test_real_tokenizers_that_differ_are_the_normal_case(smollm2, nli_minilm):
    from sdlg.options import Options
    from sdlg.sampling.sdlg import initial_answer

    question = "What is the capital of France?"
    prompt = smollm2.prompt(Question(question), "auto")
    answer = initial_answer(smollm2, prompt, Options(), lambda stage, text: None).generation
    scored = score_answer(question, answer, prompt.stop, smollm2, nli_minilm, Scoring())
    assert [w.text for w in scored.words] == answer.text.split()
    heaviest = max(scored.words, key=lambda word: word.attribution)
    assert heaviest.text.startswith("Paris")
    assert all(math.isfinite(s.substitution) and -1.0001 <= s.substitution <= 1.0001 for s in scored.substitutions)
    assert [s.rank for s in scored.substitutions] == list(range(1, len(scored.substitutions) + 1))


def test_half_characters_have_no_substitution_score():
    model = ScriptedModel({"": {"a": 0.6, "\ufffd": 0.4}})
    answer = Generation(
        "a",
        (model.token_id("a"),),
        (math.log(0.6),),
        "eos",
        0.0,
        ((Alternative(model.token_id("\ufffd"), math.log(0.4)),),),
    )
    stop = model.prompt(Question("q"), "auto").stop
    (found,) = score_answer("q", answer, stop, model, FakeNli(), Scoring()).substitutions
    assert found.importance == pytest.approx(0.4)


# -- answers of every kind, with real tokenizers ----------------------------------------------------------------

ANSWERS = [
    "🎉🎊🦆",
    "東京は日本の首都です。",
    "one\ntwo\nthree",
    "Paris",
    "word " * 300,
    "naïve Ελλάδα 😀 ok",
    "a\u0301b",
]


@pytest.mark.parametrize("text", ANSWERS)
@pytest.mark.parametrize("positions", ["word_starts", "all"])
def test_answers_of_every_kind_are_scored(smollm2, nli_minilm, text, positions):
    """Byte tokens, characters of several tokens, several lines, one word, three hundred words."""
    from sdlg.scoring.alignment import token_texts

    encode = lambda words: smollm2.tokenizer(words, add_special_tokens=False).input_ids  # noqa: E731
    ids = tuple(encode(text.strip()))
    others = [encode(" Lyon")[0], encode("🦊")[0], encode("北")[0], encode("\n")[0]]
    steps = tuple(tuple(Alternative(i, math.log(0.1)) for i in others) for _ in ids)
    answer = Generation(text.strip(), ids, (math.log(0.5),) * len(ids), "eos", -0.1, steps)
    stop = smollm2.prompt(Question("q"), "auto").stop
    scored = score_answer("What?", answer, stop, smollm2, nli_minilm, Scoring(positions=positions))
    assert "".join(token_texts(ids, smollm2.text)) == text.strip()
    assert scored.substitutions
    assert all(0 <= s.position < len(ids) for s in scored.substitutions)
    assert all(math.isfinite(s.attribution) and math.isfinite(s.substitution) for s in scored.substitutions)
    assert [text.strip()[w.start : w.end] for w in scored.words] == [w.text for w in scored.words]
    if "🎉" in text:  # one place per character, wherever its bytes end
        assert len({s.position for s in scored.substitutions}) <= 3
