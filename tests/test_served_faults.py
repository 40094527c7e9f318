"""Faults of servers: what passes changes nothing, what does not is told."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest

import sdlg
from fake_server import (
    Answer,
    Change,
    FakeServer,
    HangUp,
    Stall,
    Trickle,
    Twin,
    Typed,
)
from fakes import CAPITAL
from sdlg.cli import main
from sdlg.concurrency.limits import Limit, limited
from sdlg.errors import (
    BadQuestion,
    PromptTooLong,
    ServerFailed,
    TimedOut,
)
from sdlg.models.server.connection import BadReply
from sdlg.models.server.served import connect
from served import (
    DEAD,
    HASTE,
    PATIENCE,
    QUESTION,
    STORY,
    _with_logprob,
    comparable,
    is_answer,
    is_branch,
    pipeline,
    whole,
)

pytestmark = pytest.mark.usefixtures("plain_environment")


def _first(parts):
    return parts[:1]  # and then the end, in good order


def _without_logprobs(parts):
    return [{"choices": [{**choice, "logprobs": None} for choice in part["choices"]]} for part in parts]


def _without_some_logprobs(parts):
    return [*_without_logprobs(parts[:1]), *parts[1:]]


def _with_broken_event(parts):
    return [json.dumps(parts[0])[:-9], *parts[1:]]


def _error_event(parts):
    return [parts[0], {"error": {"message": "CUDA out of memory", "code": 500}}]


HTML = b"<!DOCTYPE html><html><body><h1>Bad Gateway</h1>nginx</body></html>"
# name → the fault, how often it may happen to a request that is then answered, what is said if it never ends
FAULTS = {
    "silent": (Stall(), 1, "is silent for"),
    "silent after a token": (Stall(after=1), 1, None),
    "trickles": (Trickle(), 1, "is silent for .* s: no token"),
    "trickles after a token": (Trickle(after=1), 1, "is silent for .* s"),
    "hangs up": (HangUp(), 2, "broke off"),
    "hangs up after a token": (HangUp(after=1), 2, None),
    "too many requests": (Answer(429, DEAD, headers={"Retry-After": "0.05"}), 3, "429: the engine is dead"),
    "too many requests, unsaid how long": (Answer(429, DEAD), 2, None),
    "too many requests, until a date": (Answer(429, b"", headers={"Retry-After": "Wed, 21 Oct 2015"}), 2, None),
    "unavailable": (Answer(503, DEAD), 2, None),
    "bad gateway, as a page": (Answer(502, HTML, "text/html"), 2, "answers 502.*Bad Gateway"),
    "internal error": (Answer(500, DEAD), 2, "answers 500: the engine is dead"),
    "internal error of 10 MB": (Answer(500, b"x" * 10_000_000, "text/plain"), 1, "answers 500: xxx"),
    "a page": (Answer(200, HTML, "text/html"), 2, "not JSON.*DOCTYPE"),
    "nothing": (Answer(200, b""), 2, "not JSON"),
    "10 MB of nothing": (Answer(200, b" " * 10_000_000), 1, "not JSON"),
    "broken JSON": (Answer(200, b'{"choices": ['), 2, "not JSON"),
    "a broken event": (Change(_with_broken_event), 2, "not JSON"),
    "an error amid the stream": (Change(_error_event), 2, "CUDA out of memory"),
    "no ending": (Change(_first), 2, "broke off in the middle of an answer"),
    "no events": (Change(lambda parts: []), 2, "broke off in the middle of an answer"),
    "no log-probabilities": (Change(_without_logprobs), 2, "log-probabilities"),
    "fewer log-probabilities than tokens": (Change(_without_some_logprobs), 2, "log-probabilities|spell"),
    "NaN": (Change(_with_logprob(math.nan)), 2, "no log-probability: 'nan'"),
    "a positive log-probability": (Change(_with_logprob(0.5)), 2, "no log-probability: '0.5'"),
    "null for a log-probability": (Change(_with_logprob(None)), 2, "no log-probability: 'None'"),
    "another content type": (Typed("text/plain"), 2, "not JSON"),
}
AMID_BRANCHES = (
    "silent after a token",
    "hangs up",
    "too many requests",
    "no ending",
    "fewer log-probabilities than tokens",
)


@pytest.mark.parametrize(
    ("name", "when"), [*((name, is_answer) for name in FAULTS), *((name, is_branch) for name in AMID_BRANCHES)]
)
def test_a_fault_that_passes_changes_nothing(connected, name, when):
    fault, times, _ = FAULTS[name]
    server, model = connected(script=STORY, retry_seconds=HASTE if isinstance(fault, Stall | Trickle) else PATIENCE)
    server.inject(replace(fault), when=when, times=times)
    served, local = (pipeline(one, samples=3).ask(QUESTION) for one in (model, Twin(STORY)))
    assert comparable(served) == comparable(local)
    assert len(server.generations) == 3 + times


@pytest.mark.parametrize("name", [name for name, (_, _, says) in FAULTS.items() if says])
def test_a_fault_that_does_not_pass_is_told(connected, name):
    fault, _, says = FAULTS[name]
    server, model = connected(script=STORY, retry_seconds=HASTE)
    server.inject(replace(fault))
    with limited(Limit(30.0)), pytest.raises(ServerFailed, match=says) as failure:
        pipeline(model).ask(QUESTION)
    assert server.url in str(failure.value)
    asks = "is a quota used up?" if name == "too many requests" else "is the server still running?"
    assert asks in str(failure.value)
    assert len(str(failure.value)) < 600
    server.heal()
    assert pipeline(model).ask(QUESTION).answer.text == "It is in Paris"


def test_an_ending_without_its_log_probability_is_missed(connected):
    """A branch that ends at once has no text that would show what is missing."""
    server, model = connected()
    server.inject(Change(_without_logprobs), when=is_branch)
    with pytest.raises(ServerFailed, match="log-probabilities"):
        pipeline(model).ask(QUESTION)


def _vllm_lacks(field):
    def edit(parts):
        parts[0]["choices"][0]["logprobs"][field] = []
        return parts

    return edit


@pytest.mark.parametrize("field", ["tokens", "token_logprobs"])
@pytest.mark.parametrize("dialect", ["vllm", "legacy"])
def test_as_many_log_probabilities_as_tokens_are_wanted(connected, tokenizer, dialect, field):
    server, model = connected(dialect, most=5, root=tokenizer)
    server.inject(Change(_vllm_lacks(field)))
    with pytest.raises(ServerFailed, match=r"log-probabilities and .* alternatives for .* tokens"):
        pipeline(model, method="multinomial").ask(QUESTION)


def test_a_token_without_its_log_probability_is_missed_by_ids_too(connected, tokenizer):
    server, model = connected("vllm", most=5, root=tokenizer)
    server.inject(Change(_without_some_logprobs))
    with pytest.raises(ServerFailed, match=r"log-probabilities|spell"):
        pipeline(model).ask(QUESTION)


def test_a_reply_of_10_mb_is_read(connected):
    """White space around JSON is JSON."""
    server, model = connected("legacy", most=5)
    undisturbed = whole(pipeline(model, method="multinomial").ask(QUESTION))
    server.inject(Change(lambda parts: [json.dumps(parts[0]) + " " * 10_000_000]), times=1)
    assert whole(pipeline(model, method="multinomial").ask(QUESTION)) == undisturbed


def test_json_is_json_under_any_name(connected):
    server, model = connected("legacy", most=5)
    undisturbed = whole(pipeline(model, method="multinomial").ask(QUESTION))
    server.inject(Typed("text/html"))
    assert whole(pipeline(model, method="multinomial").ask(QUESTION)) == undisturbed


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_is_told_at_once(connected, status):
    server, model = connected(retry_seconds=30.0)
    server.inject(Answer(status, b'{"error": "invalid api key"}'))
    with pytest.raises(ServerFailed, match=rf"answers {status}: invalid api key Set OPENAI_API_KEY"):
        pipeline(model).ask(QUESTION)
    assert len(server.generations) == 1


@pytest.mark.parametrize("status", [400, 404, 405, 422])
def test_a_request_that_is_refused_is_not_sent_again(connected, status):
    server, model = connected(retry_seconds=30.0)
    server.inject(Answer(status, b'{"detail": "no such thing"}'))
    kind = BadQuestion if status in (400, 422) else ServerFailed  # another question may be taken
    with pytest.raises(kind, match=f"answers {status}: no such thing"):
        pipeline(model).ask(QUESTION)
    assert len(server.generations) == 1


def test_a_prompt_that_the_server_finds_too_long_is_the_askers_mistake(connected):
    server, model = connected("legacy", most=5)
    said = {"message": "This model's maximum context length is 2048 tokens. Please reduce the length."}
    server.inject(Answer(400, json.dumps({"error": said}).encode()))
    with pytest.raises(PromptTooLong, match=r"2048 tokens.*Shorten the question"):
        pipeline(model, method="multinomial").ask(QUESTION)


def test_retry_seconds_is_not_outlasted_by_what_the_server_asks_for(connected):
    server, model = connected(retry_seconds=HASTE)
    server.inject(Answer(429, DEAD, headers={"Retry-After": "30"}))
    with limited(Limit(5.0)), pytest.raises(ServerFailed, match="answers 429"):
        pipeline(model).ask(QUESTION)


def test_a_server_that_says_how_long_to_wait_is_not_asked_before(connected):
    server, model = connected()
    server.inject(Answer(429, headers={"Retry-After": "0.4"}), times=1)
    pipeline(model, samples=1).ask(QUESTION)
    first, second = server.generations
    assert second.at - first.at >= 0.4


def test_a_fault_that_may_be_the_requests_own_is_not_tried_for_long(connected):
    server, model = connected(retry_seconds=30.0)
    server.inject(Answer(500, DEAD))
    with pytest.raises(ServerFailed, match="answers 500"):
        pipeline(model, samples=1).ask(QUESTION)
    assert len(server.generations) == 4


@pytest.mark.parametrize(
    ("dialect", "shape"),
    [
        ("llama", "7"), ("llama", "null"), ("llama", "[]"), ("llama", '{"choices": "x"}'),
        ("llama", '{"choices": {"a": 1}}'), ("llama", '{"choices": [7]}'), ("llama", '{"choices": [{"logprobs": 7}]}'),
        ("llama", '{"choices": [{"text": 7, "finish_reason": "stop"}]}'),
        ("legacy", "7"), ("legacy", '{"choices": [{"logprobs": {"tokens": 7}, "finish_reason": "stop"}]}'),
        ("chat", "null"), ("chat", '{"choices": [null]}'),
        ("chat", '{"choices": [{"message": "x", "finish_reason": "stop"}]}'),
        ("chat", '{"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}'),
    ],
)  # fmt: skip
def test_json_of_another_shape_is_a_servers_failure(connected, dialect, shape):
    server, model = connected(dialect, most=5)
    server.inject(Change(lambda parts: [shape]))
    with pytest.raises(ServerFailed):
        pipeline(model, method="multinomial", samples=2).ask(QUESTION)


@pytest.mark.parametrize("usage", [7, "many", {"completion_tokens": "x"}, {"prompt_tokens_details": 7}], ids=str)
def test_counts_of_another_shape_are_passed_over(connected, usage):
    server, model = connected("chat", most=0)
    server.inject(Change(lambda parts: [{**parts[0], "usage": usage}]))
    assert len(pipeline(model, method="multinomial").ask(QUESTION).samples) == 4


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/tokenize", "7"), ("/tokenize", "{}"), ("/tokenize", '{"tokens": ["x"]}'), ("/tokenize", '{"tokens": null}'),
        ("/apply-template", "[]"), ("/apply-template", "{}"),
    ],
)  # fmt: skip
def test_a_prompt_of_another_shape_is_a_servers_failure(connected, path, shape):
    server, model = connected()
    server.inject(Answer(200, shape.encode()), when=lambda seen: seen.path == path)
    with pytest.raises(ServerFailed):
        pipeline(model).ask(QUESTION)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/models", "7"), ("/v1/models", '{"data": 7}'), ("/v1/models", '{"data": [7, {}]}'),
        ("/v1/completions", "7"), ("/v1/completions", "{}"), ("/v1/completions", '{"choices": [7]}'),
        ("/v1/completions", '{"choices": [{"logprobs": 7}]}'),
        ("/v1/completions", '{"choices": [{"logprobs": {"content": [7]}}]}'),
        ("/v1/completions", '{"choices": [{"logprobs": {"tokens": 7}}]}'),
    ],
)  # fmt: skip
def test_replies_of_another_shape_are_a_servers_failure(serve, path, shape):
    server = serve()
    server.inject(Answer(200, shape.encode()), when=lambda seen: seen.path == path)
    with pytest.raises(ServerFailed):
        connect(server.url, retry_seconds=PATIENCE)


@pytest.mark.parametrize("shape", ["[]", '{"default_generation_settings": null}', '{"total_slots": "x"}'])
def test_facts_of_another_shape_are_passed_over(serve, shape):
    server = serve()
    server.inject(Answer(200, shape.encode()), when=lambda seen: seen.path == "/props")
    with pipeline(connect(server.url, retry_seconds=PATIENCE)) as asked:
        assert asked.ask(QUESTION).answer.text == "It is Paris"


@pytest.mark.parametrize("details", ["7", '{"cached_tokens": "x"}'])
def test_a_usage_of_another_shape_is_passed_over(serve, details):
    server = serve()
    reply = f'{{"choices": [{{}}], "usage": {{"prompt_tokens_details": {details}}}}}'
    server.inject(Answer(200, reply.encode()), when=lambda seen: seen.path == "/v1/completions")
    with closing(connect(server.url, retry_seconds=PATIENCE)) as model:
        assert not model.capabilities.continues_prefixes  # nothing is known of what it can do


def test_a_server_that_is_not_there_is_told(serve):
    server = serve()
    server.kill()
    with pytest.raises(ServerFailed, match=r"cannot reach http://127.0.0.1.*is the server still running\?"):
        connect(server.url, retry_seconds=0.3)


def test_a_server_that_comes_back_is_waited_for(serve):
    server = serve()
    model = connect(server.url, retry_seconds=20.0)
    undisturbed = whole(pipeline(model).ask(QUESTION))
    server.kill()
    found = []
    asking = threading.Thread(target=lambda: found.append(whole(pipeline(model).ask(QUESTION))))
    asking.start()
    with FakeServer("llama", CAPITAL, port=server.port):
        asking.join(20.0)
    model.close()
    assert found == [undisturbed]


def test_retry_seconds_begins_with_the_first_fault(connected):
    """Time that a reply took, or that a request waited for its turn, is not time without one."""
    _, model = connected(retry_seconds=1.0)
    attempts = []

    async def late_fault():
        attempts.append(len(attempts))
        await asyncio.sleep(1.2 if len(attempts) == 1 else 0)
        if len(attempts) == 1:
            raise BadReply("broke off")
        return "fine"

    assert model.connection.run(model.connection._persistently(late_fault)) == "fine"


@pytest.mark.parametrize("told", ["0", "nan", "-1", "soon"])
def test_a_server_that_asks_for_no_pause_gets_one(connected, told):
    server, model = connected(retry_seconds=20.0)
    server.inject(Answer(429, b"{}", headers={"Retry-After": told}), times=2)
    assert pipeline(model, samples=1).ask(QUESTION).answer.text


def test_counts_that_never_come_do_not_cost_the_answer(connected):
    server, model = connected(script=STORY, retry_seconds=HASTE)
    server.inject(Trickle(after=20), when=is_answer, times=1)  # all of it, but not its end
    served, local = (pipeline(one, samples=1).ask(QUESTION) for one in (model, Twin(STORY)))
    assert (served.answer.text, served.answer.logprobs) == (local.answer.text, local.answer.logprobs)
    assert len([seen for seen in server.generations if is_answer(seen)]) == 1


@pytest.mark.parametrize("path", ["/v1/models", "/v1/completions"])
def test_a_server_that_trickles_while_it_is_probed_is_given_up(serve, path):
    server = serve()
    server.inject(Trickle(), when=lambda seen: seen.path == path)
    with limited(Limit(30.0)), pytest.raises(ServerFailed, match="no whole document"):
        connect(server.url, retry_seconds=HASTE)


def test_the_timeout_holds_while_a_server_is_probed(serve, capsys):
    server = serve()
    server.inject(Trickle(), when=lambda seen: seen.path == "/v1/completions")
    started = time.monotonic()
    assert main(["ask", "Where?", "--model", server.url, "--timeout", "0.5"]) == 1
    assert "no answer within 0.5 s" in capsys.readouterr().err
    with pytest.raises(TimedOut, match=r"0\.5 s"):
        sdlg.ask("Where?", model=server.url, timeout=0.5)
    assert time.monotonic() - started < 20
