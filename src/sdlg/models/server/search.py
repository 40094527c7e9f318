"""Beam search over a server: the same search as for a local model, with one request per hypothesis and token.

A server lists the likeliest tokens of a step; a search of width B looks at no more than the 2 B likeliest of each
hypothesis, and at as many more as other groups may have made dear. So it is exact where the server tells that many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...errors import NotSupported
from ...options import Decoding
from ...records import StopRule
from ..base import Continuation
from ..decoding.beam_search import beam_search, group_widths
from ..decoding.paths import Start
from ..stopping import TextOf
from .replies import Step

# Prefixes → the next step of each, all asked at once.
NextSteps = Callable[[Sequence[tuple[int, ...]]], list[Step]]


class ServedTree:
    """Paths that grow on a server: a node is the path to it."""

    def __init__(self, next_steps: NextSteps) -> None:
        self._next_steps = next_steps
        self._paths: list[tuple[int, ...]] = []
        self.steps: dict[tuple[int, ...], Step] = {}  # after each path

    def begin(self, prefixes: Sequence[tuple[int, ...]]) -> list[Start]:
        """The starts of a search."""
        nodes, rows = self._run(list(prefixes))
        return [Start(prefix, node, rows[k]) for k, (prefix, node) in enumerate(zip(prefixes, nodes, strict=True))]

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """One more token under each parent."""
        return self._run([(*self._paths[parent], token) for parent, token in zip(parents, tokens, strict=True)])

    def _run(self, paths: list[tuple[int, ...]]) -> tuple[list[int], Tensor]:
        first = len(self._paths)
        self._paths += paths
        steps = self._next_steps(paths)
        self.steps.update(zip(paths, steps, strict=True))
        return list(range(first, len(self._paths))), _rows(steps)

    def prune(self, nodes: Sequence[int]) -> None:
        """A path here is a few numbers."""

    def close(self) -> None:
        """There is nothing to leave."""

    def keep_path(self, node: int) -> bool:
        """A server's cache looks after itself."""
        return False


def _rows(steps: Sequence[Step]) -> Tensor:
    """Log-probabilities, (steps, V); −∞ where the server did not list."""
    size = 1 + max(one.token_id for step in steps for one in step.top)
    rows = torch.full((len(steps), size), -torch.inf)
    for row, step in zip(rows, steps, strict=True):
        row[[one.token_id for one in step.top]] = torch.tensor([one.logprob for one in step.top])
    return rows


def needed_alternatives(count: int, decoding: Decoding) -> int:
    """How many of a step's likeliest tokens a search may look at.

    A group of width w takes the 2 w best extensions. Of one hypothesis those are among its 2 w likeliest tokens that no
    earlier group has made dearer, and earlier groups have taken at most as many tokens as they are wide together.
    """
    widths = group_widths(count, decoding)
    return max(2 * width + sum(widths[:place]) for place, width in enumerate(widths))


def search_served(
    next_steps: NextSteps,
    prefixes: Sequence[tuple[int, ...]],
    decoding: Decoding,
    rule: StopRule,
    text_of: TextOf,
    *,
    available: int,
    min_probability: float | None,
) -> tuple[list[Continuation], list[Step]]:
    """As many of the best hypotheses of each prefix as it is given times; and the steps that they took."""
    counts = {prefix: list(prefixes).count(prefix) for prefix in prefixes}
    needed = max(needed_alternatives(count, decoding) for count in counts.values())
    if available < needed:
        raise NotSupported(
            f"this search looks at the {needed} likeliest tokens of a step, but the server tells {available}; "
            "use fewer beams, or start vLLM with --max-logprobs"
        )
    tree = ServedTree(next_steps)
    hypotheses = beam_search(
        tree, tree.begin(list(counts)), list(counts.values()), decoding, rule, text_of,
        min_probability=min_probability, normalise=lambda rows: rows,
    )  # fmt: skip
    left = {prefix: iter(results) for prefix, results in zip(counts, hypotheses, strict=True)}
    best = [(prefix, result.continuation) for prefix in prefixes if (result := next(left[prefix], None)) is not None]
    taken = [[tree.steps[*prefix, *one.token_ids[:at]] for at in range(len(one.alternatives))] for prefix, one in best]
    whole = [
        replace(one, entropies=(), truncated_mass=tuple(step.truncated_mass for step in steps))
        for (_, one), steps in zip(best, taken, strict=True)
    ]
    return whole, [step for steps in taken for step in steps]
