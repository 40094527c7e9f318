"""Several questions at once on one local model: questions an hour, passes of the network, and whether numbers change.

    python bench/in_flight.py [--questions 16] [--rounds 2]     # smollm2, N = 10 and five draws, 24 tokens

Ratios within one run, in turns: every round asks the same questions with 1, 2, 4 and 8 in flight.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import median

from sdlg import Pipeline, Result
from sdlg.models.transformers.model import TransformersModel
from sdlg.models.transformers.network import Network
from sdlg.options import SMOLLM2

COUNTS = (1, 2, 4, 8)
KINDS = ("capital of", "largest city of", "language of", "highest mountain of")
PLACES = ("Australia", "France", "Japan", "Peru", "Kenya", "Canada", "Norway", "India")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    questions = [f"What is the {kind} {place}?" for place in PLACES for kind in KINDS][: chosen.questions]
    pipeline = Pipeline(SMOLLM2, max_tokens=24)
    model = pipeline.models.language_model
    assert isinstance(model, TransformersModel)
    network = model._network
    assert isinstance(network, Network)
    pipeline.ask(questions[0])
    seconds: dict[int, list[float]] = {count: [] for count in COUNTS}
    passes, results = dict[int, float](), dict[int, list[Result]]()
    for _ in range(chosen.rounds):
        for count in COUNTS:
            model._store.drop_all()  # every prompt is read anew
            before, began = network.passes, time.perf_counter()
            results[count] = list(pipeline.ask_many(questions, in_flight=count))
            seconds[count].append((time.perf_counter() - began) / len(questions))
            passes[count] = (network.passes - before) / len(questions)
    print("| in flight | seconds a question | throughput | passes a question | same answers | largest Δ log p |")
    print("|---|---|---|---|---|---|")
    for count in COUNTS:
        same, apart = compared(results[1], results[count])
        ratio = median(one / other for one, other in zip(seconds[1], seconds[count], strict=True))
        print(f"| {count} | {median(seconds[count]):.2f} | {ratio:.2f} | {passes[count]:.1f} | {same} | {apart:.1e} |")


def compared(alone: Sequence[Result], together: Sequence[Result]) -> tuple[str, float]:
    """How many sequences and draws are the same, and by how much the log-probabilities of those differ."""
    pairs = [
        (one.generation, other.generation)
        for first, second in zip(alone, together, strict=True)
        for one, other in zip((*first.samples, *first.draws), (*second.samples, *second.draws), strict=False)
    ]
    same = [(one, other) for one, other in pairs if one.token_ids == other.token_ids]
    gaps = [abs(a - b) for one, other in same for a, b in zip(one.logprobs, other.logprobs, strict=True)]
    return f"{len(same)} of {len(pairs)}", max(gaps, default=0.0)


if __name__ == "__main__":
    main()
