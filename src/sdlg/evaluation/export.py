"""A run as three tidy Parquet tables, for pandas, polars, DuckDB and the like.

questions.parquet   one row per question: the answer, its scores, or why it was skipped
samples.parquet     one row per question × method × sample: text, log-probability, cluster, substitution
measures.parquet    one row per question × method × measure × number of samples: the value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import RunError
from .results import RunResults, load_run

TableRow = dict[str, Any]


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


def _questions(run: RunResults) -> Iterator[TableRow]:
    for name, generated in run.generated.items():
        judged, answer = run.judged.get(name), generated.answer
        scores = judged.scores if judged else {}
        without = (judged.scores_without_stock if judged else None) or {}
        yield {
            "id": name,
            "question": generated.question,
            "answer": answer and answer.text,
            "stop_reason": answer and answer.generation.stop_reason,
            "skipped": generated.skipped or None,
            **{metric: scores.get(metric) for metric in run.metrics},
            **{f"{metric}_without_stock": without.get(metric) for metric in run.metrics if run.has_stock},
        }


def _samples(run: RunResults) -> Iterator[TableRow]:
    for name, generated in run.generated.items():
        for method, sampled in generated.methods.items():
            for number, sample in enumerate(sampled.samples):
                change = sample.substitution
                yield {
                    "id": name,
                    "method": method,
                    "sample": number + 1,
                    "text": sample.text,
                    "logprob": sample.generation.logprob,
                    "tokens": len(sample.generation.token_ids),
                    "stop_reason": sample.generation.stop_reason,
                    "cluster": sample.cluster,
                    "changed": change and change.original,
                    "changed_to": change and change.replacement,
                }


def _measures(run: RunResults) -> Iterator[TableRow]:
    for name, measured in run.measured.items():
        for method, measures in measured.values.items():
            for measure, values in measures.items():
                for count, value in enumerate(values, start=1):
                    yield {"id": name, "method": method, "measure": measure, "samples": count, "value": value}


_TABLES: Mapping[str, Callable[[RunResults], Iterator[TableRow]]] = {
    "questions": _questions,
    "samples": _samples,
    "measures": _measures,
}
