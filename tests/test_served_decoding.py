"""A served model gives the same numbers as the script run locally, and asks for nothing twice."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from fake_server import (
    ASSISTANT,
    HangUp,
    Redrawn,
    Stall,
    Together,
    Twin,
    save_tokenizer,
)
from fakes import CAPITAL
from sdlg.errors import (
    PromptTooLong,
)
from sdlg.models.base import DecodeRequest
from sdlg.models.server.served import connect
from sdlg.options import Decoding
from sdlg.records import Question
from served import ASKED, PATIENCE, QUESTION, STORY, comparable, held_up, is_branch, pipeline, texts, whole

pytestmark = pytest.mark.usefixtures("plain_environment")


SERVERS = {"llama, chat": ("llama", {}), "llama, plain": ("llama", {"template": False}), "vllm": ("vllm", {"most": 20})}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"samples": 10},
        {"samples": 10, "branch_strategy": "multinomial", "seed": 4},
        {"strategy": "multinomial", "seed": 2, "temperature": 0.7},
        {"max_tokens": 2},
        {"stop_at": "sentence", "samples": 10},
        {"stop_strings": (" is",)},
        {"min_probability": 0.2},
        {"draws": 5, "seed": 2},
        {"method": "multinomial", "samples": 12},
        {"method": "multinomial", "samples": 12, "seed": 3, "temperature": 0.5},
    ],
    ids=str,
)
def test_a_served_script_gives_what_it_gives_locally(connected, tokenizer, server, options):
    dialect, traits = SERVERS[server]
    _, model = connected(dialect, root=tokenizer, **traits)
    served, local = pipeline(model, **options).ask(QUESTION), pipeline(Twin(CAPITAL), **options).ask(QUESTION)
    assert comparable(served) == comparable(local)
    assert served.answer.truncated_mass == pytest.approx([0.0] * len(served.answer.alternatives), abs=1e-12)


def test_an_answer_is_one_request_and_its_branches_are_sent_at_once(connected, tokenizer):
    server, model = connected("vllm", root=tokenizer)
    server.inject(Together(5), when=is_branch)  # no branch is answered before the fifth was asked for
    result = pipeline(model, samples=6).ask(QUESTION)
    assert [sample.substitution is None for sample in result.samples] == [True, *[False] * 5]
    assert result.cost.requests == len(server.generations) == 6
    assert server.most_at_once >= 5
    assert [is_branch(seen) for seen in server.generations] == [False, *[True] * 5]


def test_samples_are_sent_at_once(connected, tokenizer):
    server, model = connected("vllm", root=tokenizer)
    server.inject(Together(7))
    result = pipeline(model, method="multinomial", samples=7).ask(QUESTION)
    assert (result.cost.requests, len(server.generations)) == (7, 7)
    assert len({seen.body["seed"] for seen in server.generations}) == 7


@pytest.mark.parametrize("method", ["sdlg", "multinomial"])
def test_llama_server_gets_a_questions_requests_one_after_the_other(connected, method):
    """Its slots compute their prompts separately: only the one that has the prompt is fast."""
    server, model = connected(retry_seconds=60.0)
    waiting, (result,) = held_up(server, lambda: [pipeline(model, method=method, samples=6).ask(QUESTION)], 1)
    assert waiting == 1
    assert result.cost.requests == len(server.generations) == 6


def test_no_more_requests_are_under_way_than_the_server_has_slots(connected):
    server, model = connected(slots=2, retry_seconds=60.0)
    waiting, results = held_up(server, lambda: pipeline(model).ask_many(ASKED, in_flight=8), 2)
    assert waiting == 2
    assert len(results) == len(ASKED)


def test_branches_begin_with_the_very_tokens_they_are_meant_to_begin_with(connected):
    server, model = connected()
    result = pipeline(model, samples=6).ask(QUESTION)
    prompt = model.prompt(result.question, "auto")
    wanted = {
        (*prompt.token_ids, *result.answer.token_ids[: s.substitution.position], s.substitution.token_id)
        for s in result.samples[1:]
        if not s.substitution.ends_answer
    }
    assert {tuple(seen.body["prompt"]) for seen in server.generations if is_branch(seen)} == wanted


def test_nothing_but_what_was_asked_for_shapes_the_sampling(connected, tokenizer):
    for dialect, silenced in (
        ("llama", {"samplers": ["temperature", "top_p"]}),
        ("vllm", {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}),
    ):
        server, model = connected(dialect, root=tokenizer)
        pipeline(model, method="multinomial", samples=2, temperature=0.7, top_p=0.9, max_tokens=9).ask(QUESTION)
        wanted = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 9, **silenced}
        for seen in server.generations:
            assert seen.body.items() >= wanted.items()
        server.heal()
        pipeline(model, samples=1, temperature=0.7, top_p=0.9).ask(QUESTION)
        assert [(seen.body["temperature"], seen.body["top_p"]) for seen in server.generations] == [(0.0, 1.0)]


def test_the_same_seed_gives_the_same_samples_and_another_one_others(connected):
    _, model = connected()
    asked = [pipeline(model, method="multinomial", samples=8, seed=seed).ask(QUESTION) for seed in (1, 1, 2)]
    assert whole(asked[0]) == whole(asked[1])
    assert texts(asked[0]) != texts(asked[2])


def test_an_answer_that_has_ended_is_taken_back(connected):
    """By a stop string that only we know: the server would go on, and here it never would."""
    script = {"": {"It": 1.0}, "It": {" is": 1.0}, "It is": {" Paris": 1.0}, "It is Paris": {".": 1.0}}
    server, model = connected(script=script, retry_seconds=30.0)
    server.inject(Stall(after=2))
    result = pipeline(model, samples=1, stop_strings=(" is",)).ask(QUESTION)
    assert (texts(result), result.answer.stop_reason) == (["It"], "stop_string")
    assert server.generations[0].left.wait(10.0)


def test_tokens_are_shown_as_they_come_and_once(connected):
    server, model = connected()
    server.inject(HangUp(after=2), times=1)
    seen = []
    pipeline(model, samples=1).ask(QUESTION, watch=lambda progress: seen.append((progress.stage, progress.text)))
    assert [text for stage, text in seen if stage == "answer"] == ["", "It", "It is", "It is Paris"]


@pytest.mark.parametrize("dialect", ["llama", "vllm"])
@pytest.mark.parametrize("max_tokens", [2, 3, 9])
@pytest.mark.parametrize("first", ["It is", "It was", "We are"])
def test_what_was_shown_is_what_is_answered_also_if_a_server_draws_anew(serve, tmp_path, dialect, max_tokens, first):
    """The first reply breaks off after two tokens, and the second one is another draw."""
    server = serve(dialect, STORY, root=save_tokenizer(STORY, tmp_path))
    model = connect(server.url, retry_seconds=PATIENCE)
    seeds = {is_first: k for k in range(200) for is_first in [drawn(server, k).startswith(first)]}
    server.heal()
    server.inject(Redrawn(seeds[True], hangs_up_after=2), at=0)
    server.inject(Redrawn(seeds[False]), at=0)
    seen = []
    options = {"samples": 1, "strategy": "multinomial", "max_tokens": max_tokens}
    result = pipeline(model, **options).ask(QUESTION, watch=lambda p: seen.append(p.text) if p.stage == "answer" else 0)
    assert seen[:3] == ["", first.split()[0], first]
    assert all(later.startswith(before) for before, later in pairwise(seen))
    assert result.answer.text == seen[-1]
    assert (result.answer.stop_reason == "length") == (max_tokens < 4)
    words = seen[-1].split()
    wanted = [STORY[" ".join(words[:k])][(" " if k else "") + word] for k, word in enumerate(words)]
    assert [math.exp(logprob) for logprob in result.answer.logprobs] == pytest.approx(wanted)
    model.close()


def drawn(server, seed):
    """What a server's script says with a seed."""
    steps, _ = server.dialect.speaker.speak(QUESTION, 1.0, seed, 9)
    return server.dialect.speaker.text([step.token for step in steps])


@pytest.mark.parametrize("end", ["<|im_end|>", "<eos>"])
def test_an_ending_that_the_server_names_is_known(connected, end):
    """`/props` says with which token a model ends, whatever its name is."""
    script = {"": {"It": 1.0}, "It": {" is": 0.6, "<end>": 0.4}, "It is": {" so": 0.7, "<end>": 0.3}}
    local = pipeline(Twin(script)).ask(QUESTION)
    assert texts(local) == ["It is so", "It", "It is"]
    _, model = connected(script=script, end=end)
    assert comparable(pipeline(model).ask(QUESTION)) == comparable(local)


def test_prompts_longer_than_the_context_are_refused_before_they_are_sent(connected):
    server, model = connected(context=200)
    with pytest.raises(PromptTooLong, match="reads at most 200"):
        pipeline(model).ask("why? " * 100)
    assert not server.generations


def test_an_answer_is_cut_where_the_context_ends(connected):
    size = len(f"<|user|>{QUESTION}{ASSISTANT}")
    _, model = connected(context=size + 2)
    result = pipeline(model, samples=1).ask(QUESTION)
    assert (result.answer.text, result.answer.stop_reason) == ("It is", "length")
    assert any("context ends" in note for note in result.notes)


def test_counts_of_an_answer_that_ends_by_itself_are_read(connected, tokenizer):
    _, model = connected("vllm", most=5, root=tokenizer)
    result = pipeline(model, samples=1).ask(QUESTION)
    assert result.answer.stop_reason == "eos"
    assert (
        model.decode(DecodeRequest(model.prompt(Question(QUESTION), "auto"), [()], Decoding())).cost.prompt_tokens > 0
    )


@pytest.mark.parametrize("strategy", ["greedy", "multinomial", "beam"])
def test_prefixes_as_long_as_an_answer_may_be_come_to_their_end_too(connected, strategy):
    _, model = connected()
    prompt = model.prompt(Question(QUESTION), "auto")
    first = model.decode(DecodeRequest(prompt, [()], Decoding())).continuations[0].token_ids
    prefixes, ended = [first[:2], first[:1], first[:2]], {}
    decoded = model.decode(
        DecodeRequest(prompt, prefixes, Decoding(strategy=strategy, max_tokens=2), ended=ended.__setitem__)
    )
    assert ended == dict(enumerate(decoded.continuations))
    assert sorted(ended) == [0, 1, 2]
