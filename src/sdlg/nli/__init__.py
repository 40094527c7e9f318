"""NLI models. `load_nli` turns a name into one; `NliModel` is what they all offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ModelNotFound
from ..loading.pretrained import calm_threads
from ..models import LanguageModel, is_address, load_model
from ..options import NLI_MINILM, Loading
from .base import InputGradients, Judged, NliModel, NliProbabilities

__all__ = ["SELF", "InputGradients", "Judged", "NliModel", "NliProbabilities", "is_language_model", "load_nli"]

SELF, _LANGUAGE_MODEL = "self", "lm:"


def is_language_model(source: str) -> bool:
    """Whether a name asks for a language model as the judge."""
    return source == SELF or source.startswith(_LANGUAGE_MODEL) or is_address(source)


def load_nli(
    source: str | Path | NliModel | Sequence[Any],
    loading: Loading = Loading(),  # noqa: B008 (frozen)
    *,
    language_model: Callable[[], LanguageModel] | None = None,
) -> NliModel:
    """Load `nli-minilm`, a hub name, a folder, a (model, tokenizer); an `NliModel` is returned as it is.

    A language model may judge, too: `self` (the `language_model` given here), a server (http://…#name), or `lm:NAME`.
    The gradients are then those of the NLI model `loading.gradients`.
    """
    if isinstance(source, str) and is_language_model(source):
        from .language_model_judge import LanguageModelJudge

        judge = _judging_model(source, loading, language_model)
        return LanguageModelJudge(judge, _load_classifier(loading.gradients, loading.device), name=source)
    if isinstance(source, str | Path):
        return _load_classifier(source, loading.device)
    if isinstance(source, tuple | list) and len(source) == 2:
        from .classifier import SequenceClassifier

        return SequenceClassifier(*source)
    if hasattr(source, "judge") and hasattr(source, "input_gradients"):
        return source  # type: ignore[return-value]
    raise ModelNotFound(f"cannot use a {type(source).__name__} as an NLI model; give a name or (model, tokenizer)")


def _judging_model(source: str, loading: Loading, own: Callable[[], LanguageModel] | None) -> LanguageModel:
    if source != SELF:
        own_way = replace(loading, engine="auto", dtype=None, tokenizer=None)  # those are of the model that answers
        return load_model(source.removeprefix(_LANGUAGE_MODEL), own_way)
    if own is None:
        raise ModelNotFound("--nli self needs the language model that answers: name it with --model")
    return own()


def _load_classifier(source: str | Path, device: str | None) -> NliModel:
    calm_threads()
    from .classifier import load_classifier, load_nli_minilm

    if not str(source).strip():
        raise ModelNotFound("the NLI model's name is empty; give a hub name, a folder or 'nli-minilm'")
    return load_nli_minilm(device) if source == NLI_MINILM else load_classifier(source, device=device)
