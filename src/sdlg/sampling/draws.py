"""Draws: unbiased answers at temperature 1 that only weigh meanings. Branches find, draws weigh.

In: a model, a prompt, and the answer where it is known. Out: `Draws`. Where the model can, they are decoded in the same
call as the branches, so that they cost few steps; a server draws by seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..models.base import Continuation, DecodeRequest, LanguageModel
from ..options import BEAMS, Options
from ..records import Draws, Generation, Prompt, Sample
from .request import as_sample, whole_generation

_CERTAIN = 1.0 - 1e-9  # an answer so likely leaves nothing to draw


@dataclass(frozen=True, slots=True)
class DrawPlan:
    """How many draws, by what, and the mass of the greedy answer that they leave out."""

    model: LanguageModel
    options: Options
    by: str
    count: int
    excluded_mass: float
    knows_answer: bool

    @property
    def joins_branches(self) -> bool:
        """Whether they can be decoded in one call with the branches."""
        return self.by == "arithmetic" and self.options.decoding.branch_strategy not in BEAMS

    @property
    def seed(self) -> tuple[int, int]:
        """Apart from the seeds of branches."""
        return self.options.seed, 0

    def alone(self, prompt: Prompt) -> DecodeRequest:
        """In a call of their own."""
        decoding = replace(self.options.decoding, strategy=self.by, temperature=1.0, top_p=1.0)  # type: ignore[arg-type]
        codes = self.count if self.by == "arithmetic" else 0
        return DecodeRequest(
            prompt, [()] * self.count, decoding, self.seed, draws=codes, excluded_mass=self.excluded_mass
        )

    def of(self, grown: tuple[Continuation, ...]) -> Draws:
        """What was drawn."""
        samples = tuple(as_sample(self.model, whole_generation(self.model, one)) for one in grown)
        return Draws(samples, self.by, knows_answer=self.knows_answer)


def plan_draws(model: LanguageModel, options: Options, answer: Generation | None) -> DrawPlan | None:
    """Even codes outside of the greedy answer where the model can; else by seeds; None if no draws are wanted."""
    if not options.draws:
        return None
    knows = answer is not None and options.decoding.strategy == "greedy" and not math.isnan(answer.logprob)
    mass = math.exp(answer.logprob) if knows and answer is not None else 0.0
    by = "arithmetic" if "arithmetic" in model.capabilities.strategies else "multinomial"
    count = 0 if mass > _CERTAIN else options.draws
    return DrawPlan(model, options, by, count, mass if by == "arithmetic" else 0.0, knows)


def own_draws(method: str, samples: tuple[Sample, ...], options: Options) -> Draws | None:
    """The samples themselves, where each was drawn with its probability at temperature 1."""
    plain = options.decoding.temperature == 1.0 and options.decoding.top_p == 1.0
    return Draws(samples, method, beside=False) if options.draws and plain else None
