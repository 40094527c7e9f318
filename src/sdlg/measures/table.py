"""The one table of measures: the built-in ones, and those of installed plug-ins.

In: `MeasureInputs` and names. Out: estimates, and for what cannot be had the reason in words, never a number.

A plug-in is an entry point of the group `sdlg.measures`: a `Measure`, or a list of them (docs/measures.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import numpy as np

from ..errors import RunError
from ..options import pick
from ..records import Estimate
from . import assessment, branches, decomposition, drawn, graph, relevance, spread, tokens, variants
from .base import Measure, MeasureInputs

PLUGINS = "sdlg.measures"

MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for module in (variants, branches, drawn, tokens, relevance, graph, spread, assessment, decomposition)
    for measure in module.MEASURES
}


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why a measure has no value."""

    reason: str


# -- looking up -------------------------------------------------------------------------------------------------


def find_measure(name: str) -> Measure:
    """By name or alias; plug-ins are only looked at for names that are not ours."""
    return _OWN_NAMES[name] if name in _OWN_NAMES else pick("measure", _by_any_name(), name)


def all_measures() -> Mapping[str, Measure]:
    """Every measure under its own name, plug-ins last."""
    return {**MEASURES, **_plugins()}


@cache
def _by_any_name() -> Mapping[str, Measure]:
    return _names_of(all_measures())


def _names_of(measures: Mapping[str, Measure]) -> Mapping[str, Measure]:
    """Measures by their names and aliases."""
    names = dict(measures)
    for measure in measures.values():
        for alias in measure.aliases:
            if names.setdefault(alias, measure) is not measure:
                raise RunError(f"measures {names[alias].name} and {measure.name} both call themselves {alias}")
    return names


_OWN_NAMES = _names_of(MEASURES)


# -- measuring --------------------------------------------------------------------------------------------------


def measure_all(samples: MeasureInputs, names: Iterable[str] | None = None) -> dict[str, Estimate | Unavailable]:
    """The named measures (all, if none are named), each under the name that was asked for."""
    measures = all_measures() if names is None else {name: find_measure(name) for name in names}
    with np.errstate(all="ignore"):  # what is not finite is reported in words
        return {name: _estimate(measure, samples, name) for name, measure in measures.items()}


def _estimate(measure: Measure, samples: MeasureInputs, name: str) -> Estimate | Unavailable:
    missing = measure.missing(samples)
    if missing:
        return Unavailable(_needs(missing))
    try:
        value = measure(samples)
    except Exception as error:  # of a plug-in: it must not cost the other measures, nor the answers
        if measure.name in MEASURES:
            raise
        return Unavailable(f"its plug-in failed: {type(error).__name__}: {error}")
    if not math.isfinite(value):
        return Unavailable(_not_a_number(measure, value))
    variant = {} if name == measure.name else {"variant": measure.name}
    return Estimate(value, measure.unit, measure.higher_is_less_certain, variant)


FIELDS: Mapping[str, str] = {
    "logprobs": "log-probabilities of the answers' tokens",
    "identities": "to know which answers are the same",
    "clusters": "clusters of meaning",
    "branchings": "to know where each answer branched off the first",
    "proposals": "the log-probability that each answer was drawn with",
    "texts": "the answers' texts",
    "tokens": "the answers' tokens as text",
    "token_entropies": "the entropy of the model's distribution at each token",
    "relevance": "the relevance of each token",
    "similarity": "similarities between the answers",
    "entailment": "entailment probabilities between the answers",
    "contradiction": "contradiction probabilities between the answers",
    "embeddings": "embeddings of the answers",
    "p_true": "the model's probability that its answer is true",
    "assessment": "the model's probabilities for the clusters as options",
    "other_logprobs": "log-probabilities of the answers under other models",
}


def _needs(missing: frozenset[str]) -> str:
    """In the order of the table above, so that the same lack always reads the same."""
    return f"needs {' and '.join(words for field, words in FIELDS.items() if field in missing)}"


_ALONE = "one answer has no other to compare with"
_UNDEFINED: Mapping[str, str] = {
    **{
        name: "the answers are not one answer and its branches"
        for name, measure in MEASURES.items()
        if "branchings" in measure.needs
    },
    "disagreement": _ALONE,
    "lexical_similarity": _ALONE,
    "cocoa_log_likelihood": _ALONE,
    "cocoa_log_perplexity": _ALONE,
    "cocoa_token_entropy": _ALONE,
    "mean_token_entropy": "the answer has no tokens",
    "epistemic_semantic_uncertainty": "there is no other model, or one gives these answers no probability",
    "total_semantic_uncertainty": "there is no other model, or one gives these answers no probability",
}


def _not_a_number(measure: Measure, value: float) -> str:
    if math.isinf(value):
        return "infinite: an answer has probability 0, or the value is too large for a float"
    return f"undefined: {_UNDEFINED.get(measure.name, 'it has no value for these answers')}"


# -- plug-ins ---------------------------------------------------------------------------------------------------


@cache
def _plugins() -> Mapping[str, Measure]:
    """Loaded when first asked for, by name: the order of installation does not matter."""
    plugins: dict[str, Measure] = {}
    for entry in sorted(entry_points(group=PLUGINS), key=lambda entry: entry.name):
        for measure in _load(entry):
            if measure.name in MEASURES or measure.name in plugins:
                raise _broken(entry, f"there already is a measure {measure.name}")
            plugins[measure.name] = measure
    return plugins


def _load(entry: EntryPoint) -> list[Measure]:
    try:
        loaded = entry.load()
    except Exception as error:  # whatever a stranger's module does when it is imported
        raise _broken(entry, f"{type(error).__name__}: {error}") from error
    measures = [loaded] if isinstance(loaded, Measure) else loaded
    if not isinstance(measures, list | tuple) or not all(isinstance(measure, Measure) for measure in measures):
        raise _broken(entry, f"it is {type(loaded).__name__}, not a Measure or a list of them")
    for measure in measures:
        if unknown := measure.needs - FIELDS.keys():
            raise _broken(entry, f"{measure.name} needs {', '.join(sorted(unknown))}; there is {', '.join(FIELDS)}")
    return list(measures)


def _broken(entry: EntryPoint, why: str) -> RunError:
    return RunError(f"the measure plug-in {entry.name} = {entry.value} cannot be used: {why}")
