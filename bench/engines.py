"""How branches are best sent to a model server, and how many questions fill it. Ratios within one run.

python bench/engines.py                      # a llama-server of its own, with the embedded GGUF
SDLG_TEST_SERVER=http://… python bench/engines.py
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext

import llama_server
import sdlg
from sdlg.models.base import DecodeRequest
from sdlg.models.server.served import ServedModel
from sdlg.options import Decoding, Loading
from sdlg.records import Prompt, Question

DECODING = Decoding(max_tokens=24)
BRANCHES, ROUNDS = 9, 5
STORY = " ".join(
    f"On day {day} the fox met the {animal} near the old mill and they spoke about the weather."
    for day, animal in enumerate(["hare", "owl", "bear", "wolf", "crow", "hen", "frog", "mouse", "deer", "swan"] * 3)
)
_number = itertools.count(int(time.time()) % 10_000_000)  # no prompt was ever asked before


def main() -> None:
    given = os.environ.get("SDLG_TEST_SERVER")
    with nullcontext(given) if given else llama_server.llama_server() as url:
        model = sdlg.load_model(url, Loading(retry_seconds=600))
        assert isinstance(model, ServedModel)
        print(f"{model.server.kind} {model.server.version}, {BRANCHES} branches, {ROUNDS} rounds")
        for name, question in (("short", short_question), ("long", long_question)):
            _compare(model, name, question)
        _fill(model)


def short_question() -> Question:
    return Question(f"Who wrote book number {next(_number)} about the prince of Denmark?")


def long_question() -> Question:
    return Question("Whom did the fox meet first?", context=f"Story number {next(_number)}. {STORY}")


def _compare(model: ServedModel, name: str, question: Callable[[], Question]) -> None:
    """Seconds per generated token of one round of branches, for every way to send them, in turn."""
    own = model.width
    widths = [1, 2, 4, None] if model.server.kind == "llama.cpp" else [1, None]
    seconds: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for width in widths:
            seconds.setdefault(f"{width or 'all'} at once", []).append(_branches(model, question(), width, dict))
        seconds.setdefault("from scratch, all at once", []).append(
            _branches(model, question(), None, lambda: _no_cache(model))
        )
    model.width, model.extras = own, dict
    size = len(model.prompt(question(), "auto").token_ids)
    base = seconds["1 at once"]
    print(f"\n{name} prompt ({size} tokens): time per token as a share of one branch after the other")
    for how, found in seconds.items():
        ratios = sorted(mine / other for mine, other in zip(found, base, strict=True))
        print(f"  {how:<28}{statistics.median(ratios):6.2f}   ({ratios[0]:.2f} to {ratios[-1]:.2f})")


def _no_cache(model: ServedModel) -> dict[str, object]:
    return {"cache_prompt": False} if model.server.kind == "llama.cpp" else {"cache_salt": uuid.uuid4().hex}


def _branches(
    model: ServedModel, question: Question, width: int | None, extras: Callable[[], dict[str, object]]
) -> float:
    prompt = model.prompt(question, "auto")
    model.width, model.extras = None, dict
    prefixes = _prefixes(model, prompt)
    model.width, model.extras = width, extras
    started = time.perf_counter()
    decoded = model.decode(DecodeRequest(prompt, prefixes, DECODING))
    return (time.perf_counter() - started) / decoded.cost.generated_tokens


def _prefixes(model: ServedModel, prompt: Prompt) -> list[tuple[int, ...]]:
    """The answer with its second choice at each of its first positions."""
    answer = model.decode(DecodeRequest(prompt, [()], DECODING, alternatives_above=1e-6)).continuations[0]
    ids = answer.token_ids
    found = [
        (*ids[:at], next(one.token_id for one in options if one.token_id != ids[at]))
        for at, options in enumerate(answer.alternatives[: len(ids)])
    ]
    return (found * BRANCHES)[:BRANCHES]


def _fill(model: ServedModel) -> None:
    """Questions per second with so many in flight, as a multiple of one at a time."""
    pipeline = sdlg.Pipeline(model, samples=5, max_tokens=8)
    questions = [short_question().text for _ in range(32)]
    pipeline.ask(questions[0])
    print("\nquestions in flight: throughput as a multiple of one at a time (32 questions, 5 sequences)")
    base = 0.0
    for in_flight in (1, 2, 4, 8, 16, 32):
        fresh = [f"{text} ({in_flight})" for text in questions]
        started = time.perf_counter()
        assert len(list(pipeline.ask_many(fresh, in_flight=in_flight))) == len(fresh)
        rate = len(fresh) / (time.perf_counter() - started)
        base = base or rate
        print(f"  {in_flight:>3} {rate / base:6.2f}")


if __name__ == "__main__":
    main()
