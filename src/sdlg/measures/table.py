"""The one table of measures: the built-in ones by idea, and those of installed plug-ins.

In: names. Out: measures, or an error that lists the choices.

A plug-in is an entry point of the group `sdlg.measures`: a `Measure`, or a list of them (docs/reference/measures.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from ..errors import RunError, UnknownName
from . import assessment, branches, decomposition, graph, relevance, semantic, shares, spread, tokens
from .base import FIELDS, Measure

PLUGINS = "sdlg.measures"
START_WITH = ("share_beyond_answer", "perplexity", "semantic_entropy_sdlg")


def _declared_in(*modules: ModuleType) -> tuple[Measure, ...]:
    found = [(module, value) for module in modules for value in vars(module).values() if isinstance(value, Measure)]
    return tuple(measure for module, measure in found if measure.function.__module__ == module.__name__)


GROUPS: Mapping[str, tuple[Measure, ...]] = {
    "One answer and its branches (SDLG)": _declared_in(branches),
    "Meanings of sampled answers": _declared_in(semantic, shares),
    "Likelihood": _declared_in(tokens, relevance),
    "Differences between answers": _declared_in(graph, spread),
    "Confidence in the answer": _declared_in(assessment),
    "Total = aleatoric + epistemic": _declared_in(decomposition),
}
MEASURES: Mapping[str, Measure] = {measure.name: measure for group in GROUPS.values() for measure in group}


def find_measure(name: str) -> Measure:
    """Return a measure by name or alias; plug-ins are only loaded for names that are not ours."""
    found = _OWN_NAMES.get(name) or _by_any_name().get(name)
    if found is None:
        close = get_close_matches(name, _by_any_name(), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UnknownName(f"unknown measure {name!r}; {hint}`sdlg list measures` shows all")
    return found


def find_measures(names: Iterable[str]) -> dict[str, Measure]:
    """Return measures by the names or aliases they were asked for."""
    return {name: find_measure(name) for name in names}


def all_measures() -> Mapping[str, Measure]:
    """Return every measure under its own name, plug-ins last."""
    return {**MEASURES, **_plugins()}


def grouped_measures() -> Mapping[str, tuple[Measure, ...]]:
    """Return the measures by idea, for a listing, plug-ins last."""
    plugins = tuple(_plugins().values())
    return {**GROUPS, "Plug-ins": plugins} if plugins else GROUPS


@cache
def _by_any_name() -> Mapping[str, Measure]:
    return _names_of(all_measures())


def _names_of(measures: Mapping[str, Measure]) -> Mapping[str, Measure]:
    names = dict(measures)
    for measure in measures.values():
        for alias in measure.aliases:
            if names.setdefault(alias, measure) is not measure:
                raise RunError(f"measures {names[alias].name} and {measure.name} both call themselves {alias}")
    return names


_OWN_NAMES = _names_of(MEASURES)


# -- plug-ins ---------------------------------------------------------------------------------------------------


@cache
def _plugins() -> Mapping[str, Measure]:
    """Load them when first asked for, by name: the order of installation does not matter."""
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
