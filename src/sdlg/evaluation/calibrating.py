"""The calibration of a run, or of answers that were checked sentence by sentence and judged by people.

In: a run's results, or those of `sdlg check` and the verdicts; and a `Choice`, the options of `sdlg calibrate`. Out: a
`Calibration`, which says what it was made with. Light to import: the command line's flags derive from `Choice`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..errors import BadOption
from ..options import DEFAULT_METHOD, pick

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..calibration import Calibration, Origin
    from ..measures.base import Measure
    from ..result import Result
    from .plan import Method
    from .results import RunResults
    from .risk_fitting import RiskFit

AUTO, MAPS = "auto", ("isotonic", "logistic")
_NOT_AS_ONE = "sdlg ask measures them sentence by sentence, and they have no risk as a whole"
FIRST_MEASURE = "share_beyond_answer"  # 1 − the percentage that stands first in every view


def _option(default: Any, metavar: str, help: str) -> Any:
    return field(default=default, metadata={"metavar": metavar, "help": help})


@dataclass(frozen=True, slots=True)
class Choice:
    """What is calibrated, and how. None: by what the run holds."""

    method: str | None = _option(None, "NAME", "a sampling method of the run (default: sdlg, or the only one)")
    measure: str | None = _option(
        None, "NAME", f"a measure of the run (default: {FIRST_MEASURE}; its semantic entropy where nothing was drawn)"
    )
    samples: int | None = _option(None, "N", "the measure with the first N samples (default: all)")
    metric: str | None = _option(
        None, "NAME", "what judges the answers (default: same_answer, or rouge_l where the run has none)"
    )
    threshold: float = _option(0.5, "X", "an answer with a lower score of the metric is wrong")
    map: str = _option(AUTO, "{auto,isotonic,logistic}", "auto takes the one with the lower out-of-fold Brier score")
    error_rate: float = _option(0.2, "X", "find up to which value at most this share of the kept answers is wrong")
    confidence: float = _option(0.95, "X", "that this promise holds")
    folds: int = _option(5, "N", "of the cross-validation")
    seed: int = _option(0, "N", "of the folds and of the intervals")

    def __post_init__(self) -> None:
        pick("map", dict.fromkeys((AUTO, *MAPS)), self.map)
        if not 0 < self.error_rate < 1:
            raise BadOption(f"error_rate must be above 0 and below 1, not {self.error_rate}")
        if not 0 < self.confidence < 1:
            raise BadOption(f"confidence must be above 0 and below 1, not {self.confidence}")
        if self.folds < 2:
            raise BadOption(f"folds must be at least 2, not {self.folds}")
        if not 0 <= self.seed < 2**32:
            raise BadOption(f"seed must be from 0 to {2**32 - 1}, not {self.seed}")
        if not math.isfinite(self.threshold):
            raise BadOption(f"threshold must be a number, not {self.threshold}")

    @property
    def maps(self) -> tuple[str, ...]:
        """Return the kinds of maps to try."""
        return MAPS if self.map == AUTO else (self.map,)


def calibrate_run(run: RunResults, choice: Choice) -> Calibration:
    """Find what was chosen in the run, and calibrate it."""
    from .risk_fitting import fit_risk

    method = _method(run, choice.method)
    origin = _origin(run, method, choice)
    is_long = _by_sentence(run, method)
    if len(is_long) and is_long.all():
        raise BadOption(f"all {len(is_long)} answers of this run have several sentences: {_NOT_AS_ONE}")
    values = run.values(method.name, origin.measure, origin.samples)[~is_long]
    uncertainty = values if origin.higher_is_less_certain else -values
    fit = fit_risk(uncertainty, run.wrong(origin.metric, origin.threshold)[~is_long], choice)
    left_out = _left_out(run, method, origin, len(values) - fit.n)
    long = [f"{is_long.sum()} answers of several sentences were left out: {_NOT_AS_ONE}"] if is_long.any() else []
    return _calibration(origin, fit, [*fit.notes, *left_out, *long], dict(run.versions))


def _by_sentence(run: RunResults, method: Method) -> NDArray[np.bool_]:
    """Return which answers `sdlg ask` would measure sentence by sentence."""
    import numpy as np

    from ..sampling.sentences import is_long
    from ..sentences import cut_into_parts

    answers = (run.generated[name].answer for name in run.ids)
    texts = ["" if answer is None or method.sampler != DEFAULT_METHOD else answer.text for answer in answers]
    return np.array([is_long(cut_into_parts(text), method.options) for text in texts], dtype=bool)


def _calibration(origin: Origin, fit: RiskFit, notes: Sequence[str], versions: dict[str, str]) -> Calibration:
    from ..calibration import Calibration

    return Calibration(
        origin=origin,
        map=fit.map,
        smallest=fit.smallest,
        n=fit.n,
        n_wrong=fit.n_wrong,
        keep=fit.keep,
        out_of_fold=fit.out_of_fold,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=tuple(notes),
        versions=versions,
    )


# -- sentences of long answers ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """A part of an answer, word for word, and whether people found it right."""

    text: str
    right: bool


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer whose parts people judged."""

    question: str
    answer: str
    segments: tuple[JudgedPart, ...]


def calibrate_checks(
    checked: Sequence[Result], judged: Sequence[JudgedAnswer], name: str, choice: Choice
) -> Calibration:
    """Calibrate a measure of sentences. A part has the value of its least certain sentence that claims something."""
    from ..calibration import PEOPLE, Data, Origin, shaping_options
    from ..measures.table import find_measure
    from .risk_fitting import fit_risk

    measure = find_measure(choice.measure or FIRST_MEASURE)
    sign = 1.0 if measure.higher_is_less_certain else -1.0
    results = {(one.question.text.strip(), one.answer.text.strip()): one for one in checked}
    found = [(results.get((row.question.strip(), row.answer.strip())), row.segments) for row in judged]
    rows = [
        (max((sign * value for value in _values(result, part.text, measure)), default=math.nan), not part.right, owner)
        for owner, (result, parts) in enumerate(found)
        if result is not None
        for part in parts
    ]
    if not rows:
        raise BadOption("none of the judged answers was checked: make the file with sdlg check JUDGED --out FILE")
    values, wrong, owners = zip(*rows, strict=True)
    if all(map(math.isnan, values)):
        raise BadOption(f"no sentence has {measure.name}: check the answers with --measures {measure.name}")
    fit = fit_risk(values, wrong, choice, owners)
    one = next(result for result, _ in found if result is not None)
    origin = Origin(
        model=one.model or "",
        nli=one.nli or "",
        method=one.method,
        measure=measure.name,
        higher_is_less_certain=measure.higher_is_less_certain,
        samples=one.options.sentence_samples,
        metric=PEOPLE,
        threshold=0.5,
        data=Data(name, rows=len(judged), evaluated=sum(result is not None for result, _ in found)),
        options=shaping_options(one.options, one.method, measure.name, "sentence"),
        unit="sentence",
    )
    notes = [*fit.notes, "parts of one answer are taken as independent by the interval and by the promise"]
    if missing := sum(result is None for result, _ in found):
        notes.append(f"{missing} of {len(judged)} judged answers were not checked, or read otherwise by the model")
    if len(rows) > fit.n:
        notes.append(f"{len(rows) - fit.n} judged parts without a sentence that has {measure.name} were left out")
    return _calibration(origin, fit, notes, {})


def _values(result: Result, text: str, measure: Measure) -> Iterator[float]:
    """Yield the measure's value of each sentence that a part of the answer lies in."""
    from ..scoring.alignment import overlapping

    start, names = result.answer.text.find(text), (measure.name, *measure.aliases)
    if start >= 0:
        for number in overlapping((start, start + len(text)), [(one.start, one.end) for one in result.sentences]):
            estimates = result.sentences[number].estimates
            yield from (estimates[name].value for name in names if name in estimates)


def _left_out(run: RunResults, method: Method, origin: Origin, dropped: int) -> Iterator[str]:
    if dropped:
        reasons = run.reasons(method.name, origin.measure).most_common(1)
        why = f"; most often: {reasons[0][0]}" if reasons else ""
        yield f"{dropped} answers without a value of {origin.measure} or a verdict were left out{why}"
    if run.skipped:
        yield f"skipped in the run, and no part of this: {len(run.skipped)} of its questions"


def _origin(run: RunResults, method: Method, choice: Choice) -> Origin:
    """Return what the calibration is made with, or raise an error that lists what the run has."""
    from ..calibration import Data, Origin, shaping_options
    from ..measures.table import find_measure
    from .defaults import headline_metric

    names = run.measures(method.name)
    usual = FIRST_MEASURE if FIRST_MEASURE in names else semantic_entropy_of(method.sampler)
    measure = find_measure(choice.measure or usual)
    pick(f"measure of {method.name} in this run", dict.fromkeys(names), measure.name)
    samples = run.samples if choice.samples is None else choice.samples
    if not 1 <= samples <= run.samples:
        raise BadOption(f"samples must be from 1 to {run.samples}, the number in the run, not {samples}")
    metrics = {name: name for name in run.metrics}
    known = {part.name for part in fields(Data)}
    return Origin(
        model=run.model,
        nli=run.nli,
        method=method.sampler,
        measure=measure.name,
        higher_is_less_certain=measure.higher_is_less_certain,
        samples=samples,
        metric=pick("metric of this run", metrics, choice.metric or headline_metric(run.metrics)),
        threshold=choice.threshold,
        data=Data(**{name: value for name, value in run.config["data"].items() if name in known}),
        options=shaping_options(method.options, method.sampler, measure.name),
    )


def semantic_entropy_of(sampler: str) -> str:
    """Return the measure that is a result's `semantic_entropy`."""
    return "SE*_SDLG" if sampler == "sdlg" else "SE*_MS"


def _method(run: RunResults, spec: str | None) -> Method:
    """Find a method by its whole name, or by its sampler where there is only one of it."""
    from .plan import parse_method, plan_from

    if not run.ids:
        raise BadOption(f"no question of {run.folder} has passed all stages yet; finish the run with sdlg eval")
    options = plan_from(run.config["plan"]).options
    wanted = "sdlg" if spec is None else parse_method(spec, options).name
    matches = [name for name in run.methods if name == wanted] or list(run.methods_of(wanted))
    if not matches and spec is None:
        matches = list(run.methods)
    if len(matches) != 1:
        pick("method of this run", dict.fromkeys(run.methods), wanted)
    return parse_method(matches[0], options)
