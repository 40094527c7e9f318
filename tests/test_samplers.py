"""All samplers return the same record; diverse beam search equals a brute-force twin; given answers are scored."""

from __future__ import annotations

import math
from collections import Counter

import pytest

import sdlg
from conftest import embedded_pipeline, tiny_lm
from fakes import CAPITAL, FakeNli, fake_pipeline
from reference import next_logprobs, sequence_logprob
from sdlg.errors import BadOption, NotSupported, PromptTooLong
from sdlg.models.base import DecodeRequest
from sdlg.options import Decoding
from sdlg.records import Prompt, Question, StopRule
from sdlg.sampling import SAMPLERS

PROMPT = Prompt((5, 9, 17, 33, 21, 40), StopRule(frozenset({2})))


def twin(lm, prompt, n, penalty, max_tokens, end):
    """Diverse beam search written from its definition: lists, dicts, and the whole model for every step."""
    widths = [1] * n
    running = [[((), 0.0)] for _ in widths]  # per group: (ids, sum of log-probabilities less penalties)
    done = [[] for _ in widths]
    for _ in range(max_tokens):
        taken = Counter()
        for g, width in enumerate(widths):
            options = []
            for ids, total in running[g]:
                step = next_logprobs(lm.model, (*prompt.token_ids, *ids)).tolist()
                options += [((*ids, t), total + lp - penalty * taken[t]) for t, lp in enumerate(step)]
            options.sort(key=lambda option: -option[1])
            going = []
            for place, (ids, total) in enumerate(options[: 2 * width]):
                if ids[-1] == end:
                    if place < width:
                        done[g].append((ids[:-1], total / len(ids)))
                elif len(going) < width:
                    going.append((ids, total))
            done[g] = sorted(done[g], key=lambda d: -d[1])[:width]
            if going and len(going[0][0]) >= max_tokens:
                done[g] = sorted([*done[g], *((ids, total / len(ids)) for ids, total in going)], key=lambda d: -d[1])[
                    :width
                ]
                going = []
            elif going and len(done[g]) == width and going[0][1] / len(going[0][0]) <= done[g][-1][1]:
                going = []
            running[g] = going
            taken.update(ids[-1] for ids, _ in going)
    return [done[g][place][0] for place in range(n) for g in range(n) if place < len(done[g])][:n]


@pytest.mark.parametrize("n", [1, 3, 4])
@pytest.mark.parametrize("penalty", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("layout", ["tree", "separate"])
def test_diverse_beam_search_equals_its_twin(n, penalty, layout):
    lm = tiny_lm("llama", layout)
    for end in (2, 30):
        prompt = Prompt(PROMPT.token_ids, StopRule(frozenset({end})))
        decoding = Decoding(strategy="diverse_beam", diversity_penalty=penalty, max_tokens=4)
        found = lm.decode(DecodeRequest(prompt, [()] * n, decoding)).continuations
        assert [c.token_ids for c in found] == twin(lm, prompt, n, penalty, 4, end)
        for continuation in found:
            ended = (*continuation.token_ids, end) if continuation.stop_reason == "eos" else continuation.token_ids
            own = sum(continuation.logprobs) + (continuation.stop_logprob or 0.0)  # the model's own, without penalties
            assert own == pytest.approx(sum(sequence_logprob(lm, prompt, ended)), abs=1e-3)


def test_a_penalty_makes_groups_differ_and_none_makes_them_equal():
    lm = tiny_lm("llama")
    spread = [
        len(
            {
                c.token_ids
                for c in lm.decode(
                    DecodeRequest(
                        PROMPT, [()] * 4, Decoding(strategy="diverse_beam", diversity_penalty=p, max_tokens=5)
                    )
                ).continuations
            }
        )
        for p in (0.0, 5.0)
    ]
    assert spread == [1, 4]


def test_the_n_best_of_one_beam_search_are_distinct_and_in_order():
    found = (
        tiny_lm("llama")
        .decode(DecodeRequest(PROMPT, [()] * 4, Decoding(strategy="beam", beams=4, max_tokens=5)))
        .continuations
    )
    scores = [(sum(c.logprobs) + (c.stop_logprob or 0)) / c.decisions for c in found]
    assert len({c.token_ids for c in found}) == 4
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("method", sorted(SAMPLERS))
def test_every_sampler_gives_the_same_record_for_real(method):
    pipeline = embedded_pipeline().changed(method=method, samples=4, max_tokens=8)
    result = pipeline.ask("What is the capital of France?")
    assert 1 < len(result.samples) <= 4
    assert result.method == method
    assert all(len(s.generation.entropies) == len(s.generation.decision_logprobs) for s in result.samples)
    assert sum(s.weight for s in result.samples) == pytest.approx(1.0)
    assert (result.samples[1].substitution is not None) == (method == "sdlg")
    assert result.cost.forward_tokens > 0
    assert "".join(result.tokens) == result.answer.text


def test_multinomial_samples_of_a_script_follow_it():
    result = fake_pipeline(CAPITAL, {}, method="multinomial", samples=400, branch_strategy="greedy").ask("q?")
    share = sum(s.text.startswith("Paris") for s in result.samples) / 400
    assert share == pytest.approx(0.3, abs=0.1)


def test_a_method_the_model_cannot_do_is_refused_before_any_work():
    with pytest.raises(NotSupported, match="diverse_beam"):
        fake_pipeline(CAPITAL, {}, method="diverse_beam").ask("q?")


def test_entropies_are_those_of_the_models_distribution():
    lm = tiny_lm("llama")
    found = lm.decode(DecodeRequest(PROMPT, [()], Decoding(max_tokens=4))).continuations[0]
    for k, entropy in enumerate(found.entropies):
        step = next_logprobs(lm.model, (*PROMPT.token_ids, *found.token_ids[:k])).double()
        assert entropy == pytest.approx(float(-(step.exp() * step).sum()), abs=1e-4)


@pytest.mark.parametrize("layout", ["tree", "separate"])
def test_given_answers_get_the_likelihood_of_a_forward_pass(layout):
    lm = tiny_lm("llama", layout)
    prompt = lm.prompt(Question("who sat?"), "plain")
    for generation in lm.score(prompt, ["the cat", "the dog ran.", "the cat sat on the mat"]).generations:
        wanted = sequence_logprob(lm, prompt, generation.token_ids)
        assert list(generation.logprobs) == pytest.approx(wanted, abs=1e-4)
        after = next_logprobs(lm.model, (*prompt.token_ids, *generation.token_ids))
        assert generation.stop_logprob == pytest.approx(float(after[lm._words.ending_ids(prompt.stop)].max()), abs=1e-4)
        assert lm.text(generation.token_ids).strip() == generation.text


@pytest.mark.parametrize("style", ["chat", "plain"])
def test_scoring_an_answer_again_gives_its_likelihood_back(style):
    base = embedded_pipeline()
    question = "What is the capital of France?"
    result = sdlg.Pipeline(base.models.language_model, FakeNli({}), samples=1, max_tokens=20, prompt=style).ask(
        question
    )
    (again,) = base.models.language_model.score(
        base.models.language_model.prompt(Question(question), style), [result.answer.text]
    ).generations
    assert again.token_ids == result.answer.token_ids
    assert math.isclose(again.logprob, result.answer.logprob, abs_tol=1e-3)


def test_an_empty_answer_is_its_ending_and_a_cut_one_has_none():
    lm = tiny_lm("llama")
    prompt = lm.prompt(Question("who?"), "plain")
    empty, cut = lm.score(prompt, ["", "the cat"], ended=[True, False]).generations
    assert (empty.token_ids, len(empty.decision_logprobs)) == ((), 1)
    assert (cut.stop_reason, cut.stop_logprob) == ("length", None)


def test_an_answer_longer_than_the_context_is_refused():
    lm = tiny_lm("llama")
    with pytest.raises(PromptTooLong, match="128"):
        lm.score(lm.prompt(Question("who?"), "plain"), ["the cat " * 200])


def test_diverse_beam_search_is_no_strategy_for_one_answer():
    with pytest.raises(BadOption, match="method"):
        fake_pipeline(CAPITAL, {}, strategy="diverse_beam").ask("q?")


def test_a_model_compared_with_itself_has_no_epistemic_part():
    own = embedded_pipeline().models
    models = sdlg.Models(own.language_model, own.nli, others=[own.language_model])
    pipeline = sdlg.Pipeline(models=models, samples=6, max_tokens=24, measures=("epistemic_semantic_uncertainty",))
    result = pipeline.ask("When was the Declaration of Independence signed?")
    assert len(result.clusters) > 1
    # A branch may be made of other tokens than its text is cut into when it is scored: then it is nearly 0.
    assert result.estimates["epistemic_semantic_uncertainty"].value == pytest.approx(0.0, abs=1e-2)
