"""How right an answer is by all its references, and when that is right enough.

In: an answer, references that are true, references that are false, metrics. Out, for each metric:
score = max over true references − max over false references (0 if there are none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

from ...errors import BadQuestion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

THRESHOLDS = tuple(tenths / 10 for tenths in range(1, 11))
_ROUNDING = 1e-9  # 0.7 − 0.4 falls short of 0.3


class Metric(Protocol):
    """How right an answer is by one reference."""

    @property
    def name(self) -> str:
        """What users call it."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one number per (answer, reference), higher is more right."""


@runtime_checkable
class QuestionMetric(Metric, Protocol):
    """A metric that also sees the question, and all references at once."""

    def best(self, question: str, answer: str, references: Sequence[str]) -> float:
        """Return how right the answer is by the reference that suits it best."""


def judge(
    answer: str, true: Iterable[str], false: Iterable[str], metrics: Iterable[Metric], *, question: str = ""
) -> dict[str, float]:
    """Return the score of an answer by each metric. An empty answer scores 0; blank references are no references."""
    right, wrong = _distinct(true), _distinct(false)
    if not right:
        raise BadQuestion("there is no true reference to judge the answer by: give at least one that is not empty")
    if not answer.strip():
        return {metric.name: 0.0 for metric in metrics}
    return {metric.name: _score(metric, question, answer, right, wrong) for metric in metrics}


def _score(metric: Metric, question: str, answer: str, right: Sequence[str], wrong: Sequence[str]) -> float:
    if isinstance(metric, QuestionMetric):
        return metric.best(question, answer, right) - (metric.best(question, answer, wrong) if wrong else 0.0)
    references = _distinct((*right, *wrong))
    scores = metric.scores([(answer, reference) for reference in references])
    by_reference: Mapping[str, float] = dict(zip(references, scores, strict=True))
    return max(by_reference[r] for r in right) - max((by_reference[r] for r in wrong), default=0.0)


def _distinct(references: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(reference for reference in references if reference.strip()))


@overload
def is_correct(score: float, threshold: float) -> bool: ...
@overload
def is_correct(score: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]: ...
def is_correct(score: float | NDArray[np.float64], threshold: float) -> bool | NDArray[np.bool_]:
    """Whether a score reaches a threshold, but for rounding; arrays one by one. NaN never does: leave it out first."""
    return score >= threshold - _ROUNDING
