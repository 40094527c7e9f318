"""Hosted chat APIs without log-probabilities: what is possible is done, what is not is told, nothing is invented.

The stand-in is `FakeServer("chat", …)`. What such APIs refuse, and in which words, is from the bug reports of others.
"""

from __future__ import annotations

import json

import pytest

from fake_server import Answer, Change
from sdlg import Pipeline
from sdlg.cli import main
from sdlg.errors import BadQuestion, NotSupported, ServerFailed
from sdlg.models.server.served import connect
from sdlg.views.reading import short_note
from served import HASTE, QUESTION, Nli, load_with_fake_nli, pipeline, texts

pytestmark = pytest.mark.usefixtures("plain_environment")
MULTINOMIAL = {"method": "multinomial", "samples": 8}


def run(*arguments):
    return main(list(arguments), load=load_with_fake_nli)


def is_completion(seen):
    return seen.path == "/v1/completions"


def said(message, finish="stop"):
    """A reply with this message, whatever was asked."""
    return Change(lambda parts: [{**parts[0], "choices": [{"index": 0, "message": message, "finish_reason": finish}]}])


# -- what is possible ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clamps", [False, True], ids=["refuses logprobs", "ignores logprobs"])
def test_answers_are_counted_whether_log_probabilities_are_refused_or_ignored(connected, clamps):
    server, model = connected("chat", most=0, clamps=clamps)
    result = pipeline(model, draws=5, **MULTINOMIAL).ask(QUESTION)  # the samples are draws already: no further ones
    shares = [len(one.members) / 8 for one in result.meanings]
    assert [one.share for one in result.meanings] == pytest.approx(shares)
    assert all(one.low < one.share < one.high or one.share == 1 for one in result.meanings)
    assert result.semantic_entropy > 0
    assert any("no log-probabilities" in note for note in result.notes)
    assert "answers were only counted" in short_note(result)
    assert len(server.generations) == 8
    assert not any("n" in seen.body or "logprobs" in seen.body for seen in server.generations)


@pytest.mark.parametrize(
    ("refuses", "note"),
    [
        (("max_tokens",), None),
        (("seed",), "takes no seed"),
        (("temperature", "top_p", "max_tokens"), "takes no temperature and no top_p"),
        (("max_tokens", "temperature", "top_p", "seed"), "takes no temperature and no top_p and no seed"),
    ],
    ids=str,
)
def test_a_field_that_a_model_will_not_have_is_left_out_and_told(connected, refuses, note):
    server, model = connected("chat", most=0, refuses=refuses)
    result = pipeline(model, max_tokens=20, **MULTINOMIAL).ask(QUESTION)
    assert len(set(texts(result))) > 1
    assert "" not in texts(result)
    for seen in server.generations:
        assert not seen.body.keys() & set(refuses)
        assert seen.body.get("max_completion_tokens", seen.body.get("max_tokens")) == 20
    told = [one for one in result.notes if "takes no" in one]
    assert [note in one for one in told] == ([True] if note else [])


def test_one_of_two_fields_that_exclude_each_other_is_kept(serve):
    server = serve("chat", most=0)
    both = b'{"error": {"message": "`temperature` and `top_p` cannot both be specified for this model."}}'
    server.inject(Answer(400, both), when=lambda seen: {"temperature", "top_p"} <= seen.body.keys())
    with Pipeline(server.url, Nli(), **MULTINOMIAL, temperature=0.7, draws=0) as asking:
        asking.ask(QUESTION)
    assert [seen.body.get("temperature") for seen in server.generations[-8:]] == [0.7] * 8


def test_a_refusal_that_names_no_field_is_told(serve):
    server = serve("chat", most=0)
    server.inject(Answer(400, b'{"error": {"message": "your account is closed"}}'))
    with pytest.raises(ServerFailed, match="your account is closed"):
        connect(server.url)


def test_a_model_that_only_chats_may_refuse_completions_in_its_own_way(serve):
    server = serve("chat", most=0)
    server.inject(Answer(400, b'{"error": {"message": "not a completion model"}}'), when=is_completion)
    model = connect(server.url)
    assert model.server.endpoint == "chat"
    model.close()


def test_a_completion_that_is_refused_is_told_where_there_is_no_chat(serve):
    server = serve("legacy")
    server.inject(Answer(400, b'{"error": {"message": "the prompt is rude"}}'), when=is_completion)
    with pytest.raises(ServerFailed, match="the prompt is rude"):
        connect(server.url)


# -- what is not --------------------------------------------------------------------------------------------------


def test_many_questions_by_a_method_that_cannot_work_are_refused_at_once(serve, tmp_path, capsys):
    """Nothing is written, so the way out that is named works with the same files."""
    server, asked, out = serve("chat", most=0), tmp_path / "questions.txt", tmp_path / "results.jsonl"
    asked.write_text("Where?\nWhy?\n")
    files = ["--file", str(asked), "--out", str(out), "--model", server.url]
    assert run("ask", *files) == 2
    assert "--method multinomial works" in capsys.readouterr().err
    assert out.read_text() == ""
    assert run("ask", *files, "--method", "multinomial") == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["method"] for row in rows] == ["multinomial"] * 2
    assert all(any("no log-probabilities" in note for note in row["notes"]) for row in rows)


def test_the_short_view_says_that_answers_were_only_counted(serve, capsys):
    server = serve("chat", most=0, models=("some-model",))
    assert run("ask", QUESTION, "--model", f"{server.url}#some-model", "--method", "multinomial") == 0
    shown = capsys.readouterr().out
    assert "note: no log-probabilities: answers were only counted" in shown
    assert "\nsome-model, multinomial · " in shown


def test_an_answer_that_was_cut_says_where(connected):
    _, model = connected("chat", most=0)
    result = pipeline(model, max_tokens=2, **MULTINOMIAL).ask(QUESTION)
    assert "the answer was cut at 2 tokens; raise max_tokens to see all of it" in result.notes
    assert short_note(result).startswith("the answer was cut at 2 tokens (raise max_tokens)")


def test_given_texts_are_not_read_and_that_is_told(connected):
    _, model = connected("chat", most=0)
    with pytest.raises(NotSupported, match="cannot read given texts"):
        pipeline(model).check(QUESTION, "Paris.")


# -- what comes back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "assistant", "content": None, "refusal": "I can't help with that."}, "I can't help with that."),
        ({"role": "assistant", "content": "Paris", "refusal": None}, "Paris"),
        ({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Paris"}]}, "Paris"),
        ({"content": "", "reasoning_content": "The user wants"}, ""),
    ],
    ids=["refusal", "content", "parts", "reasoning"],
)
def test_what_a_message_says_is_its_content_or_its_refusal(connected, message, text):
    server, model = connected("chat", most=0)
    server.inject(said(message))
    assert set(texts(pipeline(model, **MULTINOMIAL).ask(QUESTION))) == {text}


def test_a_refusal_is_labelled_as_declining(connected):
    server, model = connected("chat", most=0)
    server.inject(said({"content": None, "refusal": "I'm sorry, I cannot help with that."}), times=3)
    result = pipeline(model, **MULTINOMIAL).ask(QUESTION)
    assert [one.share for one in result.clusters if one.kind == "declines"] == [pytest.approx(3 / 8)]


@pytest.mark.parametrize(
    ("finish", "says"), [("length", "raise max_tokens"), ("content_filter", r"are empty \(content_filter\)")]
)
def test_nothing_said_is_no_answer(connected, finish, says):
    """A model that thinks until its room is used up, and a filter, leave nothing of which one could be sure."""
    server, model = connected("chat", most=0)
    server.inject(said({"content": None}, finish))
    with pytest.raises(BadQuestion, match=says):
        pipeline(model, **MULTINOMIAL).ask(QUESTION)


def test_some_empty_answers_are_noted(connected):
    server, model = connected("chat", most=0)
    server.inject(said({"content": ""}, "length"), times=2)
    notes = pipeline(model, **MULTINOMIAL).ask(QUESTION).notes
    assert any(note.startswith("2 of 8 answers are empty (length); a model that thinks") for note in notes)


# -- keys and limits ----------------------------------------------------------------------------------------------


def test_a_rate_limit_is_waited_for(connected):
    server, model = connected("chat", most=0)
    server.inject(Answer(429, b'{"error": {"message": "slow down"}}', headers={"Retry-After": "0.2"}), times=8)
    result = pipeline(model, **MULTINOMIAL).ask(QUESTION)
    assert len(result.samples) == 8
    assert len(server.generations) == 16
    assert server.generations[8].at - server.generations[0].at >= 0.2


def test_a_limit_that_does_not_pass_says_what_to_do(connected):
    server, model = connected("chat", most=0, retry_seconds=HASTE / 4)
    server.inject(Answer(429, b'{"error": {"message": "You exceeded your current quota."}}'))
    with pytest.raises(ServerFailed, match=r"exceeded your current quota.*in_flight=1"):
        pipeline(model, **MULTINOMIAL).ask(QUESTION)


def test_a_key_reaches_the_api_and_nothing_else(serve, tmp_path, monkeypatch, capsys):
    server, out = serve("chat", most=0), tmp_path / "results.jsonl"
    monkeypatch.setenv("SDLG_API_KEY", "sk-secret-123")
    arguments = ["--model", server.url, "--method", "multinomial", "-v"]
    assert run("ask", QUESTION, *arguments) == 0
    assert run("ask", QUESTION, *arguments[:-1], "--out", str(out)) == 0
    assert {seen.headers.get("Authorization") for seen in server.requests} == {"Bearer sk-secret-123"}
    assert "sk-secret" not in "".join((*capsys.readouterr(), out.read_text()))
