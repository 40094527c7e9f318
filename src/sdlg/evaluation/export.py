"""A run as three tidy Parquet tables, for pandas, polars, DuckDB and the like.

questions.parquet   one row per question: the answer, its scores, or why it was skipped
samples.parquet     one row per question × method × sample: text, log-probability, cluster, substitution
measures.parquet    one row per question × method × measure × number of samples: the value
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..errors import RunError
from .results import RunResults, load_run
from .store import StageRow


def export_run(folder: Path) -> list[Path]:
    """Write the tables beside the run's stores; earlier ones are replaced."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise RunError("Parquet needs the pyarrow package: pip install 'sdlg[eval]'") from error
    run, written = load_run(folder), []
    for name, rows in _TABLES.items():
        path = folder / f"{name}.parquet"
        try:
            parquet.write_table(arrow.Table.from_pylist(list(rows(run))), path)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error}") from error
        written.append(path)
    return written


def _questions(run: RunResults) -> Iterator[StageRow]:
    for name, row in run.generated.items():
        judged = run.judged.get(name, {})
        without = judged.get("scores_without_stock", {})
        answer = row.get("answer", {})
        yield {
            "id": name,
            "question": row["question"],
            "answer": answer.get("text"),
            "stop_reason": answer.get("stop_reason"),
            "skipped": row.get("skipped"),
            **{metric: judged.get("scores", {}).get(metric) for metric in run.metrics},
            **{f"{metric}_without_stock": without.get(metric) for metric in run.metrics if run.has_stock},
        }


def _samples(run: RunResults) -> Iterator[StageRow]:
    for name, row in run.generated.items():
        for method, sampled in row.get("methods", {}).items():
            clusters = run.clustered.get(name, {}).get("methods", {}).get(method, {}).get("clusters")
            for number, sample in enumerate(sampled["samples"]):
                change = sample["substitution"] or {}
                yield {
                    "id": name,
                    "method": method,
                    "sample": number + 1,
                    "text": sample["text"],
                    "logprob": math.fsum([*sample["logprobs"], sample["stop_logprob"] or 0.0]),
                    "tokens": len(sample["token_ids"]),
                    "stop_reason": sample["stop_reason"],
                    "cluster": clusters[number] if clusters else None,
                    "changed": change.get("original"),
                    "changed_to": change.get("replacement"),
                }


def _measures(run: RunResults) -> Iterator[StageRow]:
    for name, row in run.measured.items():
        for method, measures in row["values"].items():
            for measure, values in measures.items():
                for count, value in enumerate(values, start=1):
                    yield {"id": name, "method": method, "measure": measure, "samples": count, "value": value}


_TABLES: Mapping[str, Callable[[RunResults], Iterator[StageRow]]] = {
    "questions": _questions,
    "samples": _samples,
    "measures": _measures,
}
