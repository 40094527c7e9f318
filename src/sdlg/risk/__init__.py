"""From a measure's value to the probability that the answer is wrong, as `sdlg calibrate` found it. Needs numpy only.

In: a file `sdlg.calibration/1` and a measure's value. Out: a risk between 0 and 1, and a sentence that says it.

The risk is a share. Of this model's answers to questions like those of the data set, with this value of the measure,
about this share was judged wrong by the metric at its threshold: 0.7 means that about 7 in 10 such answers are wrong.
It says nothing of other models, other kinds of questions or a stricter judge; `Risk.check` tells what differs.
"""

from .calibration import Origin, RejectionRule, Risk, in_words

__all__ = ["Origin", "RejectionRule", "Risk", "in_words"]
