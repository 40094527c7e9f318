"""Semantically diverse language generation (Algorithm 1): branches that start where meaning can change.

In: a question, both models, options. Out: the initial answer and its branches, with what they cost. All branches of a
round are decoded together, sharing the prompt and the answer's beginning.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..errors import BadOption, NotSupported
from ..models.base import Continuation, DecodeRequest, Ended, LanguageModel, Watcher, finished
from ..models.stopping import find_stop
from ..options import Options
from ..records import Cost, Generation, Prompt, Substitution
from ..scoring import score_answer
from .record import Answered, Observer, Request, Sampled, check_strategies, cut_note, whole_generation


@dataclass(slots=True)
class _Collected:
    """Distinct sequences so far."""

    generations: list[Generation]
    substitutions: list[Substitution | None]
    seen: set[tuple[tuple[int, ...], str]] = field(default_factory=set)

    def add(self, generation: Generation, substitution: Substitution) -> None:
        key = (generation.token_ids, generation.stop_reason)
        if key not in self.seen:
            self.seen.add(key)
            self.generations.append(generation)
            self.substitutions.append(substitution)


def sample_sdlg(request: Request) -> Sampled:
    """The initial answer, then branches where its meaning can change (Algorithm 1)."""
    model, nli, options, report = request.model, request.nli, request.options, request.report
    check_sdlg(model, options)
    prompt = request.prompt()
    report("answer", "")
    answered = request.answer or initial_answer(model, prompt, options, report)
    answer = answered.generation
    report("scores", answer.text, answer)
    begun = time.perf_counter()
    gradients = nli.gradients_run
    scored = score_answer(
        request.question.text, answer, prompt.stop, model, nli, options.scoring, request.embedding_map
    )
    ranked = time.perf_counter()
    found = _Collected([answer], [None], {(answer.token_ids, answer.stop_reason)})
    branch_cost, told = _branch(model, prompt, answer, scored.substitutions, found, options, report)
    seconds = {"scores": ranked - begun, "branches": time.perf_counter() - ranked}
    cost = answered.cost + branch_cost + Cost(nli_gradients=nli.gradients_run - gradients, seconds=seconds)
    notes = _notes(answer, len(found.generations), len(scored.substitutions), options)
    every = (*notes, *answered.notes, *told)
    return Sampled(
        tuple(found.generations), tuple(found.substitutions), scored.words, cost, every, scored.substitutions
    )


def check_sdlg(model: LanguageModel, options: Options) -> None:
    """Everything the method needs, before any work is done."""
    wanted = {options.decoding.strategy, options.decoding.branch_strategy}
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


def initial_answer(model: LanguageModel, prompt: Prompt, options: Options, report: Observer) -> Answered:
    """The answer that everything starts from, with the alternatives of every step."""
    started = time.perf_counter()
    ids: list[int] = []

    def watch(_: int, token: int) -> None:
        ids.append(token)
        report("answer", model.text(ids))

    decoded = model.decode(
        DecodeRequest(
        prompt, [()], options.decoding, seed=options.seed,
        alternatives_above=options.scoring.min_probability, watch=watch,
    ))  # fmt: skip
    cost = decoded.cost + Cost(seconds={"answer": time.perf_counter() - started})
    return Answered(whole_generation(model, decoded.continuations[0]), cost, decoded.notes)


def _branch(
    model: LanguageModel,
    prompt: Prompt,
    answer: Generation,
    ranked: tuple[Substitution, ...],
    found: _Collected,
    options: Options,
    report: Observer,
) -> tuple[Cost, tuple[str, ...]]:
    """Draw substitutions in their order until there are enough distinct sequences or none are left."""
    cost, drawn, told = Cost(), 0, dict[str, None]()
    while len(found.generations) < options.samples and drawn < len(ranked):
        watch = _counting(f"{len(found.generations)}/{options.samples}", report)
        now = ranked[drawn : drawn + options.samples - len(found.generations)]
        prefixes = [(*answer.token_ids[: s.position], s.token_id) for s in now if not s.ends_answer]
        continuations: tuple[Continuation, ...] = ()
        if prefixes:
            decoded = model.decode(
                DecodeRequest(
                prompt, prefixes, options.decoding.for_branches(), seed=(options.seed, drawn + 1), watch=watch,
                ended=_telling(model, prompt, answer, [s for s in now if not s.ends_answer], report),
            ))  # fmt: skip
            continuations, round_cost = decoded.continuations, decoded.cost
            cost = cost + round_cost.without_prompt()
            told |= dict.fromkeys(decoded.notes)
        decoded_ones = iter(continuations)
        for substitution in now:
            grown = None if substitution.ends_answer else next(decoded_ones)
            generation = _branch_generation(model, prompt, answer, substitution, grown)
            if substitution.ends_answer:
                report("branches", generation.text, generation, substitution)
            found.add(generation, substitution)
        drawn += len(now)
    return cost, tuple(told)


def _telling(
    model: LanguageModel, prompt: Prompt, answer: Generation, substitutions: list[Substitution], report: Observer
) -> Ended:
    """Tell of every branch when it is finished."""

    def ended(path: int, grown: Continuation) -> None:
        generation = _branch_generation(model, prompt, answer, substitutions[path], grown)
        report("branches", generation.text, generation, substitutions[path])

    return ended


def _counting(title: str, report: Observer) -> Watcher:
    """Tell how many tokens the branches have grown."""
    grown = 0
    report("branches", title)

    def watch(_: int, token: int) -> None:
        nonlocal grown
        grown += 1
        report("branches", f"{title}, {grown} tokens")

    return watch


def _branch_generation(
    model: LanguageModel, prompt: Prompt, answer: Generation, substitution: Substitution, grown: Continuation | None
) -> Generation:
    at = substitution.position
    prefix = (*answer.token_ids[:at], substitution.token_id)
    if grown is None:  # the replacement ends the answer: what comes before is all there is
        stop = find_stop(prompt.stop, prefix, model.text)
        grown = finished(prefix, (), (), stop)
    return whole_generation(
        model, grown, prefix, (*answer.logprobs[:at], substitution.logprob), answer.entropies[: at + 1]
    )


def _notes(answer: Generation, found: int, candidates: int, options: Options) -> tuple[str, ...]:
    notes = cut_note(answer, options)
    if found < options.samples:
        floor = options.scoring.min_probability
        notes.append(
            f"{found} of {options.samples} sequences: only {candidates} alternatives are likelier than {floor:g}; "
            "lower --min-probability to explore more"
        )
    return tuple(notes)
