"""What a run is: data, models, methods, measures. Written into the run's folder, and compared when it is resumed.

In: what the user named. Out: a `Plan` whose names have all been checked, before anything is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..clustering.same_answer import fit_fingerprint
from ..errors import BadOption, RunError
from ..measures import Measure
from ..measures.base import FIELDS
from ..measures.measuring import needed_fields
from ..measures.table import all_measures, find_measure
from ..models import checked_name, chosen_engine
from ..options import OPTIONS, Decoding, Loading, Options, Scoring, options_from, pick, read_setting
from ..sampling import SAMPLERS
from ..schema import read_record
from .correctness import METRICS
from .defaults import DEFAULT_METHODS, DEFAULT_METRICS

_SHAPING = (
    "similarity_model",
    "other_models",
    "gradients",
    "dtype",
    "tokenizer",
    "batch_rows",
)  # of `Loading`; and the engine
# All methods of a run are about the same initial answer, from as many samples, in the same clusters.
_OF_ONE_METHOD = {option.name for kind in (Decoding, Scoring) for option in fields(kind)} - {
    "strategy", "stop_at", "max_tokens", "stop_strings",
}  # fmt: skip
_ASKED_AGAIN = {"p_true", "assessment", "other_logprobs"}  # of language models: only by name
_DRAWN = ("multinomial", "arithmetic")


@dataclass(frozen=True, slots=True)
class Method:
    """A sampler with its options, under the name that the run knows it by."""

    name: str
    sampler: str
    options: Options

    @property
    def draws(self) -> int:
        """How many draws weigh its meanings. They are about the question: those of SDLG serve for all methods."""
        plain = self.sampler in _DRAWN and self.options.temperature == self.options.top_p == 1.0  # they draw themselves
        return self.options.draws if self.sampler == "sdlg" or plain else 0

    def for_question(self, id: str) -> Options:
        """Return the options for one question. Its seed depends on nothing but the run's seed and the question's id."""
        digest = hashlib.sha256(f"{self.options.seed} {id}".encode()).digest()
        return self.options.updated(seed=int.from_bytes(digest[:6]), draws=self.draws)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that shapes the rows of a run. Measures and metrics may be added once it has begun."""

    data: str
    model: str
    nli: str
    preset: str
    options: Options
    methods: tuple[str, ...]
    limit: int | None = None
    loading: Loading = field(default_factory=Loading)
    measures: tuple[str, ...] = ()
    metrics: tuple[str, ...] = DEFAULT_METRICS
    bleurt: str | None = None  # a checkpoint
    same_answer_fit: str | None = None  # fingerprint of a user's own fit of the equivalence; None: the packaged one

    def __post_init__(self) -> None:
        for name in (self.model, self.nli, self.loading.similarity_model, self.loading.gradients):
            checked_name(name)  # before it is written into run.json
        for name in self.metrics:
            pick("metric", METRICS, name)
        if "bleurt" in self.metrics and not (self.bleurt or "").strip():
            raise BadOption("the metric bleurt needs a checkpoint: --bleurt CHECKPOINT, a hub name or a folder")
        if self.limit is not None and self.limit < 1:
            raise BadOption(f"--limit must be at least 1, not {self.limit}")

    @property
    def fixed(self) -> dict[str, Any]:
        """What must be the same when the run is resumed, by the name of its option."""
        own = ("data", "model", "nli", "preset", "methods", "limit", "same_answer_fit")
        named = {name: getattr(self, name) for name in own}
        shaping = {name: getattr(self.loading, name) for name in _SHAPING}
        engine = chosen_engine(self.model, self.loading.engine)
        return {**named, **shaping, "engine": engine, **{name: getattr(self.options, name) for name in OPTIONS}}

    @property
    def all_methods(self) -> tuple[Method, ...]:
        """The methods with their options."""
        return tuple(parse_method(name, self.options) for name in self.methods)

    def measures_of(self, name: str) -> Mapping[str, Measure]:
        """Return what is measured of a method: branches of SDLG's, shares where there are draws, relevance of one."""
        method, foreign = parse_method(name, self.options), {"branchings", "relevance", "draws"}
        if method.sampler == "sdlg":
            foreign.discard("branchings")
        if method.draws:
            foreign.discard("draws")
        # Each token is left out in turn, which takes longer than all else: of the first method of independent draws.
        if name == next((one.name for one in self.all_methods if one.sampler in _DRAWN), None):
            foreign.discard("relevance")
        measures = {measure.name: measure for measure in map(find_measure, self.measures)}
        if method.sampler != "sdlg":  # its answer is none of the samples, and draws weigh samples
            measures = {k: one for k, one in measures.items() if not (one.of_answer and "draws" in one.needs)}
        return {name: measure for name, measure in measures.items() if not measure.needs & foreign}

    def needs_all_pairs(self, method: str) -> bool:
        """Whether more pairs of a method's answers are to be judged than its clusters need."""
        return "entailment" in needed_fields(self.measures_of(method))


def make_plan(
    data: str,
    *,
    model: str,
    nli: str,
    preset: str = "default",
    changes: Mapping[str, object],
    methods: tuple[str, ...] = DEFAULT_METHODS,
    measures: tuple[str, ...] = (),
    **others: Any,
) -> Plan:
    """Return a plan, or raise the first thing that is wrong with it.

    No measures named: all that need no further language model.
    """
    options = options_from(preset, changes)
    made = [parse_method(name, options) for name in methods]
    if not made:
        raise BadOption("name at least one method, for example --methods sdlg")
    kinds = [(method.sampler, method.options) for method in made]
    if double := [method.name for method, kind in zip(made, kinds, strict=True) if kinds.count(kind) > 1]:
        raise BadOption(f"the method {double[-1]} is named twice")
    return Plan(
        data=str(Path(data).resolve()) if Path(data).is_file() else data,
        model=model, nli=nli, preset=preset, options=options,
        methods=tuple(method.name for method in made),
        measures=tuple(find_measure(name).name for name in measures) or default_measures(),
        same_answer_fit=_fit(nli, options),
        **others,
    )  # fmt: skip


def with_additions(
    plan: Plan, begun: Plan, *, measures: tuple[str, ...] = (), metrics: tuple[str, ...] = (), bleurt: str | None = None
) -> Plan:
    """Return a plan with what its run has measured before and what is asked for now, each once."""
    named = (find_measure(name).name for name in measures)
    return replace(
        plan,
        measures=tuple(dict.fromkeys((*begun.measures, *plan.measures, *named))),
        metrics=tuple(dict.fromkeys((*begun.metrics, *plan.metrics, *metrics))),
        bleurt=bleurt or plan.bleurt or begun.bleurt,
        same_answer_fit=_fit(plan.nli, plan.options),
    )


def _fit(nli: str, options: Options) -> str | None:
    return fit_fingerprint(nli) if options.equivalence == "answers" else None


def plan_from(described: Any) -> Plan:
    """Return the plan that stands in a run.json."""
    return read_record(Plan, described, "the plan in run.json is damaged", RunError)


def default_measures() -> tuple[str, ...]:
    """Return every measure that the samples, an NLI model and a sentence encoder can give."""
    at_hand = FIELDS.keys() - _ASKED_AGAIN
    return tuple(name for name, measure in all_measures().items() if measure.needs <= at_hand)


def parse_method(text: str, base: Options) -> Method:
    """Read `multinomial:temperature=0.5`: a sampler, then options by name, with colons between them."""
    name, *settings = [part.strip() for part in text.split(":")]
    sampler = name.replace("-", "_")
    pick("method", SAMPLERS, sampler)
    changes = dict(map(read_setting, settings))
    if refused := [option for option in changes if option not in _OF_ONE_METHOD]:
        raise BadOption(
            f"{refused[0]} cannot differ between the methods of a run; name it for all of them (--set "
            f"{refused[0]}={changes[refused[0]]}), or make another run"
        )
    canonical = ":".join([sampler, *(f"{option}={value}" for option, value in sorted(changes.items()))])
    return Method(canonical, sampler, base.updated(**changes))
