"""The oldest versions that pyproject.toml admits, as pins for pip: what `make test-oldest` installs.

torch stays where constraints.txt has it: its older wheels without CUDA are not in the package index. The tools
of the tests (the extra `dev`) are those of constraints.txt too: no user needs an old one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LEFT_OUT = ("dev", "docs", "inspect", "lm-eval")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "jsonschema")  # what the selected tests need


def requirements(pyproject: Path = ROOT / "pyproject.toml") -> Iterator[Requirement]:
    """What a user's environment can need: the dependencies and every extra but those of developers.

    Nor inspect and lm-eval: their bounds are the versions that every test run has, and what they need would hide ours.
    """
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = (lines for name, lines in project["optional-dependencies"].items() if name not in LEFT_OUT)
    for lines in (project["dependencies"], *extras):
        yield from map(Requirement, lines)


def lower_bound(requirement: Requirement) -> Version:
    """Return the version after `>=`; a dependency without one is an error."""
    found = [Version(one.version) for one in requirement.specifier if one.operator in (">=", "==")]
    if not found:
        raise SystemExit(f"pyproject.toml: {requirement} has no lower bound; give it one, and run make test-oldest")
    return max(found)


def pins(pyproject: Path = ROOT / "pyproject.toml", constraints: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """Return name → version: the lower bounds, then torch and the test tools as constraints.txt has them."""
    found: dict[str, Version] = {}
    for requirement in requirements(pyproject):
        bound = lower_bound(requirement)
        found[requirement.name] = max(bound, found.get(requirement.name, bound))
    lines = constraints.read_text(encoding="utf-8").splitlines()
    ours = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {name: str(version) for name, version in found.items()} | {name: ours[name] for name in ("torch", *TOOLS)}


if __name__ == "__main__":
    for name, version in pins().items():
        print(f"{name}=={version}")
