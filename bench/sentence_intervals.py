"""Do the intervals of a sentence's share hold the truth?

    python bench/sentence_intervals.py [--model smollm2] [--sentences 40] [--draws 200]

The model answers in several sentences; each gets its share and interval as `sdlg ask` shows them. Truth: of many
independent draws at temperature 1 from where the sentence is measured, the share that says the same among those that
say the same or contradict it, by the same judge. Likewise for the share of all draws that goes elsewhere. Rows are kept
in --out; started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sdlg import Pipeline
from sdlg.clustering.matters import relate
from sdlg.measures.shares import wilson
from sdlg.options import DEFAULT_NLI, SMOLLM2
from sentences import Read, draw_sentences

SUBJECTS = (
    "Marie Curie", "Rome", "the Moon", "Beethoven", "whales", "the Second World War", "coffee", "Albert Einstein",
    "the Amazon river", "chess", "penicillin", "Mount Everest", "William Shakespeare", "volcanoes", "Egypt",
)  # fmt: skip
AT_ONCE = 50  # draws of a sentence
FEWEST = 20  # draws on the matter, to call a share the truth


def main() -> None:
    """Measure what is not there yet, and print how often the intervals hold the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument("--rows", type=int, default=32, help="of llama.cpp in a call: fewer are slower")
    parser.add_argument("--out", type=Path, default=Path("sentence_intervals.jsonl"))
    chosen = parser.parse_args()
    rows = [json.loads(line) for line in chosen.out.open(encoding="utf-8")] if chosen.out.exists() else []
    subjects = [subject for subject in SUBJECTS if subject not in {row["subject"] for row in rows}]
    with (
        Pipeline(
            chosen.model, DEFAULT_NLI, unit="sentences", max_tokens=chosen.max_tokens, batch_rows=chosen.rows
        ) as pipeline,
        chosen.out.open("a", encoding="utf-8") as out,
    ):
        for subject in subjects:
            if len(rows) >= chosen.sentences:
                break
            for row in measured(pipeline, subject, chosen.draws):
                rows.append(row)
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                out.flush()
            print(f"{len(rows)}/{chosen.sentences}", end="\r", flush=True)
    report(rows[: chosen.sentences])


def measured(pipeline: Pipeline, subject: str, draws: int) -> list[dict[str, Any]]:
    """For each sentence of one answer: what is shown, and what many draws say."""
    result = pipeline.ask(f"Tell me about {subject}.")
    read = Read(pipeline, {"question": f"Tell me about {subject}.", "answer": result.answer.text, "segments": []})
    shown = {one.start: one for one in result.sentences if one.clusters}
    claims = [one for one in read.sentences if one.start in shown]
    parts = [draw_sentences(read, claims, AT_ONCE, seed, after_matter=True) for seed in range(draws // AT_ONCE)]
    rows = []
    for claim, texts in zip(claims, (list(chain(*each)) for each in zip(*parts, strict=True)), strict=True):
        relations = relate(
            claim.text, texts, pipeline.models.nli.judge,
            about=claim.text[: claim.measured_from], asked=claim.asked(read.question).text, nli=DEFAULT_NLI,
        ).relations  # fmt: skip
        one, elsewhere = shown[claim.start], shown[claim.start].elsewhere
        own = next(cluster for cluster in one.clusters if cluster.id == 0)
        rows.append(
            {
                "subject": subject,
                "sentence": claim.text,
                **{relation: relations.count(relation) for relation in ("agrees", "contradicts", "elsewhere")},
                "own": [own.probability, own.low, own.high],
                "goes elsewhere": [elsewhere.probability, elsewhere.low, elsewhere.high] if elsewhere else [0, 0, 1],
            }
        )
    return rows


def report(rows: list[dict[str, Any]]) -> None:
    """Print, for both shares, how often the interval holds the truth, how far off the share is, and how wide it is."""
    for name, hits, of in (
        ("own", ("agrees",), ("agrees", "contradicts")),
        ("goes elsewhere", ("elsewhere",), ("agrees", "contradicts", "elsewhere")),
    ):
        told = [row for row in rows if sum(row[kind] for kind in of) >= FEWEST and row[name][1] is not None]
        truths = [sum(row[kind] for kind in hits) / sum(row[kind] for kind in of) for row in told]
        trials = [sum(row[kind] for kind in of) for row in told]
        share, low, high = np.array([row[name] for row in told], dtype=float).T
        truth = np.array(truths)
        held = (low - 0.005 <= truth) & (truth <= high + 0.005)
        spans = np.array([wilson(value * n, n) for value, n in zip(truths, trials, strict=True)])
        clearly_missed = (spans[:, 1] < low) | (spans[:, 0] > high)
        print(
            f"{name}: {len(told)} of {len(rows)} sentences with {FEWEST} and more draws on the matter; the interval "
            f"holds the truth in {held.sum()}, misses the truth's own interval in {clearly_missed.sum()}; mean error "
            f"{np.mean(abs(share - truth)):.3f}, bias {np.mean(share - truth):+.3f}, width {np.mean(high - low):.2f}"
        )


if __name__ == "__main__":
    main()
