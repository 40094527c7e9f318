"""From measures to the probability that the answer is wrong, as `sdlg calibrate` found it. Needs numpy only.

In: a file `sdlg.calibration/2` and the values of its measures. Out: a risk from 0 to 1, and a sentence that says it.

The risk is a share. Of this model's answers to questions like those of the data set, with these values of the measures,
about this share was judged wrong by the metric at its threshold: 0.7 means that about 7 in 10 such answers are wrong.
It says nothing of other models, other kinds of questions or a stricter judge; `Risk.check` tells what differs.
"""

from .calibration import RejectionRule, Risk, in_words
from .lookup import Calibrations, CalibrationSource, calibrations_for, given_calibration
from .origin import Origin

__all__ = [
    "CalibrationSource",
    "Calibrations",
    "Origin",
    "RejectionRule",
    "Risk",
    "calibrations_for",
    "given_calibration",
    "in_words",
]
