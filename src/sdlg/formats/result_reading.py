"""A result from its JSON form, as whole as it was written: to look at it again, or after it came over the wire.

In: a document of the format `sdlg.result/3`. Out: a `Result`. The alternatives of each step are not in the JSON, and of
the candidates only the best of each position.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import BadQuestion, SdlgError
from ..options import Options, flat_options, tupled
from ..records import AnswerRisk, Cluster, Estimate, Question, Sample, Setup, Substitution, Word
from .codec import read_cost, read_record, read_samples
from .results import FORMAT, Result

_NO_RESULT = f"this is no result of the format {FORMAT}"


def result_from_json(text: str) -> Result:
    """What `Result.to_json` wrote: a line of `sdlg ask --out`, or of `--json`."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadQuestion(f"{_NO_RESULT}: {error}") from error
    return result_from_dict(document)


def result_from_dict(document: Any) -> Result:
    """What `Result.to_dict` made."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadQuestion(_NO_RESULT)
    try:
        return _result(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, SdlgError) as error:
        raise BadQuestion(f"{_NO_RESULT} ({type(error).__name__}: {error})") from error


def _result(row: Mapping[str, Any]) -> Result:
    samples, draws = _samples(row)
    answer = replace(samples[0].generation, truncated_mass=tuple(row["answer"]["truncated_mass"]))
    return Result(
        question=Question(row["question"], row["context"], tuple(map(tuple, row["shots"])), row["system"]),
        model=row["model"],
        nli=row["nli"],
        method=row["method"],
        preset=row["preset"],
        options=Options().updated(**tupled(flat_options(row["options"]))),
        words=tuple(read_record(Word, word) for word in row["answer"]["words"]),
        samples=(replace(samples[0], generation=answer), *samples[1:]),
        clusters=tuple(read_record(Cluster, tupled(cluster)) for cluster in row["clusters"]),
        estimates={name: read_record(Estimate, estimate) for name, estimate in row["estimates"].items()},
        coverage=row["coverage"],
        cost=read_cost(row["cost"]),
        notes=tuple(row["notes"]),
        setup=read_record(Setup, tupled(row["setup"])),
        evidence=row["evidence"],
        risk=None if row["risk"] is None else read_record(AnswerRisk, row["risk"]),
        approximate=row["approximate"],
        candidates=tuple(read_record(Substitution, candidate) for candidate in row["candidates"]),
        draws=draws,
    )


def _samples(row: Mapping[str, Any]) -> tuple[Sequence[Sample], tuple[Sample, ...]]:
    """Samples and draws, whose clusters are numbered together."""
    rows = [*row["samples"], *row["draws"]]
    every = [replace(one, weight=given["weight"]) for one, given in zip(read_samples(rows), rows, strict=True)]
    count = len(row["samples"])
    return every[:count], tuple(every[count:])
