"""`sdlg.ask`: one question in one call. Models named as before stay loaded between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, Unpack

from .calibration import CalibrationSource
from .concurrency.in_flight import in_thread
from .concurrency.limits import Limit, limited
from .loaded import Models, ModelSource, NliSource
from .models import full_name, is_address
from .options import DEFAULT_METHOD, DEFAULT_MODEL, DEFAULT_NLI, PACKAGED, Keywords, Loading, Options, split_keywords
from .pipeline import Pipeline
from .questions import Messages, checked_question
from .records import Question
from .result import Result

_loading = Lock()
_models = lru_cache(maxsize=1)(Models)


def ask(
    question: str | Question | None = None,
    *,
    model: ModelSource = DEFAULT_MODEL,
    nli: NliSource = DEFAULT_NLI,
    messages: Messages | None = None,
    context: str | None = None,
    timeout: float | None = None,
    method: str = DEFAULT_METHOD,
    preset: str = "default",
    options: Options | None = None,
    loading: Loading | None = None,
    measures: Sequence[str] = (),
    calibration: CalibrationSource = PACKAGED,
    **named: Unpack[Keywords],
) -> Result:
    """Ask one question: `sdlg.ask("Who wrote Hamlet?")`. The same as `Pipeline(…).ask(…)`, with its models kept.

    `timeout` is in seconds. Further names are those of `sdlg.Options` and `sdlg.Loading`, for example `samples=5`.
    """
    asked = checked_question(question, context, messages)
    changes, places = split_keywords(named)
    models = _kept_models(model, nli, replace(loading or Loading(), **places))
    pipeline = Pipeline(
        models=models, method=method, preset=preset, options=options, measures=measures, calibration=calibration,
        **changes,
    )  # fmt: skip
    # A server has no more time to say what it can do than to answer. Together, threads would each load everything.
    on_server = isinstance(model, str) and is_address(model)
    with _loading, limited(Limit(timeout if on_server else None)):
        models.load()
    return pipeline.ask(asked, timeout=timeout)


async def ask_async(question: str | Question | None = None, *, timeout: float | None = None, **named: Any) -> Result:
    """`ask` for `await`, with the same arguments: for servers and notebooks. Cancelling it stops the work.

    `timeout` counts from this call: loading the models and waiting for a thread are part of it.
    """
    return await in_thread(partial(ask, question, **named), seconds=timeout)


def _kept_models(model: ModelSource, nli: NliSource, loading: Loading) -> Models:
    named: Any = full_name(str(model)) if isinstance(model, str | Path) else model
    judge: Any = str(nli) if isinstance(nli, Path) else nli
    try:
        with _loading:
            return _models(named, judge, loading)
    except TypeError:  # a list has no hash to know it by
        return Models(model, nli, loading)
