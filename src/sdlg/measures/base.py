"""What measures read and how they are declared.

`MeasureInputs` is what is known of sampled answers: a measure is a small pure function of it that says what it needs,
in which unit and direction it answers, and what that costs. No model, no input or output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..records import Branching

Array = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class MeasureInputs:
    """Answers to one question, as numbers. Everything but the number of answers may be unknown (None).

    All per-answer fields are in the answers' order; the first one is the answer itself, which measures of one answer
    (G-NLL, CoCoA, P(True)) are about.
    """

    logprobs: tuple[tuple[float, ...], ...] | None = None  # natural log, per decision, the ending included
    identities: tuple[Hashable, ...] | None = None  # equal for duplicates
    clusters: tuple[int, ...] | None = None
    branchings: tuple[Branching | None, ...] | None = None  # None: not sampled by branching
    proposals: tuple[float, ...] | None = None  # log q(y) of what each answer was drawn from; None: the model itself
    texts: tuple[str, ...] | None = None
    tokens: tuple[tuple[str, ...], ...] | None = None  # the texts, token by token; one for each decision but the ending
    token_entropies: tuple[tuple[float, ...], ...] | None = None  # nats, of the model's distribution at each decision
    relevance: tuple[tuple[float, ...], ...] | None = None  # SAR's R_t = 1 − sim(q+y, q+y without t)
    similarity: Array | None = None  # (N, N), symmetric, in [0, 1]
    entailment: Array | None = None  # (N, N), P(answer i entails answer j)
    contradiction: Array | None = None  # (N, N), P(answer i contradicts answer j)
    embeddings: Array | None = None  # (N, width)
    p_true: float | None = None  # the model's own probability that its answer is true
    assessment: tuple[float, ...] | None = None  # the model's probability for each cluster, offered as options; Σ = 1
    other_logprobs: tuple[tuple[float, ...], ...] | None = None  # per other model: log p(y) of each answer

    def __post_init__(self) -> None:
        sizes = {name: len(getattr(self, name)) for name in _PER_ANSWER if getattr(self, name) is not None}
        if len(set(sizes.values())) != 1 or 0 in sizes.values():
            raise ValueError(f"answers must be of one number of at least 1, but there are {sizes}")
        for name in sorted(_PAIRWISE):
            matrix = getattr(self, name)
            if matrix is not None and matrix.shape != (len(self), len(self)):
                raise ValueError(f"{name} must be {len(self)} × {len(self)}, not {matrix.shape}")
        self._check_rows()

    def _check_rows(self) -> None:
        """What belongs to a decision, a cluster or another model's answer must match it one to one."""
        if self.relevance is not None and self.logprobs is not None:
            for found, steps in zip(self.relevance, self.logprobs, strict=True):
                if len(found) != len(steps):
                    raise ValueError(f"relevance of {len(found)} tokens, but {len(steps)} log-probabilities")
        if (
            self.assessment is not None
            and self.clusters is not None
            and len(self.assessment) != len(set(self.clusters))
        ):
            raise ValueError(f"{len(self.assessment)} assessed options, but {len(set(self.clusters))} clusters")
        if any(len(row) != len(self) for row in self.other_logprobs or ()):
            raise ValueError(f"every other model must score all {len(self)} answers")

    def __len__(self) -> int:
        return next(len(getattr(self, name)) for name in _PER_ANSWER if getattr(self, name) is not None)

    def first(self, count: int) -> MeasureInputs:
        """The first answers alone. What the model was asked about all of them together is then unknown."""
        kept: dict[str, Any] = {name: getattr(self, name)[:count] for name in _PER_ANSWER if name in self.known}
        for name in _PAIRWISE & self.known:
            kept[name] = kept[name][:, :count]
        if self.other_logprobs is not None:
            kept["other_logprobs"] = tuple(row[:count] for row in self.other_logprobs)
        return replace(self, **kept, assessment=None if count < len(self) else self.assessment)

    @property
    def known(self) -> frozenset[str]:
        """Names of the fields that are there."""
        return frozenset(field.name for field in fields(self) if getattr(self, field.name) is not None)


_PAIRWISE = frozenset({"similarity", "entailment", "contradiction"})
_PER_ANSWER = (
    "logprobs",
    "identities",
    "clusters",
    "branchings",
    "proposals",
    "texts",
    "tokens",
    "token_entropies",
    "relevance",
    "similarity",
    "entailment",
    "contradiction",
    "embeddings",
)


def given(value: T | None) -> T:
    """A field that the measure has declared as needed, and that therefore is there."""
    assert value is not None
    return value


@dataclass(frozen=True, slots=True)
class Measure:
    """A named function of samples, with all that a user must know of it."""

    name: str
    function: Callable[[MeasureInputs], float]
    needs: frozenset[str]  # fields of `MeasureInputs`
    unit: str
    higher_is_less_certain: bool
    low: float  # the range of its values
    high: float
    summary: str
    equation: str = ""
    cost: str = "arithmetic only"
    aliases: tuple[str, ...] = ()
    of_answer: bool = False  # it is about the first answer, not about all of them alike

    def missing(self, samples: MeasureInputs) -> frozenset[str]:
        """What it needs and the samples do not have."""
        return self.needs - samples.known

    def __call__(self, samples: MeasureInputs) -> float:
        """The value. Undefined is NaN, never an invented number."""
        value = float(self.function(samples))
        return value if not math.isnan(value) else math.nan
