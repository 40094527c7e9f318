"""How right an answer is, against references. `load_metrics` turns names into metrics; `judge` asks them.

A metric compares an answer with one reference; the score of an answer is its maximum over the true references minus
its maximum over the false ones. An answer is correct if that reaches a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..errors import BadOption
from ..loading.pretrained import calm_threads
from ..nli.base import NliModel
from ..options import DEFAULT_NLI, pick
from .agreement import AGREEMENT, Agreement
from .base import Metric
from .contains import Contains
from .exact_match import ExactMatch
from .judging import THRESHOLDS, is_correct, judge
from .rouge import Rouge

__all__ = ["AGREEMENT", "METRICS", "THRESHOLDS", "Agreement", "Metric", "is_correct", "judge", "load_metrics"]

Loader = Callable[[str | None, str | None, NliModel | None], Metric]  # of the BLEURT checkpoint, device, NLI model


def load_metrics(
    names: Iterable[str], *, bleurt: str | None = None, device: str | None = None, nli: NliModel | None = None
) -> tuple[Metric, ...]:
    """The named metrics, each once. `bleurt` is a hub name or folder, which the metric of that name needs.

    `same_answer` judges with `nli`; by default with the embedded model, with which its agreement was measured.
    """
    loaders = {name: pick("metric", METRICS, name) for name in names}
    return tuple(load(bleurt, device, nli) for load in loaders.values())


def _load_same_answer(_: str | None, device: str | None, nli: NliModel | None) -> Metric:
    from ..nli import load_nli
    from .same_answer import SameAnswerMetric

    return SameAnswerMetric(nli or load_nli(DEFAULT_NLI, device=device))


def _load_bleurt(checkpoint: str | None, device: str | None, _: NliModel | None) -> Metric:
    if checkpoint is None or not checkpoint.strip():
        raise BadOption(
            "the metric bleurt needs a checkpoint: add --bleurt CHECKPOINT, a hub name such as Elron/bleurt-base-512 "
            "or a folder, or leave bleurt out of the metrics"
        )
    calm_threads()
    from .bleurt import load_bleurt

    return load_bleurt(checkpoint, device=device)


METRICS: Mapping[str, Loader] = {
    "same_answer": _load_same_answer,
    "contains": lambda *_: Contains(),
    "rouge_l": lambda *_: Rouge("rouge_l", "rougeL"),
    "rouge_1": lambda *_: Rouge("rouge_1", "rouge1"),
    "exact_match": lambda *_: ExactMatch(),
    "bleurt": _load_bleurt,
}
