"""A risk as people say it: "about 7 in 10 such answers are wrong"."""

from __future__ import annotations

import math

_ONE_IN = (7, 10, 15, 20, 30, 50, 100, 200, 500, 1000)


def in_words(risk: float) -> str:
    """The share of wrong answers, rounded to what can be pictured. Never none and never all."""
    if risk < 0.15:
        one_in = min(_ONE_IN, key=lambda n: abs(math.log(max(risk, 1e-9) * n)))
        return f"about 1 in {one_in} such answers is wrong"
    if risk >= 0.965:
        return "nearly all such answers are wrong"
    if risk >= 0.925:
        return "about 19 in 20 such answers are wrong"
    return f"about {math.floor(10 * risk + 0.5)} in 10 such answers are wrong"
