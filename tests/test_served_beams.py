"""Beam search over a server: that of its definition, with no more than the server tells."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from fake_server import (
    BYTES,
    Change,
    Twin,
    save_tokenizer,
)
from sdlg.errors import (
    NotSupported,
    ServerFailed,
)
from sdlg.models.base import Capabilities, Continuation, Decoded
from sdlg.options import STRATEGIES
from sdlg.records import Cost
from served import EIGHT, QUESTION, comparable, pipeline, texts

pytestmark = pytest.mark.usefixtures("plain_environment")


def nearly(found):
    """The same, with numbers that need only be near: a search adds in single precision."""
    if isinstance(found, dict):
        return {name: nearly(value) for name, value in found.items()}
    if isinstance(found, list):
        return [nearly(value) for value in found]
    return pytest.approx(found, abs=1e-5) if isinstance(found, float) else found


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
        widths = [1] * n if diverse else [max(decoding.beams, n)]
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
        return [done[g][place][0] for place in range(n) for g in range(len(widths)) if place < len(done[g])][:n]

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
        {"method": "diverse_beam", "samples": 4, "diversity_penalty": 3.0},
        {"method": "diverse_beam", "samples": 3, "diversity_penalty": 0.0},
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
        {"method": "diverse_beam", "samples": 5},  # 2, and what the groups before have taken
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
