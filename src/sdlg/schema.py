"""Records ↔ JSON, once: results, given answers, and the rows of runs. Validation is pydantic's, over our own records.

Out: plain dicts and lists. In: the same, checked; what is wrong is an error that names the place, what was expected and
what stood there. Given answers have limits, because what compares them takes their number squared and their lengths
multiplied: without limits one row could take all memory, or a day.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from .errors import BadQuestion, SdlgError
from .records import Branching, Generation, Question, Sample, StopReason, is_unicode
from .result import SEMANTIC_ENTROPY, Result

Json = dict[str, Any]
T = TypeVar("T")

RESULT_FORMAT, ERROR_FORMAT = "sdlg.result/1", "sdlg.error/1"
ROW_CHARACTERS = 8_000_000  # of a line of given answers
ANSWERS = 1000  # of a row
ANSWER_LENGTH = 100_000  # characters, tokens or numbers of one answer
LIMITS = f"{ROW_CHARACTERS:,} characters, {ANSWERS:,} answers, {ANSWER_LENGTH:,} characters or tokens in each"
_STEPS = {"generation": {"alternatives"}}  # of every step: too much for a file
_SEQUENCES: Any = {"samples": {"__all__": _STEPS}, "draws": {"__all__": _STEPS}}
_LEFT_OUT: Any = {**_SEQUENCES, "sentences": {"__all__": _SEQUENCES}}


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's reader and writer of a record, made once."""
    return TypeAdapter(kind)


def read_record(kind: type[T], document: Any, where: str, error: type[SdlgError] = BadQuestion) -> T:
    """Return a record from parsed JSON, or raise `error` with the field that is wrong."""
    try:
        record: T = adapter(cast("Any", kind)).validate_python(document)
    except ValidationError as wrong:
        raise error(f"{where}: {first_fault(wrong)}") from wrong
    except (ValueError, TypeError, OverflowError, RecursionError, SdlgError) as wrong:
        raise error(f"{where}: {wrong}") from wrong
    return record


def parse_json(text: str | bytes, where: str, error: type[SdlgError] = BadQuestion) -> Any:
    """Return what a JSON text holds, or raise `error`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise error(f"{where} is not valid JSON: {wrong}") from wrong


def first_fault(error: ValidationError) -> str:
    """Return the first fault in words: `answers[0].logprobs[2]: must be …, not 'x'`."""
    fault = error.errors(include_url=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]).lstrip(".")
    message = fault["msg"].replace("Input should be", "must be").removeprefix("Value error, ")
    says_it_all = fault["type"] in ("missing", "unexpected_keyword_argument", "too_long")
    value = "" if says_it_all else f", not {shown(fault['input'])}"
    return f"{place or 'the document'}: {message[:1].lower()}{message[1:]}{value}"


def shown(value: Any) -> str:
    """Return a stranger's value for a message, no longer than a message should be."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**20:
        return "a whole number of more than 20 digits"  # writing one of a million digits takes seconds
    if isinstance(value, (list, tuple, Mapping)):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


# -- results ----------------------------------------------------------------------------------------------------


def result_dict(result: Result) -> Json:
    """Return a result's JSON form: what most readers want first, then all that an independent program needs."""
    document: Json = finite(
        {
            "format": RESULT_FORMAT,
            "answer": result.answer.text,
            SEMANTIC_ENTROPY: result.semantic_entropy,
            **adapter(Result).dump_python(result, mode="json", exclude=_LEFT_OUT),
        }
    )
    return document


def finite(value: Any) -> Any:
    """Return a JSON value with null for NaN and infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def result_from_dict(document: Any) -> Result:
    """Return the result that `Result.to_dict` made."""
    if not isinstance(document, dict) or document.get("format") != RESULT_FORMAT:
        raise BadQuestion(f"this is no result of the format {RESULT_FORMAT}")
    extra = ("format", "answer", SEMANTIC_ENTROPY, "crc32")
    fields = {name: value for name, value in document.items() if name not in extra}
    sentences = fields.get("sentences")
    for part in (fields, *(sentences if isinstance(sentences, list) else ())):
        _undefined_again(part)
    result = read_record(Result, fields, f"this is no result of the format {RESULT_FORMAT}")
    for sample in (*result.samples, *result.draws):
        tokens, steps = len(sample.tokens), len(sample.generation.logprobs)
        if tokens and sample.generation.decision_logprobs and tokens != steps:
            raise BadQuestion(f"this is no result: an answer has {tokens} tokens but {steps} log-probabilities")
    return result


def _undefined_again(part: Any) -> None:
    """Turn values that JSON could not hold into NaN again."""
    estimates = part.get("estimates") if isinstance(part, dict) else None
    for estimate in estimates.values() if isinstance(estimates, dict) else ():
        if isinstance(estimate, dict) and estimate.get("value", 0.0) is None:
            estimate["value"] = math.nan


def result_from_json(text: str | bytes) -> Result:
    """Return the result that `Result.to_json` wrote: a line of `sdlg ask --out`, or of `--json`."""
    return result_from_dict(parse_json(text, "the result"))


def result_schema() -> Json:
    """Return the JSON schema of a result."""
    schema = adapter(Result).json_schema()
    first = {
        "format": {"const": RESULT_FORMAT},
        "answer": {"type": "string", "description": "the answer's text"},
        SEMANTIC_ENTROPY: {"type": "number", "description": "the paper's estimate, in nats; higher is less certain"},
    }
    return {**schema, "properties": {**first, **schema["properties"]}, "required": [*first, *schema["required"]]}


def error_dict(line: int, question: str | None, error: str) -> Json:
    """Return what stands in the place of a line that could not be answered or scored."""
    return {"format": ERROR_FORMAT, "line": line, "question": question, "error": error}


# -- given answers ----------------------------------------------------------------------------------------------

Number = Annotated[float, Field(ge=-1e300, le=1e300)]  # beyond, sums of a few of them are no numbers any more
Logprob = Annotated[float, Field(ge=-1e300, le=1e-9)]  # as rounding leaves it
Text = Annotated[str, Field(max_length=ANSWER_LENGTH)]
Logprobs = Annotated[tuple[Logprob, ...], Field(max_length=ANSWER_LENGTH)]


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer that somebody already has: a text, and what else is known of it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    text: Text
    logprobs: Logprobs = ()  # natural log, of each token
    ending_logprobs: Logprobs = ()  # of the tokens that ended it
    tokens: Annotated[tuple[Text, ...], Field(max_length=ANSWER_LENGTH)] = ()  # the text, token by token
    entropies: Annotated[tuple[Annotated[float, Field(ge=-1e-6, le=1e300)], ...], Field(max_length=ANSWER_LENGTH)] = ()
    cluster: int | str | None = None  # any label; equal ones mean the same
    position: Annotated[int, Field(ge=0)] | None = None  # the token at which it left the first answer (SDLG)
    stop_reason: StopReason = "eos"

    def __post_init__(self) -> None:
        if not is_unicode(self.text):
            raise ValueError("the text holds half a surrogate pair, which is no character")
        if self.logprobs and self.tokens and len(self.tokens) != len(self.logprobs):
            raise ValueError(f"{len(self.tokens)} tokens but {len(self.logprobs)} log-probabilities")
        decisions = len(self.logprobs) + len(self.ending_logprobs)
        if self.logprobs and self.entropies and len(self.entropies) != decisions:
            raise ValueError(f"{len(self.entropies)} entropies but {decisions} log-probabilities")
        if self.position is not None and self.position >= max(len(self.logprobs), 1):
            raise ValueError(f"position {self.position} is beyond its {len(self.logprobs)} log-probabilities")


@dataclass(frozen=True, slots=True)
class _GivenRow:
    question: Any  # a text, or a `Question`
    answers: Annotated[tuple[Any, ...], Field(min_length=1, max_length=ANSWERS)]  # texts, or `GivenAnswer`s
    context: str | None = None


@dataclass(frozen=True, slots=True)
class GivenAnswers:
    """A question and answers to it, as samples; of a stored result also what its measures were made from."""

    question: Question
    samples: tuple[Sample, ...]
    evidence: Mapping[str, Any]


def read_given_row(line: str) -> GivenAnswers:
    """Read a row of `sdlg score`: `{"question": "…", "answers": ["…", …]}`, or a line of `sdlg ask`."""
    if len(line) > ROW_CHARACTERS:
        raise BadQuestion(f"the row has {len(line):,} characters; a row has at most {LIMITS}")
    row = parse_json(line, "the row")
    if isinstance(row, dict) and row.get("format") == RESULT_FORMAT:
        result = result_from_dict(row)
        return GivenAnswers(result.question, result.samples, result.evidence)
    given = read_record(_GivenRow, row, "the row")
    asked = {"text": given.question} if isinstance(given.question, str) else given.question
    question = read_record(Question, asked, "the row: question")
    if given.context is not None:
        question = replace(question, context=given.context)
    return GivenAnswers(question, given_samples(given.answers), {})


def given_samples(answers: Sequence[str | GivenAnswer | Mapping[str, Any] | Sample]) -> tuple[Sample, ...]:
    """Return given answers as samples. Clusters may have any labels; they are numbered by first appearance."""
    if not answers:
        raise BadQuestion("there are no answers; give at least one")
    if all(isinstance(answer, Sample) for answer in answers):
        return tuple(answer for answer in answers if isinstance(answer, Sample))
    given = [_given(number, answer) for number, answer in enumerate(answers)]
    labels = [answer.cluster for answer in given]
    numbers = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    known = None not in labels
    return tuple(_sample(answer, given[0], numbers[answer.cluster] if known else None) for answer in given)


def _given(number: int, answer: object) -> GivenAnswer:
    if isinstance(answer, GivenAnswer):
        return answer
    return read_record(GivenAnswer, {"text": answer} if isinstance(answer, str) else answer, f"answers[{number}]")


def _sample(answer: GivenAnswer, first: GivenAnswer, cluster: int | None) -> Sample:
    logprobs, endings = (tuple(min(p, 0.0) for p in steps) for steps in (answer.logprobs, answer.ending_logprobs))
    generation = Generation(answer.text, (), logprobs, answer.stop_reason, endings, entropies=answer.entropies)
    branching = None
    if answer is not first and answer.position is not None and logprobs:
        own = logprobs[answer.position]
        branching = Branching(math.fsum(first.logprobs[: answer.position]), own, math.exp(own))
    return Sample(generation, answer.tokens, branching=branching, cluster=cluster)
