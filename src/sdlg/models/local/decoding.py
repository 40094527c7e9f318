"""Decoding: from the logits at the end of each prefix to finished continuations.

In: paths at their starting nodes and something on which they grow. Out: continuations. This file decodes paths
one token at a time and scores given tokens, beam_search.py has the beams; all see only `KVTree`, so they run on every
layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...concurrency.limits import check_limit
from ...records import Alternative
from ..base import Continuation, DecodeRequest, PathRandom, finished, path_randoms
from ..stopping import Stop, find_stop
from .choosing import alternatives_above, choose_tokens, steered
from .kv_tree import KVTree, PathTree

TextOf = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class Start:
    """Where a continuation begins: its prefix, the node of its last token and the logits after it, (V,)."""

    prefix: tuple[int, ...]
    node: int
    logits: Tensor


@dataclass(slots=True)
class DecodingPath:
    """A continuation in the making."""

    index: int
    prefix: tuple[int, ...]
    node: int
    random: PathRandom
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[tuple[Alternative, ...]] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    proposal_logprobs: list[float] = field(default_factory=list)
    stop: Stop | None = None

    def finish(self) -> Continuation:
        """What has been decoded, cut at its stop."""
        return finished(
            self.prefix, tuple(self.ids), tuple(self.logprobs), self.stop,
            tuple(self.alternatives), tuple(self.entropies), proposal_logprobs=tuple(self.proposal_logprobs),
        )  # fmt: skip


def step_entropies(logprobs: Tensor) -> list[float]:
    """The entropy of each row, (rows, V), in nats."""
    return [float(value) for value in -(logprobs.exp() * logprobs.clamp(min=-1e9)).sum(dim=-1)]


def decode_paths(
    tree: KVTree, starts: Sequence[Start], request: DecodeRequest, text_of: TextOf, randoms: Sequence[PathRandom] = ()
) -> list[Continuation]:
    """One token per live path and step; a finished path is no longer fed.

    `randoms`: what each path draws by, where these are only some of those that draw by the request's seed.
    """
    paths = [
        DecodingPath(i, start.prefix, start.node, random)
        for i, (start, random) in enumerate(zip(starts, randoms or path_randoms(request), strict=True))
    ]
    live, logits = paths, torch.stack([start.logits for start in starts])
    while True:
        check_limit()
        logprobs = torch.log_softmax(logits, dim=-1)  # (live, V)
        tokens = _choose(logprobs, live, request)
        chosen = logprobs.gather(1, tokens[:, None])[:, 0].tolist()
        entropies = step_entropies(logprobs)
        going = []
        for row, (path, token, logprob) in enumerate(zip(live, tokens.tolist(), chosen, strict=True)):
            path.ids.append(token)
            path.logprobs.append(logprob)
            path.entropies.append(entropies[row])
            if request.alternatives_above is not None:
                path.alternatives.append(alternatives_above(logprobs[row], request.alternatives_above))
            path.stop = find_stop(request.prompt.stop, (*path.prefix, *path.ids), text_of)
            if request.watch and path.stop is None:
                request.watch(path.index, token)
            if path.stop is None and len(path.prefix) + len(path.ids) < request.decoding.max_tokens:
                going.append(path)
            elif request.ended:
                request.ended(path.index, path.finish())
        if not going:
            return [path.finish() for path in paths]
        live = going
        tree.prune([path.node for path in live])
        nodes, logits = tree.grow([path.node for path in live], [path.ids[-1] for path in live])
        for path, node in zip(live, nodes, strict=True):
            path.node = node


def _choose(logprobs: Tensor, live: Sequence[DecodingPath], request: DecodeRequest) -> Tensor:
    """(live, V) → (live,). A steered path is alone, and keeps the probability of what it was drawn from."""
    randoms = [path.random for path in live]
    if request.steering is None:
        return choose_tokens(logprobs, randoms)
    (path,) = live
    temperature = path.random.decoding.temperature
    moved = steered(logprobs, (*path.prefix, *path.ids), request.steering, temperature)
    tokens = choose_tokens(moved, randoms)
    path.proposal_logprobs.append(float(torch.log_softmax(moved[0].double() / temperature, dim=-1)[tokens[0]]))
    request.steering.chose(int(tokens[0]))
    return tokens


def score_paths(
    tree: PathTree,
    starts: Sequence[Start],
    targets: Sequence[Sequence[int]],
    endings: Sequence[Sequence[int]],
) -> list[list[float]]:
    """The log-probabilities of given tokens after each start, and of the likeliest of its endings, if it has any."""
    wanted = [
        [*([token] for token in tokens), *([list(ends)] if ends else [])]
        for tokens, ends in zip(targets, endings, strict=True)
    ]
    logprobs = [_likeliest(start.logits[None], steps[:1]) for start, steps in zip(starts, wanted, strict=True)]
    read = [tokens[: max(len(steps) - 1, 0)] for tokens, steps in zip(targets, wanted, strict=True)]
    for piece in tree.run_paths([start.node for start in starts], read):
        steps = wanted[piece.path][piece.first + 1 :]  # after its first token comes its second
        logprobs[piece.path] += _likeliest(piece.logits, steps)
    return logprobs


def _likeliest(logits: Tensor, steps: Sequence[Sequence[int]]) -> list[float]:
    """The log-probability of the likeliest of the ids that each step names, from its row of logits, (rows, V)."""
    logprobs = torch.log_softmax(logits, dim=-1)
    return [float(row[list(ids)].max()) for row, ids in zip(logprobs, steps, strict=False)]
