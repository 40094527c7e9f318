"""Doubt sentence by sentence against what else is on offer, on answers that people judged.

    python bench/sentences.py [--data ../shared/data/long_answers/dev.jsonl] [--model NAME] [--limit 40] [--out FILE]

The language model reads another model's answers (teacher forcing). Per judged segment, all from the same model and
judge: ours (1 − share of the own meaning, the paper's entropy, 1 − probability found for the own meaning); perplexity,
mean and greatest token entropy of its tokens; multinomial sampling of the sentence from the same prefix; SelfCheck by
NLI with 5 and 10 answers drawn anew. AUROC and average precision for "wrong" with 95 % intervals (answers are
resampled), paired differences to ours, and each method's time as a multiple of reading the answer once. Rows are kept
in --out; started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from sdlg import Pipeline
from sdlg.clustering import cluster_answers
from sdlg.models.base import DecodeRequest
from sdlg.options import DEFAULT_MODEL, DEFAULT_NLI
from sdlg.records import Generation, Prompt, Question, Sentence, StopRule
from sdlg.sampling.request import whole_generation
from sdlg.sampling.sentences import SentenceOfAnswer, sentences_of
from sdlg.scoring.alignment import token_spans

OURS = "1 − own share"
DRAWN, LONGEST_DRAW, RESAMPLED = 10, 160, 2000


def main() -> None:
    """Measure what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/long_answers/dev.jsonl"))
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--nli", default=DEFAULT_NLI)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path, default=Path("sentences.jsonl"))
    chosen = parser.parse_args()
    rows = [json.loads(line) for line in chosen.data.open(encoding="utf-8")][: chosen.limit]
    done = {row["id"]: row for row in map(json.loads, chosen.out.open())} if chosen.out.exists() else {}
    pipeline = None
    with chosen.out.open("a", encoding="utf-8") as out:
        for row in rows:
            if row["id"] not in done:
                pipeline = pipeline or Pipeline(chosen.model, chosen.nli, unit="sentences")
                done[row["id"]] = measured(pipeline, row)
                out.write(json.dumps(done[row["id"]], ensure_ascii=False) + "\n")
                out.flush()
                print(f"{len(done)}/{len(rows)}", end="\r", flush=True)
    report([done[row["id"]] for row in rows])


def measured(pipeline: Pipeline, row: dict[str, Any]) -> dict[str, Any]:
    """Every score of every segment of one answer, and the seconds of each method."""
    question, text = Question(row["question"]), row["answer"].strip()
    model, options = pipeline.models.language_model, pipeline.options
    prompt = model.prompt(question, options.prompt)
    started = time.perf_counter()
    answer = model.read(prompt, text, alternatives_above=options.min_probability).generations[0]
    seconds = {"read": time.perf_counter() - started}
    started = time.perf_counter()
    result = pipeline.check(question, text)
    seconds["ours"] = time.perf_counter() - started
    cut = sentences_of(model, answer, options)
    spans = token_spans(answer.token_ids, model.text)
    started = time.perf_counter()
    sampled = {
        k: multinomial(pipeline, prompt, answer, one, question) for k, one in enumerate(cut) if one.kind == "claim"
    }
    seconds["multinomial"] = time.perf_counter() - started
    started = time.perf_counter()
    drawn = draw_answers(pipeline, prompt)
    seconds["draws"] = time.perf_counter() - started
    segments = []
    for segment in row["segments"]:
        start = text.find(segment["text"])
        end = start + len(segment["text"])
        mine = [k for k, one in enumerate(result.sentences) if one.start < end and one.end > start]
        tokens = [k for k, span in enumerate(spans) if span[0] < end and span[1] > start]
        claims = [result.sentences[k] for k in mine if result.sentences[k].clusters]
        steps, entropies = [answer.logprobs[k] for k in tokens], [answer.entropies[k] for k in tokens]
        started = time.perf_counter()
        judged = pipeline.models.nli.judge("", [(one, segment["text"]) for one in drawn]).probabilities
        seconds["selfcheck"] = seconds.get("selfcheck", 0.0) + time.perf_counter() - started
        against = [p.contradiction / max(p.contradiction + p.entailment, 1e-9) for p in judged]
        segments.append(
            {
                "wrong": not segment["right"],
                OURS: max((one.doubt for one in claims), default=0.0),
                "entropy": max((one.semantic_entropy or 0.0 for one in claims), default=0.0),
                "1 − own mass": max((1 - own_mass(one) for one in claims), default=0.0),
                "perplexity": -float(np.mean(steps)),
                "mean token entropy": float(np.mean(entropies)),
                "greatest token entropy": float(np.max(entropies)),
                "multinomial": max((sampled[k] for k in mine if k in sampled), default=0.0),
                "SelfCheck-5": float(np.mean(against[:5])),
                "SelfCheck-10": float(np.mean(against)),
            }
        )
    return {"id": row["id"], "segments": segments, "seconds": seconds, "sentences": len(cut)}


def own_mass(sentence: Sentence) -> float:
    """The probability found for the sentence's own meaning."""
    first = math.exp(min(sentence.samples[0].generation.logprob, 0.0))
    branches = [s.branching for s in sentence.samples[1:] if s.cluster == 0 and s.branching]
    return float(min(first + math.fsum(math.exp(one.shared_logprob) * one.mass for one in branches), 1.0))


def multinomial(
    pipeline: Pipeline, prompt: Prompt, answer: Generation, one: SentenceOfAnswer, question: Question
) -> float:
    """The share of sentences drawn from the same beginning that say something else; as many as our sequences."""
    model, options = pipeline.models.language_model, pipeline.options
    own = replace(prompt, said=answer.token_ids[: one.tokens.start], stop=prompt.stop | StopRule(one_sentence=True))
    decoding = replace(options.decoding, strategy="multinomial", max_tokens=2 * len(one.tokens) + 16)
    count = options.sentence_samples + options.draws - 1
    grown = model.decode(DecodeRequest(own, [()] * count, decoding, seed=1)).continuations
    texts = [one.text, *(whole_generation(model, each).text for each in grown)]
    judge = pipeline.models.nli
    numbers = cluster_answers(one.asked(question).text, texts, judge.judge, options.clustering, nli=judge.name).numbers
    return sum(number != 0 for number in numbers[1:]) / count


def draw_answers(pipeline: Pipeline, prompt: Prompt) -> list[str]:
    """Answers drawn anew, for SelfCheck."""
    model = pipeline.models.language_model
    decoding = replace(pipeline.options.decoding, strategy="multinomial", max_tokens=LONGEST_DRAW)
    grown = model.decode(DecodeRequest(prompt, [()] * DRAWN, decoding, seed=2)).continuations
    return [whole_generation(model, one).text for one in grown]


def report(rows: list[dict[str, Any]]) -> None:
    """Print AUROC, average precision, the paired difference to ours, and times."""
    names = [name for name in rows[0]["segments"][0] if name != "wrong"]
    owner = np.array([k for k, row in enumerate(rows) for _ in row["segments"]])
    wrong = np.array([one["wrong"] for row in rows for one in row["segments"]])
    scores = {name: np.array([one[name] for row in rows for one in row["segments"]]) for name in names}
    random = np.random.default_rng(0)
    picks: list[np.ndarray] = []
    while len(picks) < RESAMPLED:
        answers = random.integers(len(rows), size=len(rows))
        pick = np.concatenate([np.flatnonzero(owner == k) for k in answers])
        if 0 < wrong[pick].sum() < len(pick):
            picks.append(pick)
    print(f"{len(rows)} answers, {len(wrong)} segments, {wrong.sum()} wrong")
    auroc = {name: [roc_auc_score(wrong[pick], scores[name][pick]) for pick in picks] for name in names}
    for name in names:
        value, precision = roc_auc_score(wrong, scores[name]), average_precision_score(wrong, scores[name])
        low, high = np.quantile(auroc[name], [0.025, 0.975])
        less = np.array(auroc[OURS]) - np.array(auroc[name])
        paired = f"ours less it {np.mean(less):+.3f} [{np.quantile(less, 0.025):+.3f}, {np.quantile(less, 0.975):+.3f}]"
        print(
            f"{name:24} AUROC {value:.3f} [{low:.3f}, {high:.3f}]  AP {precision:.3f}  {'' if name == OURS else paired}"
        )
    total = {name: sum(row["seconds"][name] for row in rows) for name in rows[0]["seconds"]}
    for name, spent in (
        ("ours", total["ours"]),
        ("multinomial", total["multinomial"]),
        ("SelfCheck-10", total["draws"] + total["selfcheck"]),
    ):
        print(f"{name}: {spent / total['read']:.1f} times reading the answer once")


if __name__ == "__main__":
    main()
