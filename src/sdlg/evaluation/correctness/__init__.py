"""How right an answer is, against references. `load_metrics` turns names into metrics; `judge` asks them.

A metric compares an answer with one reference; the score of an answer is its maximum over the true references minus
its maximum over the false ones. An answer is correct if that reaches a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...errors import BadOption
from ...nli.base import NliModel
from ...options import DEFAULT_NLI, pick
from .judging import THRESHOLDS, Metric, is_correct, judge
from .lexical import Contains, ExactMatch, Rouge

__all__ = ["AGREEMENT", "METRICS", "THRESHOLDS", "Agreement", "Metric", "is_correct", "judge", "load_metrics"]

Loader = Callable[[str | None, str | None, NliModel | None], Metric]  # of the BLEURT checkpoint, device, NLI model


@dataclass(frozen=True, slots=True)
class Agreement:
    """Balanced accuracy of a metric against people's verdicts, at a threshold of 0.5; 0.5 is chance."""

    sentences: float  # 1,816 answers of four chat systems
    short: float  # 454 answers of a few words

    def __str__(self) -> str:
        return f"{self.sentences:.2f} / {self.short:.2f}"


# On the dev part of judged answers (EVOUNA: Natural Questions and TriviaQA, 454 questions), by bench/judges.py.
AGREEMENT: Mapping[str, Agreement] = {
    "same_answer": Agreement(0.926, 0.957),
    "contains": Agreement(0.895, 0.951),
    "rouge_l": Agreement(0.542, 0.935),
    "rouge_1": Agreement(0.543, 0.935),
    "exact_match": Agreement(0.527, 0.925),
}


def load_metrics(
    names: Iterable[str], *, bleurt: str | None = None, device: str | None = None, nli: NliModel | None = None
) -> tuple[Metric, ...]:
    """Return the named metrics, each once. `bleurt` is a hub name or folder, which the metric of that name needs.

    `same_answer` judges with `nli`; by default with the embedded model, with which its agreement was measured.
    """
    loaders = {name: pick("metric", METRICS, name) for name in names}
    return tuple(load(bleurt, device, nli) for load in loaders.values())


def _load_same_answer(_: str | None, device: str | None, nli: NliModel | None) -> Metric:
    from ...nli import load_nli
    from ...options import Loading
    from .same_answer import SameAnswerMetric

    return SameAnswerMetric(nli or load_nli(DEFAULT_NLI, Loading(device=device)))


def _load_bleurt(checkpoint: str | None, device: str | None, _: NliModel | None) -> Metric:
    if checkpoint is None or not checkpoint.strip():
        raise BadOption(
            "the metric bleurt needs a checkpoint: add --bleurt CHECKPOINT, a hub name such as Elron/bleurt-base-512 "
            "or a folder, or leave bleurt out of the metrics"
        )
    from ...loading.pretrained import calm_threads

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
