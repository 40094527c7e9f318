"""A calibration: from a measure to a risk, what it was made with, and how good it was found to be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import JsonValue, TypeAdapter, ValidationError

from ..errors import BadOption
from ..files import write_whole
from ..measures.table import find_measure
from ..models import same_model
from ..options import Options
from ..records import AnswerRisk
from .maps import Count, Number, RiskMap

if TYPE_CHECKING:
    from ..records import Question
    from ..result import Result

Unit = Literal["answer", "sentence"]  # what is right or wrong: a whole answer, or a sentence of a long one
PEOPLE = "people"  # in the place of a metric, where people judged

_MADE_OTHERWISE = "it may be off: made with other options than here"
_ONE_IN = (7, 10, 15, 20, 30, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class Data:
    """The questions that were evaluated."""

    name: str
    sha256: str | None = None
    rows: Count | None = None
    evaluated: Count | None = None
    format: str | None = None  # what stands before a question: "with a context", "10-shot"; None: "zero-shot"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a calibration was made with: it holds for that, and for little else."""

    model: str
    nli: str
    method: str  # the sampler; its options are among the options
    measure: str
    higher_is_less_certain: bool
    samples: Count
    metric: str
    threshold: Number  # an answer with a lower score of the metric is wrong
    data: Data
    options: Mapping[str, JsonValue]  # by name: those that shape the answers or the measure
    unit: Unit = "answer"

    @property
    def needs_only_the_answer(self) -> bool:
        """Whether samples and judge of meaning do not matter to it."""
        return find_measure(self.measure).needs_only_the_answer

    def differences(self, model: str | None, nli: str | None, method: str, options: Options) -> list[str]:
        """Return a warning for each setting that differs here; raise where the model or the method does."""
        if model is None or not same_model(self.model, model):
            raise _says_nothing("--model", self.model, model)
        if self.method != method:
            raise _says_nothing("--method", self.method, method)
        here = shaping_options(options, method, self.measure, self.unit)
        samples = options.samples if self.unit == "answer" else options.sentence_samples
        count = "--samples " if self.unit == "answer" else "--set sentence_samples="
        sampled = [("--nli ", self.nli, nli), (count, self.samples, samples)]
        pairs: list[tuple[str, object, object]] = [
            *([] if self.needs_only_the_answer else sampled),
            *((f"--set {name}=", made, here[name]) for name, made in self.options.items() if name in here),
        ]
        return [
            f"the calibration was made with {flag}{made}, not {value}: the risk may be off, and nothing is promised"
            for flag, made, value in pairs
            if made != value
        ]


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Up to which uncertainty answers may be kept so that, with some confidence, at most a wanted share is wrong.

    The promise is about answers of the same model to questions like those of the run. Questions of another kind,
    another model or other options break it.
    """

    wanted: Number  # error rate
    confidence: Number  # that the promise holds
    threshold: Number | None  # an uncertainty, as the map takes it; None: no threshold could be shown to keep to it
    kept: Count  # of the run's answers
    wrong: Count  # of those kept
    n: Count
    reason: str = ""  # why there is no threshold

    def in_words(self, keep: bool | None, unit: Unit = "answer") -> str:
        """Return what the promise says of an answer that is kept, or is not; nothing where there is no promise."""
        if keep is None:
            return ""
        is_whole = abs(1 / self.wanted % 1) < 1e-6
        part = f"1 in {round(1 / self.wanted)} is" if is_whole else f"{exact_percent(self.wanted)} are"
        do, done = ("answer", "answered") if unit == "answer" else ("keep", "kept")
        return f"; {done}: of {unit}s as sure as this at most {part} wrong" if keep else f"; not sure enough to {do}"

    @property
    def coverage(self) -> float:
        """Return the share of answers kept."""
        return self.kept / self.n if self.n else math.nan

    @property
    def error_rate(self) -> float:
        """Return the share of wrong answers among those kept; NaN where nothing was kept."""
        return self.wrong / self.kept if self.kept else math.nan


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and its 95 % bootstrap interval."""

    value: Number
    low: Number
    high: Number


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of about the same risk, and how many of them were wrong."""

    low: Number  # lowest and highest risk in it
    high: Number
    risk: Number  # their mean
    wrong: Count
    n: Count
    share_low: Number  # Wilson's 95 % interval of the share of wrong answers
    share_high: Number


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """How good the risks are on answers that the map was not fitted on."""

    folds: Count
    seed: Count
    brier: Number
    brier_of_base_rate: Number
    skill: Interval  # the part of the base rate's Brier score that the map removes
    ece: Number
    ece_if_perfect: Number  # the mean over simulated answers that are wrong exactly as often as the risks say
    bins: tuple[Bin, ...]
    brier_of_maps: Mapping[str, Number]  # of every map that was tried
    auroc: Interval  # of the measure itself: nothing is fitted for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A map from a measure to a risk. No risk below `smallest` or above 1 − `smallest` is known: with m answers in each
    of the bins in which the map was checked, that is 1 / (m + 2), the rule of succession."""

    format: Literal["sdlg.calibration/1"] = "sdlg.calibration/1"
    origin: Origin
    map: RiskMap
    smallest: Number
    n: Count
    n_wrong: Count
    keep: KeepRule
    out_of_fold: OutOfFold
    created: str
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)  # of the packages that made the answers

    def __post_init__(self) -> None:
        if not 0 < self.n_wrong < self.n:
            raise ValueError(f"{self.n_wrong} wrong of {self.n} answers cannot be calibrated")
        if not 0 <= self.smallest < 0.5:
            raise ValueError(f"the smallest risk is {self.smallest}, not from 0 to 0.5")

    def risk_at(self, value: float) -> float:
        """Return the probability that an answer with this value of the measure is wrong; NaN if the value is."""
        return float(np.clip(self.map(self._uncertainty(value)), self.smallest, 1 - self.smallest))

    def keeps(self, value: float) -> bool | None:
        """Return whether such answers may be kept for the wanted error rate; None where that is not known."""
        if self.keep.threshold is None or math.isnan(value):
            return None
        return self._uncertainty(value) <= self.keep.threshold

    def _uncertainty(self, value: float) -> float:
        return value if self.origin.higher_is_less_certain else -value

    def value_in(self, result: Result) -> float:
        """Return the measure's value in a result, by whichever of its names; NaN if it has none there."""
        measure = find_measure(self.origin.measure)
        names = (self.origin.measure, measure.name, *measure.aliases)
        return next((result.estimates[name].value for name in names if name in result.estimates), math.nan)

    def risk_of(self, result: Result, *, is_made_otherwise: bool = False) -> AnswerRisk:
        """Return the risk of a result's answer, or of a sentence as a result of its own. An answer that was made with
        other options than the calibration's has no promise."""
        value, measure, unit = self.value_in(result), self.origin.measure, self.origin.unit
        if math.isnan(value):
            why = f"no risk: {measure} has no value for this {unit}"
            return AnswerRisk(None, why, self.basis, measure, None, None)
        risk, keep = self.risk_at(value), None if is_made_otherwise else self.keeps(value)
        more = f" ({_MADE_OTHERWISE})" if is_made_otherwise else self.keep.in_words(keep, unit)
        return AnswerRisk(risk, f"{in_words(risk, unit)}{more}", self.basis, measure, value, keep)

    @property
    def basis(self) -> str:
        """Return what the risk was measured on, in words."""
        origin, right = self.origin, self.n - self.n_wrong
        is_people = origin.metric == PEOPLE
        details = ["as people judged"] if is_people else [f"wrong is {origin.metric} below {origin.threshold:g}"]
        if origin.data.format:
            details.insert(0, origin.data.format)
        if self.out_of_fold.skill.low <= 0:
            details.append(f"{origin.measure} was not shown to tell more than that share")
        if self.keep.threshold is None:
            details.append(f"at most {exact_percent(self.keep.wanted)} wrong cannot be promised")
        measured = "answers" if origin.unit == "answer" else "judged parts of answers"
        return f"measured on {self.n} {measured} to {origin.data.name}, {right} of them right ({'; '.join(details)})"

    def is_asked_alike(self, question: Question) -> bool:
        """Return whether what stands before a question is as in the data. No run has a system message."""
        if question.system is not None:
            return False
        shots = f"{len(question.shots)}-shot" if question.shots else "zero-shot"
        return (self.origin.data.format or "zero-shot") == ("with a context" if question.context is not None else shots)

    @property
    def fingerprint(self) -> str:
        """Return a short hash that tells two calibrations apart."""
        return sha256(_JSON.dump_json(self)).hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write the file: it is there whole, or as it was before."""
        write_whole(Path(path), _JSON.dump_json(self, indent=2) + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read a file; raise an error that names the field that is wrong and what was expected."""
        try:
            return _JSON.validate_json(Path(path).read_bytes(), strict=True)
        except OSError as error:
            raise BadOption(f"cannot read the calibration {path}: {error.strerror or error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            wrong = first["msg"].removeprefix("Value error, ")
            raise BadOption(f"{path} is no calibration: {where}: {wrong}; make one with sdlg calibrate") from error


_JSON = TypeAdapter(Calibration)


def exact_percent(share: float) -> str:
    """Return a share that was asked for, as exactly as it was."""
    return f"{100 * share:.4g}%"


def in_words(risk: float, unit: Unit = "answer") -> str:
    """Return the share of wrong answers as people say it, rounded to what can be pictured: never none, never all."""
    if risk < 0.15:
        one_in = min(_ONE_IN, key=lambda n: abs(math.log(max(risk, 1e-9) * n)))
        return f"about 1 in {one_in} such {unit}s is wrong"
    if risk >= 0.965:
        return f"nearly all such {unit}s are wrong"
    if risk >= 0.925:
        return f"about 19 in 20 such {unit}s are wrong"
    return f"about {math.floor(10 * risk + 0.5)} in 10 such {unit}s are wrong"


def shaping_options(options: Options, method: str, measure: str, unit: Unit = "answer") -> dict[str, JsonValue]:
    """Return the options that shape a method's answers or the measure, as JSON has them; scoring is SDLG's only."""
    named: dict[str, JsonValue] = {"prompt": options.prompt, **asdict(options.decoding)}
    if unit == "sentence":
        del named["max_tokens"]  # a sentence that was cut is not measured
    if find_measure(measure).needs_only_the_answer:
        del named["branch_strategy"]
    else:
        named |= {"draws": options.draws, **asdict(options.clustering)}
        named |= asdict(options.scoring) if method == "sdlg" else {}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}


def _says_nothing(flag: str, made: str, value: str | None) -> BadOption:
    return BadOption(
        f"the calibration was made with {flag} {made}, not {value}, and says nothing of its answers; "
        f"use {flag} {made}, or make another one with sdlg eval and sdlg calibrate"
    )
