"""The result of one question: what Python users hold, and its JSON form `sdlg.result/3` (docs/result-format.md).

Everything that an independent program needs to recompute every estimate is in the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..options import Options
from ..records import AnswerRisk, Cluster, Cost, Estimate, Generation, Question, Sample, Setup, Substitution, Word
from .codec import cost_dict, generation_dict, sample_dict

FORMAT = "sdlg.result/3"
CANDIDATES_SHOWN = 8  # of each position, in the JSON form


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The answer, its samples, their clusters, and the estimates made from them."""

    question: Question
    model: str
    nli: str
    method: str
    preset: str
    options: Options
    words: tuple[Word, ...]
    samples: tuple[Sample, ...]
    clusters: tuple[Cluster, ...]
    estimates: Mapping[str, Estimate]
    coverage: float | None  # None: the model tells no likelihoods
    cost: Cost
    notes: tuple[str, ...] = ()
    setup: Setup = field(default_factory=Setup)  # what else shaped it: measures, calibration, further models
    evidence: Mapping[str, Any] = field(default_factory=dict)  # what the measures that were asked for were made from
    risk: AnswerRisk | None = None  # None: no calibration was given
    approximate: bool = False  # the model's tokens are only known by their spelling
    candidates: tuple[Substitution, ...] = ()  # every change that was ranked, best first; most were not tried
    draws: tuple[Sample, ...] = ()  # that only weigh; none where the samples themselves do

    @property
    def answer(self) -> Generation:
        """The initial answer."""
        return self.samples[0].generation

    @property
    def tokens(self) -> tuple[str, ...]:
        """The initial answer's text, token by token."""
        return self.samples[0].tokens

    @property
    def semantic_entropy(self) -> float:
        """The paper's estimate; higher is less certain. `estimates["semantic_entropy"].options` names the measure."""
        return self.estimates["semantic_entropy"].value

    @property
    def share_entropy(self) -> Estimate | None:
        """The entropy of the clusters' probabilities, in nats, with its interval; None: nothing was drawn."""
        return self.estimates.get("share_entropy")

    def text_of(self, cluster: Cluster) -> str:
        """The first answer that means this."""
        first = self.samples[cluster.members[0]] if cluster.members else self.draws[cluster.draws[0]]
        return first.text

    def to_dict(self) -> dict[str, Any]:
        """The JSON form as plain dicts and lists."""
        return {
            "format": FORMAT,
            "question": self.question.text,
            "context": self.question.context,
            "system": self.question.system,
            "shots": [list(shot) for shot in self.question.shots],
            "model": self.model,
            "nli": self.nli,
            "method": self.method,
            "preset": self.preset,
            "seed": self.options.seed,
            "options": asdict(self.options),
            "setup": asdict(self.setup),
            "answer": self._answer_dict(),
            "candidates": [asdict(candidate) for candidate in _best_of_each_position(self.candidates)],
            "samples": [sample_dict(sample) for sample in self.samples],
            "draws": [sample_dict(draw) for draw in self.draws],
            "clusters": [asdict(cluster) for cluster in self.clusters],
            "estimates": {name: _estimate_dict(estimate) for name, estimate in self.estimates.items()},
            "risk": None if self.risk is None else asdict(self.risk),
            "coverage": self.coverage,
            "approximate": self.approximate,
            "evidence": dict(self.evidence),
            "cost": cost_dict(self.cost),
            "notes": list(self.notes),
        }

    def _answer_dict(self) -> dict[str, Any]:
        return {
            **generation_dict(self.answer),
            "tokens": list(self.tokens),
            "words": [asdict(word) for word in self.words],
            "truncated_mass": list(self.answer.truncated_mass),
        }

    def to_json(self, indent: int | None = None) -> str:
        """One line by default. Characters stay themselves."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def __repr__(self) -> str:
        headline = f"  semantic entropy {self.semantic_entropy:.3f}, {len(self.clusters)} meanings"
        meanings = (
            f"  {cluster.share:6.1%}{interval_text(cluster)}  {self.text_of(cluster)!r}"
            f" ×{len(cluster.members) + len(cluster.draws)}"
            for cluster in self.clusters
        )
        risk = [f"  {self.risk.sentence}"] if self.risk else []
        return "\n".join([repr(self.answer.text), headline, *risk, *meanings])

    def _repr_html_(self) -> str:
        from ..views.notebook import notebook_view

        return notebook_view(self)


def interval_text(cluster: Cluster) -> str:
    """The interval of a meaning's probability; of the score's share there is none, and it is called a score."""
    if cluster.probability is None or cluster.low is None or cluster.high is None:
        return " score"
    return f" ({cluster.low:.0%}–{cluster.high:.0%})"


def _best_of_each_position(candidates: tuple[Substitution, ...]) -> list[Substitution]:
    """Those that a reader may want to see: the best few of each position, in the order of their ranks."""
    shown: dict[int, int] = {}
    found = []
    for candidate in candidates:
        shown[candidate.position] = shown.get(candidate.position, 0) + 1
        if shown[candidate.position] <= CANDIDATES_SHOWN:
            found.append(candidate)
    return found


def _estimate_dict(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "unit": estimate.unit,
        "higher_is_less_certain": estimate.higher_is_less_certain,
        "options": dict(estimate.options),
        "low": estimate.low,
        "high": estimate.high,
    }
