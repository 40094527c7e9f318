"""Answers that the user brings: rows of JSON in, `MeasureInputs` out, and what was measured back as JSON.

A row holds `question`, optionally `context`, and `answers`: each with `text` and optionally `logprobs` (per token),
`tokens`, `entropies`, `cluster`, `substitution {position}`. A `sdlg.result/2` line is such a row, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import BadQuestion
from ..measures.base import Array, Branching, MeasureInputs
from ..records import Estimate, Question, is_unicode

_LOWEST = 1e300  # log-probabilities below −this are not numbers any more


@dataclass(frozen=True, slots=True)
class AnswersRow:
    """One line of the input: a question with samples, or what is wrong with it."""

    line: int
    question: Question | None = None
    samples: MeasureInputs | None = None
    error: str = ""


def read_rows(lines: Iterable[str]) -> Iterator[AnswersRow]:
    """Empty lines are passed over; a bad one is reported, the others are still read."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                question, samples = parse_row(line)
                yield AnswersRow(number, question, samples)
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
    samples = samples_from(answers)
    evidence = row.get("evidence") or {}
    if not isinstance(evidence, dict):
        raise BadQuestion('"evidence" must be an object')
    try:
        return Question(text, context), replace(samples, **_evidence(evidence))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadQuestion(f"the evidence does not fit the answers: {error}") from error


def _evidence(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was gathered before, as `evidence_of` wrote it."""
    if unknown := set(given) - set(_EVIDENCE):
        raise BadQuestion(f"unknown evidence {', '.join(sorted(unknown))}; choose from: {', '.join(_EVIDENCE)}")
    return {name: _EVIDENCE[name](value) for name, value in given.items()}


def _rows(value: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(number) for number in row) for row in value)


def _matrix(value: Any) -> Array:
    return np.array(value, dtype=np.float64)


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


def inputs_dict(samples: MeasureInputs) -> dict[str, Any]:
    """What was gathered for the measures, for JSON: with it every one of them can be computed again."""
    found = {name: getattr(samples, name) for name in _EVIDENCE if getattr(samples, name) is not None}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}


def samples_from(answers: list[Any]) -> MeasureInputs:
    """Every field that all answers have; one that only some have is as good as unknown."""
    for number, answer in enumerate(answers, start=1):
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise BadQuestion(f'answer {number} has no "text"')
    texts = tuple(answer["text"] for answer in answers)
    if not all(map(is_unicode, texts)):
        raise BadQuestion("an answer holds half a surrogate pair, which is no character")
    ids = _of_all([answer.get("token_ids") for answer in answers])
    steps = _of_all([_logprobs(number, answer) for number, answer in enumerate(answers, start=1)])
    tokens = _of_all([_tokens(number, answer) for number, answer in enumerate(answers, start=1)])
    labels = [answer.get("cluster") for answer in answers]
    clusters = None if any(label is None for label in labels) else _numbered(labels)
    branchings = None
    if steps is not None and any(answer.get("substitution") for answer in answers):
        branchings = tuple(
            _branching(number, answer, own)
            for number, (answer, own) in enumerate(zip(answers, steps, strict=True), start=1)
        )
    entropies = _of_all([_entropies(number, answer) for number, answer in enumerate(answers, start=1)])
    return MeasureInputs(
        logprobs=steps,
        identities=texts if ids is None else tuple(map(str, ids)),
        clusters=clusters,
        branchings=branchings,
        texts=texts,
        tokens=tokens,
        token_entropies=entropies,
    )


def _of_all(values: list[Any]) -> tuple[Any, ...] | None:
    return None if any(value is None for value in values) else tuple(values)


def _logprobs(number: int, answer: Mapping[str, Any]) -> tuple[float, ...] | None:
    found = answer.get("logprobs")
    if found is None:
        return None
    if not isinstance(found, list) or not all(_is_number(value) for value in found):
        raise BadQuestion(f'answer {number}: "logprobs" must be a list of numbers')
    ending = answer.get("stop_logprob")
    if ending is not None and not _is_number(ending):
        raise BadQuestion(f'answer {number}: "stop_logprob" must be a number')
    every = [*found, *([] if ending is None else [ending])]
    for value in every:
        if not -_LOWEST <= value <= 1e-9:  # NaN fails, too
            raise BadQuestion(f"answer {number}: {value} is not a log-probability (they are at most 0)")
    if not every:  # as in the results of a server that tells none
        return None
    return tuple(min(float(value), 0.0) for value in every)


def _entropies(number: int, answer: Mapping[str, Any]) -> tuple[float, ...] | None:
    found = answer.get("entropies")
    if not found:
        return None
    if not isinstance(found, list) or not all(_is_number(value) and 0 <= value + 1e-6 < math.inf for value in found):
        raise BadQuestion(f'answer {number}: "entropies" must be a list of numbers that are at least 0')
    steps = _logprobs(number, answer)
    if steps is not None and len(steps) != len(found):
        raise BadQuestion(f"answer {number}: {len(found)} entropies but {len(steps)} log-probabilities")
    return tuple(float(value) for value in found)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _tokens(number: int, answer: Mapping[str, Any]) -> tuple[str, ...] | None:
    found = answer.get("tokens")
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(token, str) for token in found):
        raise BadQuestion(f'answer {number}: "tokens" must be a list of texts')
    if len(found) != len(answer.get("logprobs") or found):
        raise BadQuestion(f"answer {number}: {len(found)} tokens but {len(answer['logprobs'])} log-probabilities")
    return tuple(found)


def _numbered(labels: list[Any]) -> tuple[int, ...]:
    """Clusters may have any labels; they are numbered by first appearance."""
    try:
        numbers = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    except TypeError as error:
        raise BadQuestion('"cluster" must be a number or a text') from error
    return tuple(numbers[label] for label in labels)


def _branching(number: int, answer: Mapping[str, Any], steps: tuple[float, ...]) -> Branching | None:
    change = answer.get("substitution")
    if change is None:
        return None
    position = change.get("position") if isinstance(change, dict) else None
    if not isinstance(position, int) or not 0 <= position < len(steps):
        raise BadQuestion(f"answer {number}: the substitution's position must be from 0 to {len(steps) - 1}")
    importance = change.get("importance")
    if importance is not None and not (_is_number(importance) and 0 < importance <= 1 + 1e-9):
        raise BadQuestion(f"answer {number}: the substitution's importance must be a probability")
    logprob = steps[position] if importance is None else math.log(importance)
    return Branching(math.fsum(steps[:position]), logprob)


def row_line(row: AnswersRow, clusters: tuple[int, ...] | None, measured: Mapping[str, Estimate | str]) -> str:
    """The JSON line for a row: every measure with its value, or with the reason why there is none."""
    assert row.question is not None
    measures = {
        name: {"value": None, "reason": found} if isinstance(found, str) else _estimate(found)
        for name, found in measured.items()
    }
    shown = None if clusters is None else list(clusters)
    line = {"line": row.line, "question": row.question.text, "clusters": shown, "measures": measures}
    return json.dumps(line, ensure_ascii=False)


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "unit": estimate.unit,
        "higher_is_less_certain": estimate.higher_is_less_certain,
        **estimate.options,
    }
