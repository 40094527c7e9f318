"""What integrations into evaluations share: which answers mean the same, and whether one is right."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from threading import RLock

from ..evaluation.correctness import Metric, is_correct, judge, load_metrics
from ..evaluation.defaults import HEADLINE_METRICS, HEADLINE_THRESHOLD
from ..loaded import Models
from ..options import DEFAULT_NLI
from ..pipeline import Pipeline

_turn = RLock()  # threads that ask at once would each load the model


def meaning_judge() -> Pipeline:
    """Return a pipeline that groups given answers by meaning. Its model is loaded when it is first asked."""
    with _turn:
        return _judge()


@cache
def _judge() -> Pipeline:
    return Pipeline(models=Models(None, DEFAULT_NLI))


def wrongness(question: str, answer: str, references: Iterable[str]) -> float:
    """Return 1 for an answer that says what no reference says, 0 for one that does, NaN without references."""
    known = [reference for reference in references if reference.strip()]
    if not known:
        return math.nan
    with _turn:
        metric = _right_or_wrong()
    score = judge(answer, known, (), [metric], question=question)[metric.name]
    return float(not is_correct(score, HEADLINE_THRESHOLD))


@cache
def _right_or_wrong() -> Metric:
    return load_metrics(HEADLINE_METRICS[:1], nli=meaning_judge().models.nli)[0]
