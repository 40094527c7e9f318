"""A prefix shared between questions is run once, and kept within a memory limit."""

from __future__ import annotations

import pytest

from conftest import tiny_model, word_tokenizer
from reference import decode_from_scratch
from sdlg.models.prefix_store import common_length
from sdlg.models.transformers_lm import TransformersModel
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule

HEADER = tuple(range(10, 40))
STOP = StopRule(frozenset({2}))
DECODING = Decoding(max_tokens=5)


def ask(lm, *tail):
    return lm.decode(Prompt((*HEADER, *tail), STOP), [()], DECODING)


def fresh(**options):
    return TransformersModel(tiny_model("llama"), word_tokenizer(), **options)


def test_the_header_is_run_once():
    lm = fresh()
    assert ask(lm, 50, 51).cost.reused_tokens == 0
    second = ask(lm, 60, 61, 62)
    assert second.cost.reused_tokens == len(HEADER)
    assert second.cost.forward_tokens == 3 + second.continuations[0].decisions - 1
    cold = fresh().decode(Prompt((*HEADER, 60, 61, 62), STOP), [()], DECODING).continuations[0]
    assert second.continuations[0].token_ids == cold.token_ids
    assert second.continuations[0].logprobs == pytest.approx(cold.logprobs, abs=1e-5)


def test_a_warm_answer_equals_decoding_from_scratch():
    lm = fresh()
    ask(lm, 50, 51)
    prompt = Prompt((*HEADER, 50, 52), STOP)
    found = lm.decode(prompt, [()], DECODING).continuations[0]
    ids, _ = decode_from_scratch(lm, prompt, (), DECODING.max_tokens)
    assert list(found.token_ids) == [i for i in ids if i != 2]


def test_least_recently_used_goes_first_when_memory_is_short():
    one = fresh()
    ask(one, 50)
    lm = fresh(prefix_bytes=int(2.5 * one._store.nbytes))
    other = Prompt(tuple(range(60, 90)), STOP)
    ask(lm, 50)
    lm.decode(other, [()], DECODING)
    ask(lm, 51)  # the header is used again, so the other prompt is now the oldest
    assert lm._store.nbytes <= 2.5 * one._store.nbytes
    assert ask(lm, 52).cost.reused_tokens == len(HEADER)
    assert lm.decode(other, [()], DECODING).cost.reused_tokens == 0


def test_the_newest_prompt_is_kept_whatever_the_limit():
    """Its branches follow next, and must not pay for it again."""
    lm = fresh(prefix_bytes=0)
    answer = ask(lm, 50).continuations[0]
    branch = lm.decode(Prompt((*HEADER, 50), STOP), [(*answer.token_ids[:2], 70)], DECODING)
    assert branch.cost.forward_tokens == branch.continuations[0].decisions
    assert len(lm._store._trunks) == 1


def test_of_equal_prompts_the_newest_is_used():
    lm = fresh()
    ask(lm, 50, 51, 52)  # an older prompt that extends the next one
    answer = ask(lm, 50).continuations[0]
    prefixes = [(*answer.token_ids[:k], 71) for k in range(len(answer.token_ids))]
    branches = lm.decode(Prompt((*HEADER, 50), STOP), prefixes, DECODING)
    assert branches.cost.forward_tokens == sum(branch.decisions for branch in branches.continuations)


def test_room_to_grow_counts_as_memory():
    lm = fresh()
    ask(lm, 50)
    lm.decode(Prompt((*HEADER, 50), STOP), [()] * 30, Decoding(strategy="multinomial", max_tokens=30))
    (trunk,) = lm._store._trunks
    held = sum(room.numel() * 4 for layer in trunk.cache.layers for room in layer._rooms)
    assert lm._store.nbytes >= held


def test_common_length():
    assert [common_length(a, b) for a, b in [((), (1,)), ((1, 2), (1, 3)), ((1, 2), (1, 2, 3))]] == [0, 1, 2]
