"""`sdlg.ask`: one question in one call. Models named as before stay loaded between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from threading import Lock
from typing import Any

from .concurrency.in_flight import in_thread
from .concurrency.limits import Limit, limited
from .formats.questions import checked_question
from .formats.results import Result
from .models import LanguageModel, full_name, is_address, load_model
from .nli import NliModel, load_nli
from .options import (
    DEFAULT_METHOD,
    DEFAULT_MODEL,
    DEFAULT_NLI,
    DEFAULT_SIMILARITY,
    PACKAGED,
    EngineOptions,
    engine_options,
    options_from,
    pick,
)
from .pipeline import ModelSource, NliSource, Pipeline
from .records import Question
from .risk import CalibrationSource
from .sampling import SAMPLERS
from .similarity import SimilarityModel

_loading = Lock()


@lru_cache(maxsize=1)
def _loaded(model: str, nli: str, **where: Any) -> tuple[LanguageModel, NliModel]:
    loaded = load_model(model, **{**where, **asdict(engine_options(where["engine"]))})
    return loaded, load_nli(nli, device=where["device"], language_model=loaded)


def ask(
    question: str | Question,
    *,
    model: ModelSource = DEFAULT_MODEL,
    nli: NliSource = DEFAULT_NLI,
    samples: int = 10,
    method: str = DEFAULT_METHOD,
    preset: str = "default",
    seed: int = 0,
    context: str | None = None,
    timeout: float | None = None,
    device: str | None = None,
    dtype: str | None = None,
    tokenizer: str | None = None,
    retry_seconds: float | None = None,
    engine: str | EngineOptions = "auto",
    measures: Sequence[str] = (),
    similarity_model: str | SimilarityModel = DEFAULT_SIMILARITY,
    other_models: Sequence[ModelSource] = (),
    calibration: CalibrationSource = PACKAGED,
    **options: Any,
) -> Result:
    """Ask one question: `sdlg.ask("Who wrote Hamlet?")`. Models named as before stay loaded between calls.

    `samples` counts all sequences, the initial answer included. `timeout` is in seconds; `tokenizer` and
    `retry_seconds` are for models on servers, `engine` is what runs a model here. Further options are those of
    `sdlg.Options`, by name.
    """
    asked = checked_question(question, context)
    options_from(preset, {"samples": samples, "seed": seed, **options})
    pick("method", SAMPLERS, method.replace("-", "_"))
    if isinstance(model, str) and isinstance(nli, str):
        # Together, they would each load everything. A server has no more time to say what it can do than to answer.
        with _loading, limited(Limit(timeout if is_address(model) else None)):
            model, nli = _loaded(
                full_name(model), nli, device=device, dtype=dtype, tokenizer=tokenizer, retry_seconds=retry_seconds,
                engine=engine,
            )  # fmt: skip
    pipeline = Pipeline(
        model, nli, method=method, preset=preset, device=device, dtype=dtype, engine=engine, measures=measures,
        similarity_model=similarity_model, other_models=other_models, calibration=calibration, samples=samples,
        seed=seed, **options,
    )  # fmt: skip
    return pipeline.ask(asked, timeout=timeout)


async def ask_async(question: str | Question, *, timeout: float | None = None, **named: Any) -> Result:
    """`ask` for `await`, with the same arguments: for servers and notebooks. Cancelling it stops the work.

    `timeout` counts from this call: loading the models and waiting for a thread are part of it.
    """
    return await in_thread(partial(ask, question, **named), seconds=timeout)
