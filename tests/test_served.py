"""A served model against a scripted server: the same numbers as the script run locally, and no fault goes unnoticed."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import pickle
import random
import threading
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tenacity import wait_random_exponential

from fake_server import (
    ASSISTANT,
    BYTES,
    VERSION,
    Answer,
    Change,
    Die,
    FakeServer,
    HangUp,
    Redrawn,
    Stall,
    Together,
    Twin,
    Typed,
    save_tokenizer,
)
from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg import Pipeline
from sdlg.cli import main
from sdlg.concurrency.limits import Limit, limited
from sdlg.errors import (
    BadOption,
    BadQuestion,
    ModelNotFound,
    NotSupported,
    PromptTooLong,
    SdlgError,
    ServerFailed,
    TimedOut,
    UnknownName,
)
from sdlg.evaluation import run_models
from sdlg.evaluation.store import STAGES, Store
from sdlg.formats.questions import ERROR_FORMAT
from sdlg.formats.results import FORMAT
from sdlg.models.base import Capabilities, Continuation, Decoded, DecodeRequest
from sdlg.models.server import connection
from sdlg.models.server.address import is_address, parse_address
from sdlg.models.server.capabilities import ServerCapabilities
from sdlg.models.server.connecting import connect
from sdlg.models.server.connection import Nonsense
from sdlg.models.server.replies import read_steps
from sdlg.models.server.tokens import LearnedTokens
from sdlg.options import STRATEGIES, Decoding
from sdlg.records import Cost, Question

QUESTION = "What is the capital of France?"
KEY = "sk-0123456789abcdef-secret"
PATIENCE = 8.0  # half of it is how long a busy machine may take for a reply
HASTE = 1.0  # where it is waited for in vain
ROME = {"": {"Rome": 0.5, "Roma": 0.3, "Milan": 0.2}, "Rome": {"<end>": 0.9, " now": 0.1}}
SPAIN = {"": {"Madrid": 0.8, "It": 0.2}, "It": {" is": 1.0}, "It is": {" Madrid": 0.6, " Seville": 0.4}}
COUNTRIES = {"Italy": ROME, "Spain": SPAIN}
ASKED = [f"What is the capital of {('France', 'Italy', 'Spain')[k % 3]}, number {k}?" for k in range(12)]
EIGHT = {"": {"A": 0.3, "B": 0.2, "C": 0.15, "D": 0.12, "E": 0.1, "F": 0.07, "G": 0.04, "H": 0.02}}
# Three answers, of which the second and third begin at once and go on for some tokens.
STORY = {
    "": {"It": 0.6, "We": 0.4}, "It": {" is": 0.9, " was": 0.1}, "It is": {" in": 1.0}, "It is in": {" Paris": 1.0},
    "It was": {" in": 1.0}, "It was in": {" Bonn": 1.0}, "We": {" are": 1.0}, "We are": {" here": 1.0},
}  # fmt: skip


@pytest.fixture(scope="module")
def pool():
    """Servers and their models, by what they were started with: connecting takes longer than most tests."""
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    """No keys, addresses, proxies or certificates of the machine's; tries follow each other ten times as fast."""
    monkeypatch.setenv("SSL_CERT_DIR", str(Path(__file__).parent))  # has none, so none are read for each connection
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr(connection, "_BACKOFF", wait_random_exponential(multiplier=0.01, max=0.1))
    for name in [n for n in os.environ if n.lower().endswith("_proxy") or n.startswith(("OPENAI_", "SDLG_API"))]:
        monkeypatch.delenv(name)


def connections():
    return [thread for thread in threading.enumerate() if thread.name == "sdlg-connection"]


@pytest.fixture
def serve():
    """Start servers that end with the test."""
    with ExitStack() as stack:
        yield lambda dialect="llama", script=CAPITAL, **traits: stack.enter_context(
            FakeServer(dialect, script, **traits)
        )


@pytest.fixture
def connected(pool):
    """A server and a model that is connected to it, with no faults and nothing asked yet. Not to be closed."""
    stack, known = pool

    def start(dialect="llama", script=CAPITAL, *, retry_seconds=PATIENCE, name="", **traits):
        key = repr((dialect, script, retry_seconds, name, sorted(traits.items())))
        if key not in known:
            server = stack.enter_context(FakeServer(dialect, script, **traits))
            model = connect(server.url + name, retry_seconds=retry_seconds)
            stack.callback(model.close)
            known[key] = server, model
        server, model = known[key]
        server.heal()
        return server, model

    return start


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    return save_tokenizer(CAPITAL, tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def all_words(tmp_path_factory):
    """The tokenizer of a server with several scripts."""
    return save_tokenizer(CAPITAL, tmp_path_factory.mktemp("tokenizer"), COUNTRIES)


class Nli(FakeNli):
    """Threads may share it: each sees its own counts."""

    def __init__(self, judged=None, **named):
        self._counts = threading.local()
        super().__init__(MEANINGS if judged is None else judged, **named)

    pairs_run = property(
        lambda self: getattr(self._counts, "pairs", 0), lambda self, count: setattr(self._counts, "pairs", count)
    )
    gradients_run = property(
        lambda self: getattr(self._counts, "gradients", 0),
        lambda self, count: setattr(self._counts, "gradients", count),
    )


def pipeline(model, **options):
    return Pipeline(model, Nli(), **{"samples": 4, **options})


def comparable(result, counted=("generated_tokens", "nli_pairs", "nli_gradients")):
    """All that a result says, but for what a server cannot know and how long it took."""
    found = result.to_dict()
    for name in ("model", "notes", "approximate"):
        del found[name]
    found["cost"] = {name: found["cost"][name] for name in counted}
    for one in (found["answer"], *found["samples"]):
        del one["entropies"]
    del found["answer"]["truncated_mass"]
    return found


def nearly(found):
    """The same, with numbers that need only be near: a search adds in single precision."""
    if isinstance(found, dict):
        return {name: nearly(value) for name, value in found.items()}
    if isinstance(found, list):
        return [nearly(value) for value in found]
    return pytest.approx(found, abs=1e-5) if isinstance(found, float) else found


def whole(result):
    """A result but for the seconds."""
    found = result.to_dict()
    del found["cost"]["seconds"]
    return found


def texts(result):
    return [sample.text for sample in result.samples]


def is_branch(seen):
    """Whether a request for tokens goes on from the beginning of an answer, given in ids."""
    prompt = seen.body.get("prompt")
    return seen.generates and isinstance(prompt, list) and prompt[-1] < BYTES


def is_answer(seen):
    return seen.generates and not is_branch(seen)


def until(condition, seconds=10.0):
    """Wait for something that happens in another thread."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


# -- facts ------------------------------------------------------------------------------------------------------


VLLM_FIELDS = {
    "return_token_ids": True, "return_tokens_as_token_ids": True,
    "add_special_tokens": False, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
LLAMA_FIELDS = {"samplers": ["temperature", "top_p"], "cache_prompt": True}


@pytest.mark.parametrize(
    ("dialect", "traits", "wanted"),
    [
        ("vllm", {"most": 20, "root": "tokenizer"}, {
            "kind": "vllm", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": True,
            "top_logprobs": 20, "raw_logprobs": True, "context_tokens": 4096, "tokenizer": "tokenizer",
        }),
        ("llama", {}, {
            "kind": "llama.cpp", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": True,
            "top_logprobs": 100, "raw_logprobs": True, "context_tokens": 4096, "slots": 3, "has_template": True,
            "ending": "<|im_end|>",
        }),
        ("llama", {"template": False, "most": 0}, {
            "kind": "llama.cpp", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": False,
            "top_logprobs": 0, "raw_logprobs": None, "context_tokens": 4096, "slots": 3, "ending": "<|im_end|>",
        }),
        ("llama", {"raw": False}, {
            "kind": "llama.cpp", "version": VERSION, "endpoint": "completions", "takes_ids": True, "tells_ids": True,
            "top_logprobs": 100, "raw_logprobs": False, "context_tokens": 4096, "slots": 3, "has_template": True,
            "ending": "<|im_end|>",
        }),
        ("legacy", {"most": 5}, {
            "kind": "other", "version": "", "endpoint": "completions", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 5, "raw_logprobs": True, "context_tokens": None,
        }),
        ("legacy", {"most": 0}, {
            "kind": "other", "version": "", "endpoint": "completions", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 0, "raw_logprobs": None, "context_tokens": None,
        }),
        ("chat", {"most": 0}, {
            "kind": "other", "version": "", "endpoint": "chat", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 0, "raw_logprobs": None, "context_tokens": None, "has_template": True,
        }),
        ("chat", {"most": 5}, {
            "kind": "other", "version": "", "endpoint": "chat", "takes_ids": False, "tells_ids": False,
            "top_logprobs": 5, "raw_logprobs": True, "context_tokens": None, "has_template": True,
        }),
    ],
)  # fmt: skip
def test_facts_are_what_the_server_can_do(connected, tokenizer, dialect, traits, wanted):
    traits, wanted = ({**found, **_in_place(found, tokenizer)} for found in (traits, wanted))
    _, model = connected(dialect, **traits)
    fields = {"vllm": VLLM_FIELDS, "llama.cpp": LLAMA_FIELDS}.get(wanted["kind"], {}) if wanted["tells_ids"] else {}
    assert model.server == ServerCapabilities(model="tiny", prefix_cache=None, request_fields=fields, **wanted)


def _in_place(found, tokenizer):
    return {name: tokenizer for name in ("root", "tokenizer") if name in found}


@pytest.mark.parametrize("caches", [True, False, None])
def test_a_prefix_cache_is_seen_where_the_server_tells_of_it(connected, caches):
    assert connected(caches=caches)[1].server.prefix_cache is caches


def test_a_server_that_tells_fewer_than_it_is_asked_for_is_seen_through(connected):
    _, model = connected(most=3, clamps=True)
    assert model.server.top_logprobs == 3


def test_of_several_models_one_must_be_named(serve):
    server = serve(models=("tiny", "large"))
    with pytest.raises(UnknownName, match=r"choose one: .*#tiny, .*#large"):
        connect(server.url, retry_seconds=PATIENCE)
    with pytest.raises(UnknownName, match="no model 'huge'; choose from: tiny, large"):
        connect(f"{server.url}#huge", retry_seconds=PATIENCE)
    model = connect(f"{server.url}#large", retry_seconds=PATIENCE)
    assert (model.server.model, model.name) == ("large", f"{server.url}#large")
    assert {seen.body["model"] for seen in server.generations} == {"large"}
    model.close()


def test_a_wrong_name_is_refused_by_a_server_with_one_model(serve):
    with pytest.raises(UnknownName, match="no model 'huge'; choose from: tiny"):
        connect(f"{serve().url}#huge", retry_seconds=PATIENCE)


@pytest.mark.parametrize("dialect", ["legacy", "chat"])
def test_without_a_list_of_models_a_name_is_enough(connected, dialect):
    _, model = connected(dialect, lists_models=False, name="#tiny", most=5)
    assert model.server.model == "tiny"


def test_without_a_list_and_without_a_name_the_error_says_to_name_one(serve):
    with pytest.raises(ServerFailed, match="#name"):
        connect(serve(lists_models=False).url, retry_seconds=PATIENCE)
    with pytest.raises(ServerFailed, match="#name"):
        connect(serve(models=()).url, retry_seconds=PATIENCE)


@pytest.mark.parametrize("aliases", [["small"], None], ids=["some", "null"])
def test_a_models_alias_names_it(serve, aliases):
    server = serve()

    def named(parts):
        parts[0]["data"][0]["aliases"] = aliases
        return parts

    server.inject(Change(named), when=lambda seen: seen.path == "/v1/models")
    model = connect(f"{server.url}#{'small' if aliases else 'tiny'}", retry_seconds=PATIENCE)
    assert model.server.model == "tiny"
    model.close()


def test_a_tokenizer_that_cannot_be_loaded_says_how_to_name_one(serve):
    with pytest.raises(ModelNotFound, match="--tokenizer"):
        connect(serve("vllm").url, retry_seconds=PATIENCE)


@pytest.mark.parametrize(("retry_seconds", "fine"), [(0.0, False), (-1.0, False), (math.nan, False), (5.0, True)])
def test_retry_seconds_is_more_than_nothing(serve, retry_seconds, fine):
    if fine:
        connect(serve().url, retry_seconds=retry_seconds).close()
    else:
        with pytest.raises(BadOption, match="retry_seconds"):
            connect(serve().url, retry_seconds=retry_seconds)


def test_the_command_says_what_a_server_can_do(serve, capsys):
    assert main(["models", "check", serve().url]) == 0
    shown = capsys.readouterr().out
    for part in ("#tiny", "llama.cpp 1.2.3", "100 a step", "4096 tokens", "slots", "--method sdlg", "works"):
        assert part in shown
    assert main(["models", "check", serve("chat", most=0).url]) == 0
    shown = capsys.readouterr().out
    assert "/v1/chat/completions" in shown
    assert "cannot go on from the beginning of an answer" in shown
    assert "note: the server tells no log-probabilities" in shown
    assert main(["models", "check", serve(raw=False).url]) == 0
    assert "--logprobs-mode raw_logprobs" in capsys.readouterr().out


def test_the_command_speaks_json(serve, capsys):
    assert main(["models", "check", serve("legacy", most=5).url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["top_logprobs"], found["exact"], found["methods"]["sdlg"]) == (5, False, "")
    assert "cannot decode by beam" in found["methods"]["beam"]


def test_the_command_says_what_is_wrong(serve, capsys):
    server = serve(models=("tiny", "large"))
    assert main(["models", "check", server.url, "--retry-seconds", "1"]) == 2
    assert capsys.readouterr().err.startswith("sdlg: http://127.0.0.1")
    server.kill()
    assert main(["models", "check", server.url, "--retry-seconds", "0.3"]) == 1
    assert "cannot reach" in capsys.readouterr().err


# -- the same as locally ----------------------------------------------------------------------------------------

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
    assert not served.approximate
    assert served.answer.truncated_mass == pytest.approx([0.0] * len(served.answer.alternatives), abs=1e-12)


class BeamTwin(Twin):
    """A script that also searches, written from the definition: lists, and all options of every step."""

    def __init__(self, script):
        super().__init__(script)
        self.capabilities = Capabilities(frozenset(STRATEGIES), continues_prefixes=True, alternatives=None)

    def decode(self, request):
        prefixes, decoding = request.prefixes, request.decoding
        if "beam" not in decoding.strategy:
            return super().decode(request)
        counts = Counter(prefixes)
        found = {prefix: iter(self._search(prefix, n, decoding)) for prefix, n in counts.items()}
        no_room = Continuation((), (), "length", (), 0)
        grown = [
            self._grown(prefix, next(found[prefix]), request.alternatives_above)
            if len(prefix) < decoding.max_tokens
            else no_room
            for prefix in prefixes
        ]
        return Decoded(tuple(grown), Cost())

    def _search(self, prefix, n, decoding):
        diverse = decoding.strategy == "diverse_beam"
        groups = min(decoding.groups or n, n) if diverse else 1
        widths = [n // groups + (k < n % groups) for k in range(groups)] if diverse else [max(decoding.beams, n)]
        running, done = [[((), 0.0)] for _ in widths], [[] for _ in widths]
        while any(running):
            taken = Counter()
            for g, width in enumerate(widths):
                options = [
                    ((*ids, one.token_id), total + one.logprob - decoding.diversity_penalty * taken[one.token_id])
                    for ids, total in running[g]
                    for one in self.next_tokens(self.text((*prefix, *ids)))
                ]
                options.sort(key=lambda option: -option[1])
                ended = [(ids, total) for ids, total in options[:width] if not ids[-1]]
                going = [(ids, total) for ids, total in options[: 2 * width] if ids[-1]][:width]
                if going and len(prefix) + len(going[0][0]) >= decoding.max_tokens:
                    ended, going = ended + going, []
                done[g] = sorted(done[g] + ended, key=lambda one: -one[1] / len(one[0]))[:width]
                full = len(done[g]) == width
                if going and full and going[0][1] / len(going[0][0]) <= done[g][-1][1] / len(done[g][-1][0]):
                    going = []
                running[g] = going
                taken.update(ids[-1] for ids, _ in going)
        return [done[g][place][0] for place in range(n) for g in range(groups) if place < len(done[g])][:n]

    def _grown(self, prefix, ids, floor):
        told = [self.next_tokens(self.text((*prefix, *ids[:k]))) for k in range(len(ids))]
        logprobs = [next(o.logprob for o in options if o.token_id == i) for i, options in zip(ids, told, strict=True)]
        ended = not ids[-1]
        alternatives = tuple(tuple(o for o in options if math.exp(o.logprob) > (floor or 0)) for options in told)
        return Continuation(
            ids[: len(ids) - ended], tuple(logprobs[: len(ids) - ended]), "eos" if ended else "length",
            (logprobs[-1],) if ended else (), len(ids), 0, alternatives if floor is not None else (),
        )  # fmt: skip


def dense_script(depth=3):
    """Every token may follow every text, so that a search always has enough to look at."""
    chance, script, texts = random.Random(3), {}, [""]
    for _ in range(depth):
        for text in texts:
            weights = [chance.uniform(0.02, 1.0) ** 2 for _ in range(6)]
            tokens = ["<end>", "a" if not text else " a", " b", " c", " d", " e"]
            script[text] = {token: w / sum(weights) for token, w in zip(tokens, weights, strict=True)}
        texts = [text + token for text in texts for token in script[text] if token != "<end>"]
    return script


DENSE = dense_script()


@pytest.fixture(scope="module")
def dense_words(tmp_path_factory):
    return save_tokenizer(DENSE, tmp_path_factory.mktemp("tokenizer"))


@pytest.mark.parametrize("dialect", ["llama", "vllm"])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "beam", "samples": 3, "beams": 3},
        {"method": "beam", "samples": 2, "beams": 4},
        {"method": "diverse_beam", "samples": 4},
        {"method": "diverse_beam", "samples": 4, "groups": 2, "diversity_penalty": 3.0},
        {"method": "diverse_beam", "samples": 3, "groups": 3, "diversity_penalty": 0.0},
        {"method": "sdlg", "strategy": "beam", "branch_strategy": "beam", "beams": 2},
        {"method": "sdlg", "branch_strategy": "beam", "beams": 3, "samples": 5},
    ],
    ids=str,
)
def test_searches_over_a_server_are_those_of_their_definition(connected, dense_words, dialect, options):
    _, model = connected(dialect, DENSE, most=20, root=dense_words)
    served, local = (pipeline(one, max_tokens=3, **options).ask(QUESTION) for one in (model, BeamTwin(DENSE)))
    assert comparable(served, ("nli_pairs",)) == nearly(comparable(local, ("nli_pairs",)))
    assert len(served.samples) == options.get("samples", 4)


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


def held_up(server, work, count):
    """How many requests for tokens come while none is answered, after so many have come; then what comes of them."""
    stall, found = server.inject(Stall()), []
    working = threading.Thread(target=lambda: found.extend(work()))
    working.start()
    until(lambda: len(server.generations) >= count)
    time.sleep(0.2)  # for those that should not come
    waiting = len(server.generations)
    stall.released.set()
    working.join(20.0)
    return waiting, found


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


# -- what a server does not tell --------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["llama", "vllm", "legacy"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_is_not_told_is_counted_and_nothing_is_invented(connected, tokenizer, dialect, most):
    _, model = connected(dialect, most=most, clamps=True, root=tokenizer)
    result = pipeline(model, samples=10).ask(QUESTION)
    states = ["", "It", "It is", "It is Paris"]
    told = [dict(sorted(CAPITAL[state].items(), key=lambda one: -one[1])[:most]) for state in states]
    assert result.answer.truncated_mass == pytest.approx([1 - sum(step.values()) for step in told], abs=1e-9)
    for sample in result.samples[1:]:
        change = sample.substitution
        token = "<end>" if change.ends_answer else (" " if change.position else "") + change.replacement.strip()
        assert math.exp(change.logprob) == pytest.approx(told[change.position][token])
    note = [note for note in result.notes if "answer.truncated_mass" in note]
    cut = sum(len(CAPITAL[state]) > most for state in states)
    assert len(note) == (cut > 0)
    assert all(f"at {cut} of 4 steps" in one and "--max-logprobs" in one for one in note)
    assert json.loads(result.to_json())["answer"]["truncated_mass"] == list(result.answer.truncated_mass)


def test_there_is_no_note_where_what_is_not_told_is_too_unlikely(connected):
    _, model = connected(most=3, clamps=True)
    result = pipeline(model, samples=10, min_probability=0.06).ask(QUESTION)
    assert result.answer.truncated_mass == pytest.approx([0, 0, 0.05, 0], abs=1e-9)
    assert not [note for note in result.notes if "truncated_mass" in note]


def test_a_drawn_token_outside_of_the_told_ones_does_not_hide_what_is_not_told(connected, tmp_path):
    """vLLM adds the drawn token, here H, to the five likeliest ones: F is untold and likelier than the floor."""
    options = {"strategy": "multinomial", "min_probability": 0.05, "samples": 1}
    seed = next(n for n in range(1000) if texts(pipeline(Twin(EIGHT), seed=n, **options).ask(QUESTION)) == ["H"])
    _, model = connected("vllm", EIGHT, most=5, root=save_tokenizer(EIGHT, tmp_path))
    result = pipeline(model, seed=seed, **options).ask(QUESTION)
    assert texts(result) == ["H"]
    assert result.answer.truncated_mass[0] == pytest.approx(0.07 + 0.04)
    assert any("at 1 of 2 steps" in note for note in result.notes)


def test_a_search_counts_what_it_was_not_told_too(connected):
    _, model = connected(script=EIGHT, most=5)
    result = pipeline(model, strategy="beam", branch_strategy="greedy", beams=2, min_probability=0.05).ask(QUESTION)
    assert result.answer.text == "A"
    assert result.answer.truncated_mass[0] == pytest.approx(0.07 + 0.04 + 0.02)
    assert any("answer.truncated_mass" in note for note in result.notes)


def test_a_search_that_needs_more_than_is_told_is_refused(connected):
    server, model = connected(most=5)
    for options in (
        {"method": "beam", "beams": 3, "samples": 2},
        {"method": "diverse_beam", "samples": 5},
        {"method": "diverse_beam", "samples": 4, "groups": 2},  # 2 x 2, and what the first group has taken
        {"method": "diverse_beam", "samples": 3, "groups": 1},
    ):
        with pytest.raises(NotSupported, match="looks at the 6 likeliest tokens of a step, but the server tells 5"):
            pipeline(model, **options).ask(QUESTION)
    assert not server.generations


def test_a_search_invents_no_answer_that_was_not_told(connected):
    """Four answers are all that the server tells of, whatever it was asked for."""
    script = {"": {"A": 0.5, "B": 0.5}, "A": {" c": 0.6, " d": 0.4}, "B": {" c": 0.7, " d": 0.3}}
    server, model = connected(script=script)
    server.inject(Change(lambda parts: [_only_script_tokens(part) for part in parts]))
    result = pipeline(model, method="beam", samples=6, beams=6, max_tokens=3).ask(QUESTION)
    assert sorted(texts(result)) == ["A c", "A d", "B c", "B d"]
    assert all(math.isfinite(sample.generation.logprob) for sample in result.samples)
    assert any("4 of 6 sequences" in note for note in result.notes)


def _only_script_tokens(part):
    for choice in part["choices"]:
        for entry in (choice["logprobs"] or {}).get("content", ()):
            entry["top_logprobs"] = [one for one in entry["top_logprobs"] if one["id"] < BYTES]
    return part


# -- text only --------------------------------------------------------------------------------------------------


def test_a_text_only_server_gives_the_same_texts_and_says_that_it_is_approximate(connected):
    server, model = connected("legacy", most=5)
    served, local = (pipeline(one, samples=8).ask(QUESTION) for one in (model, Twin(CAPITAL)))
    assert texts(served) == texts(local)
    for mine, other in zip(served.samples, local.samples, strict=True):
        assert mine.generation.decision_logprobs == other.generation.decision_logprobs
        assert mine.cluster == other.cluster
        assert (mine.substitution and mine.substitution.rank) == (other.substitution and other.substitution.rank)
    assert served.semantic_entropy == local.semantic_entropy
    assert served.approximate
    assert json.loads(served.to_json())["approximate"] is True
    assert [note for note in served.notes if "approximate" in note] == [
        "approximate: the server takes and tells text only, so its tokens are known by their spelling"
    ]
    assert all(isinstance(seen.body["prompt"], str) for seen in server.generations)
    assert all("stream" not in seen.body for seen in server.generations)


@pytest.mark.parametrize("recounts", [-1, 1])
def test_branches_that_are_read_as_other_tokens_are_told(connected, recounts):
    _, model = connected("legacy", most=5, recounts=recounts)
    result = pipeline(model, samples=4).ask(QUESTION)
    assert any("read the beginnings of 3 of 3 branches as other tokens" in note for note in result.notes)


def test_a_server_that_does_not_count_cannot_say_how_it_read_the_branches(connected):
    _, model = connected("legacy", most=5, usage=False)
    assert any("does not say into how many tokens" in note for note in pipeline(model).ask(QUESTION).notes)
    assert not any("how many tokens" in note for note in pipeline(model, samples=1).ask(QUESTION).notes)


def test_an_ending_that_is_not_among_the_tokens_is_an_ending_all_the_same(connected):
    _, model = connected("legacy", most=5, tells_end=False)
    result = pipeline(model, samples=4).ask(QUESTION)
    assert result.answer.text == "It is Paris"
    assert (result.answer.stop_reason, result.answer.stop_logprob) == ("eos", None)
    assert len(result.answer.logprobs) == 3


def _respelled(parts):
    told = parts[0]["choices"][0]["logprobs"]
    told["tokens"] = [" Rome" if token == " Paris" else token for token in told["tokens"]]
    return parts


def test_tokens_that_do_not_spell_the_text_are_an_error(connected):
    server, model = connected("legacy", most=5)
    server.inject(Change(_respelled))
    with pytest.raises(ServerFailed, match=r"do not spell its text: 'It is Rome / It is Paris'"):
        pipeline(model).ask(QUESTION)


def test_stop_strings_are_told_to_a_text_only_server(connected):
    script = {"": {"It": 1.0}, "It": {"\n": 0.5, " is": 0.5}, "It\n": {"Q: more": 1.0}}
    server, model = connected("legacy", script, most=5)
    result = pipeline(model, samples=1).ask(QUESTION)
    assert result.answer.text == "It"
    assert result.answer.stop_reason == "stop_string"
    assert all({"\n", " Q:"} <= set(seen.body["stop"]) for seen in server.generations)


# -- no log-probabilities, or none that can be used -------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "reasons"), [
    ("chat", ("go on from the beginning of an answer", "tell what else it could have said")),
    ("legacy", ("tell what else it could have said",)),
    ("llama", ("tell what else it could have said",)),
])  # fmt: skip
def test_sdlg_without_what_it_needs_is_refused_before_any_request(connected, dialect, reasons):
    server, model = connected(dialect, most=0)
    with pytest.raises(NotSupported, match="--method multinomial works") as refusal:
        pipeline(model).ask(QUESTION)
    assert all(reason in str(refusal.value) for reason in reasons)
    assert "vLLM or llama-server" in str(refusal.value)
    assert server.requests == []


@pytest.mark.parametrize("dialect", ["chat", "legacy", "llama"])
def test_without_log_probabilities_answers_count_by_how_often_they_come(connected, dialect, capsys):
    _, model = connected(dialect, most=0)
    options = {"method": "multinomial", "samples": 12, "seed": 5}
    served, local = (pipeline(one, **options).ask(QUESTION) for one in (model, Twin(CAPITAL)))
    assert texts(served) == texts(local)
    assert [s.cluster for s in served.samples] == [s.cluster for s in local.samples]
    assert served.semantic_entropy == local.estimates["semantic_entropy_frequency"].value
    assert served.estimates["semantic_entropy"].options == {"weighting": "frequency"}
    assert [c.probability for c in served.clusters] == pytest.approx([len(c.members) / 12 for c in served.clusters])
    assert served.coverage is None
    assert all(sample.generation.logprobs == () for sample in served.samples)
    assert any("tells no log-probabilities" in note for note in served.notes)
    assert main(["schema"]) == 0
    jsonschema.validate(json.loads(served.to_json()), json.loads(capsys.readouterr().out))
    assert "NaN" not in served.to_json()


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_the_command_answers_with_a_server_that_only_chats(serve, monkeypatch, capsys, flags):
    monkeypatch.setattr("sdlg.pipeline.load_nli", lambda name, **_: Nli(name=name))
    server = serve("chat", most=0)
    assert main(["ask", QUESTION, "--model", server.url, "--method", "multinomial", *flags]) == 0
    shown, err = capsys.readouterr()
    assert "It is" in shown
    assert "semantic entropy" in shown or json.loads(shown)["coverage"] is None
    assert "nan" not in shown.lower()
    assert err == ""
    assert main(["ask", QUESTION, "--model", server.url]) == 2
    assert "--method multinomial works" in capsys.readouterr().err


def test_a_chat_server_with_log_probabilities_gives_likelihoods(connected):
    _, model = connected("chat", most=5)
    result = pipeline(model, method="multinomial", samples=6).ask(QUESTION)
    local = pipeline(Twin(CAPITAL), method="multinomial", samples=6).ask(QUESTION)
    assert texts(result) == texts(local)
    assert [s.generation.logprobs for s in result.samples] == [s.generation.logprobs for s in local.samples]
    assert result.coverage is not None
    assert result.approximate
    with pytest.raises(NotSupported, match="cannot go on from the beginning of an answer"):
        pipeline(model).ask(QUESTION)


def test_a_chat_server_is_asked_in_messages(connected):
    server, model = connected("chat", most=0)
    pipeline(model, method="multinomial", samples=2).ask(QUESTION, context="A story.")
    for seen in server.generations:
        assert seen.path == "/v1/chat/completions"
        assert seen.body["messages"] == [{"role": "user", "content": f"A story.\n\n{QUESTION}"}]
    with pytest.raises(NotSupported, match="only chats"):
        pipeline(model, method="multinomial", prompt="plain").ask(QUESTION)


LONG = {"": {"Paris": 0.9, "Lyon": 0.1}, "Paris": {". ": 1.0}, "Paris. ": {"It": 1.0}, "Paris. It": {" is": 1.0}}


@pytest.mark.parametrize(
    ("dialect", "traits"),
    [("chat", {"most": 0}), ("legacy", {"most": 0}), ("llama", {"most": 0}), ("llama", {"raw": False})],
)
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "Paris. It is"),
        ({"stop_at": "sentence"}, "Paris"),
        ({"stop_strings": (" is",)}, "Paris. It"),
        ({"stop_strings": ("1", "2", "3", "4", "5", " is")}, "Paris. It"),
        ({"max_tokens": 3}, "Paris. It"),
    ],
    ids=str,
)
def test_every_stop_ends_an_answer_without_log_probabilities_too(connected, dialect, traits, options, wanted):
    _, model = connected(dialect, LONG, **traits)
    local = pipeline(Twin(LONG), method="multinomial", samples=2, **options).ask(QUESTION)
    assert texts(local) == [wanted] * 2
    assert texts(pipeline(model, method="multinomial", samples=2, **options).ask(QUESTION)) == [wanted] * 2


def test_an_answer_that_looks_like_a_control_token_is_an_answer(connected):
    _, model = connected("chat", {"": {"<s>": 1.0}}, most=0)
    result = pipeline(model, method="multinomial", samples=2).ask("Which tag strikes a text through?")
    assert texts(result) == ["<s>"] * 2


@pytest.mark.parametrize("dialect", ["llama", "vllm"])
def test_log_probabilities_after_temperature_are_not_used_for_sdlg(connected, tokenizer, dialect):
    server, model = connected(dialect, raw=False, root=tokenizer)
    with pytest.raises(NotSupported, match="--logprobs-mode raw_logprobs"):
        pipeline(model).ask(QUESTION)
    assert server.requests == []


@pytest.mark.parametrize("dialect", ["llama", "vllm"])
def test_log_probabilities_after_temperature_are_not_used_for_samples(connected, tokenizer, dialect):
    _, model = connected(dialect, raw=False, root=tokenizer)
    served, local = (
        pipeline(one, method="multinomial", samples=6, temperature=0.5).ask(QUESTION) for one in (model, Twin(CAPITAL))
    )
    assert texts(served) == texts(local)
    assert served.coverage is None
    assert any("change with the temperature" in note for note in served.notes)


def test_a_chat_servers_log_probabilities_after_temperature_are_not_believed(connected):
    _, model = connected("chat", raw=False, most=5)
    result = pipeline(model, method="multinomial", samples=6, temperature=0.5).ask(QUESTION)
    assert result.coverage is None or any("temperature" in note for note in result.notes)


# -- faults -----------------------------------------------------------------------------------------------------


def _first(parts):
    return parts[:1]  # and then the end, in good order


def _without_logprobs(parts):
    return [{"choices": [{**choice, "logprobs": None} for choice in part["choices"]]} for part in parts]


def _without_some_logprobs(parts):
    return [*_without_logprobs(parts[:1]), *parts[1:]]


def _with_logprob(value):
    def edit(parts):
        parts[0]["choices"][0]["logprobs"]["content"][0]["logprob"] = value
        return parts

    return edit


def _with_broken_event(parts):
    return [json.dumps(parts[0])[:-9], *parts[1:]]


def _error_event(parts):
    return [parts[0], {"error": {"message": "CUDA out of memory", "code": 500}}]


HTML = b"<!DOCTYPE html><html><body><h1>Bad Gateway</h1>nginx</body></html>"
DEAD = b'{"error": {"message": "the engine is dead"}}'

# name → the fault, how often it may happen to a request that is then answered, what is said if it never ends
FAULTS = {
    "silent": (Stall(), 1, "is silent for"),
    "silent after a token": (Stall(after=1), 1, None),
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
    server, model = connected(script=STORY, retry_seconds=HASTE if isinstance(fault, Stall) else PATIENCE)
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
    assert "is the server still running?" in str(failure.value)
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
        pipeline(model).ask(QUESTION)


def test_a_token_without_its_log_probability_is_missed_by_ids_too(connected, tokenizer):
    server, model = connected("vllm", most=5, root=tokenizer)
    server.inject(Change(_without_some_logprobs))
    with pytest.raises(ServerFailed, match=r"log-probabilities|spell"):
        pipeline(model).ask(QUESTION)


def test_a_reply_of_10_mb_is_read(connected):
    """White space around JSON is JSON."""
    server, model = connected("legacy", most=5)
    undisturbed = whole(pipeline(model).ask(QUESTION))
    server.inject(Change(lambda parts: [json.dumps(parts[0]) + " " * 10_000_000]), times=1)
    assert whole(pipeline(model).ask(QUESTION)) == undisturbed


def test_json_is_json_under_any_name(connected):
    server, model = connected("legacy", most=5)
    undisturbed = whole(pipeline(model).ask(QUESTION))
    server.inject(Typed("text/html"))
    assert whole(pipeline(model).ask(QUESTION)) == undisturbed


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
        pipeline(model).ask(QUESTION)


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
def test_counts_of_another_shape_are_passed_over_or_a_servers_failure(connected, usage):
    server, model = connected("chat", most=0)
    server.inject(Change(lambda parts: [{**parts[0], "usage": usage}]))
    with suppress(ServerFailed):
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
        ("/props", "[]"), ("/props", '{"default_generation_settings": null}'), ("/props", '{"total_slots": "x"}'),
        ("/v1/completions", "7"), ("/v1/completions", "{}"), ("/v1/completions", '{"choices": [7]}'),
        ("/v1/completions", '{"choices": [{"logprobs": 7}]}'),
        ("/v1/completions", '{"choices": [{"logprobs": {"content": [7]}}]}'),
        ("/v1/completions", '{"choices": [{"logprobs": {"tokens": 7}}]}'),
        ("/v1/completions", '{"choices": [{}], "usage": {"prompt_tokens_details": 7}}'),
        ("/v1/completions", '{"choices": [{}], "usage": {"prompt_tokens_details": {"cached_tokens": "x"}}}'),
    ],
)  # fmt: skip
def test_facts_of_another_shape_are_passed_over_or_a_servers_failure(serve, path, shape):
    server = serve()
    server.inject(Answer(200, shape.encode()), when=lambda seen: seen.path == path)
    with suppress(ServerFailed):
        connect(server.url, retry_seconds=PATIENCE).close()


@pytest.mark.parametrize("method", ["beam", "diverse_beam"])
@pytest.mark.parametrize("lacks", ["tokens", "alternatives"])
def test_a_search_that_is_told_nothing_is_a_servers_failure(connected, method, lacks):
    server, model = connected()

    def edit(parts):
        if lacks == "tokens":
            return parts[-1:]
        parts[0]["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = []
        return parts

    server.inject(Change(edit))
    with pytest.raises(ServerFailed):
        pipeline(model, method=method, beams=2).ask(QUESTION)


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


# -- deadlines --------------------------------------------------------------------------------------------------


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


def test_the_commands_deadline_is_for_each_question(serve, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sdlg.pipeline.load_nli", lambda name, **_: Nli(name=name))
    server = serve()
    server.inject(Stall(), when=lambda seen: seen.generates and "Second" in seen.words)
    (tmp_path / "q.txt").write_text("First?\nSecond?\nThird?\n")
    arguments = ["ask", "--file", tmp_path / "q.txt", "--out", tmp_path / "out", "--model", server.url]
    assert main([*map(str, arguments), "--timeout", "2", "--in-flight", "1"]) == 1
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [row["format"] for row in rows] == [FORMAT, ERROR_FORMAT, FORMAT]
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
    assert [row["question"] for row in at_once] == ASKED
    assert len({row["answer"]["text"] for row in at_once}) >= 3


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


# -- keys -------------------------------------------------------------------------------------------------------


def told_by(error):
    """An error with all that led to it, as a traceback shows it."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "SDLG_API_KEY"])
def test_a_key_is_sent_and_never_shown(serve, monkeypatch, caplog, capsys, variable):
    monkeypatch.setenv(variable, f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    server = serve()
    model = connect(server.url, retry_seconds=PATIENCE)
    result = pipeline(model).ask(QUESTION)
    assert {seen.headers["Authorization"] for seen in server.requests} == {f"Bearer {KEY}"}
    parts = (model, vars(model), model.connection, vars(model.connection), model.connection.address, model.words)
    shown = "".join(map(repr, parts)) + str(model.connection.address) + model.name
    assert "http://127.0.0.1" in shown
    assert KEY not in shown
    assert KEY not in result.to_json() + repr(result) + repr(model.server)
    assert caplog.records
    assert KEY not in caplog.text
    model.close()
    assert main(["models", "check", server.url, "--json"]) == 0
    assert KEY not in "".join(capsys.readouterr())


def test_our_own_variable_comes_first_and_without_a_key_none_is_sent(serve, monkeypatch):
    server = serve()
    connect(server.url, retry_seconds=PATIENCE).close()
    assert all("Authorization" not in seen.headers for seen in server.requests)
    server.heal()
    monkeypatch.setenv("SDLG_API_KEY", "mine")
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    connect(server.url, retry_seconds=PATIENCE).close()
    assert {seen.headers["Authorization"] for seen in server.requests} == {"Bearer mine"}


@pytest.mark.parametrize("key", ["EMPTY", "text", "1", "Paris"])
@pytest.mark.parametrize("dialect", ["llama", "legacy"])
def test_a_key_that_is_an_everyday_word_changes_no_answer(serve, monkeypatch, dialect, key):
    """Servers at home take any key, and people give them any: it may be part of every reply."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    model = connect(serve(dialect, most=5).url, retry_seconds=PATIENCE)
    served, local = (pipeline(one).ask(QUESTION) for one in (model, Twin(CAPITAL)))
    model.close()
    assert texts(served) == texts(local)
    assert [s.generation.logprobs for s in served.samples] == [s.generation.logprobs for s in local.samples]


def _echo(before=b"", after=b""):
    return before + f"Incorrect API key provided: {KEY}.".encode() + after


ECHOES = {
    "401": Answer(401, json.dumps({"error": {"message": _echo().decode()}}).encode()),
    "401, another shape": Answer(401, json.dumps({"error": {"key": KEY}}).encode()),
    "400, as text": Answer(400, _echo(), "text/plain"),
    "500": Answer(500, _echo(), "text/plain"),
    "502, as a page": Answer(502, b"<html><pre>Authorization: Bearer " + KEY.encode() + b"</pre>", "text/html"),
    "200, no JSON": Answer(200, _echo(), "text/plain"),
    "200, an error": Answer(200, json.dumps({"error": {"message": _echo().decode()}}).encode()),
    "400, where the message is cut": Answer(400, _echo(b"x" * 260), "text/plain"),
    "400, where the body is cut": Answer(400, _echo(b" " * 1960), "text/plain"),
    "amid a stream": Change(lambda parts: [parts[0], {"error": {"message": _echo().decode()}}]),
    "for a log-probability": Change(_with_logprob(KEY)),
}


@pytest.mark.parametrize("echo", ECHOES)
def test_a_key_that_the_server_echoes_is_not_repeated(serve, monkeypatch, caplog, echo):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server = serve()
    model = connect(server.url, retry_seconds=HASTE)
    server.inject(ECHOES[echo])
    with pytest.raises(SdlgError) as failure:
        pipeline(model).ask(QUESTION)
    model.close()
    for text in (str(failure.value), told_by(failure.value), caplog.text):
        assert KEY not in text
        assert KEY[:12] not in text  # nor the half of it


@pytest.mark.parametrize("echo", ["401", "200, no JSON", "200, an error", "400, where the message is cut"])
def test_a_key_that_is_echoed_while_connecting_is_not_repeated(serve, monkeypatch, capsys, echo):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = serve()
    server.inject(ECHOES[echo], when=lambda seen: True)
    assert main(["models", "check", server.url, "--retry-seconds", "1"]) == 1
    shown = "".join(capsys.readouterr())
    assert shown.startswith("sdlg: http://127.0.0.1")
    assert KEY[:12] not in shown


@pytest.mark.parametrize("key", [f"{KEY}\nsecond-line", f"{KEY}…"], ids=["two lines", "not ASCII"])
def test_a_key_that_cannot_be_sent_is_told_without_showing_it(serve, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(SdlgError) as failure:
        connect(serve().url, retry_seconds=HASTE).close()
    assert KEY not in told_by(failure.value)
    assert "OPENAI_API_KEY" in str(failure.value)


def test_a_key_is_not_written_down(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = connect(serve().url, retry_seconds=PATIENCE)
    for one in (model, model.connection, model.connection.address, model.connection.address.key):
        with pytest.raises(TypeError):
            pickle.dumps(one)
    model.close()


@pytest.mark.parametrize(
    "address",
    [
        f"http://user:{KEY}@127.0.0.1:8000/v1#tiny",
        f"http://{KEY}@127.0.0.1:8000/v1#tiny",
        f"https://example.org/v1?api-key={KEY}",
        f"https://example.org/v1?api-key={KEY}#tiny",
        f"http://user:{KEY}@/v1",
        f"http://user:{KEY}@[::1/v1",
        f"HTTP://user:{KEY}@127.0.0.1:8000/v1#tiny",
        f"http://user:{KEY}#{KEY}@127.0.0.1:8000/v1",
    ],
)
def test_an_address_with_a_key_in_it_is_refused_without_showing_it(address, capsys, tmp_path):
    with pytest.raises(BadOption) as refusal:
        connect(address)
    assert KEY not in told_by(refusal.value)
    watched = []
    with pytest.raises(BadOption):
        Pipeline(address, Nli(), watch=lambda progress: watched.append(progress.text))
    assert KEY not in "".join(watched)
    assert main(["models", "check", address]) == 2
    assert main(["ask", QUESTION, "--model", address]) == 2
    assert main(["serve", "--port", "0", "--model", address]) == 2
    data, folder = tmp_path / "q.jsonl", tmp_path / "run"
    data.write_text(json.dumps({"question": QUESTION, "references": ["It is Paris"]}) + "\n")
    for flag in ("--model", "--nli", "--similarity-model"):
        assert main(["eval", "--data", str(data), "--out", str(folder), flag, address]) == 2
    assert not folder.exists()
    assert KEY not in "".join(capsys.readouterr())


def test_where_to_put_a_key_is_said():
    with pytest.raises(BadOption, match=r"the address of example.org holds a key or a query.*OPENAI_API_KEY"):
        parse_address(f"https://example.org/v1?api-key={KEY}")


# -- addresses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_name", "url", "model", "root"),
    [
        ("http://127.0.0.1:8000/v1#tiny", "http://127.0.0.1:8000/v1", "tiny", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", "", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1", "", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/#a/b", "http://127.0.0.1:8000/v1", "a/b", "http://127.0.0.1:8000"),
        ("https://example.org/api/v1#a%20b", "https://example.org/api/v1", "a b", "https://example.org/api"),
        ("https://example.org/openai#x", "https://example.org/openai", "x", "https://example.org/openai"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1", "", "http://[::1]:8080"),
    ],
)
def test_addresses_are_read(given_name, url, model, root):
    found = parse_address(given_name)
    assert (found.url, found.model, found.root) == (url, model, root)
    assert is_address(given_name)


def test_the_address_may_be_in_the_environment(serve, monkeypatch):
    with pytest.raises(BadOption, match="OPENAI_BASE_URL, which is not set"):
        parse_address("server#tiny")
    server = serve(models=("tiny", "large"))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    model = connect("server#large", retry_seconds=PATIENCE)
    assert (model.name, model.server.model) == (f"{server.url}#large", "large")
    model.close()
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    with pytest.raises(BadOption, match="which is not set"):
        connect("server")


@pytest.mark.parametrize(
    "address", ["ftp://127.0.0.1/v1", "http://", "http:///v1", "http://[::1/v1", "http://127.0.0.1:http/v1",
                "http://127.0.0.1:99999/v1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(address):
    with pytest.raises(BadOption, match="is not the address of a server; give http://host:port/v1#name"):
        connect(address, retry_seconds=0.3)


@pytest.mark.parametrize("base", ["example.org/v1", "ftp://example.org", "localhost:8000/v1"])
def test_a_wrong_address_in_the_environment_is_refused(monkeypatch, base):
    monkeypatch.setenv("OPENAI_BASE_URL", base)
    with pytest.raises(BadOption, match="is not the address of a server"):
        parse_address("server#tiny")


@pytest.mark.parametrize("name", ["smollm2", "server.gguf", "org/server", "httpx", "./http://x", ""])
def test_other_names_are_no_addresses(name):
    assert not is_address(name)


def test_paths_of_the_servers_own_lie_beside_v1(serve):
    server = serve()
    connect(server.url.removesuffix("/v1"), retry_seconds=PATIENCE).close()
    assert {"/v1/models", "/props", "/v1/completions", "/tokenize"} == {seen.path for seen in server.requests}


# -- nothing is left behind -------------------------------------------------------------------------------------


def sockets():
    """How many this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts sockets in /proc")


@needs_proc
@pytest.mark.parametrize("how", ["closed", "closed twice", "forgotten"])
def test_a_model_leaves_no_thread_and_no_socket(serve, how):
    server = serve()
    gc.collect()
    before, open_before = set(connections()), sockets()
    model = connect(server.url, retry_seconds=PATIENCE)
    list(pipeline(model).ask_many(ASKED[:6], in_flight=3))
    assert len(set(connections()) - before) == 1
    assert sockets() > open_before
    if how == "forgotten":
        del model
        gc.collect()
    else:
        model.close()
        if how == "closed twice":
            model.close()
    assert set(connections()) <= before
    until(lambda: not server.lines and sockets() <= open_before)  # the server's ends too


@needs_proc
@pytest.mark.parametrize("fault", ["401", "nonsense", "tokenizer", "dead"])
def test_a_model_that_cannot_be_had_leaves_nothing_either(serve, fault):
    server = serve("vllm")
    gc.collect()
    before, open_before = set(connections()), sockets()
    if fault == "401":
        server.inject(Answer(401))
    elif fault == "nonsense":
        server.inject(Answer(200, b"{"), when=lambda seen: True)
    elif fault == "dead":
        server.kill()
    with pytest.raises(SdlgError):
        connect(server.url, retry_seconds=0.5)
    assert set(connections()) <= before
    until(lambda: sockets() <= open_before)


def test_closing_amid_connecting_is_quiet(serve):
    """There is always a connection that is just begun: none of its parts is left as a warning on somebody's screen."""
    server = serve(slots=1000)
    model = connect(server.url, retry_seconds=60.0)
    server.kill()
    begun = threading.Event()

    async def connecting():
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(model.connection.get("models"))
                begun.set()
                await asyncio.sleep(0)

    def run():
        with suppress(SdlgError, CancelledError):
            model.connection.run(connecting())

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        running = threading.Thread(target=run)
        running.start()
        begun.wait()
        model.close()
        running.join(10.0)
        gc.collect()
    assert [str(one.message) for one in told] == []


# -- whole runs -------------------------------------------------------------------------------------------------

RUN = [f"Question {k}?" for k in range(6)]


@pytest.fixture
def fake_nli(monkeypatch):
    monkeypatch.setattr("sdlg.pipeline.load_nli", lambda name, **_: Nli(name=name))
    monkeypatch.setattr(run_models, "load_nli", lambda name, **_: Nli(name=name))


def asked_of(server):
    """Which questions a server was asked."""
    return {k for k, question in enumerate(RUN) if any(question in seen.words for seen in server.generations)}


def rows_of(path):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for row in found:
        row["cost"].pop("seconds")
    return found


NAMES_OF_ONE = ("{0}#tiny", "{0}", "{0}/#tiny", "server#tiny", "server")


@pytest.mark.parametrize("name", NAMES_OF_ONE)
def test_a_run_is_gone_on_with_by_any_name_of_its_model(serve, tmp_path, fake_nli, monkeypatch, capsys, name):
    server, out = serve(), tmp_path / "out.jsonl"
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    for used in (name, *NAMES_OF_ONE):
        model = used.format(server.url)
        assert main(["ask", QUESTION, "--out", str(out), "--model", model, "--retry-seconds", str(PATIENCE)]) == 0
    assert capsys.readouterr().err.count("nothing is left to do") == len(NAMES_OF_ONE)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_asking_goes_on_where_a_server_died(tmp_path, fake_nli, capsys, in_flight):
    questions, out, undisturbed = tmp_path / "q.txt", tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    questions.write_text("\n".join(RUN))

    def ask(server, path):
        return main([
            "ask", "--file", str(questions), "--out", str(path), "--model", server.url, "--samples", "3",
            "--retry-seconds", str(HASTE), "--in-flight", str(in_flight), "--seed", "3",
            "--branch-strategy", "multinomial",
        ])  # fmt: skip

    with FakeServer("llama", CAPITAL) as server:
        assert ask(server, undisturbed) == 0
        server.inject(Die(), when=lambda seen: is_branch(seen) and "Question 3?" in seen.words, times=1)
        capsys.readouterr()
        assert ask(server, out) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(f"sdlg: cannot reach {server.url}")
        assert "is the server still running?" in shown.err
    kept = rows_of(out)
    assert kept == rows_of(undisturbed)[: len(kept)]
    assert len(kept) == 3 if in_flight == 1 else len(kept) <= 3
    with FakeServer("llama", CAPITAL, port=server.port) as again:
        assert ask(again, out) == 0
        assert (f"holds {len(kept)} of 6 results; going on" in capsys.readouterr().err) == bool(kept)
        assert asked_of(again) == set(range(len(kept), 6))
    assert rows_of(out) == rows_of(undisturbed)


def stored(folder):
    """All rows of a run, but for how long they took."""
    found = {stage: Store(folder).rows(stage) for stage in STAGES}
    for rows in found.values():
        for row in rows.values():
            row.pop("seconds", None)
    return found


@pytest.mark.parametrize("in_flight", [1, 3])
def test_an_evaluation_goes_on_where_a_server_died(tmp_path, fake_nli, capsys, in_flight):
    data = tmp_path / "q.jsonl"
    data.write_text("".join(json.dumps({"question": q, "references": ["It is Paris", "Rome"]}) + "\n" for q in RUN))

    def evaluate(server, folder):
        return main([
            "eval", "--data", str(data), "--out", str(folder), "--model", server.url, "--nli", "fake",
            "--methods", "sdlg,multinomial", "--measures", "SE*_SDLG,PE,semantic_entropy_frequency",
            "--samples", "3", "--retry-seconds", str(HASTE), "--in-flight", str(in_flight),
        ])  # fmt: skip

    with FakeServer("llama", CAPITAL, others={"Question 2?": ROME}) as server:
        assert evaluate(server, tmp_path / "whole") == 0
        server.inject(Die(), when=lambda seen: is_branch(seen) and "Question 3?" in seen.words, times=1)
        capsys.readouterr()
        assert evaluate(server, tmp_path / "broken") == 1
        assert f"sdlg: cannot reach {server.url}" in capsys.readouterr().err
    undisturbed, kept = stored(tmp_path / "whole"), stored(tmp_path / "broken")
    for stage in STAGES:
        assert kept[stage].items() <= undisturbed[stage].items()
        assert len(undisturbed[stage]) == 6
    assert len(kept["judge"]) == 3 if in_flight == 1 else len(kept["judge"]) < 6
    with FakeServer("llama", CAPITAL, others={"Question 2?": ROME}, port=server.port) as again:
        assert evaluate(again, tmp_path / "broken") == 0
        assert len(asked_of(again)) == 6 - len(kept["generate"])
    assert stored(tmp_path / "broken") == undisturbed


# -- replies ----------------------------------------------------------------------------------------------------

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
        steps = read_steps({"logprobs": told}, LearnedTokens())
    except Nonsense:
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
        read_steps(choice, LearnedTokens())
    except Nonsense:
        return


@pytest.mark.parametrize("entry", [{"bytes": 5}, {"id": "x"}, {"id": 1.5}, {"id": True}, {"logprob": True}], ids=str)
def test_what_is_no_token_is_nonsense(entry):
    told = {"content": [{"token": "a", "logprob": -1.0, "id": 3, **entry}]}
    with pytest.raises(Nonsense):
        read_steps({"logprobs": told}, LearnedTokens())


def test_every_form_of_a_reply_is_read_alike():
    tokens = LearnedTokens()
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


# -- what reviewers found -----------------------------------------------------------------------------------------


def test_a_question_that_is_refused_is_no_reason_to_stop(serve, tmp_path):
    """One bad question among many: its line says so, and the others are answered."""
    server = serve()
    server.inject(Answer(400, b'{"detail": "I will not answer that"}'), when=lambda seen: "number 1?" in seen.words)
    questions, out = tmp_path / "questions.txt", tmp_path / "out.jsonl"
    questions.write_text("\n".join(f"number {k}?" for k in range(4)))
    arguments = ["ask", "--file", questions, "--out", out, "--model", server.url, "--samples", "1"]
    assert main([str(argument) for argument in arguments]) == 1
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["format"].split("/")[0] for row in rows] == ["sdlg.result", "sdlg.error", "sdlg.result", "sdlg.result"]
    assert "I will not answer that" in rows[1]["error"]


def test_retry_seconds_begins_with_the_first_fault(connected):
    """Time that a reply took, or that a request waited for its turn, is not time without one."""
    _, model = connected(retry_seconds=1.0)
    attempts = []

    async def late_fault():
        attempts.append(len(attempts))
        await asyncio.sleep(1.2 if len(attempts) == 1 else 0)
        if len(attempts) == 1:
            raise Nonsense("broke off")
        return "fine"

    assert model.connection.run(model.connection._persistently(late_fault)) == "fine"


@pytest.mark.parametrize("told", ["0", "nan", "-1", "soon"])
def test_a_server_that_asks_for_no_pause_gets_one(connected, told):
    server, model = connected(retry_seconds=20.0)
    server.inject(Answer(429, b"{}", headers={"Retry-After": told}), times=2)
    assert pipeline(model, samples=1).ask(QUESTION).answer.text


def test_counts_of_an_answer_that_ends_by_itself_are_read(connected, tokenizer):
    _, model = connected("vllm", most=5, root=tokenizer)
    result = pipeline(model, samples=1).ask(QUESTION)
    assert result.answer.stop_reason == "eos"
    assert (
        model.decode(DecodeRequest(model.prompt(Question(QUESTION), "auto"), [()], Decoding())).cost.prompt_tokens > 0
    )


def test_a_model_named_by_an_alias_keeps_that_name(serve):
    server = serve()

    def named(parts):
        parts[0]["data"][0]["aliases"] = ["small"]
        return parts

    server.inject(Change(named), when=lambda seen: seen.path == "/v1/models")
    model = connect(f"{server.url}#small", retry_seconds=PATIENCE)
    assert (model.name, model.server.model) == (f"{server.url}#small", "tiny")
    model.close()


# -- what was mended ----------------------------------------------------------------------------------------------


def letters(*likely):
    """A script that answers with a letter."""
    return {"": dict(zip("ABC", likely, strict=False))}


def test_a_chat_endpoint_is_asked_for_alternatives_where_they_are_needed(connected):
    server, model = connected("chat", most=5)
    prompt = model.prompt(Question(QUESTION), "auto")
    grown = model.decode(DecodeRequest(prompt, [()], Decoding(), alternatives_above=0.0)).continuations[0]
    assert [seen.body["top_logprobs"] for seen in server.generations] == [5]
    local = Twin(CAPITAL)
    spelled = [[(model.text([one.token_id]), one.logprob) for one in step] for step in grown.alternatives]
    states = ["", "It", "It is"]
    assert [[(text, p) for text, p in step if p > -100] for step in spelled] == [
        [(local.text([one.token_id]), one.logprob) for one in local.next_tokens(state) if one.token_id]
        for state in states
    ]
    server.heal()
    model.decode(DecodeRequest(prompt, [()], Decoding()))
    assert ["top_logprobs" in seen.body for seen in server.generations] == [False]


@pytest.mark.parametrize(("most", "told"), [(3, 3), (8, 8), (40, 20)])
def test_a_chat_endpoint_tells_as_many_alternatives_as_it_can(connected, most, told):
    assert connected("chat", most=most)[1].server.top_logprobs == told


def test_a_chat_endpoint_can_be_evaluated_and_asked_what_it_thinks_of_its_answers(serve, tmp_path, fake_nli):
    server = serve("chat", most=5, others={"Possible answer": letters(0.7, 0.2, 0.1)})
    data, folder = tmp_path / "q.jsonl", tmp_path / "run"
    data.write_text(json.dumps({"question": QUESTION, "references": ["It is Paris"]}) + "\n")
    assert main([
        "eval", "--data", str(data), "--out", str(folder), "--model", server.url, "--nli", "fake", "--samples", "3",
        "--methods", "multinomial", "--measures", "P(True),clustered_self_assessment",
        "--retry-seconds", str(PATIENCE),
    ]) == 0  # fmt: skip
    (row,) = Store(folder).rows("measure").values()
    found = row["values"]["multinomial"]
    assert [values[-1] for values in found.values()] == [pytest.approx(0.2 / 0.9)] * 2
    assert row["reasons"] == {"multinomial": {}}


@pytest.mark.parametrize("owner", ["gateway", "llamacpp behind something"])
def test_a_vllm_that_was_given_another_name_is_as_exact_as_any(serve, tokenizer, owner):
    server = serve("vllm", most=20, owner=owner)
    model = connect(server.url, tokenizer=tokenizer, retry_seconds=PATIENCE)
    assert (model.server.kind, model.server.exact, model.server.request_fields) == ("other", True, VLLM_FIELDS)
    served, local = pipeline(model, samples=10).ask(QUESTION), pipeline(Twin(CAPITAL), samples=10).ask(QUESTION)
    assert comparable(served) == comparable(local)
    assert all(seen.body.items() >= VLLM_FIELDS.items() for seen in server.generations if seen.body.get("stream"))
    model.close()


def test_one_question_that_a_search_is_refused_is_no_reason_to_stop(serve, tmp_path, fake_nli):
    server = serve()
    refusal = Answer(400, b'{"detail": "I will not answer that"}')
    server.inject(refusal, when=lambda seen: seen.generates and "number 1?" in seen.words)
    questions, out = tmp_path / "questions.txt", tmp_path / "out.jsonl"
    questions.write_text("\n".join(f"number {k}?" for k in range(3)))
    arguments = ["ask", "--file", questions, "--out", out, "--model", server.url, "--samples", "2", "--method", "beam"]
    assert main([str(argument) for argument in arguments]) == 1
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["format"].split("/")[0] for row in rows] == ["sdlg.result", "sdlg.error", "sdlg.result"]
    assert "I will not answer that" in rows[1]["error"]


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
