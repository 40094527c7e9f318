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
from .request import InitialAnswer, as_sample, whole_generation

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
    answer: Generation | None = None  # all draws begin as it was given

    @property
    def joins_branches(self) -> bool:
        """Whether they can be decoded in one call with the branches."""
        return self.by == "arithmetic" and self.options.decoding.branch_strategy not in BEAMS

    @property
    def seed(self) -> tuple[int, int]:
        """Apart from the seeds of branches."""
        return self.options.seed, 0

    @property
    def beginning(self) -> tuple[int, ...]:
        """The tokens that all draws begin with."""
        return self.answer.token_ids[: self.answer.given] if self.answer else ()

    def alone(self, prompt: Prompt) -> DecodeRequest:
        """In a call of their own."""
        decoding = replace(self.options.decoding, strategy=self.by, temperature=1.0, top_p=1.0)  # type: ignore[arg-type]
        codes = self.count if self.by == "arithmetic" else 0
        return DecodeRequest(
            prompt, [self.beginning] * self.count, decoding, self.seed, draws=codes, excluded_mass=self.excluded_mass
        )

    def of(self, grown: tuple[Continuation, ...]) -> Draws:
        """What was drawn."""
        samples = tuple(as_sample(self.model, self._whole(one)) for one in grown)
        return Draws(samples, self.by, knows_answer=self.knows_answer)

    def _whole(self, grown: Continuation) -> Generation:
        if self.answer is None:
            return whole_generation(self.model, grown)
        answer, count = self.answer, self.answer.given
        return whole_generation(
            self.model, grown, self.beginning, answer.logprobs[:count], answer.entropies[:count], count
        )


def plan_draws(model: LanguageModel, options: Options, initial: InitialAnswer | None) -> DrawPlan | None:
    """Even codes outside of the greedy answer where the model can; else by seeds; None if no draws are wanted."""
    if not options.draws:
        return None
    if initial is None:
        return DrawPlan(model, options, _drawn_by(model), options.draws, 0.0, False)
    answer = initial.generation
    is_known = not math.isnan(answer.logprob) and (initial.was_read or options.decoding.strategy == "greedy")
    mass = math.exp(answer.logprob) if is_known else 0.0
    count = 0 if mass > _CERTAIN else options.draws
    by = _drawn_by(model)
    is_left_out = by == "arithmetic" and not initial.was_read  # codes know the place of the greedy answer only
    return DrawPlan(model, options, by, count, mass if is_left_out else 0.0, is_known, answer)


def _drawn_by(model: LanguageModel) -> str:
    return "arithmetic" if "arithmetic" in model.capabilities.strategies else "multinomial"


def own_draws(method: str, samples: tuple[Sample, ...], options: Options) -> Draws | None:
    """The samples themselves, where each was drawn with its probability at temperature 1."""
    plain = options.decoding.temperature == 1.0 and options.decoding.top_p == 1.0
    return Draws(samples, method, beside=False) if options.draws and plain else None
