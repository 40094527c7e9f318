"""The whole path on the embedded models, for real; and the ways in which models are given."""

from __future__ import annotations

import json
import math

import pytest

import sdlg
from conftest import embedded_pipeline, tiny_model, tiny_nli, word_tokenizer
from fakes import FakeNli
from sdlg.errors import BadOption, BadQuestion, ModelNotFound, NotSupported, PromptTooLong, UnknownName
from sdlg.models import load_model
from sdlg.options import told_differences

QUESTION = "When was the Declaration of Independence signed?"


def asked(question=QUESTION, **options):
    base = embedded_pipeline()
    return sdlg.Pipeline(base.model, base.nli, **{"max_tokens": 20, **options}).ask(question)


@pytest.fixture(scope="module")
def result():
    return asked()


def test_a_real_question_gets_a_real_answer(result):
    assert "1776" in result.answer.text
    assert len(result.samples) == 10
    assert len({s.generation.token_ids for s in result.samples}) == 10
    headline = result.estimates["semantic_entropy"]
    assert 0 <= headline.low <= headline.value <= headline.high
    assert len(result.draws) == 5
    assert sum(cluster.probability for cluster in result.clusters) == pytest.approx(1.0)
    assert 0 < result.coverage <= 1
    assert result.clusters[0].members[0] == 0


def test_forward_tokens_meet_the_bound_of_the_method(result):
    """P + (T−1) + Σ(T_n − t_n − 1), less what the prefix store held; draws begin after the prompt, too."""
    cost = result.cost
    whole = 1 + len(result.draws)
    assert cost.forward_tokens == cost.prompt_tokens - cost.reused_tokens + cost.generated_tokens - whole
    total = sum(
        len(s.generation.decision_logprobs) - (s.substitution.position + 1 if s.substitution else 0)
        for s in (*result.samples, *result.draws)
    )
    assert cost.generated_tokens == total


def test_same_seed_same_result(result):
    again = asked()
    first, second = (json.loads(r.to_json()) for r in (result, again))
    for one in (first, second):
        one.pop("cost")
    drop_noise = lambda rows: [(r["text"], r["token_ids"], r["cluster"]) for r in rows["samples"]]  # noqa: E731
    assert drop_noise(first) == drop_noise(second)
    assert first["estimates"]["semantic_entropy"]["value"] == pytest.approx(
        second["estimates"]["semantic_entropy"]["value"], abs=1e-4
    )


def test_likelihoods_are_those_of_a_second_forward_pass(result, smollm2):
    from reference import sequence_logprob
    from sdlg.records import Question

    prompt = smollm2.prompt(Question(QUESTION), "auto")
    for sample in result.samples[:4]:
        wanted = sequence_logprob(smollm2, prompt, sample.generation.token_ids)
        assert list(sample.generation.logprobs) == pytest.approx(wanted, abs=1e-3)


def test_the_paper_preset_runs_for_real():
    shots = (("What is the capital of Italy?", "Rome."), ("What is the capital of Spain?", "Madrid."))
    result = asked(
        sdlg.Question("What is the capital of France?", shots=shots), preset="paper", samples=4, max_tokens=12
    )
    assert "Paris" in result.answer.text
    assert len(result.samples) == 3  # the answer and the two other words likelier than 0.001
    assert result.options.decoding.strategy == "beam"
    assert not [s.substitution for s in result.samples[1:] if s.substitution.replacement == "Q"]
    assert result.estimates["semantic_entropy"].options["logarithm"] == "unnormalised"


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Repeat exactly: 🎉🎊🦆", {}),
        ("日本の首都はどこですか?", {}),
        ("List three colours,\none per line.", {}),
        ("Is water wet? Answer yes or no.", {"max_tokens": 1}),
        ("x", {"prompt": "plain"}),
        ("2+2?", {"positions": "all"}),
        ("2+2?", {"embeddings": "mapped"}),
        ("2+2?", {"branch_strategy": "multinomial", "temperature": 1.5, "top_p": 0.9}),
        ("2+2?", {"ranking": "raw", "similarity": "dot", "linkage": "components", "weighting": "branch_mass"}),
    ],
)
def test_odd_questions_and_options_work(question, options):
    result = asked(question, **{"max_tokens": 10, "samples": 4, **options})
    assert 1 <= len(result.samples) <= 4
    assert math.isfinite(result.semantic_entropy)
    for word in result.words:
        assert result.answer.text[word.start : word.end] == word.text
    assert "".join(result.tokens) == result.answer.text


def test_context_is_read_by_the_language_model_only():
    plain, told = (
        asked("What is the dog's name?"),
        asked(sdlg.Question("What is the dog's name?", context="My dog is called Rex.")),
    )
    assert told.cost.prompt_tokens > plain.cost.prompt_tokens
    assert "Rex" in told.answer.text


def test_a_question_of_fifty_thousand_characters_is_too_long_and_says_so():
    with pytest.raises(PromptTooLong, match="8192"):
        asked("why " * 12_500)


@pytest.mark.parametrize("question", ["", "   \n", "\ud800"])
def test_questions_that_cannot_be_asked_are_refused(question):
    with pytest.raises(BadQuestion):
        asked(question)


def test_any_language_model_with_any_nli_model():
    pipeline = sdlg.Pipeline((tiny_model("gpt2"), word_tokenizer()), tiny_nli("deberta"), max_tokens=8, samples=5)
    result = pipeline.ask("who sat on the mat?")
    assert 1 < len(result.samples) <= 5
    assert pipeline.model.name


def test_a_saved_folder_loads_by_name(tmp_path):
    tiny_model("qwen2").save_pretrained(tmp_path / "lm")
    word_tokenizer().save_pretrained(tmp_path / "lm")
    nli = tiny_nli()
    nli.model.save_pretrained(tmp_path / "nli")
    nli.tokenizer.save_pretrained(tmp_path / "nli")
    result = sdlg.ask("who?", model=str(tmp_path / "lm"), nli=str(tmp_path / "nli"), samples=3, max_tokens=5)
    assert result.model == str(tmp_path / "lm")
    assert len(result.samples) == 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"preset": "best"}, UnknownName),
        ({"method": "magic"}, UnknownName),
        ({"ranking": "none"}, UnknownName),
        ({"colour": "red"}, UnknownName),
        ({"samples": 0}, BadOption),
        ({"samples": 2.5}, BadOption),
        ({"samples": True}, BadOption),
        ({"temperature": float("nan")}, BadOption),
        ({"attribution_weight": 0.0, "substitution_weight": 0.0, "importance_weight": 0.0}, BadOption),
    ],
)
def test_wrong_options_are_told_before_models_are_loaded(options, error):
    with pytest.raises(error):
        sdlg.ask("q?", model="/nowhere", **options)


@pytest.mark.parametrize("source", ["/nowhere/at-all", "no-such/model-on-this-machine", "x.gguf", "", "  "])
def test_unknown_models_say_what_to_give(source):
    with pytest.raises(ModelNotFound):
        load_model(source)


def test_a_chat_prompt_needs_a_template():
    with pytest.raises(NotSupported, match="plain"):
        sdlg.Pipeline((tiny_model("llama"), word_tokenizer()), FakeNli({}), prompt="chat").ask("q?")


def test_all_differences_of_options_are_told_at_once_and_a_flood_is_counted():
    made = {"samples": 5, "seed": 1, "stop_ids": [2, 3], "prompt": "chat", "beams": 4, "top_p": 0.5}
    here = {"samples": 10, "seed": 1, "stop_ids": []}
    assert told_differences(made, here) == "--samples 5, not 10, and --stop-ids 2,3, not none"
    assert told_differences(made, {name: made[name] for name in here}) == ""
    others = dict.fromkeys(made, "else")
    assert told_differences(made, others).endswith(", and --prompt chat, not else, and 2 more")
