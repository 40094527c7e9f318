"""The models of a run, each loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property

from ..correctness import Metric, load_metrics
from ..measures.measuring import SIMILARITY_FIELDS, needed_fields
from ..models import LanguageModel, load_model
from ..nli import SELF, NliModel, load_nli
from ..options import DEFAULT_NLI, EngineOptions
from ..scoring import EmbeddingMap
from ..scoring.mapping import fit_embedding_map
from ..similarity import SimilarityModel, load_similarity
from .plan import Plan

Announce = Callable[[str], None]  # what is being done


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Where models run and how they are reached. Does not shape the rows, so it is not part of the plan."""

    device: str | None = None
    tokenizer: str | None = None  # the rest is for models on servers
    retry_seconds: float | None = None
    in_flight: int | None = None  # questions at once; None: what fills the model
    engine: EngineOptions = field(default_factory=EngineOptions)


def silent(_: str) -> None:
    """Nobody is listening."""


class RunModels:
    """What a plan names, loaded."""

    def __init__(self, plan: Plan, runtime: RuntimeConfig, announce: Announce = silent) -> None:
        self.plan, self._runtime, self.announce = plan, runtime, announce

    @cached_property
    def language_model(self) -> LanguageModel:
        """The language model."""
        self.announce(f"loading the language model {self.plan.model}")
        runtime = self._runtime
        return load_model(
            self.plan.model, device=runtime.device, dtype=self.plan.dtype, tokenizer=runtime.tokenizer,
            retry_seconds=runtime.retry_seconds,
            **{**asdict(runtime.engine), "engine": self.plan.engine or "auto"},
        )  # fmt: skip

    @cached_property
    def nli(self) -> NliModel:
        """The NLI model."""
        self.announce(f"loading the NLI model {self.plan.nli}")
        own = self.language_model if self.plan.nli == SELF else None
        return load_nli(self.plan.nli, device=self._runtime.device, language_model=own, gradients=self.plan.gradients)

    @cached_property
    def similarity(self) -> SimilarityModel | None:
        """The similarity model, if a measure needs one."""
        if not needed_fields(self.plan.all_measures.values()) & SIMILARITY_FIELDS:
            return None
        self.announce(f"loading the similarity model {self.plan.similarity_model}")
        return load_similarity(self.plan.similarity_model, device=self._runtime.device)

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """By which answers are judged."""
        nli = self.nli if self.plan.nli == DEFAULT_NLI else None  # another would be another judge of right and wrong
        return load_metrics(self.plan.metrics, bleurt=self.plan.bleurt, device=self._runtime.device, nli=nli)

    @cached_property
    def embedding_map(self) -> EmbeddingMap:
        """From the language model's embeddings to the NLI model's."""
        return fit_embedding_map(self.language_model, self.nli)

    def load(self, stages: tuple[str, ...]) -> None:
        """Load now what these stages need: threads that came upon it together would each load it."""
        mapped = any(method.options.scoring.embeddings == "mapped" for method in self.plan.all_methods)
        needed = {
            "language_model": "generate" in stages,
            "nli": bool({"generate", "cluster"} & set(stages)),
            "embedding_map": "generate" in stages and mapped,
            "similarity": "measure" in stages,
            "metrics": "judge" in stages,
        }
        for name in (name for name, is_needed in needed.items() if is_needed):
            getattr(self, name)
