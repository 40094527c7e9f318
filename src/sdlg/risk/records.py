"""What a calibration was made with, and up to which value answers may be kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """What a calibration was made with: it holds for that, and for little else."""

    model: str
    nli: str
    method: str  # as the run names it, for example "multinomial:temperature=0.5:top_p=0.9"
    preset: str
    measure: str  # by its own name, for example "number_of_clusters @ strict+components"
    higher_is_less_certain: bool
    samples: int
    metric: str
    threshold: float  # an answer with a lower score of the metric is wrong
    data: Mapping[str, Any]  # name, sha256, …
    options: Mapping[str, Any]  # by name, without groups

    @property
    def measure_name(self) -> str:
        """The measure without its clustering, as `--measures` takes it."""
        return self.measure.split(" @ ")[0]

    @property
    def family(self) -> str:
        """The sampling method without its options."""
        return self.method.split(":")[0]

    @property
    def method_options(self) -> tuple[str, ...]:
        """Names of the options that the method's name tells."""
        return tuple(part.split("=")[0] for part in self.method.split(":")[1:])


@dataclass(frozen=True, slots=True)
class RejectionRule:
    """Up to which value answers may be kept so that no more than a wanted share of them is wrong.

    The counts are out of fold: each answer was kept or rejected by a threshold that was chosen without it.
    """

    wanted: float  # error rate
    threshold: float | None  # a value of the measure; None: no threshold keeps to that rate, for the reason given
    kept: int
    wrong: int  # of those kept
    n: int
    low: float | None  # 95 % interval of the error rate; None where nothing was kept
    high: float | None
    reason: str = ""

    @property
    def coverage(self) -> float:
        """Share of answers kept."""
        return self.kept / self.n if self.n else math.nan

    @property
    def error_rate(self) -> float:
        """Share of wrong answers among those kept; NaN where nothing was kept."""
        return self.wrong / self.kept if self.kept else math.nan
