"""Answers that the user brings: rows of JSON in, `MeasureInputs` out, and what was measured back as JSON.

A row holds `question`, optionally `context`, and `answers`: each with `text` and optionally `logprobs` (per token),
`tokens`, `entropies`, `cluster`, `substitution {position}`. A line of `sdlg ask` is such a row, too.

Rows have limits, because what compares answers takes their number squared and their lengths multiplied: without them
one row could take all memory, or a day.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import BadQuestion
from ..measures import MeasureInputs, inputs_of
from ..measures.base import Array
from ..measures.measuring import Measurements
from ..records import Estimate, Question, is_unicode
from .codec import Json, error_dict, read_samples
from .numbers import SHARE, read_number, read_number_rows, read_numbers, read_table

ROW_CHARACTERS = 8_000_000  # of a line
ANSWERS = 1000  # of a row
ANSWER_LENGTH = 100_000  # characters, tokens or numbers of one answer
LIMITS = f"{ROW_CHARACTERS:,} characters, {ANSWERS:,} answers, {ANSWER_LENGTH:,} characters or tokens in each"


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
    if len(line) > ROW_CHARACTERS:
        raise BadQuestion(f"the row has {len(line):,} characters; a row has at most {LIMITS}")
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
    _check_sizes(answers)
    inputs = inputs_of(read_samples(answers))
    evidence = row.get("evidence") or {}
    if not isinstance(evidence, dict):
        raise BadQuestion('"evidence" must be an object')
    try:
        return Question(text, context), replace(inputs, **_evidence(evidence))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadQuestion(f"the evidence does not fit the answers: {error}") from error


def _check_sizes(answers: list[Any]) -> None:
    """Before anything is made of them."""
    if len(answers) > ANSWERS:
        raise BadQuestion(f"the row has {len(answers):,} answers; a row has at most {LIMITS}")
    for number, answer in enumerate(answers, start=1):
        for name, value in answer.items() if isinstance(answer, dict) else ():
            if isinstance(value, (str, list)) and len(value) > ANSWER_LENGTH:
                raise BadQuestion(f'answer {number} has a "{name}" of {len(value):,}; a row has at most {LIMITS}')


def _evidence(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was gathered before, as `evidence_dict` wrote it."""
    if unknown := set(given) - set(_EVIDENCE):
        raise BadQuestion(f"unknown evidence {', '.join(sorted(unknown))}; choose from: {', '.join(_EVIDENCE)}")
    return {name: _EVIDENCE[name](value, f'"{name}"') for name, value in given.items()}


def _shares(value: Any, what: str) -> Array:
    return np.array(read_table(value, what, *SHARE))


def _cosines(value: Any, what: str) -> Array:
    return np.array(read_table(value, what, -SHARE[1], SHARE[1]))


def _points(value: Any, what: str) -> Array:
    """Measures multiply them with each other."""
    return np.array(read_table(value, what, -_LARGEST_COORDINATE, _LARGEST_COORDINATE))


def _logprobs_of_models(value: Any, what: str) -> tuple[tuple[float, ...], ...]:
    """A model that gives an answer no probability is told as one."""
    return read_number_rows(value, what, -math.inf, 1e-9)


_LARGEST_COORDINATE = 1e100
_EVIDENCE: Mapping[str, Callable[[Any, str], Any]] = {
    "similarity": _cosines,
    "entailment": _shares,
    "embeddings": _points,
    "relevance": lambda value, what: read_number_rows(value, what, *SHARE),
    "other_logprobs": _logprobs_of_models,
    "assessment": lambda value, what: read_numbers(value, what, *SHARE),
    "p_true": lambda value, what: read_number(value, what, *SHARE),
}


def evidence_dict(inputs: MeasureInputs) -> Json:
    """What was computed for the measures, for JSON: with it every one of them can be computed again."""
    values = {name: getattr(inputs, name) for name in _EVIDENCE if getattr(inputs, name) is not None}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def error_row(row: AnswersRow, error: str) -> Json:
    """What is written for a row that could not be scored."""
    return error_dict(row.line, None if row.question is None else row.question.text, error)


def row_dict(row: AnswersRow, measured: Measurements) -> Json:
    """What is written for a row: every measure with its value, or with the reason why there is none."""
    assert row.question is not None
    measures: Json = {name: _estimate(value) for name, value in measured.estimates.items()}
    measures |= {name: {"value": None, "reason": reason} for name, reason in measured.reasons.items()}
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
