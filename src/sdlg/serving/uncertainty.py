"""How sure the model is, as much of it as the client asked for: score, summary, full."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ..formats.codec import generation_dict
from ..formats.results import Result
from ..measures.headline import HEADLINE
from ..pipeline import Progress
from ..records import Sample
from ..views.reading import reading
from .schemas import Detail


def told(result: Result, detail: Detail) -> dict[str, Any]:
    """The `uncertainty` object of a completion."""
    return _LEVELS[detail](result)


def _score(result: Result) -> dict[str, Any]:
    score, entropy = result.estimates[result.score_name], result.estimates[HEADLINE]
    return {
        "score": score.value,
        "measure": result.score_name,
        "unit": score.unit,
        "higher_is_less_certain": score.higher_is_less_certain,
        "semantic_entropy": {"value": entropy.value, "low": entropy.low, "high": entropy.high},
        "reading": reading(result),
        "risk": None if result.risk is None else asdict(result.risk),
    }


def _summary(result: Result) -> dict[str, Any]:
    return {
        **_score(result),
        "measures": {name: estimate.value for name, estimate in result.estimates.items()},
        "clusters": [{**asdict(cluster), "text": result.text_of(cluster)} for cluster in result.clusters],
        "alternatives": [_alternative(sample) for sample in result.samples[1:]],
        "coverage": result.coverage,
        "notes": list(result.notes),
    }


def _alternative(sample: Sample) -> dict[str, Any]:
    """`probability` is the model's for this very text, its ending included; null if it tells none."""
    change = sample.substitution
    return {
        "text": sample.text,
        "probability": math.exp(sample.generation.logprob),  # NaN stays NaN, and is null on the wire
        "cluster": sample.cluster,
        "original": change and change.original,
        "replacement": change and change.replacement,
    }


def _full(result: Result) -> dict[str, Any]:
    return {**_summary(result), "result": result.to_dict()}


_LEVELS = {"none": lambda _: {}, "score": _score, "summary": _summary, "full": _full}


def branch_dict(progress: Progress) -> dict[str, Any]:
    """A branch that was just finished."""
    assert progress.generation is not None
    change = None if progress.substitution is None else asdict(progress.substitution)
    return {**generation_dict(progress.generation), "substitution": change}
