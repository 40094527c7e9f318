"""The calibration of a run: which of its methods and measures, and what the file says it was made with.

In: a run's results and a `Choice`. Out: a `Risk`, ready to be saved, and the `Calibration` that it is from.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import BadOption
from ..measures.headline import headline_measure
from ..measures.table import find_measure
from ..options import Options, flat_options, pick
from ..risk import Origin, Risk
from .choice import Choice
from .defaults import headline_metric
from .plan import Method, parse_clustering, parse_method, plan_from
from .results import RunResults, stored_name

if TYPE_CHECKING:
    from .calibration import FittedCalibration


@dataclass(frozen=True, slots=True)
class CalibratedRun:
    """What is saved, and what it is from."""

    risk: Risk
    calibration: FittedCalibration


def calibrate_run(run: RunResults, choice: Choice) -> CalibratedRun:
    """Find what was chosen in the run, and calibrate it."""
    from .calibration import calibrate

    origin = describe(run, choice)
    values = run.values(origin.method, origin.measure, origin.samples)
    direction = origin.higher_is_less_certain
    calibration = calibrate(
        values, run.wrong(origin.metric, origin.threshold), higher_is_less_certain=direction, choice=choice
    )
    risk = Risk(
        map=calibration.map,
        smallest=calibration.smallest,
        n=calibration.n,
        n_wrong=calibration.n_wrong,
        origin=origin,
        keep=calibration.keep,
        out_of_fold=_out_of_fold(calibration, choice),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=(*calibration.notes, *_left_out(run, origin, calibration)),
        versions={"sdlg": __version__, "run": dict(run.versions)},
    )
    return CalibratedRun(risk, calibration)


def _out_of_fold(calibration: FittedCalibration, choice: Choice) -> dict[str, Any]:
    figure = calibration.auroc
    return {
        "folds": choice.folds,
        "seed": choice.seed,
        **calibration.reliability.to_dict(),
        "brier_of_maps": dict(calibration.brier_of_maps),
        "auroc": {"value": figure.value, "low": figure.low, "high": figure.high},
    }


def _left_out(run: RunResults, origin: Origin, calibration: FittedCalibration) -> list[str]:
    notes = []
    if calibration.dropped:
        reasons = run.reasons(origin.method, origin.measure).most_common(1)
        why = f"; most often: {reasons[0][0]}" if reasons else ""
        notes.append(
            f"{calibration.dropped} answers without a value of {origin.measure} or a verdict were left out{why}"
        )
    if run.skipped:
        notes.append(f"skipped in the run, and no part of this: {len(run.skipped)} of its questions")
    return notes


# -- what was chosen ----------------------------------------------------------------------------------------------


def describe(run: RunResults, choice: Choice) -> Origin:
    """What a calibration is made with, or an error that lists what the run has."""
    if not run.ids:
        raise BadOption(f"no question of {run.folder} has passed all stages yet; finish the run with sdlg eval")
    method = _method(run, choice.method)
    measure = _measure(run, method, choice.measure)
    name, _, clustering = measure.partition(" @ ")
    definition = find_measure(name)
    metric = choice.metric or headline_metric(run.metrics)
    return Origin(
        model=run.model,
        nli=run.nli,
        method=method.name,
        preset=run.preset,
        measure=measure,
        higher_is_less_certain=definition.higher_is_less_certain,
        samples=_samples(run, choice.samples),
        metric=pick("metric of this run", {name: name for name in run.metrics}, metric),
        threshold=choice.threshold,
        data=dict(run.config["data"]),
        options=flat_options(asdict(_clustered(method.options, clustering))),
    )


def _samples(run: RunResults, count: int | None) -> int:
    if count is not None and not 1 <= count <= run.samples:
        raise BadOption(f"samples must be from 1 to {run.samples}, the number in the run, not {count}")
    return run.samples if count is None else count


def _clustered(options: Options, clustering: str) -> Options:
    """The options with the clustering of the measure, where it has one of its own."""
    return options.updated(**asdict(parse_clustering(clustering))) if clustering else options


def _method(run: RunResults, spec: str | None) -> Method:
    """By its whole name, or by its sampler where there is only one of it."""
    plan = plan_from(run.config["plan"])
    name_or_sampler = "sdlg" if spec is None else parse_method(spec, plan.options).name
    matches = [name for name in run.methods if name == name_or_sampler] or list(run.methods_of(name_or_sampler))
    if not matches and spec is None:
        matches = list(run.methods)
    if len(matches) != 1:
        pick("method of this run", dict.fromkeys(run.methods), name_or_sampler)
    return parse_method(matches[0], plan.options)


def _measure(run: RunResults, method: Method, name: str | None) -> str:
    """By any of its names."""
    measure = headline_measure(method.sampler, method.options.estimation) if name is None else stored_name(name)
    pick(f"measure of {method.name} in this run", dict.fromkeys(run.measures(method.name)), measure)
    return measure
