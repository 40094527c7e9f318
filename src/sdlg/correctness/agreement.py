"""How far each metric agrees with people. Measured on the dev part of judged answers (EVOUNA: five systems' answers to
Natural Questions and TriviaQA, 454 questions) with `python bench/judges.py`: the mean of the shares of right and of
wrong answers that are found, at a threshold of 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Balanced accuracy against people's verdicts; 0.5 is chance."""

    sentences: float  # 1,816 answers of four chat systems
    short: float  # 454 answers of a few words

    def __str__(self) -> str:
        return f"{self.sentences:.2f} / {self.short:.2f}"


AGREEMENT: Mapping[str, Agreement] = {
    "same_answer": Agreement(0.926, 0.957),
    "contains": Agreement(0.895, 0.951),
    "rouge_l": Agreement(0.542, 0.935),
    "rouge_1": Agreement(0.543, 0.935),
    "exact_match": Agreement(0.527, 0.925),
}
