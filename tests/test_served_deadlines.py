"""Deadlines, cancellation, and many questions at once."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time

import pytest

from fake_server import (
    Answer,
    Stall,
    Together,
    save_tokenizer,
)
from fakes import CAPITAL
from sdlg.cli import main
from sdlg.errors import (
    BadOption,
    SdlgError,
    TimedOut,
)
from sdlg.models.server.served import connect
from served import (
    ASKED,
    DEAD,
    QUESTION,
    ROME,
    held_up,
    is_answer,
    is_branch,
    load_with_fake_nli,
    pipeline,
    until,
    whole,
)

pytestmark = pytest.mark.usefixtures("plain_environment")


SPAIN = {"": {"Madrid": 0.8, "It": 0.2}, "It": {" is": 1.0}, "It is": {" Madrid": 0.6, " Seville": 0.4}}
COUNTRIES = {"Italy": ROME, "Spain": SPAIN}


@pytest.fixture(scope="session")
def all_words(tmp_path_factory):
    """The tokenizer of a server with several scripts."""
    return save_tokenizer(CAPITAL, tmp_path_factory.mktemp("tokenizer"), COUNTRIES)


@pytest.mark.parametrize(
    ("stalled", "seconds"), [(lambda seen: seen.path == "/apply-template", 0.5), (is_answer, 1.0), (is_branch, 1.5)]
)
def test_a_deadline_ends_a_question_and_its_request(connected, stalled, seconds):
    server, model = connected(retry_seconds=60.0)
    server.inject(Stall(), when=stalled)
    started = time.monotonic()
    with pytest.raises(TimedOut, match=rf"no answer within {seconds:g} s"):
        pipeline(model).ask(QUESTION, timeout=seconds)
    assert seconds <= time.monotonic() - started < seconds + 20.0
    held = [seen for seen in server.requests if stalled(seen)]
    assert held
    assert all(seen.left.wait(10.0) for seen in held)
    server.heal()
    assert pipeline(model).ask(QUESTION, timeout=30.0).answer.text == "It is Paris"


def test_a_deadline_ends_trying_again(connected):
    server, model = connected(retry_seconds=60.0)
    server.inject(Answer(503), when=lambda seen: True)
    with pytest.raises(TimedOut):
        pipeline(model).ask(QUESTION, timeout=0.5)
    tried = len(server.requests)
    assert tried >= 1
    time.sleep(0.3)  # longer than any pause between tries here
    assert len(server.requests) <= tried + 1


def test_the_commands_deadline_is_for_each_question(serve, tmp_path, capsys):
    server = serve()
    server.inject(Stall(), when=lambda seen: seen.generates and "Second" in seen.words)
    (tmp_path / "q.txt").write_text("First?\nSecond?\nThird?\n")
    arguments = ["ask", "--file", tmp_path / "q.txt", "--out", tmp_path / "out", "--model", server.url]
    assert main([*map(str, arguments), "--timeout", "2", "--set", "in_flight=1"], load=load_with_fake_nli) == 1
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert ["error" in row for row in rows] == [False, True, False]
    assert "no answer within 2 s" in rows[1]["error"]
    assert "1 of 3 questions could not be answered" in capsys.readouterr().err


def test_a_cancelled_task_takes_its_requests_back_and_frees_its_thread(connected):
    server, model = connected(retry_seconds=60.0)
    asked = pipeline(model)
    stall = server.inject(Stall(), when=is_answer)

    async def cancelled():
        tasks = [asyncio.create_task(asked.ask_async(f"{QUESTION} {k}")) for k in range(asked.in_flight)]
        await asyncio.to_thread(until, lambda: len(server.generations) == len(tasks))
        for task in tasks:
            task.cancel()
        for task in tasks:
            with pytest.raises(asyncio.CancelledError):
                await task
        held = list(server.generations)
        assert all([await asyncio.to_thread(seen.left.wait, 10.0) for seen in held])
        assert not stall.released.is_set()
        server.heal()
        return await asyncio.wait_for(asked.ask_async(QUESTION), 30.0)  # every thread was taken

    assert asyncio.run(cancelled()).answer.text == "It is Paris"


def test_the_async_form_gives_the_same_and_many_at_once(connected):
    server, model = connected()
    asked = pipeline(model)
    wanted = whole(asked.ask(QUESTION))
    server.inject(Together(3), when=is_answer)  # as many as the server has slots

    async def all_three():
        return await asyncio.gather(*(asked.ask_async(QUESTION) for _ in range(3)))

    assert [whole(result) for result in asyncio.run(all_three())] == [wanted] * 3


def test_a_deadline_holds_for_the_async_form(connected):
    server, model = connected(retry_seconds=60.0)
    server.inject(Stall(), when=lambda seen: True)
    with pytest.raises(TimedOut):
        asyncio.run(pipeline(model).ask_async(QUESTION, timeout=0.5))
    assert server.requests[0].left.wait(10.0)


@pytest.mark.parametrize(
    "options", [{}, {"seed": 7, "branch_strategy": "multinomial"}, {"method": "multinomial", "seed": 3}], ids=str
)
def test_many_questions_in_flight_are_answered_in_order_as_one_by_one(connected, all_words, options):
    server, model = connected("vllm", root=all_words, others=COUNTRIES)
    asked = pipeline(model, **options)
    one_by_one = [whole(asked.ask(question)) for question in ASKED]
    server.heal()
    server.inject(Together(8), when=is_answer, times=8)
    at_once = [whole(result) for result in asked.ask_many(ASKED, in_flight=8)]
    assert at_once == one_by_one
    assert [row["question"]["text"] for row in at_once] == ASKED
    assert len({row["answer"] for row in at_once}) >= 3


def test_so_many_questions_are_in_flight_as_were_allowed(connected, tokenizer):
    server, model = connected("vllm", root=tokenizer, retry_seconds=60.0)
    waiting, results = held_up(server, lambda: pipeline(model, samples=1).ask_many(ASKED, in_flight=8), 8)
    assert waiting == 8
    assert [result.question.text for result in results] == ASKED


def test_a_slow_first_question_does_not_hold_up_the_others(connected):
    server, model = connected(retry_seconds=60.0)
    slow = server.inject(Stall(), when=lambda seen: seen.generates and "number 0?" in seen.words)
    results = pipeline(model, samples=1).ask_many(ASKED[:6], in_flight=2)
    found = []
    reading = threading.Thread(target=lambda: found.extend(results))
    reading.start()
    until(lambda: len(server.generations) == 6)  # all others are answered meanwhile
    slow.released.set()
    reading.join(10.0)
    assert [result.question.text for result in found] == ASKED[:6]


def test_whoever_stops_reading_takes_back_what_is_under_way(connected):
    server, model = connected(retry_seconds=60.0)
    server.inject(Stall(), when=lambda seen: seen.generates and "number 0?" not in seen.words)
    results = pipeline(model, samples=1).ask_many(ASKED, in_flight=4)
    assert next(results).question.text == ASKED[0]
    until(lambda: len(server.generations) >= 4)
    results.close()
    held = server.generations[1:]
    assert all(seen.left.wait(10.0) for seen in held if "number 0?" not in seen.words)


def test_a_failure_ends_many_questions_and_takes_the_others_back(connected):
    server, model = connected(retry_seconds=60.0)
    server.inject(Answer(400, DEAD), when=lambda seen: seen.generates and "number 1?" in seen.words)
    server.inject(Stall(), when=lambda seen: seen.generates and "number 0?" not in seen.words)
    results = pipeline(model, samples=1).ask_many(ASKED, in_flight=4)
    assert next(results).question.text == ASKED[0]
    with pytest.raises(SdlgError, match="the engine is dead"):
        next(results)
    stalled = [seen for seen in server.generations if not any(f"number {k}?" in seen.words for k in (0, 1))]
    assert all(seen.left.wait(10.0) for seen in stalled)


def test_closing_a_model_ends_what_is_under_way_with_an_error_of_ours(serve):
    server = serve()
    model = connect(server.url, retry_seconds=60.0)
    server.heal()
    server.inject(Stall())
    errors = []

    def ask():
        try:
            pipeline(model).ask(QUESTION)
        except BaseException as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: server.generations)
    model.close()
    asking.join(10.0)
    assert len(errors) == 1
    assert isinstance(errors[0], SdlgError)
    assert server.generations[0].left.wait(10.0)
    with pytest.raises(SdlgError):
        pipeline(model).ask(QUESTION)


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan])
def test_a_deadline_is_in_the_future(connected, seconds):
    server, model = connected()
    with pytest.raises(BadOption, match="timeout"):
        pipeline(model).ask(QUESTION, timeout=seconds)
    assert server.requests == []
