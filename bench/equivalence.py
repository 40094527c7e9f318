"""Which equivalence is right about answers? Pairs of answers to one question whose equivalence is known.

TriviaQA, first half of the validation split (clean for nli-minilm): two aliases of the right answer mean the same; the
answer and that of another question that begins alike do not. Judged as clustering judges them, both directions:

    python bench/equivalence.py [--questions 600] [--nli NAME]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
from pathlib import Path

from sdlg.clustering import cluster_answers
from sdlg.nli import NliModel, load_nli
from sdlg.options import Clustering, Equivalence

DATA = Path(os.environ.get("SDLG_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
Pair = tuple[str, str, str]  # question, answer, other answer


def known_pairs(questions: int) -> tuple[list[Pair], list[Pair]]:
    """(the same, different)."""
    rows = [json.loads(line) for line in (DATA / "triviaqa.jsonl").open(encoding="utf-8")]
    rows = [row for row in rows if row["split"] == "validation"]
    rows = rows[: len(rows) // 2]
    draw = random.Random(0)
    draw.shuffle(rows)
    alike: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        alike.setdefault(" ".join(row["question"].lower().split()[:2]), []).append(row)
    same, different = [], []
    for row in rows[:questions]:
        aliases = sorted(
            {alias for alias in row["aliases"] if alias.isascii() and "(" not in alias and 1 < len(alias) < 40}
        )
        if len({alias.casefold() for alias in aliases}) >= 2:
            one, other = draw.sample(aliases, 2)
            same.append((row["question"], one, other))
        rival = draw.choice(alike[" ".join(row["question"].lower().split()[:2])])
        if rival["id"] != row["id"] and str(rival["answer"]).casefold() not in {a.casefold() for a in row["aliases"]}:
            different.append((row["question"], row["answer"], str(rival["answer"])))
    return same, different


def judged_same(nli: NliModel, pairs: list[Pair], equivalence: Equivalence) -> float:
    """The share of pairs that clustering puts into one cluster."""
    options = Clustering(equivalence=equivalence)
    together = [
        cluster_answers(question, [one, other], nli.judge, options, nli=nli.name).numbers == (0, 0)
        for question, one, other in pairs
    ]
    return sum(together) / len(together)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--nli", default="nli-minilm")
    chosen = parser.parse_args()
    nli = load_nli(chosen.nli)
    same, different = known_pairs(chosen.questions)
    print(f"{len(same)} pairs that mean the same, {len(different)} that do not; shares judged rightly, ± 95 %")
    judged: tuple[Equivalence, ...] = ("strict", "not_contradiction")
    for equivalence in judged:
        kept, split = judged_same(nli, same, equivalence), 1 - judged_same(nli, different, equivalence)
        widths = [1.96 * math.sqrt(p * (1 - p) / n) for p, n in ((kept, len(same)), (split, len(different)))]
        print(
            f"{equivalence:18} same {kept:.1%} ± {widths[0]:.1%}   different {split:.1%} ± {widths[1]:.1%}   "
            f"balanced {(kept + split) / 2:.1%}"
        )


if __name__ == "__main__":
    main()
