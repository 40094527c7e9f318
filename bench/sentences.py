"""Doubt sentence by sentence against what else is on offer, on answers that people judged.

    python bench/sentences.py [--data ../shared/data/long_answers/dev.jsonl] [--limit 40] [--methods ours,multinomial]

The language model reads another model's answers (teacher forcing). Per judged segment, all from the same model and
judge: ours (the share of what contradicts it, the chance to turn to a contradiction at one of its words, the paper's
entropy, 1 − probability found for the own meaning); perplexity, mean and greatest token entropy of its tokens;
multinomial sampling of the sentence from where it begins, as many as our sequences; SelfCheck by NLI with 5 and 10
answers drawn anew. AUROC and average precision for "wrong" with 95 % intervals (answers are resampled), paired
differences to ours, and each method's time as a multiple of reading the answer once. Rows are kept in --out, a line for
each answer and method, with all texts; started again, it goes on. --rows is the same for all methods.
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
from sdlg.records import Prompt, Question, Sentence, StopRule
from sdlg.sampling.request import whole_generation
from sdlg.sampling.sentences import SentenceOfAnswer, sentences_of
from sdlg.scoring.alignment import overlapping, token_spans

OURS = "share that contradicts"
DRAWN, LONGEST_DRAW, RESAMPLED = 10, 160, 2000
Scores = dict[str, float]


def main() -> None:
    """Measure what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/long_answers/dev.jsonl"))
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--nli", default=DEFAULT_NLI)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--out", type=Path, default=Path("sentences.jsonl"))
    parser.add_argument(
        "--rows", type=int, default=0, help="of llama.cpp in a call: 32 is 1.5 times as fast, in other last bits"
    )
    chosen = parser.parse_args()
    rows = [json.loads(line) for line in chosen.data.open(encoding="utf-8")][: chosen.limit]
    methods = chosen.methods.split(",")
    kept = map(json.loads, chosen.out.open()) if chosen.out.exists() else ()
    done = {(row["id"], row["method"]): row for row in kept}
    pipeline = None
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    with chosen.out.open("a", encoding="utf-8") as out:
        for number, row in enumerate(rows):
            for method in methods:
                if (row["id"], method) in done:
                    continue
                pipeline = pipeline or Pipeline(chosen.model, chosen.nli, unit="sentences", batch_rows=chosen.rows)
                read, started = Read(pipeline, row), time.perf_counter()
                scores, texts = METHODS[method](read)
                seconds = {"read": read.seconds, "seconds": time.perf_counter() - started}
                found = {"id": row["id"], "method": method, "segments": scores, **seconds, "texts": texts}
                done[row["id"], method] = found
                out.write(json.dumps(found, ensure_ascii=False) + "\n")
                out.flush()
            print(f"{number + 1}/{len(rows)}", end="\r", flush=True)
    for some in [methods[:count] for count in range(1, len(methods) + 1)]:  # each on the answers that all of them have
        report(rows, done, some)


class Read:
    """An answer, read by the model."""

    def __init__(self, pipeline: Pipeline, row: dict[str, Any]) -> None:
        self.pipeline, self.question, self.text = pipeline, Question(row["question"]), row["answer"].strip()
        model, options = pipeline.models.language_model, pipeline.options
        self.prompt = model.prompt(self.question, options.prompt)
        started = time.perf_counter()
        self.answer = model.read(self.prompt, self.text, alternatives_above=options.min_probability).generations[0]
        self.seconds = time.perf_counter() - started
        self.sentences = sentences_of(model, self.answer, options)
        self.segments = [
            (start := self.text.find(one["text"]), start + len(one["text"]), one["text"]) for one in row["segments"]
        ]

    def over(self, start: int, end: int) -> list[int]:
        """The sentences that a segment lies in."""
        return overlapping((start, end), [(one.start, one.end) for one in self.sentences])


def ours(read: Read) -> tuple[list[Scores], Any]:
    """What `sdlg check` finds, and what the tokens alone tell; with the whole result."""
    result = read.pipeline.check(read.question, read.text)
    spans = token_spans(read.answer.token_ids, read.pipeline.models.language_model.text)
    found = []
    for start, end, _ in read.segments:
        claims = [result.sentences[k] for k in read.over(start, end) if result.sentences[k].clusters]
        tokens = overlapping((start, end), spans)
        entropies = [read.answer.entropies[k] for k in tokens]
        scores = {
            OURS: [one.doubt for one in claims],
            "chance to contradict at a word": [turning(one) for one in claims],
            "entropy": [one.semantic_entropy or 0.0 for one in claims],
            "1 − own mass": [1 - own_mass(one) for one in claims],
            "goes elsewhere": [one.elsewhere.share if one.elsewhere else 0.0 for one in claims],
        }
        found.append(
            {name: max(values, default=0.0) for name, values in scores.items()}
            | {
                "perplexity": -float(np.mean([read.answer.logprobs[k] for k in tokens])),
                "mean token entropy": float(np.mean(entropies)),
                "greatest token entropy": float(np.max(entropies)),
            }
        )
    return found, result.to_dict()


def turning(sentence: Sentence) -> float:
    """The chance that at one of its words the model turns to what contradicts the sentence."""
    return 1.0 - math.prod(1.0 - (word.other_meaning or 0.0) for word in sentence.words)


def multinomial(read: Read) -> tuple[list[Scores], Any]:
    """The share of sentences drawn from the same beginning that say something else; with those sentences."""
    options = read.pipeline.options
    claims = {k: one for k, one in enumerate(read.sentences) if one.kind == "claim"}
    as_many = options.sentence_samples + options.draws - 1  # as our sequences
    drawn = dict(zip(claims, draw_sentences(read, list(claims.values()), as_many), strict=True))
    shares = {k: other_share(read, claims[k], texts) for k, texts in drawn.items()}
    found = [max((shares[k] for k in read.over(*place[:2]) if k in shares), default=0.0) for place in read.segments]
    return [{"multinomial": value} for value in found], drawn


def selfcheck(read: Read) -> tuple[list[Scores], Any]:
    """How much answers drawn anew contradict a segment; with those answers."""
    drawn, nli = draw_answers(read.pipeline, read.prompt), read.pipeline.models.nli
    found = []
    for _, _, text in read.segments:
        judged = nli.judge("", [(one, text) for one in drawn]).probabilities
        against = [p.contradiction / max(p.contradiction + p.entailment, 1e-9) for p in judged]
        found.append({"SelfCheck-5": float(np.mean(against[:5])), "SelfCheck-10": float(np.mean(against))})
    return found, drawn


METHODS = {"ours": ours, "multinomial": multinomial, "selfcheck": selfcheck}


def own_mass(sentence: Sentence) -> float:
    """The probability found for the sentence's own meaning."""
    first = math.exp(min(sentence.samples[0].generation.logprob, 0.0))
    branches = [s.branching for s in sentence.samples[1:] if s.cluster == 0 and s.branching]
    return float(min(first + math.fsum(math.exp(one.shared_logprob) * one.mass for one in branches), 1.0))


def draw_sentences(
    read: Read, claims: list[SentenceOfAnswer], count: int, seed: int = 1, *, after_matter: bool = False
) -> list[list[str]]:
    """So many draws for each sentence, from where it begins or from where it is measured, all of them side by side."""
    model, options = read.pipeline.models.language_model, read.pipeline.options
    begun = [read.answer.token_ids[one.tokens.start :][: one.given if after_matter else 0] for one in claims]
    requests = [
        DecodeRequest(
            replace(
                read.prompt,
                said=read.answer.token_ids[: one.tokens.start],
                stop=read.prompt.stop | StopRule(one_sentence=True),
            ),
            [beginning] * count,
            replace(options.decoding, strategy="multinomial", max_tokens=2 * len(one.tokens) + 16),
            seed,
        )
        for one, beginning in zip(claims, begun, strict=True)
    ]
    return [
        [model.text((*beginning, *one.token_ids)).strip() for one in each.continuations]
        for beginning, each in zip(begun, model.decode_all(requests), strict=True)
    ]


def other_share(read: Read, one: SentenceOfAnswer, texts: list[str]) -> float:
    """The share of drawn sentences with another meaning; clusters as of answers."""
    judge, asked = read.pipeline.models.nli, one.asked(read.question).text
    clustering = read.pipeline.options.clustering
    numbers = cluster_answers(asked, [one.text, *texts], judge.judge, clustering, nli=judge.name).numbers
    return sum(number != 0 for number in numbers[1:]) / len(texts)


def draw_answers(pipeline: Pipeline, prompt: Prompt) -> list[str]:
    """Answers drawn anew, for SelfCheck."""
    model = pipeline.models.language_model
    decoding = replace(pipeline.options.decoding, strategy="multinomial", max_tokens=LONGEST_DRAW)
    grown = model.decode(DecodeRequest(prompt, [()] * DRAWN, decoding, seed=2)).continuations
    return [whole_generation(model, one).text for one in grown]


def report(rows: list[dict[str, Any]], done: dict[tuple[str, str], dict[str, Any]], methods: list[str]) -> None:
    """Print AUROC, average precision, the paired difference to ours, and times."""
    rows = [row for row in rows if all((row["id"], method) in done for method in methods)]
    if not rows:
        return
    parts = {method: [done[row["id"], method] for row in rows] for method in methods}
    owner = np.array([k for k, row in enumerate(rows) for _ in row["segments"]])
    wrong = np.array([not one["right"] for row in rows for one in row["segments"]])
    scores = {
        name: np.array([one[name] for part in found for one in part["segments"]])
        for found in parts.values()
        for name in found[0]["segments"][0]
    }
    names = list(scores)
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
        paired = ""
        if OURS in auroc and name != OURS:
            less = roc_auc_score(wrong, scores[OURS]) - value
            least, most = np.quantile(np.array(auroc[OURS]) - np.array(auroc[name]), [0.025, 0.975])
            paired = f"ours less it {less:+.3f} [{least:+.3f}, {most:+.3f}]"
        print(f"{name:30} AUROC {value:.3f} [{low:.3f}, {high:.3f}]  AP {precision:.3f}  {paired}")
    for method, found in parts.items():
        times = sum(part["seconds"] for part in found) / sum(part["read"] for part in found)
        print(f"{method}: {times:.1f} times reading the answer once")
        if method != "ours" and "ours" in parts:
            print(f"ours takes {clock_ratio(parts['ours'], found)} of its time, by the clock")


def clock_ratio(ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
    """Return the time of one method over that of another for the same answers, with its interval by answer."""
    seconds = np.array([[one["seconds"], other["seconds"]] for one, other in zip(ours, others, strict=True)])
    picks = np.random.default_rng(0).integers(len(seconds), size=(RESAMPLED, len(seconds)))
    sums, drawn = seconds.sum(axis=0), seconds[picks].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return f"{sums[0] / sums[1]:.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()
