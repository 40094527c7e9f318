"""How right an answer is, against references. `load_metrics` turns names into metrics; `judge` asks them.

A metric compares an answer with one reference; the score of an answer is its maximum over the true references minus
its maximum over the false ones. An answer is correct if that reaches a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..errors import BadOption
from ..loading.devices import calm_threads
from ..options import pick
from .base import Metric
from .exact_match import ExactMatch
from .judging import THRESHOLDS, is_correct, judge
from .rouge import Rouge

__all__ = ["METRICS", "THRESHOLDS", "Metric", "is_correct", "judge", "load_metrics"]

Loader = Callable[[str | None, str | None], Metric]  # of the BLEURT checkpoint and the device


def load_metrics(names: Iterable[str], *, bleurt: str | None = None, device: str | None = None) -> tuple[Metric, ...]:
    """The named metrics, each once. `bleurt` is a hub name or folder, which the metric of that name needs."""
    loaders = {name: pick("metric", METRICS, name) for name in names}
    return tuple(load(bleurt, device) for load in loaders.values())


def _load_bleurt(checkpoint: str | None, device: str | None) -> Metric:
    if checkpoint is None or not checkpoint.strip():
        raise BadOption(
            "the metric bleurt needs a checkpoint: add --bleurt CHECKPOINT, a hub name such as Elron/bleurt-base-512 "
            "or a folder, or leave bleurt out of the metrics"
        )
    calm_threads()
    from .bleurt import load_bleurt

    return load_bleurt(checkpoint, device=device)


METRICS: Mapping[str, Loader] = {
    "rouge_l": lambda *_: Rouge("rouge_l", "rougeL"),
    "rouge_1": lambda *_: Rouge("rouge_1", "rouge1"),
    "exact_match": lambda *_: ExactMatch(),
    "bleurt": _load_bleurt,
}
