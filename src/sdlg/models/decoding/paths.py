"""Decoding: from the logits at the end of each prefix to finished continuations.

In: starts, and a tree on which they grow. Out: continuations. Every path draws from random numbers of its own, so a
sample does not depend on how many others there are. Log-probabilities are those of the model itself (temperature 1,
before top-p). beam_search.py has the beams; both see only `KVTree`, so they run on every layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ...concurrency.limits import check_limit
from ...options import Decoding
from ...records import Alternative, Generation
from ..base import Continuation, DecodeRequest, PathRandom, finished, path_randoms, tell_complete
from ..codes import choose_by_code
from ..stopping import Stop, TextOf, find_stop
from .trees import KVTree, PathTree


@dataclass(frozen=True, slots=True)
class Start:
    """Where a continuation begins: its prefix, the node of its last token and the logits after it, (V,)."""

    prefix: tuple[int, ...]
    node: int
    logits: Tensor


@dataclass(frozen=True, slots=True)
class WantedPath:
    """A prefix of a request that is to be continued, its place there, and what it draws by."""

    request: DecodeRequest
    place: int
    random: PathRandom

    @property
    def prefix(self) -> tuple[int, ...]:
        """The tokens that it begins with."""
        return self.request.prefixes[self.place]


def wanted_paths(request: DecodeRequest) -> list[WantedPath]:
    """Return the paths of a request that are not as long already as an answer may be; the others are told."""
    sizes = dict(enumerate(map(len, request.prefixes)))
    growing = [place for place, size in sizes.items() if size < request.decoding.max_tokens]
    tell_complete(request, [place for place, size in sizes.items() if size >= request.decoding.max_tokens])
    randoms = path_randoms(replace(request, prefixes=[request.prefixes[place] for place in growing]))
    return [WantedPath(request, place, random) for place, random in zip(growing, randoms, strict=True)]


@dataclass(slots=True)
class DecodingPath:
    """A continuation that is being decoded."""

    wanted: WantedPath
    prefix: tuple[int, ...]
    node: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[tuple[Alternative, ...]] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    stop: Stop | None = None

    def finish(self) -> Continuation:
        """Return what has been decoded, cut at its stop."""
        return finished(
            self.prefix, tuple(self.ids), tuple(self.logprobs), self.stop,
            tuple(self.alternatives), tuple(self.entropies),
        )  # fmt: skip


def decode_paths(
    tree: KVTree, starts: Sequence[Start], wanted: Sequence[WantedPath], text_of: TextOf
) -> list[Continuation]:
    """Choose one token per live path and step; a finished path is no longer run, and equal beginnings are run once."""
    paths = [DecodingPath(path, path.prefix, start.node) for path, start in zip(wanted, starts, strict=True)]
    tips = {start.node: start.logits for start in starts}
    live, nodes, logits = paths, list(tips), torch.stack(list(tips.values()))
    while True:
        check_limit()
        by_node = torch.log_softmax(logits, dim=-1)  # (nodes, V)
        rows = [nodes.index(path.node) for path in live]
        tokens = choose_tokens(by_node[rows], [path.wanted.random for path in live])
        entropies = step_entropies(by_node)
        going = []
        for path, row, token in zip(live, rows, tokens.tolist(), strict=True):
            request = path.wanted.request
            path.ids.append(token)
            path.logprobs.append(float(by_node[row, token]))
            path.entropies.append(entropies[row])
            if request.alternatives_above is not None:
                path.alternatives.append(alternatives_above(by_node[row], request.alternatives_above))
            path.stop = find_stop(request.prompt.stop, (*path.prefix, *path.ids), text_of)
            if request.watch and path.stop is None:
                request.watch(path.wanted.place, token)
            if path.stop is None and len(path.prefix) + len(path.ids) < request.decoding.max_tokens:
                going.append(path)
            elif request.ended:
                request.ended(path.wanted.place, path.finish())
        if not going:
            return [path.finish() for path in paths]
        live = going
        tree.prune(list(dict.fromkeys(path.node for path in live)))
        steps = list(dict.fromkeys((path.node, path.ids[-1]) for path in live))
        nodes, logits = tree.grow([parent for parent, _ in steps], [token for _, token in steps])
        reached = dict(zip(steps, nodes, strict=True))
        for path in live:
            path.node = reached[path.node, path.ids[-1]]


def choose_tokens(logprobs: Tensor, randoms: Sequence[PathRandom]) -> Tensor:
    """(paths, V) → (paths,): greedy (ties go to the lower id), multinomial or by code, as each path's options say."""
    tokens = logprobs.argmax(dim=-1)
    multinomial = [row for row, random in enumerate(randoms) if random.decoding.strategy == "multinomial"]
    if multinomial:
        decoding, generators = randoms[multinomial[0]].decoding, [randoms[row].generator for row in multinomial]
        tokens[multinomial] = choose_multinomial(logprobs[multinomial], decoding, generators).to(tokens.device)
    for row, random in enumerate(randoms):
        if random.code is not None:
            shares = torch.softmax(logprobs[row].double() / random.decoding.temperature, dim=-1).cpu().numpy()
            tokens[row] = choose_by_code(shares, random.code, random.decoding.top_p)
    return tokens


def choose_multinomial(logprobs: Tensor, decoding: Decoding, generators: Sequence[np.random.Generator]) -> Tensor:
    """(paths, V) → (paths,), by inverting the cumulative distribution at one uniform number per path."""
    uniforms = torch.tensor([[generator.random()] for generator in generators], dtype=torch.float64)
    probabilities = torch.softmax(logprobs.double() / decoding.temperature, dim=-1).cpu()
    if decoding.top_p >= 1.0:
        return _invert(probabilities, uniforms)
    ordered, ids = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    kept = torch.where(before < decoding.top_p, ordered, 0.0)
    kept[:, 0] = ordered[:, 0]  # top_p = 0 keeps the likeliest
    return ids.gather(1, _invert(kept, uniforms)[:, None])[:, 0]


def _invert(weights: Tensor, uniforms: Tensor) -> Tensor:
    cumulative = weights.cumsum(dim=-1)
    chosen = torch.searchsorted(cumulative, uniforms * cumulative[:, -1:], right=True)[:, 0]
    last = weights.shape[-1] - 1 - (weights.flip(-1) > 0).int().argmax(dim=-1)  # rounding never picks weight 0
    return torch.minimum(chosen, last)


def step_entropies(logprobs: Tensor) -> list[float]:
    """Return the entropy of each row, (rows, V), in nats."""
    return [float(value) for value in -(logprobs.exp() * logprobs.clamp(min=-1e9)).sum(dim=-1)]


def alternatives_above(logprobs: Tensor, min_probability: float) -> tuple[Alternative, ...]:
    """Return the tokens of one step, (V,), that are likelier than this; likeliest first, ties by id."""
    floor = math.log(min_probability) if min_probability > 0 else -math.inf
    ids = (logprobs > floor).nonzero()[:, 0]
    values, order = logprobs[ids].sort(descending=True, stable=True)
    return tuple(Alternative(i, v) for i, v in zip(ids[order].tolist(), values.tolist(), strict=True))


def read_answer(
    text: str, ids: tuple[int, ...], endings: Sequence[int], rows: Iterable[Tensor], min_probability: float
) -> Generation:
    """Return a given answer as a generation: `rows` are the logits before each of its tokens and after the last."""
    logprobs: list[float] = []
    alternatives: list[tuple[Alternative, ...]] = []
    entropies: list[float] = []
    targets = iter([*((token,) for token in ids), tuple(endings)])
    for logits in rows:
        steps = torch.log_softmax(logits, dim=-1)
        entropies += step_entropies(steps)
        for step in steps:
            wanted = list(next(targets))
            alternatives.append(alternatives_above(step, min_probability))
            if wanted:
                logprobs.append(float(step[wanted].max()))
    ended = bool(endings)
    return Generation(
        text, ids, tuple(logprobs[: len(ids)]), "eos" if ended else "length", tuple(logprobs[len(ids) :]),
        tuple(alternatives), tuple(entropies[: len(ids) + ended]),
    )  # fmt: skip


def score_paths(
    tree: PathTree, starts: Sequence[Start], targets: Sequence[Sequence[int]], endings: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return the log-probabilities of given tokens after each start, and of the likeliest of its endings, if any."""
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
    """Return the log-probability of the likeliest id of each step, from its row of logits, (rows, V)."""
    logprobs = torch.log_softmax(logits, dim=-1)
    return [float(row[list(ids)].max()) for row, ids in zip(logprobs, steps, strict=False)]
