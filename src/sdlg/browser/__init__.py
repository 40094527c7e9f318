"""The page's files, as they are served and as they are put into a self-contained file. No build step.

The scripts are ES modules, one for each thing that is shown. A file of its own can load nothing, so there the view's
modules stand one after the other in one script: `VIEW` has each after those that it imports, and no name is in two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

VIEW = (
    "numbers.js", "elements.js", "meanings.js", "candidates.js", "answer.js", "tree.js", "verdict.js", "view.js",
)  # fmt: skip
PAGE = ("settings.js", "status.js", "form.js", "history.js", "server.js", "arriving.js", "asking.js", "app.js")
NAMES = ("index.html", "style.css", *VIEW, *PAGE)
_IMPORT = re.compile(r'^import \{ .+ \} from "\./.+";\n', re.MULTILINE)


def static_files() -> Mapping[str, bytes]:
    """Name → content. `index.html` is the page; it finds the others under `static/`."""
    return {name: (files(__package__) / name).read_bytes() for name in NAMES}


def static_text(name: str) -> str:
    """One of the files, as text."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def view_script() -> str:
    """The modules that show a result as one script, which imports nothing. `showResult(place, result)` is in it."""
    return "\n".join(_IMPORT.sub("", static_text(name)) for name in VIEW)
