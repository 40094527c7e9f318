"""What pyproject.toml cannot say: the README as the package index shows it, where no relative link leads anywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent
_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")


def absolute_links(text: str, source: str) -> str:
    """Turn links within the repository into links to it; pictures into their raw files."""
    raw = source.replace("github.com", "raw.githubusercontent.com")
    places = {"!": f"{raw}/main", "": f"{source}/blob/main"}
    return _LINK.sub(lambda link: f"{link[1]}{link[2]}({places[link[1]]}/{link[3]})", text)


def uploaded_readme() -> str:
    """Return README.md with absolute links."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), project["urls"]["Source"])


if __name__ == "__main__":  # as build tools run it
    from setuptools import setup

    setup(long_description=uploaded_readme(), long_description_content_type="text/markdown")
