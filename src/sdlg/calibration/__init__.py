"""From a measure to the probability that the answer is wrong, as `sdlg calibrate` found it. Needs numpy and pydantic.

In: a file `sdlg.calibration/1` and a result with the measure it was made of. Out: an `AnswerRisk`.

The risk is a share: of this model's answers to questions like those of the data set, with this value of the measure,
about this share was judged wrong by the metric at its threshold. It says nothing about other models, other kinds of
questions or a stricter judge.
"""

from .calibration import (
    PEOPLE,
    Bin,
    Calibration,
    Data,
    Interval,
    KeepRule,
    Origin,
    OutOfFold,
    exact_percent,
    in_words,
    shaping_options,
)
from .lookup import Calibrations, CalibrationSource, calibrations_for, read_calibration
from .maps import IsotonicMap, LogisticMap

__all__ = [
    "PEOPLE",
    "Bin",
    "Calibration",
    "CalibrationSource",
    "Calibrations",
    "Data",
    "Interval",
    "IsotonicMap",
    "KeepRule",
]
__all__ += ["LogisticMap", "Origin", "OutOfFold", "calibrations_for", "exact_percent", "in_words"]
__all__ += ["read_calibration", "shaping_options"]
