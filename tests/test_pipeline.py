"""The whole path on the embedded models, for real; and the ways in which models are given."""

from __future__ import annotations

import json
import math

import pytest

import sdlg
from conftest import embedded_pipeline, tiny_model, tiny_nli, word_tokenizer
from fakes import CAPITAL, MEANINGS, FakeNli, fake_pipeline
from sdlg.errors import BadOption, BadQuestion, ModelNotFound, NotSupported, PromptTooLong, UnknownName, UsageError
from sdlg.models import load_model
from sdlg.options import (
    LOADING,
    NLI_MINILM,
    OPTIONS,
    QWEN_CODER,
    LoadingNames,
    OptionNames,
    differences,
    split_keywords,
)

QUESTION = "When was the Declaration of Independence signed?"


def asked(question=QUESTION, **options):
    return embedded_pipeline().changed(**{"max_tokens": 20, **options}).ask(question)


@pytest.fixture(scope="module")
def result():
    return asked()


def test_a_real_question_gets_a_real_answer(result):
    assert "1776" in result.answer.text
    assert len(result.samples) == 10
    assert len({s.generation.token_ids for s in result.samples}) == 10
    shares = result.share_entropy
    assert 0 <= shares.low <= shares.value <= shares.high
    assert len(result.draws) == 5
    assert sum(cluster.probability for cluster in result.clusters) == pytest.approx(1.0)
    assert 0 < result.coverage <= 1
    assert result.clusters[0].members[0] == 0


def test_forward_tokens_meet_the_bound_of_the_method(result):
    """P + (T−1) + Σ(T_n − t_n − 1), less what the prefix store held; draws share their beginnings."""
    cost = result.cost
    drawn = [(draw.generation.token_ids, len(draw.generation.token_ids) + len(draw.generation.ending_logprobs))
             for draw in result.draws]  # fmt: skip
    once = {ids[:end] for ids, decisions in drawn for end in range(1, decisions)}
    others = cost.generated_tokens - sum(decisions for _, decisions in drawn)
    assert cost.forward_tokens == cost.prompt_tokens - cost.reused_tokens + others - 1 + len(once)
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
    parts = [[(s["tokens"], s["generation"]["token_ids"], s["cluster"]) for s in r["samples"]] for r in (first, second)]
    assert parts[0] == parts[1]
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
    assert result.share_entropy is None


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Repeat exactly: 🎉🎊🦆", {}),
        ("日本の首都はどこですか?", {}),
        ("List three colours,\none per line.", {}),
        ("Is water wet? Answer yes or no.", {"max_tokens": 1}),
        ("x", {"prompt": "plain"}),
        ("2+2?", {"positions": "all"}),
        ("2+2?", {"branch_strategy": "multinomial", "temperature": 1.5, "top_p": 0.9}),
        ("2+2?", {"linkage": "components", "equivalence": "strict", "importance_weight": 0.0}),
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
        asked("What is the dog's name?", samples=2, max_tokens=16),
        asked(sdlg.Question("What is the dog's name?", context="My dog is called Rex."), samples=2, max_tokens=16),
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
    assert pipeline.models.model_name


def test_a_loaded_model_is_not_fetched_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    monkeypatch.setenv("SDLG_OFFLINE", "1")
    named = sdlg.ScriptedModel(CAPITAL, name=QWEN_CODER), FakeNli(MEANINGS, name=NLI_MINILM)
    assert sdlg.Models(*named).load().model_name == QWEN_CODER
    assert not any(tmp_path.iterdir())


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
        ({"linkage": "none"}, UnknownName),
        ({"colour": "red"}, UnknownName),
        ({"measures": ["magic"]}, UnknownName),
        ({"in_flight": -1}, BadOption),
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


def test_all_differences_of_options_are_named_at_once_and_a_flood_is_counted():
    made = {"samples": 5, "seed": 1, "stop_strings": ["a", "b"], "prompt": "chat", "beams": 4, "top_p": 0.5}
    here = {"samples": 10, "seed": 1, "stop_strings": []}
    assert differences(made, here) == "samples=5, not 10, and stop_strings=a,b, not none"
    assert differences(made, {name: made[name] for name in here}) == ""
    others = dict.fromkeys(made, "else")
    assert differences(made, others).endswith(", and prompt=chat, not else, and 2 more")


# -- one way in -------------------------------------------------------------------------------------------------


def test_keyword_names_are_the_fields_of_the_options():
    assert set(OptionNames.__annotations__) == set(OPTIONS)
    assert set(LoadingNames.__annotations__) == set(LOADING)


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"samples": 3, "seed": 5, "dtype": "float32", "gradients": "other"},
        {"options": sdlg.Options(samples=3), "loading": sdlg.Loading(similarity_model="none")},
        {"preset": "paper", "strategy": "greedy", "branch_strategy": "greedy"},
        {"measures": ["perplexity"], "calibration": "none", "method": "multinomial"},
    ],
)
def test_ask_and_pipeline_record_the_same_for_the_same_arguments(named):
    model, nli = sdlg.ScriptedModel(CAPITAL), FakeNli(MEANINGS)
    first = sdlg.ask("Where?", model=model, nli=nli, **named)
    second = sdlg.Pipeline(model, nli, **named).ask("Where?")
    changes, places = split_keywords({k: v for k, v in named.items() if k in {**OPTIONS, **LOADING}})
    others = {k: v for k, v in named.items() if k not in {**OPTIONS, **LOADING, "loading": 0}}
    loading = sdlg.Loading(**places) if places else named.get("loading", sdlg.Loading())
    third = sdlg.Pipeline(models=sdlg.Models(model, nli, loading), **changes, **others).ask("Where?")
    for result in (second, third):
        assert (result.setup, result.options, result.preset) == (first.setup, first.options, first.preset)
        assert (result.samples, result.clusters, result.estimates) == (first.samples, first.clusters, first.estimates)


def test_options_may_be_given_as_a_record_and_changed_by_name():
    pipeline = sdlg.Pipeline(
        sdlg.ScriptedModel(CAPITAL), FakeNli(MEANINGS), options=sdlg.Options(samples=3, max_tokens=7), samples=2
    )
    assert (pipeline.options.samples, pipeline.options.max_tokens) == (2, 7)
    other = pipeline.changed(seed=4, measures=["perplexity"])
    assert (other.options.seed, other.options.samples, other.models) == (4, 2, pipeline.models)
    assert "perplexity" in other.ask("Where?").estimates
    assert "perplexity" not in pipeline.ask("Where?").estimates


def test_a_conversation_is_asked_by_its_last_turn():
    pipeline = sdlg.Pipeline(sdlg.ScriptedModel(CAPITAL), FakeNli(MEANINGS))
    turns = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hello."), ("user", "Where is the Louvre?")]
    result = pipeline.ask(messages=[{"role": role, "content": content} for role, content in turns])
    assert result.question == sdlg.Question("Where is the Louvre?", shots=(("Hello", "Hello."),), system="Be brief.")
    for wrong in ([], [{"role": "assistant", "content": "x"}], [{"role": "user", "content": [{"type": "image"}]}]):
        with pytest.raises(BadQuestion):
            pipeline.ask(messages=wrong)
    with pytest.raises(BadQuestion, match="one of the two"):
        pipeline.ask("Where?", messages=[{"role": "user", "content": "Where?"}])


def test_who_asks_a_closed_pipeline_is_told():
    with fake_pipeline() as pipeline:
        pipeline.ask("What is the capital?")
    with pytest.raises(UsageError, match="was closed"):
        pipeline.ask("What is the capital?")
    with pytest.raises(UsageError, match="was closed"):
        pipeline.changed(samples=2).ask("What is the capital?")
