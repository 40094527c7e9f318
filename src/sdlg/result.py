"""The result of one question: what Python users hold. Its JSON form is `schema.py`'s business."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .options import Options
from .records import (
    OF_SENTENCE,
    AnswerRisk,
    Cluster,
    Cost,
    Estimate,
    Generation,
    Question,
    Sample,
    Sentence,
    Setup,
    Substitution,
    Word,
)

SEMANTIC_ENTROPY = "semantic_entropy"
SHARE_ENTROPY = "share_entropy"
MEAN_SENTENCE_ENTROPY = "mean_sentence_entropy"
_NEARLY_ALL = 0.995  # rounds to 100 %


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The answer, its samples, their meanings, and the estimates made from them."""

    question: Question
    model: str | None  # None: the answers were given
    nli: str | None  # None: nothing was compared
    method: str  # a sampling method, or "given"
    preset: str
    clusters: tuple[Cluster, ...]  # the meanings, the answer's own first
    estimates: Mapping[str, Estimate]  # semantic_entropy, share_entropy, and the measures that were asked for
    unavailable: Mapping[str, str]  # measures that were asked for and have no value, with the reason
    coverage: float | None  # the share of all probability that was looked at; None: no likelihoods are known
    words: tuple[Word, ...]  # of the answer
    samples: tuple[Sample, ...]  # the answer first
    draws: tuple[Sample, ...]  # that only weigh meanings; none where the samples themselves do
    candidates: tuple[Substitution, ...]  # the best changes of each position, in the order of their ranks
    options: Options
    setup: Setup  # what else shaped the result: measures, calibration, further models
    cost: Cost
    risk: AnswerRisk | None = None  # None: no calibration fits
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)  # what the measures that were asked for were made from
    sentences: tuple[Sentence, ...] = ()  # of a long answer, each measured on its own; () where the answer is one unit

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
        """The paper's score of doubt, in nats: higher is less certain. Of a long answer: the
        greatest of its sentences.

        Its logarithm is that of the clusters' mass, not of their share, as the paper has it, so it may exceed the
        logarithm of the number of meanings, or be below 0.
        """
        return self.estimates[SEMANTIC_ENTROPY].value

    @property
    def mean_sentence_entropy(self) -> float | None:
        """The mean of the paper's estimate over the sentences that were measured; None: the answer is one unit."""
        estimate = self.estimates.get(MEAN_SENTENCE_ENTROPY)
        return None if estimate is None else estimate.value

    def sentence(self, number: int) -> Result:
        """Return a sentence that was measured as a result of its own: for views and measures."""
        one = self.sentences[number]
        return replace(
            self, **{name: getattr(one, name) for name in OF_SENTENCE}, risk=one.risk, evidence={}, sentences=()
        )

    @property
    def share_entropy(self) -> Estimate | None:
        """The entropy of the meanings' percentages, in nats, with its interval. None: nothing was drawn."""
        return self.estimates.get(SHARE_ENTROPY)

    @property
    def meanings(self) -> tuple[Cluster, ...]:
        """The meanings in the order of their shares, the largest first."""
        return tuple(sorted(self.clusters, key=lambda cluster: -cluster.share))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form as plain dicts and lists (docs/reference/result-format.md)."""
        from .schema import result_dict

        return result_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """Return the JSON form, one line by default. `sdlg.result_from_json` reads it again."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def __repr__(self) -> str:
        if self.sentences:
            lines = (f"  {sentence_share(one):>4}  {one.text}" for one in self.sentences)
            return "\n".join([f"{len(self.sentences)} sentences, with the share of each one's own meaning", *lines])
        headline = f"  semantic entropy {self.semantic_entropy:.3f} nats, {len(self.clusters)} meanings"
        meanings = (
            f"  {share_text(cluster)}  {cluster.text!r} ×{len(cluster.members) + len(cluster.draws)}"
            for cluster in self.meanings
        )
        risk = [f"  {self.risk.sentence}"] if self.risk else []
        return "\n".join([repr(self.answer.text), headline, *risk, *meanings])

    def _repr_html_(self) -> str:
        from .views.notebook import notebook_view

        return notebook_view(self)


def share_text(cluster: Cluster) -> str:
    """Return a meaning's share with its interval, all three rounded alike: "81% (78–86%)"."""
    if cluster.probability is None or cluster.low is None or cluster.high is None:
        return f"{percent(cluster.share)} of the score"
    low, high = round(100 * cluster.low), round(100 * cluster.high)
    return f"{percent(cluster.probability)} ({low}–{high}%)"


def sentence_share(sentence: Sentence) -> str:
    """Return the share of a sentence's own meaning, in a few characters.

    "≥61%": nothing that was found contradicts it, and its interval begins there; "?": too little was drawn to tell;
    "–": it was not measured.
    """
    if not sentence.clusters or sentence.is_open:
        return "?" if sentence.clusters else "–"
    share, low = sentence.clusters[0].share, sentence.clusters[0].low
    if low is not None and low < _NEARLY_ALL <= share:
        return f"≥{round(100 * low)}%"
    return percent(share)


def percent(share: float) -> str:
    """Return a share in whole per cent; "<1%" and ">99%" for what would round to 0 % or 100 % and is not."""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if _NEARLY_ALL <= share < 1 else f"{share:.0%}"
