"""The models of a pipeline: the only loader. Each is loaded once, when it is first needed, by whichever thread that is.

In: names, or models that are loaded already, and how to load them. Out: `Models`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

from .errors import UsageError
from .measures.inputs import LANGUAGE_MODEL_FIELDS, SIMILARITY_FIELDS, MeasuringModels
from .measures.measuring import needed_fields
from .models import LanguageModel, checked_name, chosen_engine, engine_of, load_model
from .models.catalogue import CATALOGUE
from .models.fetching import fetched
from .nli import NliModel, is_language_model, load_nli
from .nli.language_model_judge import LanguageModelJudge
from .options import MINILM, NLI_MINILM, Clustering, Loading
from .similarity import SimilarityModel, load_similarity

ModelSource = str | Path | LanguageModel | Sequence[Any]
NliSource = str | Path | NliModel | Sequence[Any]
T = TypeVar("T")


class Models:
    """A language model, a judge of meaning, and what measures need besides. Names or loaded models."""

    def __init__(
        self,
        model: ModelSource | None,
        nli: NliSource | None,
        loading: Loading = Loading(),  # noqa: B008 (frozen)
        *,
        similarity: SimilarityModel | None = None,
        others: Sequence[LanguageModel] | None = None,
    ) -> None:
        self.loading, self._model, self._nli = loading, model, nli
        self._turn, self._made, self._is_closed = RLock(), dict[str, Any](), False
        if similarity is not None:
            self._made["similarity"] = similarity
        if others is not None:
            self._made["others"] = tuple(others)
        if isinstance(model, str):
            checked_name(model)

    def _once(self, name: str, make: Callable[[], T]) -> T:
        with self._turn:
            if name not in self._made:
                self._made[name] = make()
            made: T = self._made[name]
            return made

    def load(self, announce: Callable[[str], None] = lambda _: None, *, judge: bool = True) -> Models:
        """Load the language model now, and the judge of meaning unless it can wait; fetch both if they are not here."""
        for name in (self._model, MINILM if self._nli == NLI_MINILM else None):  # one that is loaded has no need
            if isinstance(name, str) and name in CATALOGUE:
                fetched(name, lambda model, done, total: announce(f"model {model.name}: {done / total:.0%} fetched"))
        if self._model is not None:
            announce(f"language model {self.model_name}")
            _ = self.language_model
        if self._nli is not None and judge:
            announce(f"NLI model {self.nli_name}")
            _ = self.nli
        return self

    @property
    def language_model(self) -> LanguageModel:
        """The language model that answers."""
        if self._is_closed:
            raise UsageError("this pipeline was closed, and its models with it; make another one")
        if self._model is None:
            raise UsageError("no language model was named; name one with --model, or as Pipeline(model=…)")
        source = self._model
        return self._once("model", lambda: load_model(source, self.loading))

    @property
    def nli(self) -> NliModel:
        """The judge of meaning, which also gives SDLG's gradients."""
        if self._nli is None:
            raise UsageError("no NLI model was named; name one with --nli, or as Pipeline(nli=…)")
        source, own = self._nli, None if self._model is None else lambda: self.language_model
        return self._once("nli", lambda: load_nli(source, self.loading, language_model=own))

    @property
    def later_nli(self) -> NliModel:
        """The judge of meaning, loaded when it is first asked: the answer can be there before it is."""
        return cast("NliModel", _Later(lambda: self.nli))

    @property
    def similarity(self) -> SimilarityModel | None:
        """The model that says how alike two texts are."""
        name = self.loading.similarity_model
        return self._once("similarity", lambda: None if name == "none" else load_similarity(name, self.loading.device))

    @property
    def others(self) -> tuple[LanguageModel, ...]:
        """Further language models, which score the answers of the first."""
        names = self.loading.other_models
        return self._once("others", lambda: tuple(load_model(name, self.loading) for name in names))

    @property
    def model_name(self) -> str:
        """What users call the language model; empty: there is none."""
        return _name(self._made.get("model", self._model))

    @property
    def nli_name(self) -> str:
        """What users call the judge of meaning; empty: there is none."""
        return _name(self._made.get("nli", self._nli))

    @property
    def in_flight(self) -> int:
        """How many questions at once suit the language model."""
        return self.loading.in_flight or self.language_model.capabilities.in_flight

    def facts(self, measures: Iterable[str]) -> dict[str, Any]:
        """What shapes results besides the names of the two models. What does not matter here is left out."""
        compares = bool(needed_fields(measures) & SIMILARITY_FIELDS)
        judge_is_language_model = isinstance(self._nli, str) and is_language_model(self._nli)
        is_loaded = "model" in self._made or hasattr(self._model, "capabilities")
        engine = engine_of(self.language_model) if is_loaded else chosen_engine(self.model_name, self.loading.engine)
        return {
            "similarity_model": self.loading.similarity_model if compares else None,
            "other_models": self.loading.other_models,
            "dtype": self.loading.dtype,
            "tokenizer": self.loading.tokenizer,
            "gradients": self.loading.gradients if judge_is_language_model else None,
            "engine": engine,
            "batch_rows": self.loading.batch_rows,
        }

    def ask_language_model(self, measures: Iterable[str]) -> bool:
        """Whether clustering answers or computing these measures asks a language model."""
        return isinstance(self.nli, LanguageModelJudge) or bool(needed_fields(measures) & LANGUAGE_MODEL_FIELDS)

    def for_measures(self, prompt: str, clustering: Clustering) -> MeasuringModels:
        """Return what may be asked to fill in what measures need, each loaded when it is."""
        return _ForMeasures(self, prompt, clustering)

    def close(self) -> None:
        """End connections, and model servers that were started here. Nothing can be asked any more."""
        self._is_closed = True
        for model in (self._made.get("model"), *self._made.get("others", ())):
            if close := getattr(model, "close", None):
                close()


@dataclass(frozen=True, slots=True)
class _Later:
    _load: Callable[[], object]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)


@dataclass(frozen=True, slots=True)
class _ForMeasures:
    _models: Models
    prompt: str
    clustering: Clustering

    @property
    def model(self) -> LanguageModel | None:
        return self._models.language_model if self._models.model_name else None

    @property
    def nli(self) -> NliModel | None:
        return self._models.nli if self._models.nli_name else None

    @property
    def similarity(self) -> SimilarityModel | None:
        return self._models.similarity

    @property
    def others(self) -> tuple[LanguageModel, ...]:
        return self._models.others


def _name(source: object) -> str:
    return "" if source is None else str(source) if isinstance(source, str | Path) else getattr(source, "name", "")
