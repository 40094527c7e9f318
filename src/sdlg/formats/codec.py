"""Between records and JSON: the one way, for results, for the rows of a run, and for answers that a user brings.

Out: plain dicts and lists. In: the same, checked; what is wrong is told as `BadQuestion`, with the answer's number.
Older shapes are still read: `stop_logprob` in the place of `ending_logprobs`, and a substitution without its branching.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from ..errors import BadQuestion
from ..records import (
    COUNTED,
    Branching,
    Cost,
    Generation,
    Sample,
    Sampled,
    StopReason,
    Substitution,
    Word,
    is_unicode,
)
from .numbers import LARGEST, is_number, read_numbers, shown

Json = dict[str, Any]

ERROR_FORMAT = "sdlg.error/1"
_STOP_REASONS: Sequence[StopReason] = ("eos", "stop_string", "length")


def finite(value: Any) -> Any:
    """A JSON value with null for NaN and infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- records as JSON --------------------------------------------------------------------------------------------


def generation_dict(generation: Generation) -> Json:
    """A generation, without the alternatives of its steps."""
    return {
        "text": generation.text,
        "token_ids": list(generation.token_ids),
        "logprobs": list(generation.logprobs),
        "stop_reason": generation.stop_reason,
        "ending_logprobs": list(generation.ending_logprobs),
        "entropies": list(generation.entropies),
        **({} if generation.proposal_logprob is None else {"proposal_logprob": generation.proposal_logprob}),
    }


def sample_dict(sample: Sample) -> Json:
    """A sample: what `sdlg score` reads as an answer."""
    return {
        **generation_dict(sample.generation),
        "tokens": list(sample.tokens),
        "cluster": sample.cluster,
        "weight": sample.weight,
        "substitution": None if sample.substitution is None else asdict(sample.substitution),
        "branching": None if sample.branching is None else asdict(sample.branching),
    }


def cost_dict(cost: Cost) -> Json:
    """All counts, and the seconds of each stage."""
    return {**{name: getattr(cost, name) for name in COUNTED}, "seconds": dict(cost.seconds)}


def sampled_dict(sampled: Sampled) -> Json:
    """What a method made, without the candidates that were not tried."""
    return {
        "samples": [sample_dict(sample) for sample in sampled.samples],
        "words": [asdict(word) for word in sampled.words],
        "cost": cost_dict(sampled.cost),
        "notes": list(sampled.notes),
    }


def error_dict(line: int, question: str | None, error: str) -> Json:
    """In the place of what could not be made of a line of the input."""
    return {"format": ERROR_FORMAT, "line": line, "question": question, "error": error}


# -- JSON as records --------------------------------------------------------------------------------------------


def read_samples(rows: Sequence[Any]) -> tuple[Sample, ...]:
    """Answers as records. Clusters may have any labels; they are numbered by first appearance."""
    if not rows:
        raise BadQuestion("there are no answers; give at least one")
    samples = [_read_sample(number, row) for number, row in enumerate(rows, start=1)]
    branchings = [_read_branching(number, row, samples) for number, row in enumerate(rows, start=1)]
    clusters = _numbered([row.get("cluster") for row in rows])
    return tuple(
        replace(sample, branching=branching, cluster=cluster)
        for sample, branching, cluster in zip(samples, branchings, clusters, strict=True)
    )


def read_sampled(row: Mapping[str, Any]) -> Sampled:
    """What `sampled_dict` wrote."""
    words = tuple(read_record(Word, word) for word in row.get("words", ()))
    return Sampled(read_samples(row["samples"]), words, read_cost(row.get("cost") or {}), tuple(row.get("notes", ())))


def read_cost(row: Mapping[str, Any]) -> Cost:
    """Counts that are not there are 0."""
    return Cost(**{name: int(row.get(name, 0)) for name in COUNTED}, seconds=dict(row.get("seconds", {})))


def read_record(kind: Any, row: Mapping[str, Any]) -> Any:
    """A record from what `asdict` made of it; what is not there has its default."""
    return kind(**{part.name: row[part.name] for part in fields(kind) if part.name in row})


def _read_sample(number: int, row: Any) -> Sample:
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise BadQuestion(f'answer {number} has no "text"')
    if not is_unicode(row["text"]):
        raise BadQuestion("an answer holds half a surrogate pair, which is no character")
    logprobs, endings = _logprobs(number, row, "logprobs"), _endings(number, row)
    tokens = _texts(number, row, "tokens")
    if logprobs and tokens and len(tokens) != len(logprobs):
        raise BadQuestion(f"answer {number}: {len(tokens)} tokens but {len(logprobs)} log-probabilities")
    entropies = _entropies(number, row)
    if entropies and logprobs and len(entropies) != len(logprobs) + len(endings):
        raise BadQuestion(
            f"answer {number}: {len(entropies)} entropies but {len(logprobs) + len(endings)} log-probabilities"
        )
    ids = _token_ids(number, row)
    if ids and logprobs and len(ids) != len(logprobs):
        raise BadQuestion(f"answer {number}: {len(ids)} token ids but {len(logprobs)} log-probabilities")
    reason: StopReason = next((known for known in _STOP_REASONS if row.get("stop_reason") == known), "eos")
    proposal = None if row.get("proposal_logprob") is None else _logprob(number, row, "proposal_logprob")
    generation = Generation(row["text"], ids, logprobs, reason, endings, entropies=entropies, proposal_logprob=proposal)
    change = row.get("substitution")
    if isinstance(change, dict) and all(part.name in change for part in fields(Substitution)):
        return Sample(generation, tokens, read_record(Substitution, change))
    return Sample(generation, tokens)


def _logprobs(number: int, row: Mapping[str, Any], name: str) -> tuple[float, ...]:
    values = row.get(name)
    if values is None:
        return ()
    if not isinstance(values, list) or not all(map(is_number, values)):
        raise BadQuestion(f'answer {number}: "{name}" must be a list of numbers')
    for value in values:
        if not -LARGEST <= value <= 1e-9:  # NaN fails, too
            raise BadQuestion(f"answer {number}: {shown(value)} is not a log-probability (they are at most 0)")
    return tuple(min(float(value), 0.0) for value in values)


def _endings(number: int, row: Mapping[str, Any]) -> tuple[float, ...]:
    if row.get("ending_logprobs") is not None:
        return _logprobs(number, row, "ending_logprobs")
    return () if row.get("stop_logprob") is None else (_logprob(number, row, "stop_logprob"),)


def _logprob(number: int, row: Mapping[str, Any], name: str) -> float:
    if not is_number(row[name]):
        raise BadQuestion(f'answer {number}: "{name}" must be a number')
    return _logprobs(number, {name: [row[name]]}, name)[0]


def _entropies(number: int, row: Mapping[str, Any]) -> tuple[float, ...]:
    return read_numbers(row.get("entropies") or [], f'answer {number}: "entropies"', low=-1e-6)


def _texts(number: int, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = row.get(name)
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadQuestion(f'answer {number}: "{name}" must be a list of texts')
    return tuple(values)


def _token_ids(number: int, row: Mapping[str, Any]) -> tuple[int, ...]:
    values = row.get("token_ids")
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise BadQuestion(f'answer {number}: "token_ids" must be a list of whole numbers')
    return tuple(values)


def _numbered(labels: list[Any]) -> list[int | None]:
    if any(label is None for label in labels):
        return [None] * len(labels)
    try:
        numbers = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    except TypeError as error:
        raise BadQuestion('"cluster" must be a number or a text') from error
    return [numbers[label] for label in labels]


def _read_branching(number: int, row: Mapping[str, Any], samples: Sequence[Sample]) -> Branching | None:
    """As it was stored; where it was not, from the substitution and the answer that it left."""
    stored, change = row.get("branching"), row.get("substitution")
    if stored is not None:
        return _checked_branching(number, stored)
    if change is None:
        return None
    steps = samples[number - 1].generation.decision_logprobs
    if not steps:
        return None  # without likelihoods there is nothing to weigh
    change = change if isinstance(change, dict) else {}
    position = change.get("position")
    place = position if isinstance(position, int) and not isinstance(position, bool) else -1
    if 0 <= place < len(steps):
        shared, own = steps, change.get("logprob", steps[place])
    else:  # an older line whose ending began before the changed word: the answer has what they share
        shared, own = samples[0].generation.logprobs, change.get("logprob")
    if not 0 <= place <= len(shared) or not is_number(own):
        raise BadQuestion(f"answer {number}: the substitution's position must be from 0 to {len(steps) - 1}")
    mass = change.get("importance")
    mass = math.exp(min(own, 0.0)) if mass is None else mass
    return _checked_branching(number, {"shared_logprob": math.fsum(shared[:place]), "logprob": own, "mass": mass})


def _checked_branching(number: int, row: Any) -> Branching:
    if not isinstance(row, dict) or not all(is_number(row.get(part.name)) for part in fields(Branching)):
        raise BadQuestion(f"answer {number}: the branching must have shared_logprob, logprob and mass, as numbers")
    shared, own, mass = row["shared_logprob"], row["logprob"], row["mass"]
    if not 0 < mass <= 1 + 1e-9:
        raise BadQuestion(f"answer {number}: the substitution's importance must be a probability")
    if not (-LARGEST <= shared <= 1e-9 and -LARGEST <= own <= 1e-9):
        raise BadQuestion(f"answer {number}: the branching's log-probabilities must be at most 0")
    return Branching(min(float(shared), 0.0), min(float(own), 0.0), float(mass))
