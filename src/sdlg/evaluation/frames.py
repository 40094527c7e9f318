"""A run as four tidy tables: what reports and exports are made from, and the only readers of its rows.

In: `RunResults`. Out: pandas DataFrames. Undefined values are NaN.

questions   one row per question: the answer, its scores, what it cost, or why it was skipped
samples     one row per question × method × sample: text, log-probability, cluster, substitution
costs       one row per question × method: tokens through the language model, seconds
measures    one row per method × measure × question, one column per number of samples (1 … N)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from .results import RunResults
from .store import ANSWER, CLUSTERS, GeneratedRow

Row = dict[str, Any]


def stage_counts(run: RunResults) -> dict[str, int]:
    """Return how many questions passed each stage."""
    generated = run.generated.keys() - run.skipped.keys()
    stages = {"generated": generated, "measured": run.measured, "judged": run.judged}
    return {name: len(rows) for name, rows in stages.items()}


def questions_frame(run: RunResults) -> pd.DataFrame:
    """Return all questions of a run, skipped and unfinished ones included."""
    return pd.DataFrame([_question(run, name, generated) for name, generated in run.generated.items()])


def _question(run: RunResults, name: str, generated: GeneratedRow) -> Row:
    answer, judged = generated.answer, run.judged.get(name)
    scores = judged.scores if judged else {}
    without = (judged.scores_without_stock if judged else None) or {}
    return {
        "id": name,
        "question": generated.question,
        "answer": answer.text if answer else None,
        "stop_reason": answer.generation.stop_reason if answer else None,
        "skipped": generated.skipped or None,
        "prompt_tokens": generated.cost.prompt_tokens,
        "answer_tokens": generated.cost.forward_tokens,
        "answer_seconds": generated.seconds.get(ANSWER, np.nan),
        "nli_pairs": generated.nli_pairs if answer else np.nan,
        "cluster_seconds": generated.seconds.get(CLUSTERS, np.nan),
        **{metric: scores.get(metric, np.nan) for metric in run.metrics},
        **{f"{metric}_without_stock": without.get(metric, np.nan) for metric in run.metrics if run.has_stock},
    }


def samples_frame(run: RunResults) -> pd.DataFrame:
    """Return all samples of a run, in the order in which they were drawn."""
    return pd.DataFrame([row for name, generated in run.generated.items() for row in _samples(name, generated)])


def _samples(name: str, generated: GeneratedRow) -> Iterator[Row]:
    for method, sampled in generated.methods.items():
        pairs = generated.pairs[method]
        for place, sample in enumerate(sampled.samples):
            change, logprobs = sample.substitution, sample.generation.decision_logprobs
            yield {
                "id": name,
                "method": method,
                "sample": place + 1,
                "text": sample.text,
                "logprob": sample.generation.logprob,
                "likelihood": np.exp(np.mean(logprobs)) if logprobs else np.nan,  # geometric mean over decisions
                "tokens": len(sample.generation.token_ids),
                "decisions": len(logprobs),  # the ending included
                "stop_reason": sample.generation.stop_reason,
                "position": -1 if change is None else change.position,  # of the substitution; −1: none
                "changed": change.original if change else None,
                "changed_to": change.replacement if change else None,
                "cluster": sample.cluster,
                "distinct": pairs.distinct[place],  # the number of its text
                "asked_pairs": pairs.asked(place + 1),  # of all samples up to it
            }


def costs_frame(run: RunResults) -> pd.DataFrame:
    """Return what each method's samples of each question cost."""
    rows = [
        {
            "id": name,
            "method": method,
            "forward_tokens": sampled.cost.forward_tokens,
            "seconds": generated.seconds.get(method, np.nan),
        }
        for name, generated in run.generated.items()
        for method, sampled in generated.methods.items()
    ]
    return pd.DataFrame(rows, columns=["id", "method", "forward_tokens", "seconds"])


def measures_frame(run: RunResults) -> pd.DataFrame:
    """Return all values, indexed by method, measure (as stored) and question; column n is of the first n samples."""
    values = {
        (method, measure, name): curve
        for name, measured in run.measured.items()
        for method, measures in measured.values.items()
        for measure, curve in measures.items()
    }
    index = pd.MultiIndex.from_tuples(values.keys(), names=["method", "measure", "id"])
    numbers = np.array(list(values.values()), dtype=np.float64).reshape(len(values), run.samples)
    return pd.DataFrame(numbers, index=index, columns=pd.RangeIndex(1, run.samples + 1, name="samples")).sort_index()
