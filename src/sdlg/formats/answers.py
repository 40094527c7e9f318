"""Answers that the user brings: rows of JSON in, `MeasureInputs` out, and what was measured back as JSON.

A row holds `question`, optionally `context`, and `answers`: each with `text` and optionally `logprobs` (per token),
`tokens`, `entropies`, `cluster`, `substitution {position}`. A line of `sdlg ask` is such a row, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import BadQuestion
from ..measures import MeasureInputs, inputs_of
from ..measures.base import Array
from ..measures.measuring import Measured
from ..records import Estimate, Question, is_unicode
from .codec import Json, read_samples


@dataclass(frozen=True, slots=True)
class AnswersRow:
    """One line of the input: a question with samples, or what is wrong with it."""

    line: int
    question: Question | None = None
    inputs: MeasureInputs | None = None
    error: str = ""


def read_rows(lines: Iterable[str]) -> Iterator[AnswersRow]:
    """Empty lines are passed over; a bad one is reported, the others are still read."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                question, inputs = parse_row(line)
                yield AnswersRow(number, question, inputs)
            except BadQuestion as error:
                yield AnswersRow(number, error=str(error))


def parse_row(line: str) -> tuple[Question, MeasureInputs]:
    """A row, or `BadQuestion` with what is wrong with it."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadQuestion(f"not valid JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadQuestion("the line is not a JSON object")
    text, context = row.get("question"), row.get("context")
    if not isinstance(text, str) or not isinstance(context, (str, type(None))):
        raise BadQuestion('the row has no "question", or it or its "context" is not a text')
    if not is_unicode(f"{text}{context}"):
        raise BadQuestion("the row holds half a surrogate pair, which is no character")
    answers = row.get("answers", row.get("samples"))
    if not isinstance(answers, list) or not answers:
        raise BadQuestion('the row has no "answers"; give a list of at least one')
    inputs = inputs_of(read_samples(answers))
    evidence = row.get("evidence") or {}
    if not isinstance(evidence, dict):
        raise BadQuestion('"evidence" must be an object')
    try:
        return Question(text, context), replace(inputs, **_evidence(evidence))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadQuestion(f"the evidence does not fit the answers: {error}") from error


def _evidence(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was gathered before, as `evidence_dict` wrote it."""
    if unknown := set(given) - set(_EVIDENCE):
        raise BadQuestion(f"unknown evidence {', '.join(sorted(unknown))}; choose from: {', '.join(_EVIDENCE)}")
    return {name: _EVIDENCE[name](value) for name, value in given.items()}


def _rows(value: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(number) for number in row) for row in value)


def _matrix(value: Any) -> Array:
    matrix = np.array(value, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ValueError("a matrix must be a list of equally long lists of finite numbers")
    return matrix


_EVIDENCE: Mapping[str, Callable[[Any], Any]] = {
    "similarity": _matrix,
    "entailment": _matrix,
    "contradiction": _matrix,
    "embeddings": _matrix,
    "relevance": _rows,
    "other_logprobs": _rows,
    "assessment": lambda value: tuple(float(number) for number in value),
    "p_true": float,
}


def evidence_dict(inputs: MeasureInputs) -> Json:
    """What was computed for the measures, for JSON: with it every one of them can be computed again."""
    values = {name: getattr(inputs, name) for name in _EVIDENCE if getattr(inputs, name) is not None}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def row_dict(row: AnswersRow, measured: Measured) -> Json:
    """What is written for a row: every measure with its value, or with the reason why there is none."""
    assert row.question is not None
    measures = {
        name: {"value": None, "reason": value} if isinstance(value, str) else _estimate(value)
        for name, value in measured.measures.items()
    }
    clusters = measured.inputs.clusters
    shown = None if clusters is None else list(clusters)
    return {"line": row.line, "question": row.question.text, "clusters": shown, "measures": measures}


def _estimate(estimate: Estimate) -> Json:
    return {
        "value": estimate.value,
        "unit": estimate.unit,
        "higher_is_less_certain": estimate.higher_is_less_certain,
        **estimate.options,
    }
