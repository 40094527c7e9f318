"""How right an answer is by all its references, and when that is right enough.

In: an answer, references that are true, references that are false, metrics. Out, for each metric:
score = max over true references − max over false references (0 if there are none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, overload

from ..errors import BadQuestion
from .base import Metric, QuestionMetric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

THRESHOLDS = tuple(tenths / 10 for tenths in range(1, 11))
_ROUNDING = 1e-9  # 0.7 − 0.4 falls short of 0.3


def judge(
    answer: str, true: Iterable[str], false: Iterable[str], metrics: Iterable[Metric], *, question: str = ""
) -> dict[str, float]:
    """The score of an answer by each metric. An empty answer scores 0; blank references are no references."""
    right, wrong = _distinct(true), _distinct(false)
    if not right:
        raise BadQuestion("there is no true reference to judge the answer by: give at least one that is not empty")
    if not answer.strip():
        return {metric.name: 0.0 for metric in metrics}
    return {metric.name: _score(metric, question, answer, right, wrong) for metric in metrics}


def _score(metric: Metric, question: str, answer: str, right: Mapping[str, None], wrong: Mapping[str, None]) -> float:
    if isinstance(metric, QuestionMetric):
        return metric.best(question, answer, list(right)) - (
            metric.best(question, answer, list(wrong)) if wrong else 0.0
        )
    return _margin(_by_reference(metric, answer, {**right, **wrong}), right, wrong)


def _distinct(references: Iterable[str]) -> dict[str, None]:
    """As a dictionary without values: a set that keeps its order."""
    return dict.fromkeys(reference for reference in references if reference.strip())


def _by_reference(metric: Metric, answer: str, references: Iterable[str]) -> dict[str, float]:
    pairs = [(answer, reference) for reference in references]
    return {pair[1]: score for pair, score in zip(pairs, metric.scores(pairs), strict=True)}


def _margin(scores: Mapping[str, float], right: Iterable[str], wrong: Iterable[str]) -> float:
    return max(scores[reference] for reference in right) - max((scores[r] for r in wrong), default=0.0)


@overload
def is_correct(score: float, threshold: float) -> bool: ...
@overload
def is_correct(score: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]: ...
def is_correct(score: float | NDArray[np.float64], threshold: float) -> bool | NDArray[np.bool_]:
    """Whether a score reaches a threshold, but for rounding; arrays one by one. NaN never does: leave it out first."""
    return score >= threshold - _ROUNDING
