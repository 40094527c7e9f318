"""A language model as the judge of meaning: on judged answers, alone, beside the encoder, and for unsure pairs only.

    python bench/asked_judge.py --data ../shared/data/judged_answers --out asked.jsonl [--fit 120 --tell 240]

It is asked "Do both answers give the same answer …? Yes or No" in both orders; its score is the mean log-odds of Yes.
Thresholds and weights are fitted on pairs of train that no judge was trained on, and told on dev. Resumed where it
stopped: seconds a pair.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from sdlg.clustering.same_answer import fitted_same_answer
from sdlg.evaluation.same_answer_fit import JudgedPair, balanced_accuracy, is_held_out, judged_pairs, read_rows
from sdlg.models import load_model
from sdlg.models.base import DecodeRequest, LanguageModel
from sdlg.nli import load_nli
from sdlg.options import DEFAULT_MODEL, DEFAULT_NLI, Decoding
from sdlg.records import Question

UNSURE_SHARE = 0.2  # of the pairs, about which the language model is asked
RESAMPLES = 2000


def log_odds(model: LanguageModel, question: str, one: str, other: str) -> float:
    """Of Yes against No at the first token."""
    text = (
        f"Question: {question}\nAnswer 1: {one}\nAnswer 2: {other}\nDo both answers give the same answer to the "
        "question? Ignore extra details that the question does not ask for. Reply with Yes or No."
    )
    prompt = model.prompt(Question(text), "auto")
    said = model.decode(DecodeRequest(prompt, [()], Decoding(max_tokens=1), alternatives_above=1e-7)).continuations[0]
    masses = {"yes": 1e-7, "no": 1e-7}
    for option in said.alternatives[0]:
        word = model.text([option.token_id]).strip().casefold()
        if word in masses:
            masses[word] += math.exp(option.logprob)
    return math.log(masses["yes"] / masses["no"])


def chosen_pairs(file: Path, count: int, *, held_out: bool) -> list[JudgedPair]:
    """As many pairs of each source, and of the same and the different; a question's stand together."""
    rows = [row for row in read_rows(file) if not held_out or is_held_out(str(row["id"]))]
    pairs, left = [], {(source, same): count // 4 for source in ("nq", "tq") for same in (True, False)}
    for pair in judged_pairs(rows, most_same=1, most_different=1):
        if left[pair.source, pair.same]:
            left[pair.source, pair.same] -= 1
            pairs.append(pair)
    return pairs


def ask(pairs: list[JudgedPair], part: str, out: Path, model_name: str) -> list[dict[str, object]]:
    """What both judges say of each pair, from the file or asked now."""
    rows = [row for row in (read_rows(out) if out.exists() else []) if row["part"] == part]
    model, nli = load_model(model_name), load_nli(DEFAULT_NLI)
    fitted = fitted_same_answer(nli.name)
    with out.open("a", encoding="utf-8") as file:
        for pair in pairs[len(rows) :]:
            forward, backward = nli.judge(pair.question, [(pair.one, pair.other), (pair.other, pair.one)]).probabilities
            chance = fitted.probability(pair.question, pair.one, pair.other, forward, backward)
            started = time.perf_counter()
            asked = [log_odds(model, pair.question, *two) for two in ((pair.one, pair.other), (pair.other, pair.one))]
            row = {
                "part": part, "group": pair.group, "source": pair.source, "same": pair.same,
                "encoder": math.log(chance / (1 - chance)), "encoder_same": chance >= fitted.threshold,
                "asked": float(np.mean(asked)), "seconds": time.perf_counter() - started,
            }  # fmt: skip
            rows.append(row)
            print(json.dumps(row), file=file, flush=True)
    return rows


def interval(values: np.ndarray, other: np.ndarray, same: np.ndarray, groups: np.ndarray) -> str:
    """Balanced accuracy less that of another judge, with its interval by questions."""
    random, names = np.random.default_rng(0), np.unique(groups)
    places = {name: np.flatnonzero(groups == name) for name in names}
    draws = []
    for _ in range(RESAMPLES):
        k = np.concatenate([places[name] for name in random.choice(names, len(names))])
        draws.append(balanced_accuracy(values[k], same[k]) - balanced_accuracy(other[k], same[k]))
    value = balanced_accuracy(values, same) - balanced_accuracy(other, same)
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return f"{value:+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    """Ask, fit on one part, tell on the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/judged_answers"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--fit", type=int, default=120)
    parser.add_argument("--tell", type=int, default=240)
    chosen = parser.parse_args()
    tell = ask(chosen_pairs(chosen.data / "dev.jsonl", chosen.tell, held_out=False), "tell", chosen.out, chosen.model)
    fit = ask(chosen_pairs(chosen.data / "train.jsonl", chosen.fit, held_out=True), "fit", chosen.out, chosen.model)

    def column(rows: list[dict[str, object]], name: str) -> np.ndarray:
        return np.array([row[name] for row in rows])

    def fitted(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        tables = [np.stack([column(rows, name) for name in names], axis=1) for rows in (fit, tell)]
        model = LogisticRegression(class_weight="balanced").fit(tables[0], column(fit, "same"))
        return model.predict(tables[1]), model.decision_function(tables[1])

    same, groups, source = column(tell, "same"), column(tell, "group"), column(tell, "source")
    encoder = column(tell, "encoder_same")
    (asked, asked_score), (both, both_score) = fitted(["asked"]), fitted(["asked", "encoder"])
    unsure = np.argsort(np.abs(column(tell, "encoder")))[: round(UNSURE_SHARE * len(tell))]
    mixed = encoder.copy()
    mixed[unsure] = both[unsure]
    print(f"{len(fit)} pairs to fit on, {len(tell)} to tell; {np.median(column(tell, 'seconds')):.1f} s a pair")
    scores = {"encoder": column(tell, "encoder"), "asked": asked_score, "both": both_score}
    for name in ("nq", "tq"):
        k = source == name
        areas = (f"{label} {roc_auc_score(same[k], score[k]):.3f}" for label, score in scores.items())
        print(f"{name}: AUROC {', '.join(areas)}; balanced: encoder {balanced_accuracy(encoder[k], same[k]):.3f}")
        for label, verdicts in (("asked", asked), ("both", both), ("asked where unsure", mixed)):
            less = interval(verdicts[k], encoder[k], same[k], groups[k])
            print(f"    {label} {balanced_accuracy(verdicts[k], same[k]):.3f}, less the encoder {less}")
    print("all, less the encoder:")
    for label, verdicts in (("asked", asked), ("both", both), ("asked where unsure", mixed)):
        print(f"    {label} {interval(verdicts, encoder, same, groups)}")


if __name__ == "__main__":
    main()
