"""A calibration: from measures to a score to a risk, what it was made with, and how good it was found to be."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import BadOption
from ..formats.files import write_whole
from ..formats.numbers import is_number
from ..options import Options
from ..records import AnswerRisk
from .combination import PLAIN, Combination
from .files import FORMAT, build, build_map, read_object
from .maps import MAPS, RiskMap
from .origin import Origin

if TYPE_CHECKING:
    from ..formats.results import Result
    from ..records import Question

_ONE_IN = (7, 10, 15, 20, 30, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class RejectionRule:
    """Up to which value answers may be kept so that no more than a wanted share of them is wrong.

    The counts are out of fold: each answer was kept or rejected by a threshold that was chosen without it.
    """

    wanted: float  # error rate
    threshold: float | None  # a score; None: no threshold keeps to that rate, for the reason given
    kept: int
    wrong: int  # of those kept
    n: int
    low: float | None  # 95 % interval of the error rate; None where nothing was kept
    high: float | None
    reason: str = ""

    @property
    def coverage(self) -> float:
        """Share of answers kept."""
        return self.kept / self.n if self.n else math.nan

    @property
    def error_rate(self) -> float:
        """Share of wrong answers among those kept; NaN where nothing was kept."""
        return self.wrong / self.kept if self.kept else math.nan


@dataclass(frozen=True, slots=True)
class Risk:
    """Call it with a score, the measure's value where there is one measure: how likely such an answer is wrong.

    So few answers were seen at each value that no risk below `smallest` or above 1 − `smallest` is known: with m
    answers in each of the bins in which the map was checked, that is 1 / (m + 2), the rule of succession.
    """

    map: RiskMap
    smallest: float
    n: int
    n_wrong: int
    origin: Origin
    keep: RejectionRule
    out_of_fold: Mapping[str, Any]  # how good it is: Brier score, skill, ECE, reliability
    created: str
    notes: tuple[str, ...] = ()
    versions: Mapping[str, Any] = field(default_factory=dict)
    combination: Combination = PLAIN

    def __post_init__(self) -> None:
        if len(self.combination.weights) != len(self.origin.measures):
            raise ValueError(f"{len(self.combination.weights)} weights are not of {len(self.origin.measures)} measures")
        if not 0 < self.n_wrong < self.n:
            raise ValueError(f"{self.n_wrong} wrong of {self.n} answers cannot be calibrated")
        if not 0 <= self.smallest < 0.5:
            raise ValueError(f"the smallest risk is {self.smallest}, not from 0 to 0.5")
        if not self.map.is_monotone(1 if self.origin.higher_is_less_certain else -1):
            raise ValueError("the map is not monotone: the risk must never fall with the uncertainty")

    def __call__(self, value: float) -> float:
        """The probability that an answer with this value is wrong; NaN if the value is."""
        return float(np.clip(self.map(value), self.smallest, 1 - self.smallest))

    def sentence(self, value: float) -> str:
        """The risk in words, no finer than the number of answers supports."""
        risk = self(value)
        if math.isnan(risk):
            return f"{self.origin.measure} is undefined for this answer, and so is its risk"
        return in_words(risk)

    def keeps(self, value: float) -> bool | None:
        """Whether such answers may be kept for the wanted error rate; None where that is not known."""
        if self.keep.threshold is None or math.isnan(value):
            return None
        return value <= self.keep.threshold if self.origin.higher_is_less_certain else value >= self.keep.threshold

    @property
    def base_rate(self) -> float:
        """The share of wrong answers among all."""
        return self.n_wrong / self.n

    @property
    def basis(self) -> str:
        """What the risk was measured on, in words."""
        origin = self.origin
        details = [*filter(None, [origin.data.get("format")]), f"wrong is {origin.metric} below {origin.threshold:g}"]
        answers = f"{self.n} answers to {origin.data.get('name', 'questions')}, {self.n - self.n_wrong} of them right"
        skill = self.out_of_fold.get("skill")
        low: Any = skill.get("low") if isinstance(skill, Mapping) else None
        if is_number(low) and low <= 0:
            details.append(f"{origin.measure} was not shown to tell more than that share")
        return f"measured on {answers} ({'; '.join(details)})"

    def value_in(self, result: Result) -> float:
        """The score of a result: NaN if it is undefined there, an error if a measure was not asked for."""
        return float(self.combination([_value_of(measure, result) for measure in self.origin.measure_names]))

    def of(self, result: Result) -> AnswerRisk:
        """The risk of a result's answer."""
        value = self.value_in(result)
        is_defined = not math.isnan(value)
        return AnswerRisk(
            probability=self(value) if is_defined else None,
            sentence=self.sentence(value),
            basis=self.basis,
            measure=self.origin.measure,
            value=value if is_defined else None,
            keep=self.keeps(value),
        )

    def check(self, result: Result) -> list[str]:
        """Warnings where a result was made otherwise; an error where the calibration says nothing of it."""
        self.value_in(result)
        return self.check_setup(result.model, result.nli, result.method, result.options)

    def check_setup(self, model: str, nli: str, method: str, options: Options) -> list[str]:
        """The same before anything is generated."""
        return self.origin.check_setup(model, nli, method, options)

    def differing_format(self, question: Question) -> list[str]:
        """A warning if the questions it was made with were asked with something before them that this one lacks."""
        made = self.origin.data.get("format")
        if made in (None, "zero-shot") or question.shots or question.context:
            return []
        return [f"the calibration was made with questions asked {made}, this one stands alone: the risk may be off"]

    @property
    def fingerprint(self) -> str:
        """Tells two calibrations apart."""
        return sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form as plain dicts and lists."""
        kind = next(name for name, sort in MAPS.items() if isinstance(self.map, sort))
        own = {part.name: getattr(self, part.name) for part in fields(self)}
        records = {"map": {"kind": kind, **_listed(asdict(self.map))}}
        records |= {"origin": _listed(asdict(self.origin)), "keep": asdict(self.keep)}
        records |= {"combination": _listed(asdict(self.combination))}
        return {"format": FORMAT, **_listed(own), **records, "base_rate": self.base_rate}

    def save(self, path: str | Path) -> None:
        """Write the file: it is there whole, or as it was before."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False)
        write_whole(Path(path), f"{text}\n".encode())

    @classmethod
    def load(cls, path: str | Path) -> Risk:
        """Read a file and check it."""
        row, where = read_object(Path(path)), f"the calibration {path}"
        if missing := [name for name in ("combination", "map", "origin", "keep") if name not in row]:
            raise BadOption(f"{where} has no {', '.join(missing)}")
        return build(
            cls,
            row,
            where,
            map=build_map(row["map"], f"{where}, map"),
            origin=build(Origin, row["origin"], f"{where}, origin"),
            keep=build(RejectionRule, row["keep"], f"{where}, keep"),
            combination=build(Combination, row["combination"], f"{where}, combination"),
        )


def _value_of(measure: str, result: Result) -> float:
    for name, estimate in result.estimates.items():
        if measure in (name, estimate.options.get("variant")):
            return estimate.value
    if any(note.startswith(f"{measure}: ") for note in result.notes):
        return math.nan
    raise BadOption(f"the calibration is of {measure}, which the result does not have; add --measures {measure!r}")


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def in_words(risk: float) -> str:
    """The share of wrong answers as people say it, rounded to what can be pictured. Never none and never all."""
    if risk < 0.15:
        one_in = min(_ONE_IN, key=lambda n: abs(math.log(max(risk, 1e-9) * n)))
        return f"about 1 in {one_in} such answers is wrong"
    if risk >= 0.965:
        return "nearly all such answers are wrong"
    if risk >= 0.925:
        return "about 19 in 20 such answers are wrong"
    return f"about {math.floor(10 * risk + 0.5)} in 10 such answers are wrong"
