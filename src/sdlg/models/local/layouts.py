"""Which way of growing branches suits a model: tried on the model itself.

In: a network. Out: the name of the first layout that gives the same logits as running each path from scratch.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...errors import RunError
from .kv_tree import MaskedTree, PaddedRows, PrefixKV, SeparateCaches
from .network import Network

LAYOUTS: Mapping[str, type[MaskedTree] | type[PaddedRows] | type[SeparateCaches]] = {
    "tree": MaskedTree,
    "rows": PaddedRows,
    "separate": SeparateCaches,
}


def choose_layout(network: Network) -> str:
    """The first layout whose logits, on a small forked tree, are those of running each path from scratch."""
    ids = _probe_ids(network)
    paths = [ids, [*ids[:3], ids[4], ids[3]]]  # the prefix's own continuation, and a branch at its third token
    wanted = torch.cat([PrefixKV(network, native=True).extend(path) for path in paths])
    for name in LAYOUTS:
        if _agrees(network, name, paths, wanted):
            return name
    raise RunError("this model gives different logits in every decoding layout; is it a causal language model?")


def _probe_ids(network: Network) -> list[int]:
    size = int(network.model.get_input_embeddings().num_embeddings)
    return [(7919 * k + 11) % size for k in range(1, 6)]


def _agrees(network: Network, name: str, paths: list[list[int]], wanted: Tensor) -> bool:
    if not _suits(name, network.windows):
        return False
    prefix_kv = PrefixKV(network, native=name == "separate")
    try:
        prefix_kv.extend(paths[0][:4])
        tree = LAYOUTS[name](prefix_kv)
        second, _ = tree.grow([2], [paths[1][3]])
        _, logits = tree.grow([3, second[0]], [paths[0][4], paths[1][4]])
    except Exception:  # any failure of a foreign model means: not this layout
        return False
    scale = wanted.abs().max().clamp(min=1.0)
    return bool(torch.isfinite(logits).all() and (logits - wanted).abs().max() < 1e-3 * scale * _slack(network))


def _suits(layout: str, windows: Mapping[str, int | None]) -> bool:
    """What a short probe cannot see: windows are counted in columns, which gaps would shift."""
    if layout == "tree":
        return set(windows) <= {"full_attention", "sliding_attention"}
    return layout == "separate" or set(windows) == {"full_attention"}


def _slack(network: Network) -> float:
    return 1.0 if network.model.dtype == torch.float32 else 50.0
