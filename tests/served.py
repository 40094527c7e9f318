"""What the tests of served models share: scripts, questions, fixtures (through conftest.py), comparisons."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tenacity import wait_random_exponential

from fake_server import (
    BYTES,
    FakeServer,
    Stall,
    save_tokenizer,
)
from fakes import CAPITAL, MEANINGS, FakeNli
from sdlg import Pipeline
from sdlg.loaded import Models
from sdlg.models.server import connection
from sdlg.models.server.served import connect

QUESTION = "What is the capital of France?"
PATIENCE = 8.0  # half of it is how long a busy machine may take for a reply
HASTE = 2.0  # where it is waited for in vain
ROME = {"": {"Rome": 0.5, "Roma": 0.3, "Milan": 0.2}, "Rome": {"<end>": 0.9, " now": 0.1}}
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


@pytest.fixture
def plain_environment(monkeypatch):
    """No keys, addresses, proxies or certificates of the machine's; tries follow each other ten times as fast."""
    monkeypatch.setenv("SSL_CERT_DIR", str(Path(__file__).parent))  # has none, so none are read for each connection
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr(connection, "_BACKOFF", wait_random_exponential(multiplier=0.01, max=0.1))
    for name in [n for n in os.environ if n.lower().endswith("_proxy") or n.startswith(("OPENAI_", "SDLG_API"))]:
        monkeypatch.delenv(name)


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


def load_with_fake_nli(model, nli, loading):
    """What commands load where the language model is on a server, and the judge of meaning a fake."""
    return Models(model, Nli(name=nli), loading)


def pipeline(model, **options):
    """Without draws, which are requests of their own: those tests that are about them ask for some."""
    return Pipeline(model, Nli(), **{"samples": 4, "draws": 0, **options})


def comparable(result, counted=("generated_tokens", "nli_pairs", "nli_gradients")):
    """All that a result says, but for what a server cannot know and how long it took."""
    found = result.to_dict()
    for name in ("model", "notes"):
        del found[name]
    found["cost"] = {name: found["cost"][name] for name in counted}
    for one in (*found["samples"], *found["draws"]):
        del one["generation"]["entropies"], one["generation"]["truncated_mass"]
    return found


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


def _with_logprob(value):
    def edit(parts):
        parts[0]["choices"][0]["logprobs"]["content"][0]["logprob"] = value
        return parts

    return edit


DEAD = b'{"error": {"message": "the engine is dead"}}'
