"""Multinomial decoding: reproducible, independent of its neighbours, and from the right distribution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import tiny_lm
from reference import next_logprobs
from sdlg.models.base import DecodeRequest
from sdlg.models.decoding.paths import choose_multinomial
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule

PROMPT = Prompt((5, 9, 17, 33), StopRule(frozenset({2})))


def sample(n, seed=0, layout=None, **options):
    decoding = Decoding(strategy="multinomial", max_tokens=6, **options)
    return [
        c.token_ids
        for c in tiny_lm("llama", layout).decode(DecodeRequest(PROMPT, [()] * n, decoding, seed=seed)).continuations
    ]


def test_same_seed_gives_same_answers_and_another_seed_others():
    assert sample(6) == sample(6)
    assert sample(6) != sample(6, seed=1)


def test_a_sample_does_not_depend_on_how_many_others_there_are():
    assert sample(3) == sample(8)[:3]


def test_every_layout_draws_the_same_samples():
    assert sample(5, layout="separate") == sample(5)


def test_all_samples_share_one_prefill():
    lm = tiny_lm("llama")
    prompt = Prompt((7, 7, 7, 9, 17, 33), PROMPT.stop)
    decoded = lm.decode(DecodeRequest(prompt, [()] * 5, Decoding(strategy="multinomial", max_tokens=4)))
    fed = {one.token_ids[:end] for one in decoded.continuations for end in range(1, one.decisions)}
    assert decoded.cost.forward_tokens + decoded.cost.reused_tokens == len(prompt.token_ids) + len(fed)


def test_equal_beginnings_are_run_once_and_no_sample_notices():
    lm, alone = tiny_lm("llama"), tiny_lm("llama")
    decoding = Decoding(strategy="multinomial", max_tokens=6, temperature=0.01)
    request = DecodeRequest(PROMPT, [()] * 8, decoding, 3)
    decoded = lm.decode(request)
    texts = [one.token_ids for one in decoded.continuations]
    assert 1 < len(set(texts)) < len(texts)
    fed = {ids[:end] for ids in texts for end in range(1, len(ids))}
    assert decoded.cost.forward_tokens == len(PROMPT.token_ids) + len(fed)
    for count in (1, 3):
        few = alone.decode(replace(request, prefixes=[()] * count)).continuations
        assert [one.token_ids for one in few] == texts[:count]


def test_logprobs_are_the_models_own_whatever_the_temperature():
    lm = tiny_lm("llama")
    decoding = Decoding(strategy="multinomial", max_tokens=3, temperature=3.0, top_p=0.8)
    found = lm.decode(DecodeRequest(PROMPT, [()], decoding, seed=4)).continuations[0]
    wanted = [
        float(next_logprobs(lm.model, (*PROMPT.token_ids, *found.token_ids[:k]))[t])
        for k, t in enumerate(found.token_ids)
    ]
    assert list(found.logprobs) == pytest.approx(wanted, abs=1e-4)


def test_draws_follow_the_tempered_distribution():
    logits = torch.log_softmax(torch.tensor([[2.0, 1.0, 0.0, -1.0]]), dim=-1)
    decoding = Decoding(strategy="multinomial", temperature=2.0)
    generator = np.random.default_rng(0)
    drawn = [int(choose_multinomial(logits, decoding, [generator])) for _ in range(4000)]
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    wanted = torch.softmax(logits[0] / 2.0, dim=-1).numpy()
    assert np.abs(shares - wanted).max() < 4 * 0.5 / np.sqrt(len(drawn))  # four standard errors


@pytest.mark.parametrize(("top_p", "allowed"), [(0.0, {1}), (0.5, {1}), (0.7, {1, 3}), (1.0, {0, 1, 2, 3})])
def test_top_p_keeps_the_likeliest_tokens(top_p, allowed):
    logits = torch.tensor([[0.05, 0.6, 0.05, 0.3]]).log()
    generator = np.random.default_rng(0)
    drawn = {int(choose_multinomial(logits, Decoding(top_p=top_p), [generator])) for _ in range(300)}
    assert drawn == allowed
