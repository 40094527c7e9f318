"""What a token costs as answers grow long: 20 sequences of 1,024 tokens that share a prompt, in one tree.

    python bench/long_answers.py [--tokens 1024] [--sequences 20]     # smollm2; prints a row for every 64 tokens

Ratios to the first 64 tokens of the same run. Memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from sdlg.models import load_model
from sdlg.models.base import DecodeRequest
from sdlg.options import SMOLLM2, Decoding
from sdlg.records import Question, StopRule
from serve_load import resident_megabytes

STEP = 64


def main() -> None:
    """Print the curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--sequences", type=int, default=20)
    chosen = parser.parse_args()
    model = load_model(SMOLLM2)
    prompt = model.prompt(Question("Tell me a long story."), "chat", StopRule())
    model.decode(DecodeRequest(prompt, [()], Decoding(max_tokens=2)))
    lengths, window, began, first = Counter[int](), 0, time.perf_counter(), 0.0
    print("| tokens so far | ms a token | times the first | sequences | resident, MB |\n|---|---|---|---|---|")

    def watch(path: int, _: int) -> None:
        nonlocal window, began, first
        lengths[path] += 1
        window += 1
        longest = lengths[path]
        if longest % STEP == 0 and longest > max((n for other, n in lengths.items() if other != path), default=0):
            taken = (time.perf_counter() - began) / window * 1000
            first = first or taken
            live, memory = round(window / STEP), resident_megabytes("self")
            print(f"| {longest} | {taken:.1f} | {taken / first:.2f} | {live} | {memory:.0f} |", flush=True)
            window, began = 0, time.perf_counter()

    decoding = Decoding(strategy="multinomial", max_tokens=chosen.tokens)
    model.decode(DecodeRequest(prompt, [()] * chosen.sequences, decoding, seed=1, watch=watch))


if __name__ == "__main__":
    main()
