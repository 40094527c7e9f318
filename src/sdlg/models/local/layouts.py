"""Which way of growing branches suits a model: tried on the model itself.

In: a network. Out: the name of the first layout that gives the same logits as running each path from scratch. How much
rounding may change them is measured on the model too: a fixed share of the logits that suits half precision would also
let a model pass that ignores masks or positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ...errors import RunError
from .kv_tree import PaddedRows, SeparateCaches
from .masked_tree import MaskedTree
from .network import KNOWN_WINDOWS, Network
from .prefix_kv import PrefixKV

LAYOUTS: Mapping[str, type[MaskedTree] | type[PaddedRows] | type[SeparateCaches]] = {
    "tree": MaskedTree,
    "rows": PaddedRows,
    "separate": SeparateCaches,
}


# A layout rounds in other places than running from scratch does, as cutting a path into pieces does: this many times
# what the pieces show is still rounding.
_ROUNDING = 4.0
# Of the difference that a wrong mask makes, a right one may make this share.
_SHARE_OF_WRONG = 0.25


@dataclass(frozen=True, slots=True)
class _Probe:
    """A small forked tree, its logits from scratch, and what they may differ by."""

    paths: list[list[int]]  # the prefix's own continuation, and a branch at its third token
    reference: Tensor  # (paths, V)
    rounding: float  # what may come from rounding
    wrong: float  # what comes of seeing a token of the other path


def choose_layout(network: Network) -> str:
    """The first layout whose logits, on a small forked tree, are those of running each path from scratch."""
    probe = _probe(network)
    for name in LAYOUTS:
        if _agrees(network, name, probe):
            return name
    raise RunError("this model gives different logits in every decoding layout; is it a causal language model?")


def _probe(network: Network) -> _Probe:
    size = int(network.model.get_input_embeddings().num_embeddings)
    ids = [(7919 * k + 11) % size for k in range(1, 6)]
    paths = [ids, [*ids[:3], ids[4], ids[3]]]
    reference = _from_scratch(network, paths)
    pieces = max(_distance(_from_scratch(network, paths, cuts), reference) for cuts in ((3,), (1, 2, 3, 4)))
    leaky = [[*path[:3], ids[3], ids[4], path[4]] for path in paths]  # both tokens after the fork, then its own
    scale = max(1.0, float(reference.abs().max()))
    least = max(1e-3, torch.finfo(network.model.dtype).eps) * scale
    return _Probe(paths, reference, least + _ROUNDING * pieces, _distance(_from_scratch(network, leaky), reference))


def _from_scratch(network: Network, paths: list[list[int]], cuts: tuple[int, ...] = ()) -> Tensor:
    """The logits after each path, (paths, V), run at once or in the pieces between the cuts."""
    logits = []
    for path in paths:
        prefix_kv = PrefixKV(network, native=True)
        for first, end in pairwise((0, *cuts, len(path))):
            last = prefix_kv.extend(path[first:end])
        logits.append(last)
    return torch.cat(logits)


def _distance(some: Tensor, others: Tensor) -> float:
    return float((some - others).abs().max())


def _agrees(network: Network, name: str, probe: _Probe) -> bool:
    if not _suits(name, network.windows):
        return False
    paths = probe.paths
    prefix_kv = PrefixKV(network, native=name == "separate")
    try:
        prefix_kv.extend(paths[0][:4])
        tree = LAYOUTS[name](prefix_kv)
        second, _ = tree.grow([2], [paths[1][3]])
        _, logits = tree.grow([3, second[0]], [paths[0][4], paths[1][4]])
    except Exception:  # any failure of a foreign model means: not this layout
        return False
    # Where rounding hides what a wrong mask does, only caches without masks are sure.
    most = probe.rounding if name == "separate" else min(probe.rounding, _SHARE_OF_WRONG * probe.wrong)
    return bool(torch.isfinite(logits).all()) and _distance(logits, probe.reference) < most


def _suits(layout: str, windows: Mapping[str, int | None]) -> bool:
    """What a short probe cannot see: windows are counted in columns, which gaps would shift."""
    if layout == "tree":
        return set(windows) <= KNOWN_WINDOWS
    return layout == "separate" or set(windows) == {"full_attention"}
