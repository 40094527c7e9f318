"""Beam search finds what transformers finds, on every layout, and what exhaustive search finds where it can."""

from __future__ import annotations

import itertools

import pytest
import torch

from conftest import tiny_lm, tiny_model
from reference import decode_from_scratch, next_logprobs, sequence_logprob
from sdlg.models.base import DecodeRequest
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule

PROMPT = Prompt((5, 9, 17, 33, 21, 40), StopRule(frozenset({2})))


@pytest.mark.parametrize("family", ["llama", "opt", "gpt2", "gemma3"])
@pytest.mark.parametrize("beams", [1, 3, 5])
@pytest.mark.parametrize("end", [2, 30, 77])
def test_beam_search_equals_transformers(family, beams, end):
    lm, model = tiny_lm(family), tiny_model(family)
    prompt = Prompt(PROMPT.token_ids, StopRule(frozenset({end})))
    found = lm.decode(DecodeRequest(prompt, [()], Decoding(strategy="beam", beams=beams, max_tokens=8))).continuations[
        0
    ]
    out = model.generate(
        torch.tensor([prompt.token_ids]), num_beams=beams, do_sample=False, max_new_tokens=8, eos_token_id=end,
        pad_token_id=0, attention_mask=torch.ones(1, len(prompt.token_ids), dtype=torch.long),
    )[0, len(prompt.token_ids) :].tolist()  # fmt: skip
    wanted = out[: out.index(end)] if end in out else out
    assert list(found.token_ids) == wanted
    ended = [*found.token_ids, end] if found.stop_reason == "eos" else list(found.token_ids)
    assert sum(found.logprobs) + (found.stop_logprob or 0) == pytest.approx(
        sum(sequence_logprob(lm, prompt, ended)), abs=1e-3
    )


@pytest.mark.parametrize("layout", ["tree", "separate"])
def test_many_searches_at_once_equal_one_at_a_time(layout):
    lm = tiny_lm("llama", layout)
    decoding = Decoding(strategy="beam", beams=3, max_tokens=7)
    prefixes = [(50,), (50, 61), (70, 3, 4), ()]
    together = lm.decode(DecodeRequest(PROMPT, prefixes, decoding)).continuations
    for prefix, found in zip(prefixes, together, strict=True):
        alone = lm.decode(DecodeRequest(PROMPT, [prefix], decoding)).continuations[0]
        assert found.token_ids == alone.token_ids
        assert found.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def test_a_beam_as_wide_as_the_tree_finds_the_best_sequence():
    """Three tokens of length 2 over a stop rule that never fires: brute force over all pairs."""
    lm = tiny_lm("llama")
    prompt = Prompt(PROMPT.token_ids, StopRule(frozenset()))
    first = next_logprobs(lm.model, prompt.token_ids)
    best = max(
        ((a, b) for a, b in itertools.product(range(len(first)), repeat=2)),
        key=lambda pair: float(first[pair[0]] + step(lm, prompt, pair[0])[pair[1]]),
    )
    found = lm.decode(DecodeRequest(prompt, [()], Decoding(strategy="beam", beams=96, max_tokens=2))).continuations[0]
    assert found.token_ids == best


_STEPS: dict[int, torch.Tensor] = {}


def step(lm, prompt, token):
    if token not in _STEPS:
        _STEPS[token] = next_logprobs(lm.model, (*prompt.token_ids, token))
    return _STEPS[token]


def test_the_initial_answer_of_a_beam_search_carries_alternatives_and_becomes_the_prefix():
    lm = tiny_lm("llama")
    prompt = Prompt((9, 9, *PROMPT.token_ids), StopRule(frozenset({2})))
    decoding = Decoding(strategy="beam", beams=3, max_tokens=8)
    found = lm.decode(DecodeRequest(prompt, [()], decoding, alternatives_above=0.001)).continuations[0]
    for k, options in enumerate(found.alternatives[: len(found.token_ids)]):
        wanted = next_logprobs(lm.model, (*prompt.token_ids, *found.token_ids[:k]))
        assert {o.token_id for o in options} == set((wanted.exp() > 0.001).nonzero()[:, 0].tolist())
    branch = lm.decode(DecodeRequest(prompt, [(*found.token_ids[:4], 50)], Decoding(max_tokens=8)))
    assert branch.cost.forward_tokens == branch.continuations[0].decisions  # nothing of the answer was run again


@pytest.mark.parametrize(("family", "layout"), [("llama", "tree"), ("llama", "separate"), ("mamba", "separate")])
@pytest.mark.parametrize("max_tokens", [1, 2, 8])
def test_the_winner_of_a_short_search_leaves_a_sound_prefix(family, layout, max_tokens):
    """Ends at the first token, after one token, or at a hypothesis that finished early: branches go on rightly."""
    lm = tiny_lm(family, layout)
    first = int(next_logprobs(lm.model, PROMPT.token_ids).argmax())
    for end in (first, 2, 30, 77):
        prompt = Prompt(PROMPT.token_ids, StopRule(frozenset({end})))
        for decoding in (
            Decoding(strategy="beam", beams=1, max_tokens=max_tokens),
            Decoding(strategy="beam", beams=4, max_tokens=max_tokens),
        ):
            answer = lm.decode(DecodeRequest(prompt, [()], decoding)).continuations[0]
            branch = lm.decode(
                DecodeRequest(prompt, [(*answer.token_ids[:1], 50)], Decoding(max_tokens=6))
            ).continuations[0]
            wanted = decode_from_scratch(lm, prompt, (*answer.token_ids[:1], 50), 6)[0]
            assert list(branch.token_ids) == [token for token in wanted if token != end]
