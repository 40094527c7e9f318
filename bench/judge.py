"""The figures of a judge's card, but for the fit itself (`sdlg nli fit`) and the groups (bench/grouping.py).

    python bench/judge.py [--nli nli-minilm] [--data ../shared/data]

Aliases of TriviaQA (first half of the validation split) by the equivalence `answers`; SNLI and MNLI, 1,000 odd rows of
each dev set; where the gradient puts the words of the golden answer (200 questions of judged train); pairs a second.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import numpy as np

from equivalence import judged_same, known_pairs
from sdlg.evaluation.same_answer_fit import read_rows
from sdlg.nli import InputGradients, NliModel, load_nli
from sdlg.options import DEFAULT_NLI
from sdlg.scoring.alignment import overlapping
from sdlg.scoring.scores import word_attribution

LABELS = ("contradiction", "neutral", "entailment")


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nli", default=DEFAULT_NLI)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    chosen = parser.parse_args()
    nli = load_nli(chosen.nli)
    same, different = known_pairs(600)
    kept, split = judged_same(nli, same, "answers"), 1 - judged_same(nli, different, "answers")
    print(f"{nli.name}: aliases, {len(same)} same {kept:.3f}, {len(different)} different {split:.3f}", flush=True)
    for name in ("snli_dev", "mnli_dev_matched"):
        rows = [row for row in read_rows(chosen.data / "nli" / f"{name}.jsonl")[1::2] if row["label"] in LABELS][:1000]
        print(f"{nli.name}: {name} {accuracy(nli, rows):.3f} of {len(rows)}", flush=True)
    ranks = np.array(answer_ranks(nli, read_rows(chosen.data / "judged_answers" / "train.jsonl"), 200))
    print(f"{nli.name}: rank of the answer's words {ranks[:, 0].mean():.2f} of {ranks[:, 1].mean():.1f}", flush=True)
    rows = read_rows(chosen.data / "judged_answers" / "dev.jsonl")[:40]
    pairs = [(row["question"], a["text"], b["text"]) for row in rows for a in row["answers"] for b in row["answers"]]
    pairs = [pair for pair in pairs if pair[1] != pair[2]][:320]
    started = time.perf_counter()
    for question in dict.fromkeys(pair[0] for pair in pairs):
        nli.judge(question, [pair[1:] for pair in pairs if pair[0] == question])
    print(f"{nli.name}: {len(pairs) / (time.perf_counter() - started):.0f} pairs a second", flush=True)


def accuracy(nli: NliModel, rows: list[dict[str, str]]) -> float:
    """Of three classes."""
    said = nli.judge("", [(row["premise"], row["hypothesis"]) for row in rows]).probabilities
    best = [max(LABELS, key=lambda label: getattr(one, label)) for one in said]
    return float(np.mean([one == row["label"] for one, row in zip(best, rows, strict=True)]))


def answer_ranks(nli: NliModel, rows: list[dict], count: int) -> list[tuple[float, int]]:  # type: ignore[type-arg]
    """The mean rank of the golden answer's words in right sentences, and how many words there are."""
    found = []
    for row in rows:
        texts = [a["text"] for a in row["answers"] if a["right"] and 6 < len(a["text"].split()) < 40]
        golden = next((g for g in row["golden"] for t in texts[:1] if g.lower() in t.lower() and len(g) > 2), None)
        if golden is None:
            continue
        text = texts[0]
        begin = text.lower().index(golden.lower())
        words = [match.span() for match in re.finditer(r"\S+", text)]
        gradients = nli.input_gradients(row["question"], text)
        scores = [word_score(gradients, span) for span in words]
        order = list(np.argsort(-np.array(scores), kind="stable"))
        mine = [
            order.index(k) + 1 for k, (start, end) in enumerate(words) if start < begin + len(golden) and end > begin
        ]
        found.append((float(np.mean(mine)), len(words)))
        if len(found) == count:
            break
    return found


def word_score(gradients: InputGradients, span: tuple[int, int]) -> float:
    """Its attribution."""
    pieces = overlapping(span, gradients.spans)
    return word_attribution(gradients.embeddings[pieces], gradients.premise_gradients[pieces])


if __name__ == "__main__":
    main()
