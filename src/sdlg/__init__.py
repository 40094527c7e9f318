"""How sure is a language model of what it means? `sdlg.ask("Who wrote Hamlet?")`.

The public names; each is imported when it is first used, so that `import sdlg` is quick.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if os.environ.get("SDLG_OFFLINE", "").lower() not in ("", "0", "false"):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the hub's library is imported, which reads it once

if TYPE_CHECKING:
    from .asking import ask, ask_async
    from .errors import SdlgError
    from .loaded import Models
    from .models import LanguageModel, ScriptedModel, load_model
    from .nli import NliModel, load_nli
    from .options import Loading, Options
    from .pipeline import Pipeline
    from .progress import Progress
    from .records import Question
    from .result import Result
    from .schema import GivenAnswer, result_from_json

_HOMES = {
    "SdlgError": "errors",
    "LanguageModel": "models",
    "ScriptedModel": "models",
    "load_model": "models",
    "NliModel": "nli",
    "load_nli": "nli",
    "Loading": "options",
    "Models": "loaded",
    "Options": "options",
    "Pipeline": "pipeline",
    "Progress": "pipeline",
    "ask": "asking",
    "ask_async": "asking",
    "Question": "records",
    "Result": "result",
    "GivenAnswer": "schema",
    "result_from_json": "schema",
}

__all__ = [
    "GivenAnswer",
    "LanguageModel",
    "Loading",
    "Models",
    "NliModel",
    "Options",
    "Pipeline",
    "Progress",
    "Question",
    "Result",
    "ScriptedModel",
    "SdlgError",
    "__version__",
    "ask",
    "ask_async",
    "load_model",
    "load_nli",
    "result_from_json",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'sdlg' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sdlg.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
