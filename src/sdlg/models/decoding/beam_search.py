"""Beam search and diverse beam search, many searches at once: all hypotheses of all of them are one step of the tree.

In: starts, and how many hypotheses each shall return. Out: the best finished ones of each, best first. Diverse beam
search (Vijayakumar et al. 2018) has one group of one beam for each sequence; groups advance in turn, and a token costs
`diversity_penalty` for every earlier group that took it at the same step (Hamming diversity).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from ...concurrency.limits import check_limit
from ...options import Decoding
from ...records import Alternative, StopRule
from ..base import Continuation, finished
from ..stopping import Stop, TextOf, find_stop
from .paths import Start, alternatives_above, step_entropies
from .trees import KVTree


@dataclass(frozen=True, slots=True)
class Beam:
    """A hypothesis. `node` is the node of its last token that was run."""

    node: int
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    penalties: float = 0.0  # what diversity has cost it so far
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    entropies: tuple[float, ...] = ()
    stop: Stop | None = None

    @property
    def total(self) -> float:
        """Log-probability of the continuation, less its penalties."""
        return sum(self.logprobs) - self.penalties

    @property
    def score(self) -> float:
        """What finished beams are compared by: the total per token."""
        return self.total / max(len(self.ids), 1)


@dataclass(slots=True)
class Search:
    """One group of beams: those still running and the best finished ones. Groups of one start share a family."""

    family: int
    prefix: tuple[int, ...]
    width: int
    running: list[Beam]
    done: list[Beam] = field(default_factory=list)

    def keep_best(self, beams: Sequence[Beam]) -> None:
        """Add finished hypotheses; only the best `width` of all stay, best first."""
        self.done = sorted([*self.done, *beams], key=lambda beam: -beam.score)[: self.width]

    def may_improve(self, going: Sequence[Beam]) -> bool:
        """Whether a running hypothesis could still beat the worst finished one, judged at its present length."""
        if not going or len(self.done) < self.width:
            return bool(going)
        return going[0].score > self.done[-1].score


@dataclass(frozen=True, slots=True)
class BeamResult:
    """A hypothesis as a continuation, and the node at which its last run token sits."""

    continuation: Continuation
    node: int


def beam_search(
    tree: KVTree,
    starts: Sequence[Start],
    counts: Sequence[int],
    decoding: Decoding,
    rule: StopRule,
    text_of: TextOf,
    *,
    min_probability: float | None,
    normalise: Callable[[Tensor], Tensor] = partial(torch.log_softmax, dim=-1),  # noqa: B008 (a constant)
) -> list[list[BeamResult]]:
    """Return the best hypotheses of every start, `counts` of them. `normalise` makes log-probabilities of logits."""
    searches = [
        Search(family, start.prefix, width, [Beam(start.node)])
        for family, (start, count) in enumerate(zip(starts, counts, strict=True))
        for width in group_widths(count, decoding)
    ]
    rows_of = [search.family for search in searches]  # at first, all groups of a start share its one row of logits
    logits = torch.stack([start.logits for start in starts])
    while True:
        check_limit()
        logprobs = normalise(logits)
        entropies = step_entropies(logprobs)
        taken: dict[int, Counter[int]] = {}
        for search, row in zip(searches, rows_of, strict=True):
            if search.running:
                rows = slice(row, row + len(search.running))
                before = taken.setdefault(search.family, Counter())
                extended = _extensions(search, logprobs[rows], entropies[rows], before, decoding, min_probability)
                _advance(search, extended, decoding, rule, text_of)
                before.update(beam.ids[-1] for beam in search.running)
        running = [beam for search in searches for beam in search.running]
        if not running:
            return [_results(searches, k, count) for k, count in enumerate(counts)]
        tree.prune([beam.node for search in searches for beam in (*search.running, *search.done)])
        nodes, logits = tree.grow([beam.node for beam in running], [beam.ids[-1] for beam in running])
        placed = iter(nodes)
        rows_of = []
        for search in searches:
            rows_of.append(sum(len(other.running) for other in searches[: len(rows_of)]))
            search.running = [replace(beam, node=next(placed)) for beam in search.running]


def group_widths(count: int, decoding: Decoding) -> list[int]:
    """Return how many beams each group has: one group of at least `beams`, or (diverse) one for each sequence."""
    return [1] * count if decoding.strategy == "diverse_beam" else [max(decoding.beams, count)]


def _extensions(
    search: Search,
    logprobs: Tensor,
    entropies: Sequence[float],
    taken: Counter[int],
    decoding: Decoding,
    min_probability: float | None,
) -> list[Beam]:
    """Return the 2 × width best one-token extensions of the running hypotheses, best first."""
    vocabulary = logprobs.shape[-1]
    totals = logprobs + torch.tensor([[beam.total] for beam in search.running], device=logprobs.device)
    for token, count in taken.items():
        totals[:, token] -= decoding.diversity_penalty * count
    _, flat = totals.flatten().topk(min(2 * search.width, totals.numel()))
    seen: dict[int, tuple[tuple[Alternative, ...], ...]] = {}
    extended = []
    for index in flat.tolist():
        row, token = divmod(index, vocabulary)
        parent = search.running[row]
        if logprobs[row, token] == -torch.inf:  # a server did not list it: its probability is not known
            continue
        if min_probability is not None and row not in seen:
            seen[row] = (*parent.alternatives, alternatives_above(logprobs[row], min_probability))
        extended.append(
            Beam(
                node=parent.node,
                ids=(*parent.ids, token),
                logprobs=(*parent.logprobs, float(logprobs[row, token])),
                penalties=parent.penalties + decoding.diversity_penalty * taken[token],
                alternatives=seen.get(row, ()),
                entropies=(*parent.entropies, entropies[row]),
            )
        )
    return extended


def _advance(search: Search, extended: Sequence[Beam], decoding: Decoding, rule: StopRule, text_of: TextOf) -> None:
    """Take one step of one search. Endings count only among the best `width` extensions, as in transformers."""
    going: list[Beam] = []
    ended: list[Beam] = []
    for place, beam in enumerate(extended):
        stop = find_stop(rule, (*search.prefix, *beam.ids), text_of)
        if stop is None and len(going) < search.width:
            going.append(beam)
        elif stop is not None and place < search.width:
            ended.append(replace(beam, stop=stop))
    search.keep_best(ended)
    if going and len(search.prefix) + len(going[0].ids) >= decoding.max_tokens:
        search.keep_best(going)
        going = []
    search.running = going if search.may_improve(going) else []


def _results(searches: Sequence[Search], family: int, count: int) -> list[BeamResult]:
    """Return the best of each group in turn, so that the first one is the first group's best."""
    groups = [search.done for search in searches if search.family == family]
    best = [group[place] for place in range(count) for group in groups if place < len(group)][:count]
    prefix = next(search.prefix for search in searches if search.family == family)
    return [
        BeamResult(finished(prefix, beam.ids, beam.logprobs, beam.stop, beam.alternatives, beam.entropies), beam.node)
        for beam in best
    ]
