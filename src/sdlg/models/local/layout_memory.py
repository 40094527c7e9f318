"""Which layout suits a model, remembered between processes: finding out takes a dozen passes through it.

In: a network and the files it was loaded from. Out: the name of its layout. What is remembered holds for these very
files, this device and precision, and these versions of the libraries; anything else is tried again. A note that cannot
be read or written is no loss.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from ...loading.cache_folder import home_folder
from .layouts import LAYOUTS, choose_layout
from .network import Network

_PROBE_VERSION = 2  # raise it when layouts or their test change


def remembered_layout(network: Network, folder: Path) -> str:
    """As it was found before, or found now."""
    note = home_folder() / "layouts" / _key(network, folder)
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


def _key(network: Network, folder: Path) -> str:
    """Of all that the layout may depend on."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".bin"))
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    libraries = [(name, version(name)) for name in ("torch", "transformers")]
    kind = (type(network.model).__name__, str(network.model.dtype), str(network.device))
    said = repr((_PROBE_VERSION, str(folder.resolve()), states, libraries, kind))
    return hashlib.sha256(said.encode()).hexdigest()[:24]
