"""Decoding: from the logits at the end of each prefix to finished continuations.

In: paths at their starting nodes and something on which they grow. Out: continuations. `decode_paths` is greedy and
multinomial decoding, `beam_search` is beam search; both see only `Growth`, so they run on every layout.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ..options import Decoding
from ..records import Alternative, StopRule
from .base import Continuation, Watcher, finished
from .choosing import alternatives_above, choose_greedy, choose_multinomial, path_generator
from .stopping import Stop, find_stop
from .trunk import Growth

TextOf = Callable[[Many[int]], str]


@dataclass(frozen=True, slots=True)
class Start:
    """Where a continuation begins: its prefix, the node of its last token and the logits after it, (V,)."""

    prefix: tuple[int, ...]
    node: int
    logits: Tensor


@dataclass(slots=True)
class Path:
    """A continuation in the making."""

    index: int
    prefix: tuple[int, ...]
    node: int
    generator: np.random.Generator
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[tuple[Alternative, ...]] = field(default_factory=list)
    stop: Stop | None = None

    def finish(self) -> Continuation:
        """What has been decoded, cut at its stop."""
        return finished(self.prefix, tuple(self.ids), tuple(self.logprobs), self.stop, tuple(self.alternatives))


def decode_paths(
    growth: Growth,
    starts: Many[Start],
    decoding: Decoding,
    rule: StopRule,
    text_of: TextOf,
    *,
    seed: int,
    min_probability: float | None,
    watch: Watcher | None,
) -> list[Continuation]:
    """Greedy or multinomial: one token per live path and step; a finished path is no longer fed."""
    paths = [Path(i, start.prefix, start.node, path_generator(seed, i)) for i, start in enumerate(starts)]
    live, logits = paths, torch.stack([start.logits for start in starts])
    while True:
        logprobs = torch.log_softmax(logits, dim=-1)  # (live, V)
        if decoding.strategy == "greedy":
            tokens = choose_greedy(logprobs)
        else:
            tokens = choose_multinomial(logprobs, decoding, [path.generator for path in live]).to(logits.device)
        chosen = logprobs.gather(1, tokens[:, None])[:, 0].tolist()
        going = []
        for row, (path, token, logprob) in enumerate(zip(live, tokens.tolist(), chosen, strict=True)):
            path.ids.append(token)
            path.logprobs.append(logprob)
            if min_probability is not None:
                path.alternatives.append(alternatives_above(logprobs[row], min_probability))
            path.stop = find_stop(rule, (*path.prefix, *path.ids), text_of)
            if watch and path.stop is None:
                watch(path.index, token)
            if path.stop is None and len(path.prefix) + len(path.ids) < decoding.max_tokens:
                going.append(path)
        if not going:
            return [path.finish() for path in paths]
        live = going
        nodes, logits = growth.grow([path.node for path in live], [path.ids[-1] for path in live])
        for path, node in zip(live, nodes, strict=True):
            path.node = node


@dataclass(frozen=True, slots=True)
class Beam:
    """A hypothesis of one beam search. `node` is the node of its last token, once it has been run."""

    node: int
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    stop: Stop | None = None

    @property
    def logprob(self) -> float:
        """Of the whole continuation."""
        return sum(self.logprobs)

    def score(self, penalty: float) -> float:
        """What beams are compared by."""
        return float(self.logprob / max(len(self.ids), 1) ** penalty)


@dataclass(slots=True)
class Search:
    """One beam search: the hypotheses still running and the best finished ones."""

    prefix: tuple[int, ...]
    running: list[Beam]
    done: list[Beam] = field(default_factory=list)

    def keep_best(self, beams: Many[Beam], decoding: Decoding) -> None:
        """Add finished hypotheses; only the best `beams` of all stay, best first."""
        penalty = decoding.length_penalty
        self.done = sorted([*self.done, *beams], key=lambda beam: -beam.score(penalty))[: decoding.beams]


@dataclass(frozen=True, slots=True)
class BeamResult:
    """The best hypothesis as a continuation, and the node at which its last run token sits."""

    continuation: Continuation
    node: int


def beam_search(
    growth: Growth,
    starts: Many[Start],
    decoding: Decoding,
    rule: StopRule,
    text_of: TextOf,
    *,
    min_probability: float | None,
) -> list[BeamResult]:
    """Beam search of every start at once: all hypotheses of all searches are one step of the tree."""
    searches = [Search(start.prefix, [Beam(start.node)]) for start in starts]
    logits = torch.stack([start.logits for start in starts])
    while True:
        logprobs = torch.log_softmax(logits, dim=-1)
        row = 0
        for search in (search for search in searches if search.running):
            width = len(search.running)
            extended = _extensions(search, logprobs[row : row + width], decoding, min_probability)
            _advance(search, extended, decoding, rule, text_of)
            row += width
        running = [beam for search in searches for beam in search.running]
        if not running:
            return [_result(search) for search in searches]
        nodes, logits = growth.grow([beam.node for beam in running], [beam.ids[-1] for beam in running])
        placed = iter(nodes)
        for search in searches:
            search.running = [replace(beam, node=next(placed)) for beam in search.running]


def _extensions(search: Search, logprobs: Tensor, decoding: Decoding, min_probability: float | None) -> list[Beam]:
    """The 2 × beams best one-token extensions of the running hypotheses, best first."""
    vocabulary = logprobs.shape[-1]
    totals = logprobs + torch.tensor([[beam.logprob] for beam in search.running], device=logprobs.device)
    _, flat = totals.flatten().topk(min(2 * decoding.beams, totals.numel()))
    seen: dict[int, tuple[tuple[Alternative, ...], ...]] = {}
    extended = []
    for index in flat.tolist():
        row, token = divmod(index, vocabulary)
        parent = search.running[row]
        if min_probability is not None and row not in seen:
            seen[row] = (*parent.alternatives, alternatives_above(logprobs[row], min_probability))
        logprob = float(logprobs[row, token])
        extended.append(Beam(parent.node, (*parent.ids, token), (*parent.logprobs, logprob), seen.get(row, ())))
    return extended


def _advance(search: Search, extended: Many[Beam], decoding: Decoding, rule: StopRule, text_of: TextOf) -> None:
    """One step of one search. Endings count only among the best `beams` extensions, as in transformers."""
    going: list[Beam] = []
    ended: list[Beam] = []
    for place, beam in enumerate(extended):
        stop = find_stop(rule, (*search.prefix, *beam.ids), text_of)
        if stop is None and len(going) < decoding.beams:
            going.append(beam)
        elif stop is not None and place < decoding.beams:
            ended.append(replace(beam, stop=stop))
    search.keep_best(ended, decoding)
    if going and len(search.prefix) + len(going[0].ids) >= decoding.max_tokens:
        search.keep_best(going, decoding)
        going = []
    search.running = going if _may_improve(search, going, decoding) else []


def _may_improve(search: Search, going: Many[Beam], decoding: Decoding) -> bool:
    """Whether a running hypothesis could still beat the worst finished one, judged at its present length."""
    if not going or len(search.done) < decoding.beams:
        return bool(going)
    penalty = decoding.length_penalty
    return going[0].score(penalty) > search.done[-1].score(penalty)


def _result(search: Search) -> BeamResult:
    best = search.done[0]
    return BeamResult(finished(search.prefix, best.ids, best.logprobs, best.stop, best.alternatives), best.node)
