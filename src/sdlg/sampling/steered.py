"""Diversity-steered sampling (Park and Cho 2025, arXiv 2510.21310): each answer is drawn away from those before it.

In: a question, both models. Out: N answers, each with log p(y) under the model and log q(y) of what it was drawn from.

    q(v | y_<t) ∝ p(v | y_<t) exp(−λ_t max_s E(y_<t v, s)),    E(a, b) = ½ (entails(a, b) + entails(b, a))

over the answers s before it; λ_t+1 = λ_t + rate · (max_s E(y_≤t, s) − 0.3), never below 0. An answer weighs
w = p(y)/q(y), whatever E is worth, so p(c) is Σ_c w / Σ w (`semantic_entropy_self_normalised`).

What differs from the publication, and why: our NLI models were not trained on cut texts, so no token marks them; the
question stands before both texts, as our judge reads them; tokens below 2 % and beyond the first few are not compared
(q keeps them as they are, so weights stay finite), nor is a step with one candidate; λ's rule across answers is not
told in the publication; and its control variate is left out, since centred by its own weighted mean it is 0.

It costs what it costs: N answers one after the other, and at every step 2 · candidates · answers NLI pairs, of which
those that an earlier answer began alike with are known already.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..clustering import Judge, PairMemory
from ..concurrency.limits import check_limit
from ..errors import BadOption, NotSupported
from ..models.base import DecodeRequest, LanguageModel
from ..options import Options
from ..records import Alternative, Cost, Generation, Sampled
from .direct import sampled_directly
from .request import SamplingRequest, as_sample, whole_generation

_TARGET = 0.3  # the likeness at which λ stays as it is
_STRONGEST = 10.0


def sample_steered(request: SamplingRequest) -> Sampled:
    """N answers, one after the other, each drawn away from the meanings before it."""
    model, options = request.model, request.options
    check_steered(model, options)
    title, started = f"{options.samples} by steered sampling", time.perf_counter()
    request.observe("branches", title)
    prompt, decoding = request.prompt(), replace(options.decoding, strategy="multinomial")
    generations: list[Generation] = []
    cost, notes = Cost(), list[str]()
    judge = PairMemory(request.nli.judge).judge  # answers that begin alike are compared with the same ones
    for number in range(options.samples):
        steering = _AwayFrom(request, judge, tuple(dict.fromkeys(one.text for one in generations)))
        seed = (options.seed, number)
        decoded = model.decode(DecodeRequest(prompt, [()], decoding, seed, steering=steering))
        generations.append(whole_generation(model, decoded.continuations[0]))
        spent = decoded.cost if number == 0 else decoded.cost.without_prompt()
        cost = cost + spent + Cost(nli_pairs=steering.pairs)
        notes += [note for note in decoded.notes if note not in notes]
        request.observe("branches", generations[-1].text, generations[-1])
    samples = tuple(as_sample(model, generation) for generation in generations)
    worth = effective_size([one.logprob - (one.proposal_logprob or 0.0) for one in generations])
    notes.append(f"{len(samples)} steered answers are worth {worth:.1f} plain draws, by their weights")
    return sampled_directly(request, samples, "steered", cost, notes, started)


def effective_size(log_weights: Sequence[float]) -> float:
    """(Σw)² / Σw² (Kish)."""
    top = max(log_weights)
    weights = [math.exp(weight - top) for weight in log_weights]
    return math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)


def check_steered(model: LanguageModel, options: Options) -> None:
    """Before any work is done: can the model be steered, and would the weights be right?"""
    if not model.capabilities.steers:
        raise NotSupported(
            f"{model.name} cannot be steered: that needs the whole distribution of every token, which only local "
            "models tell; choose --method sdlg or multinomial"
        )
    if options.decoding.top_p < 1.0:
        raise BadOption("steered sampling needs --top-p 1: an answer that cannot be drawn cannot be weighed")


@dataclass(slots=True)
class _AwayFrom:
    """Steers one answer away from others."""

    request: SamplingRequest
    judge: Judge
    others: tuple[str, ...]
    min_probability: float = 0.02
    pairs: int = 0  # that the NLI model has judged
    _strength: float = field(init=False)
    _likeness: dict[int, float] = field(default_factory=dict)  # of this step's candidates

    def __post_init__(self) -> None:
        self._strength = self.request.options.decoding.steering_start

    @property
    def candidates(self) -> int:
        return self.request.options.decoding.steering_candidates

    def penalties(self, token_ids: tuple[int, ...], candidates: Sequence[Alternative]) -> Sequence[float]:
        """λ times the likeness to the nearest of the other answers."""
        check_limit()
        self._likeness = {}
        if not self.others or len(candidates) < 2:
            return [0.0] * len(candidates)
        texts = [self.request.model.text((*token_ids, one.token_id)).strip() for one in candidates]
        likeness, pairs = nearest(self.judge, self.request.question.text, texts, self.others)
        self.pairs += pairs
        self._likeness = {one.token_id: value for one, value in zip(candidates, likeness, strict=True)}
        return [self._strength * value for value in likeness]

    def chose(self, token_id: int) -> None:
        """λ grows while the answer says what another one says."""
        if token_id in self._likeness:
            moved = self._strength + self.request.options.decoding.steering_rate * (self._likeness[token_id] - _TARGET)
            self._strength = min(max(moved, 0.0), _STRONGEST)


def nearest(judge: Judge, question: str, texts: Sequence[str], others: Sequence[str]) -> tuple[list[float], int]:
    """max_s E(text, s) of each text, and how many pairs that took. Nothing is like an empty text."""
    wanted = [(text, other) for text in texts for other in others if text and other]
    judged = judge(question, [pair for one, other in wanted for pair in ((one, other), (other, one))])
    entailed = iter(judged.probabilities)
    likeness = dict.fromkeys(texts, 0.0)
    for text, _ in wanted:
        mean = (next(entailed).entailment + next(entailed).entailment) / 2
        likeness[text] = max(likeness[text], mean)
    return [likeness[text] for text in texts], judged.cost.nli_pairs
