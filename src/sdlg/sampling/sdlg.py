"""Semantically diverse language generation (Algorithm 1): branches that start where meaning can change.

In: a question, both models, options. Out: the initial answer and its branches, with what they cost. All branches of a
round are decoded together, sharing the prompt and the answer's beginning; and those of several sentences, each of which
is an answer to the prompt and the sentences before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..errors import BadOption, NotSupported
from ..models.base import Continuation, Decoded, DecodeRequest, LanguageModel, Watcher, finished
from ..models.stopping import find_stop
from ..options import Options
from ..records import Branching, Cost, Draws, Generation, Prompt, Sample, Sampled, Substitution
from ..scoring import score_answer
from .draws import DrawPlan, plan_draws
from .request import (
    InitialAnswer,
    Observer,
    SamplingRequest,
    as_sample,
    check_strategies,
    cut_note,
    whole_generation,
)

# Wants requests decoded, one after the other; returns what was sampled.
Sampling = Generator[DecodeRequest, Decoded, Sampled]


def sample_sdlg(request: SamplingRequest) -> Sampled:
    """The initial answer, then branches where its meaning can change (Algorithm 1)."""
    check_sdlg(request.model, request.options)
    initial = request.answer or first_answer(request)
    request.observe("scores", initial.generation.text, initial.generation)
    found: list[Sampled] = []
    sampling = branch_off(request, request.prompt(), initial)
    cost = run_together(request.model, {0: sampling}, lambda _, sampled: found.append(sampled))
    return replace(found[0], cost=found[0].cost + cost)


def first_answer(request: SamplingRequest) -> InitialAnswer:
    """The answer that all branches leave."""
    check_sdlg(request.model, request.options)
    request.observe("answer", "")
    return initial_answer(request.model, request.prompt(), request.options, request.observe)


def run_together(
    model: LanguageModel, samplings: Mapping[int, Sampling], finished: Callable[[int, Sampled], None]
) -> Cost:
    """Run samplings side by side: what they want next is decoded together. Each is handed on as soon as it has ended.

    Return what decoding cost; what is handed on carries the rest.
    """
    cost, wanted = Cost(), dict[int, DecodeRequest]()

    def go_on(place: int, decoded: Decoded | None) -> None:
        try:
            wanted[place] = next(samplings[place]) if decoded is None else samplings[place].send(decoded)
        except StopIteration as end:
            finished(place, end.value)

    def resume(places: Sequence[int], number: int, decoded: Decoded) -> None:
        go_on(places[number], decoded)

    for place in samplings:
        go_on(place, None)
    while wanted:
        now, requests = list(wanted), list(wanted.values())
        wanted.clear()
        for decoded in model.decode_all(requests, partial(resume, now)):
            cost += decoded.cost.without_prompt()
    return cost


def branch_off(request: SamplingRequest, prompt: Prompt, initial: InitialAnswer) -> Sampling:
    """Branches of an answer to a prompt: ranked, decoded, and weighed by draws."""
    model, options, answer = request.model, request.options, initial.generation
    started = time.perf_counter()
    scored = score_answer(request.question.text, answer, prompt.stop, model, request.nli, options.scoring)
    ranked = time.perf_counter()
    branches = _Branches(model, prompt, answer, options, request.observe, plan_draws(model, options, initial))
    yield from branches.draw(scored.substitutions)
    yield from branches.draw_rest()
    seconds = Cost(seconds={"scores": ranked - started, "branches": time.perf_counter() - ranked})
    notes = _notes(answer, len(branches.samples), scored.substitutions, options)
    return Sampled(
        tuple(branches.samples),
        scored.words,
        initial.cost + branches.cost + scored.cost + seconds,
        (*notes, *initial.notes, *branches.notes),
        scored.substitutions,
        branches.draws,
    )


def check_sdlg(model: LanguageModel, options: Options) -> None:
    """Everything the method needs, before any work is done."""
    wanted: set[str] = {options.strategy, options.branch_strategy}
    if "diverse_beam" in wanted:
        raise BadOption("diverse beam search makes many sequences, not one: use it as the method, not as a strategy")
    check_strategies(model, wanted)
    able = model.capabilities
    if able.continues_prefixes and able.alternatives != 0:
        return
    lacks = [] if able.continues_prefixes else ["go on from the beginning of an answer"]
    lacks += ["tell what else it could have said (log-probabilities)"] if able.alternatives == 0 else []
    raise NotSupported(
        f"SDLG changes a word and lets the model go on from there; {model.name} cannot {' and cannot '.join(lacks)}. "
        "--method multinomial works with it; so would the same model on vLLM or llama-server (sdlg models check)"
        + "".join(f"; {reason}" for reason in able.shortcomings)
    )


def initial_answer(model: LanguageModel, prompt: Prompt, options: Options, observe: Observer) -> InitialAnswer:
    """The answer that everything starts from, with the alternatives of every step."""
    started = time.perf_counter()
    ids: list[int] = []

    def watch(_: int, token: int) -> None:
        ids.append(token)
        observe("answer", model.text(ids))

    floor = options.scoring.min_probability
    decoded = model.decode(
        DecodeRequest(prompt, [()], options.decoding, options.seed, alternatives_above=floor, watch=watch)
    )
    cost = decoded.cost + Cost(seconds={"answer": time.perf_counter() - started})
    return InitialAnswer(whole_generation(model, decoded.continuations[0]), cost, decoded.notes)


@dataclass(slots=True)
class _Branches:
    """Distinct samples so far, the initial answer first, and what they cost."""

    model: LanguageModel
    prompt: Prompt
    answer: Generation
    options: Options
    observe: Observer
    plan: DrawPlan | None
    draws: Draws | None = None
    samples: list[Sample] = field(init=False)
    cost: Cost = field(default_factory=Cost)
    notes: dict[str, None] = field(default_factory=dict)  # each once, in their order

    def __post_init__(self) -> None:
        self.samples = [as_sample(self.model, self.answer)]

    def draw(self, ranked: tuple[Substitution, ...]) -> Generator[DecodeRequest, Decoded, None]:
        """Take substitutions in their order until there are enough distinct generations, or enough is explored."""
        seen, taken = {self.answer.identity}, 0
        needed = _needed(self.answer, ranked, self.options.unexplored)
        while len(self.samples) < self.options.samples and taken < needed:
            now = ranked[taken : min(taken + self.options.samples - len(self.samples), needed)]
            grown = yield from self._grow(now, taken)
            for substitution, generation in zip(now, grown, strict=True):
                if generation.identity not in seen:
                    seen.add(generation.identity)
                    branching = _branching(self.answer, substitution)
                    self.samples.append(as_sample(self.model, generation, substitution, branching))
            taken += len(now)

    def draw_rest(self) -> Generator[DecodeRequest, Decoded, None]:
        """The draws on their own, where no branches were there to decode them with."""
        if self.plan is None or self.draws is not None:
            return
        if not self.plan.count:
            self.draws = self.plan.of(())
            return
        decoded = yield self.plan.alone(self.prompt)
        self.draws = self.plan.of(decoded.continuations)
        self._spend(decoded)

    def _spend(self, decoded: Decoded) -> None:
        self.cost = self.cost + decoded.cost.without_prompt()
        self.notes |= dict.fromkeys(decoded.notes)

    def _grow(
        self, substitutions: tuple[Substitution, ...], taken: int
    ) -> Generator[DecodeRequest, Decoded, list[Generation]]:
        """The branch of each substitution; those that end the answer cost nothing."""
        going = [s for s in substitutions if not s.ends_answer]
        grown = iter((yield from self._decode(going, taken)) if going else ())
        generations = []
        for substitution in substitutions:
            continuation = None if substitution.ends_answer else next(grown)
            generation = self._generation(substitution, continuation)
            if substitution.ends_answer:
                self.observe("branches", generation.text, generation, substitution)
            generations.append(generation)
        return generations

    def _decode(
        self, going: list[Substitution], taken: int
    ) -> Generator[DecodeRequest, Decoded, tuple[Continuation, ...]]:
        def ended(path: int, grown: Continuation) -> None:
            if path >= len(going):
                return  # a draw: it weighs, and is not shown as a branch
            generation = self._generation(going[path], grown)
            self.observe("branches", generation.text, generation, going[path])

        prefixes = [(*self.answer.token_ids[: s.position], s.token_id) for s in going]
        watch = _counting(f"{len(self.samples)}/{self.options.samples}", self.observe)
        decoding, seed = self.options.decoding.for_branches(), (self.options.seed, taken + 1)
        request = DecodeRequest(self.prompt, prefixes, decoding, seed, watch=watch, ended=ended)
        joined = self.plan if self.draws is None and self.plan is not None and self.plan.joins_branches else None
        if joined is not None:
            request = replace(
                request,
                prefixes=[*prefixes, *[joined.beginning] * joined.count],
                draws=joined.count,
                excluded_mass=joined.excluded_mass,
            )
        decoded = yield request
        if joined is not None:
            self.draws = joined.of(decoded.continuations[len(going) :])
        self._spend(decoded)
        return decoded.continuations[: len(going)]

    def _generation(self, substitution: Substitution, grown: Continuation | None) -> Generation:
        at, answer = substitution.position, self.answer
        prefix = (*answer.token_ids[:at], substitution.token_id)
        if grown is None:  # the replacement ends the answer: what comes before is all there is
            grown = finished(prefix, (), (), find_stop(self.prompt.stop, prefix, self.model.text))
        logprobs = (*answer.logprobs[:at], substitution.logprob)
        return whole_generation(self.model, grown, prefix, logprobs, answer.entropies[: at + 1], answer.given)


def _needed(answer: Generation, ranked: tuple[Substitution, ...], unexplored: float) -> int:
    """Return how many substitutions leave less probability than this unexplored; all, if they leave more.

    A branch explores p(y_<t) · p(v), which is known before it is decoded.
    """
    left = 1.0 - (0.0 if math.isnan(answer.logprob) else math.exp(answer.logprob))
    for count, substitution in enumerate(ranked):
        if left < unexplored:
            return count
        left -= math.exp(answer.shared_logprob(substitution.position)) * substitution.importance
    return len(ranked)


def _branching(answer: Generation, substitution: Substitution) -> Branching:
    shared = answer.shared_logprob(substitution.position)
    return Branching(shared, substitution.logprob, substitution.importance)


def _counting(title: str, observe: Observer) -> Watcher:
    """Show how many tokens the branches have grown."""
    grown = 0
    observe("branches", title)

    def watch(_: int, token: int) -> None:
        nonlocal grown
        grown += 1
        observe("branches", f"{title}, {grown} tokens")

    return watch


def _notes(answer: Generation, samples: int, ranked: tuple[Substitution, ...], options: Options) -> tuple[str, ...]:
    notes = cut_note(answer, options)
    if samples < options.samples:
        why = f"only {len(ranked)} alternatives are likelier than {options.min_probability:g}; lower min_probability"
        if _needed(answer, ranked, options.unexplored) < len(ranked):
            why = f"less than {options.unexplored:.0%} of all probability is left; lower unexplored"
        notes.append(f"{samples} of {options.samples} sequences: {why} to explore more")
    return tuple(notes)
