"""What measures read and how they are declared.

In: samples. Out: `MeasureInputs`, all that is known of them as numbers. A measure is a pure function of that, declared
by `@as_measure` with what it needs, its unit, direction, range, equation, reference and cost.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..records import Branching, Draws, Sample

Array = NDArray[np.float64]
T = TypeVar("T")

FIELDS: Mapping[str, str] = {
    "samples": "the sampled answers themselves",
    "draws": "answers that were drawn at temperature 1",
    "logprobs": "log-probabilities of the answers' tokens",
    "identities": "to know which answers are the same",
    "clusters": "clusters of meaning",
    "branchings": "to know where each answer branched off the first",
    "texts": "the answers' texts",
    "tokens": "the answers' tokens as text",
    "token_entropies": "the entropy of the model's distribution at each token (only of answers sampled here)",
    "relevance": "the relevance of each token",
    "similarity": "similarities between the answers",
    "entailment": "entailment probabilities between the answers",
    "embeddings": "embeddings of the answers",
    "p_true": "the model's probability that its answer is true",
    "assessment": "the model's probabilities for the clusters as options",
    "other_logprobs": "log-probabilities of the answers under other models",
}
_OF_ALL = ("draws", "p_true", "assessment", "other_logprobs")  # not one value per answer
_PER_ANSWER = tuple(name for name in FIELDS if name not in _OF_ALL)
_OF_DECODING = {"logprobs", "token_entropies"}
_PAIRWISE = ("similarity", "entailment")


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
    texts: tuple[str, ...] | None = None
    tokens: tuple[tuple[str, ...], ...] | None = None  # the texts, token by token; one for each decision but the ending
    token_entropies: tuple[tuple[float, ...], ...] | None = None  # nats, of the model's distribution at each decision
    relevance: tuple[tuple[float, ...], ...] | None = None  # SAR's R_t = 1 − sim(q+y, q+y without t)
    similarity: Array | None = None  # (N, N), symmetric, in [0, 1]
    entailment: Array | None = None  # (N, N), P(answer i entails answer j)
    embeddings: Array | None = None  # (N, width)
    p_true: float | None = None  # the model's own probability that its answer is true
    assessment: tuple[float, ...] | None = None  # the model's probability for each cluster, offered as options; Σ = 1
    other_logprobs: tuple[tuple[float, ...], ...] | None = None  # per other model: log p(y) of each answer
    samples: tuple[Sample, ...] | None = None  # their clusters may be of another clustering: those above count
    draws: Draws | None = None  # their clusters are numbered like those above
    unavailable: Mapping[str, str] = field(default_factory=dict)  # why a field that was needed could not be computed

    def __post_init__(self) -> None:
        sizes = {name: len(getattr(self, name)) for name in _PER_ANSWER if getattr(self, name) is not None}
        if len(set(sizes.values())) != 1 or 0 in sizes.values():
            raise ValueError(f"answers must be of one number of at least 1, but there are {sizes}")
        for name in _PAIRWISE:
            matrix = getattr(self, name)
            if matrix is not None and matrix.shape != (len(self), len(self)):
                raise ValueError(f"{name} must be {len(self)} × {len(self)}, not {matrix.shape}")
        self._check_rows()

    def _check_rows(self) -> None:
        """What belongs to a decision, a cluster or another model's answer must match it one to one."""
        for found, steps in zip(self.relevance or (), self.logprobs or (), strict=False):
            if len(found) != len(steps):
                raise ValueError(f"relevance of {len(found)} tokens, but {len(steps)} log-probabilities")
        options, clusters = self.assessment, self.clusters
        if options is not None and clusters is not None and len(options) != len(set(clusters)):
            raise ValueError(f"{len(options)} assessed options, but {len(set(clusters))} clusters")
        if any(len(row) != len(self) for row in self.other_logprobs or ()):
            raise ValueError(f"every other model must score all {len(self)} answers")

    def __len__(self) -> int:
        return next(len(getattr(self, name)) for name in _PER_ANSWER if getattr(self, name) is not None)

    def first(self, count: int) -> MeasureInputs:
        """Return the first answers alone. What the model was asked about all of them together is then unknown."""
        kept: dict[str, Any] = {name: getattr(self, name)[:count] for name in _PER_ANSWER if name in self.known}
        for name in self.known.intersection(_PAIRWISE):
            kept[name] = kept[name][:, :count]
        if self.other_logprobs is not None:
            kept["other_logprobs"] = tuple(row[:count] for row in self.other_logprobs)
        return replace(self, **kept, assessment=None if count < len(self) else self.assessment)

    @property
    def known(self) -> frozenset[str]:
        """Names of the fields that are there."""
        return frozenset(name for name in FIELDS if getattr(self, name) is not None)


def given(value: T | None) -> T:
    """Return a field that the measure has declared as needed, and that therefore is there."""
    assert value is not None
    return value


# -- from samples -----------------------------------------------------------------------------------------------


def inputs_of(samples: Sequence[Sample], draws: Draws | None = None) -> MeasureInputs:
    """Return all that the samples themselves tell. A field that only some samples have is unknown."""
    generations = [sample.generation for sample in samples]
    steps = tuple(generation.decision_logprobs for generation in generations)
    entropies = tuple(generation.entropies[generation.given :] for generation in generations)
    clusters = tuple(sample.cluster for sample in samples if sample.cluster is not None)
    has_branches = len(samples) == 1 or any(sample.branching for sample in samples)
    has_tokens = all(sample.tokens or not sample.text for sample in samples)
    return MeasureInputs(
        logprobs=steps if all(steps) else None,
        identities=_identities(samples),
        clusters=clusters if len(clusters) == len(samples) else None,
        branchings=tuple(sample.branching for sample in samples) if has_branches else None,
        texts=tuple(sample.text for sample in samples),
        tokens=tuple(sample.tokens[sample.generation.given :] for sample in samples) if has_tokens else None,
        token_entropies=entropies if all(entropies) else None,
        samples=tuple(samples),
        draws=draws,
    )


def _identities(samples: Sequence[Sample]) -> tuple[Hashable, ...]:
    """Token ids tell apart what looks alike; of texts alone only the texts are known."""
    if all(sample.generation.token_ids or not sample.text for sample in samples):
        return tuple(sample.generation.identity for sample in samples)
    return tuple(sample.text for sample in samples)


# -- measures ---------------------------------------------------------------------------------------------------

Function = Callable[[MeasureInputs], float]
PAPER = "Aichberger et al. 2025, arXiv 2406.04306"
OURS = "this package"  # not published elsewhere
SAMPLED = "N sampled answers"
CLUSTERED = "N sampled answers + NLI of pairs of distinct answers"


@dataclass(frozen=True, slots=True)
class Measure:
    """A named function of samples, with all that a user must know of it."""

    name: str
    function: Function
    aliases: tuple[str, ...]
    needs: frozenset[str]  # fields of `MeasureInputs`
    unit: str
    higher_is_less_certain: bool
    low: float  # the range of its values
    high: float
    summary: str  # one line
    equation: str
    reference: str  # author and arXiv number
    cost: str
    of_answer: bool  # it is about the first answer, not about all of them alike
    undefined: str  # why it is NaN, if it is

    @property
    def needs_only_the_answer(self) -> bool:
        """Whether neither samples nor a judge of meaning change it."""
        return self.of_answer and self.needs <= _OF_DECODING

    def __call__(self, inputs: MeasureInputs) -> float:
        """Return the value. Undefined is NaN, never an invented number."""
        return float(self.function(inputs))


def as_measure(
    *aliases: str,
    needs: AbstractSet[str],
    equation: str = "",
    reference: str = "",
    cost: str = SAMPLED,
    unit: str = "nats",
    higher_is_less_certain: bool = True,
    low: float = 0.0,
    high: float = math.inf,
    of_answer: bool = False,
    undefined: str = "it has no value for these answers",
) -> Callable[[Function], Measure]:
    """Declare a function as a measure: its name is the function's, its summary the docstring's first line."""

    def declare(function: Function) -> Measure:
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        return Measure(
            function.__name__, function, aliases, frozenset(needs), unit, higher_is_less_certain, low, high, summary,
            equation, reference, cost, of_answer, undefined,
        )  # fmt: skip

    return declare
