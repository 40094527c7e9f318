"""How many of SDLG's first five substitutions change the answer: is the gradient on the words that matter?

    python bench/gradients.py --data ../shared/data/judged_answers/train.jsonl [--questions 30] [--weights FILE]

A substitution changes the answer if the branch it leads to has another meaning than the initial answer, by the
equivalence `answers` of the embedded model, whichever model gave the gradients.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sdlg import Pipeline
from sdlg.clustering import cluster_answers
from sdlg.evaluation.same_answer_fit import read_rows
from sdlg.nli import load_nli
from sdlg.nli.classifier import load_nli_minilm
from sdlg.options import DEFAULT_NLI, SMOLLM2, Clustering

FIRST = 5


def main() -> None:
    """Print the share, with the questions it is from."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--weights", type=Path, help="an earlier nli_minilm.safetensors, for its gradients")
    chosen = parser.parse_args()
    judge = load_nli(DEFAULT_NLI)
    gradients = load_nli_minilm(None, chosen.weights) if chosen.weights else judge
    pipeline = Pipeline(SMOLLM2, gradients, samples=FIRST + 1, unexplored=0.0, max_tokens=24)
    changed = total = 0
    for row in read_rows(chosen.data)[: chosen.questions]:
        result = pipeline.ask(row["question"])
        answer, *branches = (sample.text for sample in result.samples)
        for branch in branches:
            numbers = cluster_answers(
                row["question"], [answer, branch], judge.judge, Clustering(), nli=judge.name
            ).numbers
            changed, total = changed + (numbers[0] != numbers[1]), total + 1
        print(f"{chosen.weights or DEFAULT_NLI}: {changed} of {total} substitutions change the answer", flush=True)


if __name__ == "__main__":
    main()
