"""Fit the equivalence `answers` for an NLI model on answers that people judged. Uses scikit-learn.

In: judged answers, `{id, question, answers: [{text, right}]}` on each line, in a part to fit on and one to choose on.
Out: a `SameAnswer` and its figures. Two right answers are the same, a right and a wrong one are not, two wrong ones are
unknown.

Two logistic regressions are fitted: what the words say, on all of train, and what the network says, on a part of it
(`is_held_out`, which the embedded model was not trained on). Dev then chooses how much the words weigh against the
network, and the threshold. Questions of when, of yes and no, and refusals are too rare among
judged answers: their weight is fixed (that of dates is what 2,946 pairs of train whose question asks when give it
alone, 2.2, rounded).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..clustering.same_answer import FEATURES, Array, SameAnswer, features
from ..errors import RunError
from ..nli.base import NliModel, NliProbabilities

try:
    from sklearn.linear_model import LogisticRegression
except ImportError as error:
    raise RunError("fitting needs scikit-learn: pip install 'sdlg[eval]'") from error

_NETWORK = ("entailment", "weaker_entailment", "contradiction")
_WORDS = ("shared_words", "overlap", "names_agree", "quantities_agree")
_FIXED = {"dates_agree": 2.0, "polarities_agree": 4.0, "refusals_agree": 4.0}
_MIXES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
_THRESHOLDS = np.arange(0.2, 0.81, 0.02).round(2).tolist()
_AS_GOOD = 0.002  # of balanced accuracy: far within its interval
_LONGEST = 240  # characters of an answer
_UNSURE = NliProbabilities(1 / 3, 1 / 3, 1 / 3)  # where no network is asked

Bools = NDArray[np.bool_]
Watch = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """Two answers to a question, and whether people's verdicts make them the same."""

    question: str
    one: str
    other: str
    same: bool
    source: str  # the letters that its id begins with: nq, tq
    group: str  # the question's id


@dataclass(frozen=True, slots=True)
class Fit:
    """The fitted equivalence, how much the words weigh in it, and how good it is on the part that chose it."""

    same_answer: SameAnswer
    words_share: float
    figures: tuple[str, ...]  # in words, for each source


def fit_same_answer(nli: NliModel, train: Path, dev: Path, watch: Watch) -> Fit:
    """Ask the network about a part of train and all of dev, in both directions; fit, choose and measure."""
    rows = read_rows(train)
    of_words = list(judged_pairs(rows))
    table = np.array([features(pair.question, pair.one, pair.other, _UNSURE, _UNSURE) for pair in of_words])
    words = _fit_part(_WORDS, table, of_words)
    held_out = list(judged_pairs([row for row in rows if is_held_out(str(row["id"]))], most_same=1, most_different=2))
    network = _fit_part(_NETWORK, ask_all(nli, held_out, "fitting", watch), held_out)
    chosen_on = list(judged_pairs(read_rows(dev)))
    table = ask_all(nli, chosen_on, "choosing", watch)
    model, share = _choose(network, words, table, chosen_on)
    return Fit(model, share, tuple(_figures(model, table, chosen_on)))


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    try:
        with file.open(encoding="utf-8") as lines:  # str.splitlines would also split at U+2028 inside a text
            return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {file}: {error}") from error


def is_held_out(question_id: str, percent: int = 15) -> bool:
    """Return whether a question was kept from the embedded model's training, for fitting the equivalence."""
    return int(hashlib.sha256(question_id.encode()).hexdigest(), 16) % 100 < percent


def judged_pairs(
    rows: Iterable[Mapping[str, Any]], most_same: int = 99, most_different: int = 99
) -> Iterator[JudgedPair]:
    """Yield so many pairs of every question, drawn by its id."""
    for row in rows:
        answers = [answer for answer in row["answers"] if len(answer["text"]) <= _LONGEST]
        source = "".join(itertools.takewhile(str.isalpha, str(row["id"])))
        pairs = [
            JudgedPair(row["question"], a["text"], b["text"], a["right"] and b["right"], source, str(row["id"]))
            for a, b in itertools.combinations(answers, 2)
            if (a["right"] or b["right"]) and a["text"].strip().casefold() != b["text"].strip().casefold()
        ]
        random.Random(row["id"]).shuffle(pairs)
        yield from [pair for pair in pairs if pair.same][:most_same]
        yield from [pair for pair in pairs if not pair.same][:most_different]


def ask_all(nli: NliModel, pairs: Sequence[JudgedPair], doing: str, watch: Watch) -> Array:
    """Return the features (pairs, features), asking question by question."""
    rows: list[Array] = []
    for question, group in itertools.groupby(pairs, key=lambda pair: pair.question):
        mine = [(pair.one, pair.other) for pair in group]
        verdicts = nli.judge(question, [*mine, *((b, a) for a, b in mine)]).probabilities
        both = zip(verdicts[: len(mine)], verdicts[len(mine) :], strict=True)
        rows += [features(question, *pair, *directions) for pair, directions in zip(mine, both, strict=True)]
        watch(doing, len(rows), len(pairs))
    return np.array(rows)


def _fit_part(names: Sequence[str], table: Array, pairs: Sequence[JudgedPair]) -> dict[str, float]:
    """Return weights by name. All sources, and in each the same and the different, weigh alike."""
    columns = table[:, [FEATURES.index(name) for name in names]]
    same, sources = _labels(pairs)
    weights = np.zeros(len(pairs))
    for source, alike in itertools.product(set(sources), (True, False)):
        cell = (sources == source) & (same == alike)
        weights[cell] = 400 / max(1, cell.sum())
    spread = columns.std(axis=0) + 1e-9
    fitted = LogisticRegression(C=0.3).fit(columns / spread, same, sample_weight=weights)
    slopes = dict(zip(names, (fitted.coef_[0] / spread).tolist(), strict=True))
    return {"constant": float(fitted.intercept_[0]), **slopes}


def _labels(pairs: Sequence[JudgedPair]) -> tuple[Bools, NDArray[np.str_]]:
    return np.array([pair.same for pair in pairs]), np.array([pair.source for pair in pairs])


def balanced_accuracy(joined: Bools, same: Bools) -> float:
    """Return the mean of what is right about the same and about the different."""
    return float((joined[same].mean() + (~joined[~same]).mean()) / 2)


def _choose(
    network: Mapping[str, float], words: Mapping[str, float], table: Array, pairs: Sequence[JudgedPair]
) -> tuple[SameAnswer, float]:
    """Return the mix and the threshold with the best balanced accuracy, the mean of all sources.

    Of mixes that are as good, the one with most of the words, but no more than their own fit: networks take near names
    for each other. Of thresholds that are as good, the one nearest to one half.
    """
    same, sources = _labels(pairs)
    best: dict[float, tuple[float, float, SameAnswer]] = {}  # of each mix: score, nearness, model
    for share, threshold in itertools.product(_MIXES, _THRESHOLDS):
        model = SameAnswer(_mix(network, words, share), threshold)
        joined = _joined(model, table)
        parts = [balanced_accuracy(joined[sources == name], same[sources == name]) for name in sorted(set(sources))]
        candidate = (sum(parts) / len(parts), -abs(threshold - 0.5), model)
        best[share] = max(best.get(share, candidate), candidate, key=lambda one: one[:2])
    highest = max(score for score, *_ in best.values())
    as_good = [share for share, (score, *_) in best.items() if score >= highest - _AS_GOOD]
    chosen = max((share for share in as_good if share <= 1.0), default=min(as_good))
    return best[chosen][2], chosen


def _mix(network: Mapping[str, float], words: Mapping[str, float], share: float) -> dict[str, float]:
    names = ("constant", *FEATURES)
    mixed = {n: network.get(n, 0.0) + share * words.get(n, 0.0) + _FIXED.get(n, 0.0) for n in names}
    return {name: round(weight, 3) for name, weight in mixed.items()}


def _joined(model: SameAnswer, table: Array) -> Bools:
    log_odds = model.weights.get("constant", 0.0) + table @ np.array([model.weights.get(f, 0.0) for f in FEATURES])
    joined: Bools = log_odds >= np.log(model.threshold / (1 - model.threshold))
    return joined


def _figures(model: SameAnswer, table: Array, pairs: Sequence[JudgedPair]) -> Iterator[str]:
    """Say how often the fit, and entailment in both directions, is right about pairs of each source."""
    same, sources = _labels(pairs)
    entailed = table[:, FEATURES.index("weaker_entailment")] > 0
    ways = {"answers": _joined(model, table), "both directions > 1/2": entailed}
    for source, (name, joined) in itertools.product(sorted(set(sources)), ways.items()):
        here, truth = joined[sources == source], same[sources == source]
        low, high = _interval(here, truth, [pair.group for pair in pairs if pair.source == source])
        yield (
            f"{source:<6}{name:<24}same {here[truth].mean():.3f}  different {1 - here[~truth].mean():.3f}  "
            f"balanced {balanced_accuracy(here, truth):.3f} [{low:.3f}, {high:.3f}] of {len(truth)} pairs"
        )


def _interval(joined: Bools, same: Bools, groups: Sequence[str], draws: int = 1000) -> tuple[float, float]:
    """Return a 95 % interval of the balanced accuracy, by resampling questions."""
    members: dict[str, list[int]] = {}
    for k, group in enumerate(groups):
        members.setdefault(group, []).append(k)
    places, generator = list(members.values()), np.random.default_rng(0)
    scores = []
    for _ in range(draws):
        drawn = np.concatenate([places[k] for k in generator.integers(len(places), size=len(places))])
        scores.append(balanced_accuracy(joined[drawn], same[drawn]))
    return float(np.nanquantile(scores, 0.025)), float(np.nanquantile(scores, 0.975))
