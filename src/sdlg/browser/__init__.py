"""The page's files, as they are served and as they are put into a self-contained file. No build step."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

NAMES = ("index.html", "style.css", "view.js", "app.js")


def static_files() -> Mapping[str, bytes]:
    """Name → content. `index.html` is the page; it finds the others under `static/`."""
    return {name: (files(__package__) / name).read_bytes() for name in NAMES}


def static_text(name: str) -> str:
    """One of the files, as text."""
    return (files(__package__) / name).read_text(encoding="utf-8")
