"""What is to be calibrated, and how: the options of `sdlg calibrate`. Its flags derive from these fields."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ..errors import BadOption
from ..options import pick

AUTO, KINDS = "auto", ("isotonic", "logistic")


def _option(default: Any, metavar: str, help: str) -> Any:
    return field(default=default, metadata={"metavar": metavar, "help": help})


@dataclass(frozen=True, slots=True)
class Choice:
    """None is chosen by what the run holds."""

    method: str | None = _option(None, "NAME", "a sampling method of the run (default: sdlg, or the only one)")
    measure: str | None = _option(None, "NAME", "a measure of the run (default: its semantic entropy)")
    measures: str | None = _option(
        None, "NAMES", "several, with commas: a risk learned from all of them; auto: from those that do best"
    )
    samples: int | None = _option(None, "N", "the measure with the first N samples (default: all)")
    metric: str | None = _option(
        None, "NAME", "what judges the answers (default: same_answer, or rouge_l where the run has none)"
    )
    threshold: float = _option(0.5, "X", "an answer with a lower score of the metric is wrong")
    map: str = _option(AUTO, "{auto,isotonic,logistic}", "auto takes the one with the lower out-of-fold Brier score")
    error_rate: float = _option(0.2, "X", "find up to which value answers can be kept for this error rate")
    folds: int = _option(5, "N", "of the cross-validation")
    seed: int = _option(0, "N", "of the folds and of the intervals")

    def __post_init__(self) -> None:
        pick("map", dict.fromkeys((AUTO, *KINDS)), self.map)
        if self.measures is not None and (self.measure is not None or self.map == "isotonic"):
            raise BadOption(
                "--measures learns a logistic map of several measures; leave out --measure and --map isotonic"
            )
        if not 0 < self.error_rate < 1:
            raise BadOption(f"error_rate must be above 0 and below 1, not {self.error_rate}")
        if self.folds < 2:
            raise BadOption(f"folds must be at least 2, not {self.folds}")
        if not 0 <= self.seed < 2**32:
            raise BadOption(f"seed must be from 0 to {2**32 - 1}, not {self.seed}")
        if not math.isfinite(self.threshold):
            raise BadOption(f"threshold must be a number, not {self.threshold}")
