"""The page's files, as they are served and as they are put into a self-contained file. No build step.

The scripts are ES modules. A file of its own can load nothing, so there the view's modules stand one after the other in
one script: `VIEW` has each after those that it imports, and no name is in two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

VIEW = ("elements.js", "view.js")
NAMES = ("index.html", "style.css", *VIEW, "server.js", "app.js")
_IMPORT = re.compile(r'^import \{ .+ \} from "\./.+";\n', re.MULTILINE)


def static_files() -> Mapping[str, bytes]:
    """Return content by name. `index.html` is the page; it finds the others under `static/`."""
    return {name: (files(__package__) / name).read_bytes() for name in NAMES}


def static_text(name: str) -> str:
    """Return one of the files as text."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def view_script() -> str:
    """Return the modules that show a result as one script without imports. `showResult(place, result)` is in it."""
    return "\n".join(_IMPORT.sub("", static_text(name)) for name in VIEW)
