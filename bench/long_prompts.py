"""What a step costs after a long prompt: heads that share keys asked as one, against keys copied for each head.

    python bench/long_prompts.py [--tokens 24] [--sequences 10]     # smollm2, whose nine heads share three sets of keys

Both ways in turn on the same prompt, whose keys are there already; the ratio is of the medians.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from sdlg.models import load_model
from sdlg.models.base import DecodeRequest
from sdlg.models.transformers.model import TransformersModel
from sdlg.options import SMOLLM2, Decoding
from sdlg.records import Question, StopRule

WORDS = (50, 200, 500, 1000, 2000)
ROUNDS = 5


def main() -> None:
    """Print a row for every length of the prompt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--sequences", type=int, default=10)
    chosen = parser.parse_args()
    model = load_model(SMOLLM2)
    assert isinstance(model, TransformersModel)
    network = model._network
    decoding = Decoding(strategy="multinomial", max_tokens=chosen.tokens)
    print("| tokens of the prompt | keys copied, ms a step | asked as one, ms a step | ratio |\n|---|---|---|---|")
    for words in WORDS:
        prompt = model.prompt(Question("Go on with this story: " + "and then " * (words // 2)), "chat", StopRule())
        taken: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(ROUNDS + 1):
            for as_one in taken:
                network.__dict__["packs"] = as_one
                steps, began = network.steps, time.perf_counter()
                model.decode(DecodeRequest(prompt, [()] * chosen.sequences, decoding, seed=1))
                taken[as_one].append((time.perf_counter() - began) / (network.steps - steps) * 1000)
        copied, shared = (median(taken[as_one][1:]) for as_one in (False, True))  # the first reads the prompt
        print(f"| {len(prompt.token_ids)} | {copied:.0f} | {shared:.0f} | {copied / shared:.2f} |", flush=True)


if __name__ == "__main__":
    main()
