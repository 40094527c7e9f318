"""Evidence for the presets: `default` and `paper` on the same CoQA questions, with the embedded models.

A first measurement, small and with intervals; the experiments proper are a harness of their own. The first question of
each short story of CoQA's development split, in the paper's zero-shot format. Results go to `--out` line by line (start
again to resume); then equivalences and every weighting × likelihood × logarithm are compared on the same sequences.
Correct: the reference stands in the answer, or the answer in the reference, as whole words.

    python bench/presets.py --questions 80 --out runs/presets
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import string
from pathlib import Path
from typing import Any

import numpy as np

import sdlg
from sdlg.clustering import cluster_answers
from sdlg.estimators import semantic
from sdlg.estimators.base import Branching, Samples
from sdlg.options import Clustering

DATA = Path(os.environ.get("SDLG_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
LONGEST_STORY = 1500  # characters


def load(questions: int) -> list[dict[str, Any]]:
    """First turns, shuffled with a fixed seed."""
    rows = [json.loads(line) for line in (DATA / "coqa_dev.jsonl").open(encoding="utf-8")]
    rows = [row for row in rows if len(row["story"]) <= LONGEST_STORY]
    random.Random(0).shuffle(rows)
    return rows[:questions]


def is_correct(answer: str, references: list[str]) -> bool:
    given = _plain(answer)
    wanted = [found for reference in references if (found := _plain(reference))]
    return any(f" {one} " in f" {given} " or (given and f" {given} " in f" {one} ") for one in wanted)


def _plain(text: str) -> str:
    kept = "".join(" " if c in string.punctuation else c for c in text.casefold())
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def generate(preset: str, questions: int, out: Path, pipeline: sdlg.Pipeline) -> list[dict[str, Any]]:
    rows = load(questions)
    out.parent.mkdir(parents=True, exist_ok=True)
    done = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    with out.open("a", encoding="utf-8") as file:
        for row in rows[len(done) :]:
            turn = row["turns"][0]
            result = pipeline.ask(turn["question"], context=row["story"])
            line = {**result.to_dict(), "correct": is_correct(result.answer.text, turn["answers"])}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()[:questions]]


def samples_of(row: dict[str, Any], clusters: tuple[int, ...]) -> Samples:
    answer = row["answer"]["logprobs"]
    branchings = [
        None if (s := sample["substitution"]) is None
        else Branching(float(sum(answer[: s["position"]])), float(np.log(s["importance"])))
        for sample in row["samples"]
    ]  # fmt: skip
    steps = [
        (*sample["logprobs"], *([] if sample["stop_logprob"] is None else [sample["stop_logprob"]]))
        for sample in row["samples"]
    ]
    return Samples(tuple(steps), tuple(range(len(steps))), clusters, tuple(branchings))


def auroc(scores: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any]) -> float:
    """Incorrect is positive; ties count half."""
    positive, negative = scores[wrong], scores[~wrong]
    wins = (positive[:, None] > negative[None]).sum() + 0.5 * (positive[:, None] == negative[None]).sum()
    return float(wins / (len(positive) * len(negative)))


def interval(scores: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any]) -> tuple[float, float]:
    if wrong.all() or not wrong.any():
        raise SystemExit(f"all {len(wrong)} answers are {'wrong' if wrong.all() else 'right'}: AUROC is undefined")
    random_ = np.random.default_rng(0)
    found: list[float] = []
    while len(found) < 1000:
        pick = random_.integers(0, len(scores), len(scores))
        if wrong[pick].any() and not wrong[pick].all():
            found.append(auroc(scores[pick], wrong[pick]))
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def table(preset: str, rows: list[dict[str, Any]], pipeline: sdlg.Pipeline) -> list[str]:
    wrong = np.array([not row["correct"] for row in rows])
    lines = [f"\n### Sequences of the preset `{preset}`: n = {len(rows)}, {wrong.mean():.0%} wrong\n"]
    lines += ["| equivalence, linkage | estimator | AUROC | 95 % interval | clusters |", "|---|---|---|---|---|"]
    for equivalence, linkage in (("strict", "greedy_first"), ("not_contradiction", "last_match")):
        options = Clustering(equivalence, linkage)
        all_samples = []
        for row in rows:
            texts = [sample["text"] for sample in row["samples"]]
            clusters = cluster_answers(texts, lambda pairs, q=row["question"]: pipeline.nli.judge(q, pairs), options)  # type: ignore[misc]
            all_samples.append(samples_of(row, clusters))
        mean_clusters = np.mean([len(set(samples.clusters or ())) for samples in all_samples])
        for name, scores in estimators(all_samples).items():
            low, high = interval(scores, wrong)
            found = f"{auroc(scores, wrong):.3f} | {low:.3f}–{high:.3f} | {mean_clusters:.2f}"
            lines.append(f"| {equivalence}, {linkage} | {name} | {found} |")
    return lines


def estimators(all_samples: list[Samples]) -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, list[float]] = {}
    for samples in all_samples:
        for weighting, likelihood, logarithm in itertools.product(
            ("importance", "branch_mass"), semantic.LIKELIHOODS, semantic.LOGARITHMS
        ):
            if weighting == "branch_mass" and likelihood != "total":
                continue
            masses = semantic.cluster_log_masses(samples, semantic.log_terms(samples, weighting, likelihood))
            found.setdefault(f"{weighting}, {likelihood}, {logarithm}", []).append(
                semantic.LOGARITHMS[logarithm](masses)
            )
        found.setdefault("frequency", []).append(semantic.frequency_entropy(samples))
        found.setdefault("number of clusters", []).append(float(len(set(samples.clusters or ()))))
        found.setdefault("predictive entropy", []).append(semantic.predictive_entropy(samples))
        found.setdefault("LN predictive entropy", []).append(semantic.length_normalised_predictive_entropy(samples))
        found.setdefault("−log p(answer)", []).append(-float(semantic.total_logprobs(samples)[0]))
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=80)
    parser.add_argument("--out", type=Path, default=Path("runs/presets"))
    chosen = parser.parse_args()
    base = sdlg.Pipeline()
    for preset in ("default", "paper"):
        pipeline = sdlg.Pipeline(base.model, base.nli, preset=preset, prompt="plain", max_tokens=24)
        rows = generate(preset, chosen.questions, chosen.out / f"{preset}.jsonl", pipeline)
        seconds = np.mean([sum(row["cost"]["seconds"].values()) for row in rows])
        print("\n".join(table(preset, rows, pipeline)))
        print(f"\n{seconds:.2f} s a question", flush=True)


if __name__ == "__main__":
    main()
