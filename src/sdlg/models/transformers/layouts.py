"""Which way of growing branches suits a model: tried on the model itself.

In: a network. Out: "tree", or "separate" where a tree gives other logits than running each path from scratch. How much
rounding may change them is measured on the model too: a fixed share of the logits that suits half precision would also
let a model pass that ignores masks or positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import torch
from torch import Tensor

from ...loading.cache_folder import home_folder
from .masked_tree import MaskedTree
from .network import KNOWN_WINDOWS, Network
from .prefix_cache import PrefixKV
from .separate_caches import SeparateCaches

LAYOUTS: Mapping[str, type[MaskedTree] | type[SeparateCaches]] = {"tree": MaskedTree, "separate": SeparateCaches}
_PROBE_VERSION = 3  # raise it when layouts or their test change

# The tree rounds in other places than running from scratch does, as cutting a path into pieces does: this many times
# what the pieces show is still rounding.
_ROUNDING = 4.0
# Of the difference that a wrong mask makes, a right one may make this share.
_SHARE_OF_WRONG = 0.25


def choose_layout(network: Network) -> str:
    """Return "tree" if a small forked tree gives the logits of running each path from scratch, else "separate"."""
    if not set(network.windows) <= KNOWN_WINDOWS:  # a short probe cannot see windows of another kind
        return "separate"
    size = int(network.model.get_input_embeddings().num_embeddings)
    ids = [(7919 * k + 11) % size for k in range(1, 6)]
    paths = [ids, [*ids[:3], ids[4], ids[3]]]  # the prefix's own continuation, and a branch at its third token
    reference = _from_scratch(network, paths)  # (paths, V)
    try:
        found = _in_a_tree(network, paths)
    except Exception:  # any failure of a foreign model means: not this layout
        return "separate"
    # Where rounding hides what a wrong mask does, only caches without masks are sure.
    leaky = [[*path[:3], ids[3], ids[4], path[4]] for path in paths]  # both tokens after the fork, then its own
    wrong = _distance(_from_scratch(network, leaky), reference)
    most = min(_rounding(network, paths, reference), _SHARE_OF_WRONG * wrong)
    agrees = bool(torch.isfinite(found).all()) and _distance(found, reference) < most
    return "tree" if agrees else "separate"


def _rounding(network: Network, paths: list[list[int]], reference: Tensor) -> float:
    """Return how far logits may differ by rounding alone, measured on the model."""
    pieces = max(_distance(_from_scratch(network, paths, cuts), reference) for cuts in ((3,), (1, 2, 3, 4)))
    scale = max(1.0, float(reference.abs().max()))
    return max(1e-3, torch.finfo(network.model.dtype).eps) * scale + _ROUNDING * pieces


def _from_scratch(network: Network, paths: list[list[int]], cuts: tuple[int, ...] = ()) -> Tensor:
    """Return the logits after each path, (paths, V), run at once or in the pieces between the cuts."""
    logits = []
    for path in paths:
        prefix_kv = PrefixKV(network, native=True)
        for first, end in pairwise((0, *cuts, len(path))):
            last = prefix_kv.extend(path[first:end])
        logits.append(last)
    return torch.cat(logits)


def _in_a_tree(network: Network, paths: list[list[int]]) -> Tensor:
    """Return the logits after both paths, (paths, V), grown in one tree."""
    prefix_kv = PrefixKV(network, native=False)
    prefix_kv.extend(paths[0][:4])
    tree = MaskedTree(prefix_kv)
    second, _ = tree.grow([2], [paths[1][3]])
    _, logits = tree.grow([3, second[0]], [paths[0][4], paths[1][4]])
    return logits


def _distance(some: Tensor, others: Tensor) -> float:
    return float((some - others).abs().max())


def remembered_layout(network: Network, folder: Path) -> str:
    """Return the layout of the model in a folder, found before or now: finding out takes a dozen passes.

    What is remembered holds for these files, this device and precision, and these versions of the libraries. A note
    that cannot be read or written is no loss.
    """
    note = home_folder() / "layouts" / _layout_key(network, folder)
    with suppress(OSError, UnicodeDecodeError):
        name = note.read_text()
        if name in LAYOUTS:
            return name
    name = choose_layout(network)
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        partial = note.with_name(f"{note.name}.{uuid4().hex}")
        partial.write_text(name)
        partial.replace(note)  # whole, or not at all
    return name


def _layout_key(network: Network, folder: Path) -> str:
    """Hash all that the layout may depend on."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".bin"))
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    libraries = [(name, version(name)) for name in ("torch", "transformers")]
    kind = (type(network.model).__name__, str(network.model.dtype), str(network.device))
    parts = repr((_PROBE_VERSION, str(folder.resolve()), states, libraries, kind))
    return hashlib.sha256(parts.encode()).hexdigest()[:24]
