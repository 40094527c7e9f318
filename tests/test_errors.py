"""Every error of ours survives the way to another process: engines on a cluster hand them over pickled."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil

import pytest

import sdlg
from sdlg.errors import SdlgError
from sdlg.models.server.connection import Refused


def own_exceptions():
    """All exception classes that are defined in the package, wherever that is."""
    for module in pkgutil.walk_packages(sdlg.__path__, "sdlg."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    waiting, found = [Exception], set()
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind not in found:
                found.add(kind)
                waiting.append(kind)
    return sorted((kind for kind in found if kind.__module__.startswith("sdlg.")), key=lambda kind: kind.__qualname__)


def made(kind):
    """One of its kind, with something for all that it needs."""
    try:
        wanted = inspect.signature(kind.__init__).parameters.values()
    except ValueError:
        return kind("what went wrong")
    needed = [p for p in wanted if p.name != "self" and p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    values = [422 if p.annotation == "int" else "what went wrong" for p in needed]
    return kind(*(values or ["what went wrong"]))


@pytest.mark.parametrize("kind", own_exceptions(), ids=lambda kind: kind.__qualname__)
def test_errors_come_out_of_a_pickle_as_they_went_in(kind):
    error = made(kind)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args, vars(again)) == (kind, str(error), error.args, vars(error))
    assert "what went wrong" in str(again)


def test_the_whole_tree_is_looked_at():
    kinds = own_exceptions()
    assert {SdlgError, Refused} <= set(kinds)
    assert sum(issubclass(kind, SdlgError) for kind in kinds) >= 14
