"""Several questions on one local model: their passes are packed, and the numbers stay those of each alone."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from conftest import VOCABULARY, tiny_lm, tiny_model
from sdlg.concurrency import gathering
from sdlg.concurrency.gathering import Gathering
from sdlg.concurrency.in_flight import run_in_flight
from sdlg.concurrency.limits import Limit, limited
from sdlg.errors import TimedOut
from sdlg.models.base import DecodeRequest
from sdlg.models.local.network import Network
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule

PROMPTS = [Prompt(tuple(range(3, 3 + size)), StopRule()) for size in (1, 4, 9, 17, 40)]
FORKED = [(), (7,), (7, 8), (9, 10, 11)]


def decoded(lm, prompt, strategy="greedy", prefixes=FORKED):
    decoding = Decoding(strategy=strategy, max_tokens=12)
    return lm.decode(DecodeRequest(prompt, prefixes, decoding, seed=5)).continuations


def together(work, items):
    """All at once, each in a thread of its own."""
    return [done.result() for _, done in run_in_flight(work, items, len(items))]


@pytest.fixture
def patient(monkeypatch):
    """Late threads are waited for, however slow this machine is."""
    monkeypatch.setattr(gathering, "_PATIENCE_SECONDS", 5.0)


# -- the numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["greedy", "multinomial", "arithmetic", "beam", "diverse_beam"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "mistral", "bloom", "mamba"])
def test_questions_decoded_together_are_those_decoded_alone(family, strategy):
    alone = [decoded(tiny_lm(family), prompt, strategy) for prompt in PROMPTS]
    lm = tiny_lm(family)
    found = together(lambda prompt: decoded(lm, prompt, strategy), PROMPTS)
    for one, other in zip(alone, found, strict=True):
        assert [branch.token_ids for branch in other] == [branch.token_ids for branch in one]
        for mine, theirs in zip(other, one, strict=True):
            assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


@pytest.mark.parametrize("family", ["llama", "gemma3", "mistral"])
def test_together_they_take_fewer_passes(family, patient):
    lm = tiny_lm(family)
    assert lm._network._packs
    began = lm._network.passes
    for prompt in PROMPTS:
        decoded(lm, prompt)
    alone = lm._network.passes - began
    together(lambda prompt: decoded(lm, prompt), PROMPTS)
    assert lm._network.passes - began - alone < 0.5 * alone


def test_what_each_has_run_is_its_own(patient):
    """Costs do not tell of the others."""
    lm = tiny_lm("llama")
    alone = [lm.decode(_request(prompt)).cost for prompt in PROMPTS]
    assert [found.cost for found in together(lambda prompt: lm.decode(_request(prompt)), PROMPTS)] == alone


def _request(prompt):
    return DecodeRequest(prompt, FORKED, Decoding(max_tokens=12))


def test_scores_beside_decoding_are_those_alone(patient):
    lm, texts = tiny_lm("llama"), ["w5 w6 w7", "w9"]
    alone = [tiny_lm("llama").score(prompt, texts).generations for prompt in PROMPTS]
    work = [lambda prompt=prompt: lm.score(prompt, texts).generations for prompt in PROMPTS]
    work += [lambda prompt=prompt: decoded(lm, prompt) for prompt in PROMPTS]
    found = together(lambda one: one(), work)[: len(PROMPTS)]
    for one, other in zip(alone, found, strict=True):
        for mine, theirs in zip(other, one, strict=True):
            assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_a_model_that_attends_in_its_own_way_is_not_packed():
    network = Network(tiny_model("llama"))
    network.model.config._attn_implementation = "eager"
    try:
        assert not network._packs
    finally:
        network.model.config._attn_implementation = "sdpa"


def test_alone_nothing_changes_to_the_bit():
    """One thread's passes go through the network as they are."""
    lm = tiny_lm("llama")
    first, second = (decoded(lm, PROMPTS[2]) for _ in range(2))
    assert [branch.logprobs for branch in first] == [branch.logprobs for branch in second]
    assert lm.model.config._attn_implementation == "sdpa"


# -- who waits for whom -----------------------------------------------------------------------------------------


def test_all_who_decode_are_run_at_once(patient):
    seen = []
    meeting = Gathering(lambda batch: seen.append(len(batch)) or [10 * one for one in batch])
    entered = threading.Barrier(4)

    def work(number):
        with meeting.decoding():
            entered.wait()
            return [meeting.run(number + 100 * step) for step in range(5)]

    assert together(work, range(4)) == [[10 * (k + 100 * step) for step in range(5)] for k in range(4)]
    assert seen == [4] * 5


def test_one_who_leaves_is_not_waited_for(patient):
    meeting = Gathering(list)
    entered = threading.Barrier(2)

    def work(steps):
        with meeting.decoding():
            entered.wait()
            return [meeting.run(step) for step in range(steps)]

    began = time.monotonic()
    together(work, [1, 4])
    assert time.monotonic() - began < 4.0


def test_one_who_is_late_holds_nobody_up_for_long():
    meeting, entered = Gathering(list), threading.Event()

    def late():
        with meeting.decoding():
            entered.set()
            time.sleep(1.0)

    thread = threading.Thread(target=late)
    thread.start()
    entered.wait()
    began = time.monotonic()
    with meeting.decoding():
        assert meeting.run(1) == 1
    assert time.monotonic() - began < 0.9
    thread.join()


def test_an_error_is_told_to_all_whom_it_befell_and_then_it_goes_on(patient):
    def run_all(batch):
        if "bad" in batch:
            raise RuntimeError("no memory")
        return batch

    meeting = Gathering(run_all)
    with pytest.raises(RuntimeError, match="no memory"):
        meeting.run("bad")
    assert meeting.run("good") == "good"


def test_who_gives_up_takes_its_pass_back():
    running, released, seen = threading.Event(), threading.Event(), []

    def run_all(batch):
        seen.append(list(batch))
        running.set()
        released.wait(5)
        return batch

    meeting = Gathering(run_all)
    thread = threading.Thread(target=meeting.run, args=("first",))
    thread.start()
    running.wait()
    with limited(Limit(0.1)), pytest.raises(TimedOut):
        meeting.run("given up")
    released.set()
    thread.join()
    assert meeting.run("last") == "last"
    assert seen == [["first"], ["last"]]


def test_the_smallest_pass_beside_the_largest():
    """A prompt's piece beside one token: rows of other questions are never seen."""
    lm = tiny_lm("llama")
    network = lm._network
    assert network._packs
    caches = [network.new_cache(native=False) for _ in range(2)]
    long, short = [number % VOCABULARY for number in range(200)], [9]
    passes = [network._chain(cache, ids, 0, 1) for cache, ids in zip(caches, (long, short), strict=True)]
    packed = network._packed(passes)
    alone = [network.chain(network.new_cache(native=False), ids, 0) for ids in (long, short)]
    for one, other in zip(packed, alone, strict=True):
        assert torch.allclose(one[0], other, atol=1e-5)
    assert [cache.get_seq_length() for cache in caches] == [200, 1]
