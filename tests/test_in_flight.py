"""Several questions at once, deadlines, cancellation: limits.py, in_flight.py, and a local pipeline under threads."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import sdlg
from conftest import tiny_model, tiny_nli, word_tokenizer
from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg.concurrency.in_flight import in_thread, one_at_a_time, run_in_flight
from sdlg.concurrency.limits import Limit, check_limit, limited, wait_for
from sdlg.errors import BadOption, Cancelled, TimedOut
from sdlg.loading.batching import run_in_batches
from sdlg.models.base import DecodeRequest
from sdlg.models.transformers.model import TransformersModel
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule


def endless():
    """Work that only its limit ends."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        check_limit()
        time.sleep(0.005)
    raise AssertionError("nobody stopped it")


# -- limits -----------------------------------------------------------------------------------------------------


def test_without_a_limit_nothing_ends():
    check_limit()
    done = Future()
    done.set_result(3)
    assert wait_for(done) == 3


def test_a_deadline_ends_work_and_says_so():
    with limited(Limit(0.05)), pytest.raises(TimedOut, match=r"0\.05 s"):
        endless()


def test_a_deadline_ends_waiting_and_takes_the_request_back():
    never = Future()
    with limited(Limit(0.05)), pytest.raises(TimedOut):
        wait_for(never)
    assert never.cancelled()


def test_cancelling_ends_waiting_in_another_thread():
    never, limit = Future(), Limit()
    threading.Timer(0.05, limit.cancel).start()
    with limited(limit), pytest.raises(Cancelled):
        wait_for(never)
    assert never.cancelled()


def test_a_limit_inside_another_ends_with_it():
    outer = Limit()
    with limited(outer), limited(Limit(30)):
        outer.cancel()
        with pytest.raises(Cancelled):
            check_limit()
    with limited(Limit(0.05)), limited(Limit(30)), pytest.raises(TimedOut, match=r"0\.05 s"):
        wait_for(Future())


def test_a_limit_holds_only_inside():
    limit = Limit()
    with limited(limit):
        limit.cancel()
    check_limit()


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_that_is_none_is_refused(seconds):
    with pytest.raises(BadOption, match="timeout"):
        Limit(seconds)


# -- in flight --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 50])
def test_results_come_in_order_however_many_are_in_flight(count):
    def work(number):
        time.sleep(0.001 * (number % 5))
        return number * number

    found = [(item, done.result()) for item, done in run_in_flight(work, range(40), count)]
    assert found == [(number, number * number) for number in range(40)]


def test_unordered_results_come_as_they_finish():
    release = threading.Event()

    def work(number):
        if number == 0:
            assert release.wait(60)
        return number

    order = []
    for item, done in run_in_flight(work, range(6), 2, ordered=False):
        order.append(item)
        assert done.result() == item
        if len(order) == 5:
            release.set()
    assert order == [1, 2, 3, 4, 5, 0]


def test_no_more_than_asked_for_are_in_flight():
    running, most, lock = 0, 0, threading.Lock()

    def work(_):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    for _, done in run_in_flight(work, range(30), 4):
        done.result()
    assert 1 < most <= 4


def test_an_error_is_the_items_own():
    def work(number):
        return 1 / number

    found = list(run_in_flight(work, [1, 0, 2], 2))
    assert found[0][1].result() == 1
    with pytest.raises(ZeroDivisionError):
        found[1][1].result()
    assert found[2][1].result() == 0.5


def test_who_stops_asking_stops_the_work():
    started = threading.Event()

    def work(number):
        if number == 0:
            return 0
        started.set()
        endless()
        return number

    going = run_in_flight(work, range(8), 4, ordered=False)
    assert next(going)[0] == 0
    started.wait(10)
    began = time.monotonic()
    going.close()
    assert time.monotonic() - began < 10


def test_items_are_drawn_as_they_are_needed():
    drawn = []

    def items():
        for number in range(1000):
            drawn.append(number)
            yield number

    going = run_in_flight(lambda number: number, items(), 2)
    next(going)
    assert len(drawn) <= 10
    going.close()


def test_none_in_flight_is_refused():
    with pytest.raises(BadOption, match="at least 1"):
        list(run_in_flight(str, [1], 0))


def test_one_at_a_time_is_one_at_a_time():
    class Narrow:
        def __init__(self):
            self._turn, self.inside, self.most = threading.RLock(), 0, 0

        @one_at_a_time
        def enter(self):
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.001)
            self.inside -= 1

    door = Narrow()
    list(run_in_flight(lambda _: door.enter(), range(20), 8))
    assert door.most == 1


class Desk:
    """Someone who serves one at a time, and is busy until told otherwise."""

    def __init__(self):
        self._turn, self._busy, self._free = threading.RLock(), threading.Event(), threading.Event()

    @one_at_a_time
    def _serve_until_free(self):
        self._busy.set()
        self._free.wait(30)

    @one_at_a_time
    def serve(self):
        return "served"

    def __enter__(self):
        self._thread = threading.Thread(target=self._serve_until_free)
        self._thread.start()
        self._busy.wait(10)
        return self

    def __exit__(self, *_):
        self._free.set()
        self._thread.join()


def test_a_deadline_ends_waiting_for_ones_turn():
    with Desk() as desk, limited(Limit(0.05)), pytest.raises(TimedOut, match=r"0\.05 s"):
        desk.serve()
    assert desk.serve() == "served"


def test_cancelling_ends_waiting_for_ones_turn():
    limit = Limit()
    threading.Timer(0.05, limit.cancel).start()
    with Desk() as desk, limited(limit), pytest.raises(Cancelled):
        desk.serve()


# -- batches ----------------------------------------------------------------------------------------------------


def test_batches_run_each_different_item_once_shortest_first():
    batches = []

    def run(batch):
        batches.append(list(batch))
        return [item.upper() for item in batch]

    assert run_in_batches(run, ["ccc", "a", "bb", "a", "dd", "ccc"], 2) == {
        "a": "A", "bb": "BB", "dd": "DD", "ccc": "CCC",
    }  # fmt: skip
    assert batches == [["a", "bb"], ["dd", "ccc"]]
    run_in_batches(lambda pairs: batches.append(pairs) or pairs, [("aaa", "b"), ("a", "b"), ("c", "d")], 9)
    assert batches[-1] == [("a", "b"), ("c", "d"), ("aaa", "b")]


def test_a_deadline_stops_a_classifier_between_batches(monkeypatch):
    """So it does in every model that reads in batches."""
    nli, limit, batches = tiny_nli(), Limit(), []
    run = nli._run
    monkeypatch.setattr(nli, "_run", lambda batch: (batches.append(len(batch)), limit.cancel(), run(batch))[-1])
    with limited(limit), pytest.raises(Cancelled):
        nli.judge("", [("yes", f"no {number}") for number in range(100)])
    assert batches == [32]


def test_a_deadline_stops_the_reading_of_a_long_prompt(monkeypatch):
    monkeypatch.setattr("sdlg.models.decoding.tree_model._PREFILL_CHUNK", 4)
    lm, limit = TransformersModel(tiny_model("llama"), word_tokenizer()), Limit()
    chain = lm._network.chain
    monkeypatch.setattr(lm._network, "chain", lambda *args, **named: (limit.cancel(), chain(*args, **named))[-1])
    before = lm._network.forward_tokens
    with limited(limit), pytest.raises(Cancelled):
        lm.decode(DecodeRequest(Prompt(tuple(range(5, 45)), StopRule()), [()], Decoding(max_tokens=2)))
    assert lm._network.forward_tokens - before == 4


# -- await ------------------------------------------------------------------------------------------------------


def test_waiting_for_a_thread_is_part_of_the_timeout():
    release, asked = threading.Event(), []

    def slow(progress):
        asked.append(progress)
        release.wait(10)

    async def two_questions():
        pipeline = scripted_pipeline(samples=4)
        threads = pipeline._threads._max_workers
        busy = [asyncio.create_task(pipeline.ask_async("Where?", watch=slow)) for _ in range(threads)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        with pytest.raises(TimedOut, match=r"0\.1 s"):
            await pipeline.ask_async("Where?", timeout=0.1, watch=lambda _: pytest.fail("too late"))
        assert time.monotonic() - began < 5
        release.set()
        await asyncio.gather(*busy)

    asyncio.run(two_questions())
    assert asked


def test_cancelling_a_task_stops_its_work():
    stopped, ended = threading.Event(), threading.Event()

    def work():
        try:
            endless()
        except Cancelled:
            stopped.set()
            raise

    async def cancelled_soon():
        task = asyncio.create_task(in_thread(work, pool, ended=ended.set))
        await asyncio.sleep(0.05)
        assert not ended.is_set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(cancelled_soon())
        assert stopped.wait(60)
        assert ended.wait(60)


def scripted_pipeline(**options):
    return sdlg.Pipeline(sdlg.ScriptedModel(CAPITAL), FakeNli(MEANINGS), **options)


def test_awaiting_gives_what_asking_gives():
    pipeline = scripted_pipeline(samples=4)
    asked = pipeline.ask("Where?").to_dict()
    awaited = asyncio.run(pipeline.ask_async("Where?")).to_dict()
    direct = asyncio.run(
        sdlg.ask_async("Where?", model=sdlg.ScriptedModel(CAPITAL), nli=FakeNli(MEANINGS), samples=4)
    ).to_dict()
    for row in (asked, awaited, direct):
        del row["cost"]["seconds"]
    assert asked == awaited == direct


def test_a_finished_branch_is_told_when_it_is_finished():
    seen = []
    result = scripted_pipeline(samples=4).ask("Where?", watch=seen.append)
    told = [(one.generation.text, one.substitution.rank) for one in seen if one.stage == "branches" and one.generation]
    assert told == [(sample.text, sample.substitution.rank) for sample in result.samples[1:]]
    assert [one.generation.text for one in seen if one.stage == "scores"] == [result.answer.text]


def test_other_options_with_the_same_models():
    pipeline = scripted_pipeline(samples=4)
    other = pipeline.changed(method="multinomial", samples=2, linkage="components")
    assert (other.method, other.options.samples, other.options.clustering.linkage) == ("multinomial", 2, "components")
    assert (pipeline.method, pipeline.options.samples) == ("sdlg", 4)
    assert other.models is pipeline.models
    assert len(other.ask("Where?").samples) == 2
    assert pipeline.changed(preset="paper").options.decoding.strategy == "beam"
    with pytest.raises(sdlg.SdlgError, match="unknown method"):
        pipeline.changed(method="guess")


# -- a local model ----------------------------------------------------------------------------------------------


def test_threads_share_a_local_pipeline(tiny_folders):
    lm, nli = tiny_folders
    pipeline = sdlg.Pipeline(lm, nli, samples=3, max_tokens=6, prompt="plain")
    questions = [f"What is w{number} ?" for number in range(12)]

    def words(result):
        return [(sample.text, sample.cluster) for sample in (*result.samples, *result.draws)]

    def numbers(result):
        logprobs = [logprob for sample in result.samples for logprob in sample.generation.logprobs]
        return [*logprobs, *(estimate.value for estimate in result.estimates.values())]

    alone = [pipeline.ask(text) for text in questions]
    together = list(pipeline.ask_many(questions, in_flight=6))
    assert [words(result) for result in together] == [words(result) for result in alone]
    for one, other in zip(alone, together, strict=True):
        assert numbers(other) == pytest.approx(numbers(one), abs=1e-4)
    costs = [pipeline.ask(text).cost for text in questions[:3]]
    again = [result.cost for result in pipeline.ask_many(questions[:3], in_flight=3)]
    assert [one.nli_pairs for one in costs] == [one.nli_pairs for one in again]
    assert [one.nli_gradients for one in costs] == [one.nli_gradients for one in again]


def test_a_deadline_stops_a_local_model_between_tokens(tiny_folders):
    lm, nli = tiny_folders
    pipeline = sdlg.Pipeline(lm, nli, samples=3, max_tokens=400, prompt="plain", stop_strings=())
    seen = []
    with pytest.raises(TimedOut):
        pipeline.ask("What is w1 ?", timeout=0.001, watch=seen.append)
    assert len(seen) < 50
    assert pipeline.ask("What is w1 ?").samples  # and is as good as before


def test_every_change_that_was_ranked_is_told():
    result = scripted_pipeline(samples=3).ask("Where?")
    ranks = [candidate.rank for candidate in result.candidates]
    assert ranks == list(range(1, len(ranks) + 1))
    assert len(ranks) > len(result.samples) - 1
    assert [sample.substitution for sample in result.samples[1:]] == list(result.candidates[:2])
    shown = result.to_dict()["candidates"]
    assert [row["rank"] for row in shown] == ranks  # few enough to be shown all
