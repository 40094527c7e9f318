"""Short work beside long work: lanes.py, and the models that give way between their batches and passes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import RLock

import pytest

from conftest import tiny_model, tiny_nli, word_tokenizer
from sdlg.concurrency import lanes as lanes_module
from sdlg.concurrency.lanes import Lanes
from sdlg.concurrency.limits import Limit, check_limit, holding, limited
from sdlg.errors import Cancelled
from sdlg.loading.batching import run_in_batches
from sdlg.models.decoding import trees
from sdlg.models.transformers.model import TransformersModel
from sdlg.records import Prompt, StopRule

PAIRS = [(f"yes {one}", f"no {two}") for one in range(10) for two in range(10)]


@contextmanager
def beside(lanes, work):
    """Long work in a thread of its own, and what it gives in the end."""
    limit = Limit()

    def run():
        with limited(limit), lanes.long():
            return work()

    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(run)
        finally:
            limit.cancel()


def counting(steps, seconds=0.002):
    def work():
        for _ in range(10_000):
            check_limit()
            time.sleep(seconds)
            steps.append(time.monotonic())

    return work


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_long_work_stands_aside_while_short_work_runs_and_then_goes_on(monkeypatch):
    monkeypatch.setattr(lanes_module, "LONG_SHARE", 0.0)
    lanes, steps = Lanes(), []
    with beside(lanes, counting(steps)):
        wait_until(lambda: steps)
        with lanes.short():
            time.sleep(0.1)
            before = len(steps)
            time.sleep(0.2)
            assert len(steps) == before
        wait_until(lambda: len(steps) > before)


def test_long_work_keeps_its_share_beside_endless_short_work():
    lanes, steps = Lanes(), []
    with lanes.short(), beside(lanes, counting(steps, 0.02)):
        time.sleep(1.5)
    assert 5 <= len(steps) <= 40  # of 75, were it alone


def test_who_stands_aside_sees_that_it_is_cancelled(monkeypatch):
    monkeypatch.setattr(lanes_module, "LONG_SHARE", 0.0)
    lanes = Lanes()
    with lanes.short():
        with beside(lanes, counting([])) as work:
            time.sleep(0.1)
        with pytest.raises(Cancelled):
            work.result(60)


def test_nobody_stands_aside_with_a_lock_in_hand(monkeypatch):
    monkeypatch.setattr(lanes_module, "LONG_SHARE", 0.0)
    lanes, lock, held = Lanes(), RLock(), threading.Event()

    def work():
        with holding(lock):
            held.wait(60)
            check_limit()  # would wait for the short work, which waits for the lock
        return "done"

    with beside(lanes, work) as long, lanes.short():
        held.set()
        assert long.result(60) == "done"


def test_long_texts_make_small_batches_so_that_the_deadline_is_looked_at_often():
    batches = []

    def run(batch):
        batches.append([len(text) for text in batch])
        return batch

    run_in_batches(run, ["a", "b" * 4, "c" * 5, "d" * 9, "e" * 30], 3, characters=18)
    assert batches == [[1, 4, 5], [9], [30]]  # 3 × 5 fit, 2 × 30 do not; one always runs


def paused_at_call(count, monkeypatch, model, name):
    """The model's method, whose nth call waits: an event that says it does, and one that lets it go on."""
    run, calls, reached, go_on = getattr(model, name), [], threading.Event(), threading.Event()

    def watched(*args, **named):
        calls.append(1)
        if len(calls) == count:
            reached.set()
            assert go_on.wait(60)
        return run(*args, **named)

    monkeypatch.setattr(model, name, watched)
    return reached, go_on


def test_a_small_question_to_a_judge_does_not_wait_for_a_large_one(monkeypatch):
    monkeypatch.setattr(lanes_module, "LONG_SHARE", 0.0)
    nli, lanes = tiny_nli(), Lanes()
    alone = nli.judge("", PAIRS).probabilities
    reached, go_on = paused_at_call(1, monkeypatch, nli, "_run")
    with beside(lanes, lambda: nli.judge("", PAIRS)) as large:
        assert reached.wait(60)
        with lanes.short(), ThreadPoolExecutor(1) as pool:
            go_on.set()
            assert_alike(pool.submit(nli.judge, "", PAIRS[:3]).result(60).probabilities, alone[:3])
            assert not large.done()
        assert_alike(large.result(60).probabilities, alone)


def assert_alike(verdicts, others):
    """Up to what the size of a batch changes."""
    assert [one.entailment for one in verdicts] == pytest.approx([one.entailment for one in others], abs=1e-5)


def test_a_model_that_scores_many_answers_answers_others_between_passes(monkeypatch):
    monkeypatch.setattr(lanes_module, "LONG_SHARE", 0.0)
    monkeypatch.setattr(trees, "_PASS_TOKENS", 4)
    lm, lanes = TransformersModel(tiny_model("llama"), word_tokenizer()), Lanes()
    prompt, texts = Prompt(tuple(range(5, 15)), StopRule()), ["the cat sat on the mat"] * 3
    lm.score(prompt, texts)
    alone = lm.score(prompt, texts)  # the prompt is kept by now
    few = lm.score(prompt, texts[:1])
    reached, go_on = paused_at_call(2, monkeypatch, lm._network, "tree")
    with beside(lanes, lambda: lm.score(prompt, texts)) as large:
        assert reached.wait(60)
        with lanes.short(), ThreadPoolExecutor(1) as pool:
            go_on.set()
            assert pool.submit(lm.score, prompt, texts[:1]).result(60).generations == few.generations
            assert not large.done()
        assert large.result(60) == alone  # what it cost, too: others' tokens are not counted with it
