"""The calibration of a run: which of its methods and measures, and what the file says it was made with.

Several measures make one risk (`--measures a,b,c`); with `--measures auto` the best of a few sets does, all of measures
that nearly every answer has, if it is shown to be better than the best of them alone.

In: a run's results and a `Choice`. Out: a `Risk`, ready to be saved, and the `Calibration` that it is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import BadOption
from ..measures.headline import headline_measure
from ..measures.table import find_measure
from ..options import Options, flat_options, pick
from ..risk import Origin, Risk
from .choice import AUTO, Choice
from .defaults import headline_metric
from .plan import Method, parse_clustering, parse_method, plan_from
from .results import RunResults, stored_name

if TYPE_CHECKING:
    from .calibration import FittedCalibration

_ANSWER = ("greedy_negative_log_likelihood", "perplexity", "mean_token_entropy")
_MEANINGS = ("semantic_entropy_frequency", "number_of_clusters")
_AGREEMENT = ("degree_entailment", "lexical_similarity")
_BRANCHES = ("branch_disagreement", "cocoa_branch_mass")  # of SDLG's sequences
# What `auto` chooses from: few sets, from cheap to dear. HEADLINE stands for the method's own semantic entropy.
HEADLINE = "semantic entropy"
CANDIDATES: tuple[tuple[str, ...], ...] = (
    _ANSWER,
    (*_ANSWER, HEADLINE),
    (*_ANSWER, *_MEANINGS),
    (*_ANSWER, *_AGREEMENT),
    (*_ANSWER, *_BRANCHES),
    (*_ANSWER, HEADLINE, *_MEANINGS, *_AGREEMENT, *_BRANCHES),
    (*_ANSWER, "cocoa_log_perplexity", "sar", "probability_not_true"),
)
FEWEST_DEFINED = 0.8  # of the answers must have a measure that `auto` may take


@dataclass(frozen=True, slots=True)
class CalibratedRun:
    """What is saved, and what it is from."""

    risk: Risk
    calibration: FittedCalibration


def calibrate_run(run: RunResults, choice: Choice) -> CalibratedRun:
    """Find what was chosen in the run, and calibrate it."""
    origin = describe(run, choice)
    wrong = run.wrong(origin.metric, origin.threshold)
    if choice.measures is None:
        from .calibration import calibrate

        values, direction = run.values(origin.method, origin.measure, origin.samples), origin.higher_is_less_certain
        calibration = calibrate(values, wrong, higher_is_less_certain=direction, choice=choice)
    else:
        origin, calibration = _several(run, origin, wrong, choice)
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
        combination=calibration.combination,
    )
    return CalibratedRun(risk, calibration)


def _several(run: RunResults, origin: Origin, wrong: Any, choice: Choice) -> tuple[Origin, FittedCalibration]:
    """One risk of several measures, and what it was made with in the end."""
    from .combining import Measured, calibrate_several

    names = origin.measures
    directions = tuple(1 if _is_uncertainty(name) else -1 for name in names)
    values = np.column_stack([run.values(origin.method, name, origin.samples) for name in names])
    is_auto = choice.measures == AUTO
    sets = _candidate_sets(run, origin) if is_auto else [tuple(range(len(names)))]
    measured = Measured(names, values, directions)
    calibration = calibrate_several(measured, wrong, choice, sets, must_be_better=is_auto)
    used = tuple(names[k] for k in calibration.columns)
    is_rising = directions[calibration.columns[0]] > 0 if calibration.combination.is_plain else True
    return replace(origin, measures=used, higher_is_less_certain=is_rising), calibration


def _candidate_sets(run: RunResults, origin: Origin) -> list[tuple[int, ...]]:
    """The candidates as places among the origin's measures; what the run does not have is left out of them."""
    place = {name: k for k, name in enumerate(origin.measures)}
    sets = [[place[name] for name in _named(run, origin.method, names) if name in place] for names in CANDIDATES]
    return list(dict.fromkeys(tuple(columns) for columns in sets if len(columns) > 1))


def _named(run: RunResults, method: str, names: Sequence[str]) -> list[str]:
    chosen = parse_method(method, plan_from(run.config["plan"]).options)
    headline = headline_measure(chosen.sampler, chosen.options.estimation)
    return [headline if name == HEADLINE else name for name in names]


def _is_uncertainty(measure: str) -> bool:
    return find_measure(measure.partition(" @ ")[0]).higher_is_less_certain


def _out_of_fold(calibration: FittedCalibration, choice: Choice) -> dict[str, Any]:
    figure = calibration.auroc
    return {
        "folds": choice.folds,
        "seed": choice.seed,
        **calibration.reliability.to_dict(),
        "brier_of_maps": dict(calibration.brier_of_maps),
        "auroc": {"value": figure.value, "low": figure.low, "high": figure.high},
        **({"comparison": dict(calibration.comparison)} if calibration.comparison else {}),
    }


def _left_out(run: RunResults, origin: Origin, calibration: FittedCalibration) -> list[str]:
    notes = []
    if calibration.dropped:
        reasons = run.reasons(origin.method, origin.measures[0]).most_common(1)
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
    measures = _measures(run, method, choice)
    metric = choice.metric or headline_metric(run.metrics)
    return Origin(
        model=run.model,
        nli=run.nli,
        method=method.name,
        preset=run.preset,
        measures=measures,
        higher_is_less_certain=_is_uncertainty(measures[0]) if len(measures) == 1 else True,
        samples=_samples(run, choice.samples),
        metric=pick("metric of this run", {name: name for name in run.metrics}, metric),
        threshold=choice.threshold,
        data={name: value for name, value in run.config["data"].items() if name != "folder"},  # of this machine only
        options=flat_options(asdict(_clustered(method.options, _clustering(measures)))),
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


def _measures(run: RunResults, method: Method, choice: Choice) -> tuple[str, ...]:
    """By any of their names; for `auto` all candidates that nearly every answer has."""
    if choice.measures is None:
        return (_measure(run, method, choice.measure),)
    if choice.measures != AUTO:
        names = [name.strip() for name in choice.measures.split(",") if name.strip()]
        measures = tuple(dict.fromkeys(_measure(run, method, name) for name in names))
        if len(measures) < 2:
            raise BadOption("--measures needs two measures or more, or auto; for one use --measure")
        return measures
    names = [name for names in CANDIDATES for name in _named(run, method.name, names)]
    usable = tuple(name for name in dict.fromkeys(names) if _is_usual(run, method.name, name))
    if len(usable) < 2:
        known = ", ".join(dict.fromkeys(names))
        raise BadOption(f"--measures auto chooses from {known}, of which the run has {len(usable)}; name others")
    return usable


def _is_usual(run: RunResults, method: str, measure: str) -> bool:
    if measure not in run.measures(method):
        return False
    return float(np.mean(~np.isnan(run.values(method, measure)))) >= FEWEST_DEFINED


def _clustering(measures: Sequence[str]) -> str:
    """The one that all of them are of: an answer is only clustered once."""
    clusterings = {clustering for name in measures if (clustering := name.partition(" @ ")[2])}
    if len(clusterings) > 1 or (clusterings and not all(" @ " in name for name in measures if _needs_clusters(name))):
        raise BadOption(f"the measures {', '.join(measures)} are of several clusterings; choose one")
    return "".join(clusterings)


def _needs_clusters(measure: str) -> bool:
    return "clusters" in find_measure(measure.partition(" @ ")[0]).needs


def _measure(run: RunResults, method: Method, name: str | None) -> str:
    """By any of its names."""
    measure = headline_measure(method.sampler, method.options.estimation) if name is None else stored_name(name)
    pick(f"measure of {method.name} in this run", dict.fromkeys(run.measures(method.name)), measure)
    return measure
