"""A prefix shared between questions is run once, and kept within a memory limit."""

from __future__ import annotations

import pytest

from conftest import tiny_model, word_tokenizer
from reference import decode_from_scratch
from sdlg.models.base import DecodeRequest
from sdlg.models.decoding.prefixes import common_length, usable_length
from sdlg.models.transformers.model import TransformersModel
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule

HEADER = tuple(range(10, 40))
STOP = StopRule(frozenset({2}))
DECODING = Decoding(max_tokens=5)


def after_header(*tail):
    return Prompt((*HEADER, *tail), STOP, boundaries=(len(HEADER),))


def ask(lm, *tail):
    return lm.decode(DecodeRequest(after_header(*tail), [()], DECODING))


def fresh(**options):
    return TransformersModel(tiny_model("llama"), word_tokenizer(), **options)


def test_the_header_is_run_once():
    lm = fresh()
    assert ask(lm, 50, 51).cost.reused_tokens == 0
    second = ask(lm, 60, 61, 62)
    assert second.cost.reused_tokens == len(HEADER)
    assert second.cost.forward_tokens == 3 + second.continuations[0].decisions - 1
    cold = fresh().decode(DecodeRequest(after_header(60, 61, 62), [()], DECODING)).continuations[0]
    assert second.continuations[0] == cold


@pytest.mark.parametrize("family", ["llama", "gemma3", "bloom", "mamba"])
def test_numbers_do_not_depend_on_what_was_asked_before(family):
    """To the last bit: a run that was stopped and resumed has the rows of one that was not."""
    lm, cold = (TransformersModel(tiny_model(family), word_tokenizer()) for _ in range(2))
    for tail in ((50, 51), (60, 61, 62), (60, 61), (60, 61, 62, 63)):
        ask(lm, *tail)
    lm.decode(DecodeRequest(Prompt((*HEADER, 60, 61), STOP, boundaries=(7,)), [()], DECODING))
    assert ask(lm, 60, 61, 62).continuations == ask(cold, 60, 61, 62).continuations
    sampled = Decoding(strategy="multinomial", max_tokens=5)
    prompt = after_header(60, 61, 62)
    assert (
        lm.decode(DecodeRequest(prompt, [()] * 3, sampled)).continuations
        == cold.decode(DecodeRequest(prompt, [()] * 3, sampled)).continuations
    )


def test_a_prompt_that_is_the_beginning_of_another_is_not_taken_for_it():
    held = Prompt((1, 2, 3, 4), STOP, boundaries=(2,))
    assert usable_length(held, Prompt((1, 2, 3, 4), STOP, boundaries=(2,))) == 4
    assert usable_length(held, Prompt((1, 2, 3), STOP, boundaries=(2,))) == 2
    assert usable_length(held, Prompt((1, 2, 3, 4), STOP)) == 0
    assert usable_length(held, Prompt((1, 2), STOP)) == 0
    assert usable_length(held, Prompt((1, 9, 3), STOP, boundaries=(2,))) == 0


def test_a_warm_answer_equals_decoding_from_scratch():
    lm = fresh()
    ask(lm, 50, 51)
    prompt = after_header(50, 52)
    found = lm.decode(DecodeRequest(prompt, [()], DECODING)).continuations[0]
    ids, _ = decode_from_scratch(lm, prompt, (), DECODING.max_tokens)
    assert list(found.token_ids) == [i for i in ids if i != 2]


def test_least_recently_used_goes_first_when_memory_is_short():
    one = fresh()
    ask(one, 50)
    lm = fresh(prefix_bytes=int(2.5 * one._store.size))
    other = Prompt(tuple(range(60, 90)), STOP)
    ask(lm, 50)
    lm.decode(DecodeRequest(other, [()], DECODING))
    ask(lm, 51)  # the header is used again, so the other prompt is now the oldest
    assert lm._store.size <= 2.5 * one._store.size
    assert ask(lm, 52).cost.reused_tokens == len(HEADER)
    assert lm.decode(DecodeRequest(other, [()], DECODING)).cost.reused_tokens == 0


def test_the_newest_prompt_is_kept_whatever_the_limit():
    """Its branches follow next, and must not pay for it again."""
    lm = fresh(prefix_bytes=0)
    answer = ask(lm, 50).continuations[0]
    branch = lm.decode(DecodeRequest(after_header(50), [(*answer.token_ids[:2], 70)], DECODING))
    assert branch.cost.forward_tokens == branch.continuations[0].decisions
    assert len(lm._store._kept) == 1


def test_of_equal_prompts_the_newest_is_used():
    lm = fresh()
    ask(lm, 50, 51, 52)  # an older prompt that extends the next one
    answer = ask(lm, 50).continuations[0]
    prefixes = [(*answer.token_ids[:k], 71) for k in range(len(answer.token_ids))]
    branches = lm.decode(DecodeRequest(after_header(50), prefixes, DECODING))
    assert branches.cost.forward_tokens == sum(branch.decisions for branch in branches.continuations)


def test_room_to_grow_counts_as_memory():
    lm = fresh()
    ask(lm, 50)
    lm.decode(DecodeRequest(after_header(50), [()] * 30, Decoding(strategy="multinomial", max_tokens=30)))
    (prefix_kv,) = lm._store._kept
    held = sum(room.numel() * 4 for layer in prefix_kv.cache.layers for room in layer._buffers)
    assert lm._store.size >= held


def test_what_has_grown_and_is_gone_takes_no_memory():
    """A prompt with thirty samples is kept as one without."""
    lm, plain = fresh(), fresh()
    ask(plain, 50)
    ask(lm, 50)
    lm.decode(DecodeRequest(after_header(50), [()] * 30, Decoding(strategy="multinomial", max_tokens=30)))
    assert lm._store.size == plain._store.size
    branch = lm.decode(DecodeRequest(after_header(50), [(71, 72)], DECODING)).continuations
    assert branch == plain.decode(DecodeRequest(after_header(50), [(71, 72)], DECODING)).continuations


def test_rooms_come_in_few_sizes():
    """What a forgotten prompt leaves free fits another one: memory does not fall into pieces."""
    lm = fresh()
    sizes = set()
    for length in range(20, 100, 7):
        lm.decode(DecodeRequest(Prompt(tuple(range(5, 5 + length % 80)), STOP), [()], DECODING))
        sizes |= {room.shape[-2] for kept in lm._store._kept for layer in kept.cache.layers for room in layer._buffers}
    assert sizes <= {128, 256, 384}


def test_common_length():
    assert [common_length(a, b) for a, b in [((), (1,)), ((1, 2), (1, 3)), ((1, 2), (1, 2, 3))]] == [0, 1, 2]
