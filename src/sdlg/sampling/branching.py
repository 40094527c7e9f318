"""Semantically diverse language generation (Algorithm 1): branches that start where meaning can change.

In: a question, both models, options. Out: the initial answer and its branches, with what they cost. All branches of a
round are decoded together, sharing the prompt and the answer's beginning.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..errors import BadOption, NotSupported
from ..models.base import Continuation, Ended, LanguageModel, Watcher, finished
from ..models.stopping import find_stop
from ..options import Options
from ..records import Cost, Prompt, Sequence, Substitution
from ..scoring import score_answer
from .record import Answered, Report, Request, Sampled, check_strategies, cut_note, whole_sequence


@dataclass(slots=True)
class _Collected:
    """Distinct sequences so far."""

    sequences: list[Sequence]
    substitutions: list[Substitution | None]
    seen: set[tuple[tuple[int, ...], str]] = field(default_factory=set)

    def add(self, sequence: Sequence, substitution: Substitution) -> None:
        key = (sequence.token_ids, sequence.stop_reason)
        if key not in self.seen:
            self.seen.add(key)
            self.sequences.append(sequence)
            self.substitutions.append(substitution)


def sample_sdlg(request: Request) -> Sampled:
    """The initial answer, then branches where its meaning can change (Algorithm 1)."""
    model, nli, options, report = request.model, request.nli, request.options, request.report
    check_sdlg(model, options)
    prompt = request.prompt()
    report("answer", "")
    answered = request.answer or initial_answer(model, prompt, options, report)
    answer = answered.sequence
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
    notes = _notes(answer, len(found.sequences), len(scored.substitutions), options)
    every = (*notes, *answered.notes, *told)
    return Sampled(tuple(found.sequences), tuple(found.substitutions), scored.words, cost, every, scored.substitutions)


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


def initial_answer(model: LanguageModel, prompt: Prompt, options: Options, report: Report) -> Answered:
    """The answer that everything starts from, with the alternatives of every step."""
    started = time.perf_counter()
    ids: list[int] = []

    def watch(_: int, token: int) -> None:
        ids.append(token)
        report("answer", model.text(ids))

    decoded = model.decode(
        prompt, [()], options.decoding, seed=options.seed,
        alternatives_above=options.scoring.min_probability, watch=watch,
    )  # fmt: skip
    cost = decoded.cost + Cost(seconds={"answer": time.perf_counter() - started})
    return Answered(whole_sequence(model, decoded.continuations[0]), cost, decoded.notes)


def _branch(
    model: LanguageModel,
    prompt: Prompt,
    answer: Sequence,
    ranked: tuple[Substitution, ...],
    found: _Collected,
    options: Options,
    report: Report,
) -> tuple[Cost, tuple[str, ...]]:
    """Draw substitutions in their order until there are enough distinct sequences or none are left."""
    cost, drawn, told = Cost(), 0, dict[str, None]()
    while len(found.sequences) < options.samples and drawn < len(ranked):
        watch = _counting(f"{len(found.sequences)}/{options.samples}", report)
        now = ranked[drawn : drawn + options.samples - len(found.sequences)]
        prefixes = [(*answer.token_ids[: s.position], s.token_id) for s in now if not s.ends_answer]
        continuations: tuple[Continuation, ...] = ()
        if prefixes:
            decoded = model.decode(
                prompt, prefixes, options.decoding.for_branches(), seed=(options.seed, drawn + 1), watch=watch,
                ended=_telling(model, prompt, answer, [s for s in now if not s.ends_answer], report),
            )  # fmt: skip
            continuations, round_cost = decoded.continuations, decoded.cost
            cost = cost + round_cost.without_prompt()
            told |= dict.fromkeys(decoded.notes)
        decoded_ones = iter(continuations)
        for substitution in now:
            grown = None if substitution.ends_answer else next(decoded_ones)
            sequence = _branch_sequence(model, prompt, answer, substitution, grown)
            if substitution.ends_answer:
                report("branches", sequence.text, sequence, substitution)
            found.add(sequence, substitution)
        drawn += len(now)
    return cost, tuple(told)


def _telling(
    model: LanguageModel, prompt: Prompt, answer: Sequence, substitutions: list[Substitution], report: Report
) -> Ended:
    """Tell of every branch when it is finished."""

    def ended(path: int, grown: Continuation) -> None:
        sequence = _branch_sequence(model, prompt, answer, substitutions[path], grown)
        report("branches", sequence.text, sequence, substitutions[path])

    return ended


def _counting(title: str, report: Report) -> Watcher:
    """Tell how many tokens the branches have grown."""
    grown = 0
    report("branches", title)

    def watch(_: int, token: int) -> None:
        nonlocal grown
        grown += 1
        report("branches", f"{title}, {grown} tokens")

    return watch


def _branch_sequence(
    model: LanguageModel, prompt: Prompt, answer: Sequence, substitution: Substitution, grown: Continuation | None
) -> Sequence:
    at = substitution.position
    prefix = (*answer.token_ids[:at], substitution.token_id)
    if grown is None:  # the replacement ends the answer: what comes before is all there is
        stop = find_stop(prompt.stop, prefix, model.text)
        grown = finished(prefix, (), (), stop)
    return whole_sequence(
        model, grown, prefix, (*answer.logprobs[:at], substitution.logprob), answer.entropies[: at + 1]
    )


def _notes(answer: Sequence, found: int, candidates: int, options: Options) -> tuple[str, ...]:
    notes = cut_note(answer, options)
    if found < options.samples:
        floor = options.scoring.min_probability
        notes.append(
            f"{found} of {options.samples} sequences: only {candidates} alternatives are likelier than {floor:g}; "
            "lower --min-probability to explore more"
        )
    return tuple(notes)
