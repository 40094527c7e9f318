"""What a run is: data, models, methods, measures. Written into the run's folder, and compared when it is resumed.

In: what the user named. Out: a `Plan` whose names have all been checked, before anything is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..correctness import METRICS
from ..errors import BadOption, RunError
from ..measures.base import Measure
from ..measures.table import all_measures, find_measure
from ..models import checked_name
from ..options import (
    DEFAULT_NLI,
    GROUPS,
    Clustering,
    Options,
    flag_of,
    flat_options,
    option_groups,
    options_from,
    pick,
    tupled,
)
from ..sampling import SAMPLERS
from .defaults import DEFAULT_METHODS, DEFAULT_METRICS

_FIXED = ("data", "model", "nli", "preset", "methods", "similarity_model", "limit", "dtype", "gradients", "engine")
_SINCE = {"gradients": DEFAULT_NLI, "engine": None}  # what runs that were begun before there was a choice do not say
_OF_ONE_METHOD = {"branchings", "relevance", "proposals"}
_SHORT = {"penalty": "diversity_penalty"}
# All methods of a run are about the same initial answer, from as many samples.
_OF_THE_RUN = {"samples", "seed", "prompt", "strategy", "stop_at", "max_tokens", "stop_strings", "stop_ids"}
# What the stores of a run hold, or what a sentence encoder adds. The rest asks the language model again: by name only.
AT_HAND = {
    "logprobs", "identities", "clusters", "branchings", "proposals", "texts", "tokens", "token_entropies", "relevance",
    "similarity", "entailment", "contradiction", "embeddings",
}  # fmt: skip
ALL_PAIRS = {"entailment", "contradiction"}  # of every two answers


@dataclass(frozen=True, slots=True)
class Method:
    """A sampler with its options, under the name that the run knows it by."""

    name: str
    sampler: str
    options: Options


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that shapes the rows of a run. The first group cannot change once the run has begun."""

    data: str
    model: str
    nli: str
    preset: str
    options: Options  # with samples and seed
    methods: tuple[str, ...]
    similarity_model: str
    limit: int | None = None
    dtype: str | None = None
    gradients: str = DEFAULT_NLI  # the NLI model that gives them where a language model judges meaning
    engine: str | None = None  # what runs a .gguf file; None: the model is none
    # What may be added to later.
    measures: tuple[str, ...] = ()
    metrics: tuple[str, ...] = DEFAULT_METRICS
    clusterings: tuple[str, ...] = ()  # besides that of the options, as equivalence+linkage
    bleurt: str | None = None  # a checkpoint

    def to_dict(self) -> dict[str, Any]:
        """For run.json."""
        named: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        named = {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}
        return {**named, "options": flat_options(asdict(self.options))}

    def fixed(self) -> dict[str, Any]:
        """What must be the same when the run is resumed, by the name of its option."""
        named = self.to_dict()
        return {**{name: named[name] for name in _FIXED}, **named["options"]}

    @property
    def all_methods(self) -> tuple[Method, ...]:
        """The methods with their options."""
        return tuple(parse_method(name, self.options) for name in self.methods)

    @property
    def all_measures(self) -> Mapping[str, Measure]:
        """By their own names."""
        return {measure.name: measure for measure in map(find_measure, self.measures)}

    def measures_of(self, method: str) -> Mapping[str, Measure]:
        """What is measured of a method's samples: branches of SDLG's, relevance (SAR, dear) of one method's draws."""
        sampler = method.split(":")[0]
        own = {"sdlg": {"branchings"}, "steered": {"proposals"}}.get(sampler, set())
        if method == self._relevant_method:
            own = {"relevance"}
        foreign = _OF_ONE_METHOD - own
        return {name: measure for name, measure in self.all_measures.items() if not measure.needs & foreign}

    @property
    def _relevant_method(self) -> str | None:
        """The first one of independent draws. Each token is left out in turn, which takes longer than all else."""
        return next((method for method in self.methods if method.split(":")[0] in ("multinomial", "arithmetic")), None)

    def needs_all_pairs(self, method: str) -> bool:
        """Whether more pairs of a method's answers are to be judged than its clusters need."""
        measured = any(measure.needs & ALL_PAIRS for measure in self.measures_of(method).values())
        return measured or bool(self.clusterings)

    @property
    def all_clusterings(self) -> dict[str, Clustering]:
        """Suffix of a measure's name → clustering; the run's own has none."""
        return {"": self.options.clustering, **{f" @ {name}": parse_clustering(name) for name in self.clusterings}}


def make_plan(
    data: str,
    *,
    model: str,
    nli: str,
    preset: str,
    changes: Mapping[str, object],
    methods: tuple[str, ...] = DEFAULT_METHODS,
    measures: tuple[str, ...] = (),
    clusterings: tuple[str, ...] = (),
    **others: Any,
) -> Plan:
    """A plan, or the first thing that is wrong with it. No measures named: all that need no further language model."""
    for name in (model, nli, others.get("similarity_model", ""), others.get("gradients", "")):
        checked_name(name)  # before it is written into run.json
    options = options_from(preset, changes)
    names = tuple(parse_method(name, options).name for name in methods)
    if not names:
        raise BadOption("name at least one method, for example --methods sdlg")
    kinds = [(method.sampler, method.options) for method in (parse_method(name, options) for name in names)]
    if double := [name for name, kind in zip(names, kinds, strict=True) if kinds.count(kind) > 1]:
        raise BadOption(f"the method {double[-1]} is named twice")
    if Path(data).is_file():
        data = str(Path(data).resolve())
    chosen = tuple(find_measure(name).name for name in measures) or default_measures()
    return Plan(
        data=data, model=model, nli=nli, preset=preset, options=options, methods=names, measures=chosen,
        clusterings=_further(clusterings, options), **others,
    )  # fmt: skip


def _further(clusterings: tuple[str, ...], options: Options) -> tuple[str, ...]:
    """Clusterings besides the run's own."""
    return tuple(name for name in dict.fromkeys(clusterings) if parse_clustering(name) != options.clustering)


def plan_from(described: Mapping[str, Any]) -> Plan:
    """The plan of a run that has begun."""
    try:
        described = {**_SINCE, **described}
        named = {f.name: described[f.name] for f in fields(Plan) if f.name not in ("options", "preset")}
        options = options_from(described["preset"], tupled(described["options"]))
        return Plan(preset=described["preset"], options=options, **tupled(named))
    except KeyError as error:
        raise RunError(f"the plan in run.json is damaged: it has no {error}") from error
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise RunError(f"the plan in run.json is damaged: {error}") from error


def default_measures() -> tuple[str, ...]:
    """Every measure that the stores and a sentence encoder can give."""
    return tuple(name for name, measure in all_measures().items() if measure.needs <= AT_HAND)


def parse_method(text: str, base: Options) -> Method:
    """`diverse-beam:penalty=0.5`: a sampler, then options by name, with colons between them."""
    name, *settings = [part.strip() for part in text.split(":")]
    sampler = name.replace("-", "_")
    pick("method", SAMPLERS, sampler)
    changes = dict(_setting(text, setting) for setting in settings)
    canonical = ":".join([sampler, *(f"{option}={value}" for option, value in sorted(changes.items()))])
    return Method(canonical, sampler, base.updated(**changes))


def _setting(method: str, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    option = _SHORT.get(name.strip(), name.strip()).replace("-", "_")
    if not equals:
        raise BadOption(f"{text!r} in the method {method!r} is no option; write name=value")
    if option in _OF_THE_RUN:
        raise BadOption(
            f"{option} cannot differ between methods: all methods of a run are about the same answer; "
            f"use {flag_of(option)} {value}, or make another run"
        )
    group = pick("option", option_groups(), option)
    if group not in ("decoding", "scoring"):
        raise BadOption(
            f"{option} does not shape a method's samples; measure them in another way with --clusterings or --measures"
        )
    default: Any = next(f.default for f in fields(GROUPS[group] if group else Options) if f.name == option)
    try:
        return option, type(default)(value)
    except ValueError:
        raise BadOption(f"{option} in the method {method!r} must be a number, not {value!r}") from None


def parse_clustering(text: str) -> Clustering:
    """`strict+components`: an equivalence and a linkage."""
    equivalence, plus, linkage = text.partition("+")
    if not plus:
        raise BadOption(f"{text!r} is no clustering; write equivalence+linkage, for example strict+components")
    return Clustering(equivalence.strip(), linkage.strip())


def seeded(method: Method, run_seed: int, item_id: str) -> Method:
    """The method for one question. Its random numbers depend on nothing but the run's seed and the question's id."""
    digest = hashlib.sha256(f"{run_seed} {item_id}".encode()).digest()
    return replace(method, options=method.options.updated(seed=int.from_bytes(digest[:6])))


def with_additions(
    plan: Plan,
    begun: Plan | None,
    *,
    measures: tuple[str, ...] = (),
    metrics: tuple[str, ...] = (),
    clusterings: tuple[str, ...] = (),
) -> Plan:
    """A plan with what its run has measured before and what is asked for now, each once."""
    before = begun or plan
    named = tuple(find_measure(name).name for name in measures)
    every = tuple(dict.fromkeys((*before.metrics, *plan.metrics, *metrics)))
    for name in every:
        pick("metric", METRICS, name)
    if "bleurt" in every and not (plan.bleurt or before.bleurt):
        raise BadOption("the metric bleurt needs a checkpoint: --bleurt CHECKPOINT, a hub name or a folder")
    return replace(
        plan,
        measures=tuple(dict.fromkeys((*before.measures, *plan.measures, *named))),
        metrics=every,
        clusterings=_further((*before.clusterings, *plan.clusterings, *clusterings), plan.options),
        bleurt=plan.bleurt or before.bleurt,
    )
