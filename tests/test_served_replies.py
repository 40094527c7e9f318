"""Replies in any shape are read alike, or are nonsense."""

from __future__ import annotations

import math

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sdlg.models.server.connection import BadReply
from sdlg.models.server.replies import read_steps
from sdlg.models.server.tokenizers import TokenSpellings

pytestmark = pytest.mark.usefixtures("plain_environment")


READING = settings(max_examples=300, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
NUMBERS = st.sampled_from([0, 1, -1, 7, 300, 2**63, -(2**63), 10**400, 0.5, -1e308, math.inf, -math.inf, math.nan])
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=3) | st.sampled_from(["token_id:5", "token_id:x"])
FIELDS = st.sampled_from(["content", "tokens", "token_logprobs", "top_logprobs", "id", "bytes", "token", "logprob"])
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=10
)
TOKEN = st.tuples(FIELDS, LEAVES | st.lists(NUMBERS, max_size=2)).map(  # a token with one field that may be anything
    lambda changed: {"token": "a", "logprob": -1.0, "id": 5, "bytes": [97], changed[0]: changed[1]}
)
CONTENT = st.builds(lambda one, top: {"content": [{**one, "top_logprobs": top}]}, TOKEN, st.lists(TOKEN, max_size=2))
OLD = st.builds(
    lambda name, value, top: {"tokens": [name], "token_logprobs": [value], "top_logprobs": [top]},
    LEAVES, NUMBERS, st.dictionaries(st.text(max_size=2), NUMBERS, max_size=2) | LEAVES,
)  # fmt: skip


@READING
@given(told=CONTENT | OLD | JSON)
def test_whatever_is_told_is_read_or_is_nonsense(told):
    try:
        steps = read_steps({"logprobs": told}, TokenSpellings())
    except BadReply:
        return
    for step in steps:
        for token, logprob in [(step.token_id, step.logprob), *((one.token_id, one.logprob) for one in step.top)]:
            assert type(token) is int
            assert math.isfinite(logprob)
            assert logprob <= 0.0


@READING
@given(choice=JSON)
def test_whatever_a_choice_is_it_is_read_or_is_nonsense(choice):
    try:
        read_steps(choice, TokenSpellings())
    except BadReply:
        return


@pytest.mark.parametrize("entry", [{"bytes": 5}, {"id": "x"}, {"id": 1.5}, {"id": True}, {"logprob": True}], ids=str)
def test_what_is_no_token_is_nonsense(entry):
    told = {"content": [{"token": "a", "logprob": -1.0, "id": 3, **entry}]}
    with pytest.raises(BadReply):
        read_steps({"logprobs": told}, TokenSpellings())


def test_every_form_of_a_reply_is_read_alike():
    tokens = TokenSpellings()
    new = {"content": [{"id": 5, "token": "a", "bytes": [97], "logprob": -0.5, "top_logprobs": [
        {"id": 6, "token": "b", "bytes": [98], "logprob": -1.5},
        {"id": 5, "token": "a", "bytes": [97], "logprob": -0.5},
    ]}]}  # fmt: skip
    old = {
        "tokens": ["token_id:5"], "token_logprobs": [-0.5], "top_logprobs": [{"token_id:6": -1.5, "token_id:5": -0.5}],
    }  # fmt: skip
    assert read_steps({"logprobs": new}, tokens) == read_steps({"logprobs": old}, tokens)
    assert tokens.text([5, 6]) == "ab"
    (step,) = read_steps({"logprobs": {"tokens": ["é"], "token_logprobs": [-9999.0], "top_logprobs": None}}, tokens)
    assert (tokens.text([step.token_id]), step.logprob, step.top) == ("é", -9999.0, ())
    halves = {"tokens": ["bytes:\\xe2\\x82", "bytes:\\xac"], "token_logprobs": [-1, -2]}
    assert tokens.text([step.token_id for step in read_steps({"logprobs": halves}, tokens)]) == "€"
    assert read_steps({"logprobs": None}, tokens) == read_steps({}, tokens) == []
