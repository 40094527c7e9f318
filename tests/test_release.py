"""What a release is made of: one version, a citation, a README without relative links, workflows that can run."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
import tarfile
import zipfile
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import sdlg

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def load(path: str):
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


lower_bounds = load("tools/lower_bounds.py")
release_check = load("tools/release_check.py")
setup = load("setup.py")


def test_there_is_one_version():
    assert metadata("sdlg")["Version"] == sdlg.__version__ == CITATION["version"]
    assert f"## {sdlg.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_citation_has_what_its_format_requires():
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)
    assert CITATION["cff-version"] == "1.2.0"
    (paper,) = CITATION["references"]
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Aichberger", "Schweighofer", "Ielanskyi", "Hochreiter"]
    assert paper["year"] == 2025
    assert paper["url"].endswith("/2406.04306")


def test_links_of_a_readme_become_absolute():
    text = "[a](docs/a.md) ![p](docs/p.png) [b](https://x.org/b) [c](#c)"
    assert setup.absolute_links(text, "https://github.com/o/r") == (
        "[a](https://github.com/o/r/blob/main/docs/a.md) ![p](https://raw.githubusercontent.com/o/r/main/docs/p.png) "
        "[b](https://x.org/b) [c](#c)"
    )


def test_no_relative_link_is_uploaded():
    uploaded = setup.uploaded_readme()
    links = re.findall(r"\]\(([^)\s]+)\)", uploaded)
    assert len(links) > 10
    assert not [link for link in links if not link.startswith("https://")]
    assert not re.search(r"(?:src|href)=", uploaded)  # links in HTML would stay as they are
    assert uploaded.splitlines()[0] == metadata("sdlg").get_payload().splitlines()[0]


def steps(path: Path) -> list[dict]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert all(set(ensure_list(job.get("needs", []))) <= set(jobs) for job in jobs.values())
    assert all(("uses" in job) != ("runs-on" in job) for job in jobs.values())
    return [step for job in jobs.values() for step in job.get("steps", [])]


def ensure_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_exist(path):
    assert all(("uses" in step) != ("run" in step) for step in steps(path))
    made = {word for step in steps(path) for word in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))}
    assert made <= TARGETS
    if path.name == "ci.yml":
        assert made == {"check", "test", "test-oldest", "release-check"}


def test_workflows_test_each_python_that_the_classifiers_name():
    named = [line.rpartition(" ")[2] for line in metadata("sdlg").get_all("Classifier") if "Python :: 3." in line]
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]["test"]["strategy"]
    assert matrix["matrix"]["python"] == named
    assert metadata("sdlg")["Requires-Python"] == f">={named[0]}"


def test_pins_are_the_lower_bounds_but_for_torch_and_the_test_tools(tmp_path):
    project, constraints = tmp_path / "pyproject.toml", tmp_path / "constraints.txt"
    project.write_text(
        '[project]\ndependencies = ["torch>=2.6", "a>=1.2,<3"]\n'
        '[project.optional-dependencies]\nx = ["a>=1.10", "b==2"]\ndev = ["c>=1"]\n'
    )
    constraints.write_text("# tools\n" + "".join(f"{name}==9.0\n" for name in ("torch", "a", *lower_bounds.TOOLS)))
    pins = lower_bounds.pins(project, constraints)
    assert {name: Version(pins[name]) for name in "ab"} == {"a": Version("1.10"), "b": Version("2")}
    assert pins["torch"] == "9.0"
    assert set(pins) == {"a", "b", "torch", *lower_bounds.TOOLS}
    project.write_text('[project]\ndependencies = ["a<3"]\n[project.optional-dependencies]\n')
    with pytest.raises(SystemExit, match="a<3 has no lower bound"):
        lower_bounds.pins(project, constraints)


def test_no_lower_bound_is_above_what_we_test_with():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    ours = {name.lower().replace("_", "-"): version for name, version in re.findall(r"^([\w-]+)==(.+)$", text, re.M)}
    known = [(one, ours[one.name]) for one in lower_bounds.requirements() if one.name in ours]
    assert len(known) > 20
    assert all(version in one.specifier for one, version in known)


TRACKED = (".gitignore", ".ci/run", "README.md", "src/sdlg/__init__.py", "tests/test_a.py")
IN_SDIST = ("PKG-INFO", "setup.cfg", "src/sdlg.egg-info/SOURCES.txt", *TRACKED[2:])
IN_WHEEL = ("sdlg/__init__.py", *(f"sdlg-1.0.dist-info/{name}" for name in release_check.ADDED_TO_WHEEL))


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Make an sdist and a wheel of empty files."""
    monkeypatch.setattr(release_check, "run", lambda *words, folder: "\n".join(TRACKED))
    (tmp_path / "dist").mkdir()

    def make(sdist=IN_SDIST, wheel=IN_WHEEL):
        with tarfile.open(tmp_path / "dist/sdlg-1.0.tar.gz", "w:gz") as archive:
            for name in sdist:
                archive.addfile(tarfile.TarInfo(f"sdlg-1.0/{name}"), io.BytesIO())
        with zipfile.ZipFile(tmp_path / "dist/sdlg-1.0-py3-none-any.whl", "w") as archive:
            for name in wheel:
                archive.writestr(name, "")
        return release_check.Release(tmp_path, "")

    return make


def test_a_release_holds_what_git_tracks(made):
    assert release_check.holds_what_git_tracks(made()) == "6 files in the sdist, 7 in the wheel"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sdist": (*IN_SDIST, "runs/a.jsonl")}, r"the sdist lacks \[\] and should not hold \['runs/a.jsonl'\]"),
        ({"sdist": IN_SDIST[:-1]}, r"the sdist lacks \['tests/test_a.py'\]"),
        ({"wheel": (*IN_WHEEL, "tests/test_a.py")}, r"the wheel .* should not hold \['tests/test_a.py'\]"),
        ({"wheel": IN_WHEEL[1:]}, r"the wheel lacks \['sdlg/__init__.py'\]"),
    ],
)
def test_a_file_too_many_or_too_few_ends_the_release(made, changed, told):
    with pytest.raises(release_check.Failed, match=told):
        release_check.holds_what_git_tracks(made(**changed))


def test_the_first_step_that_fails_ends_the_check(monkeypatch, capsys, made):
    def stands(release):
        return "well"

    def falls(release):
        release_check.compare("wheel", {"a"}, set())

    monkeypatch.setattr(release_check, "STEPS", (stands, falls, stands))
    assert release_check.check(made()) == 1
    said = capsys.readouterr().out
    assert re.findall(r" s  (.*)", said) == [
        "stands: well", "FAILED: falls: the wheel lacks [] and should not hold ['a']"
    ]  # fmt: skip


def test_a_reply_without_an_entropy_ends_the_check():
    assert release_check.check_answer("it", {"semantic_entropy": 0.5}) == "semantic entropy 0.50"
    with pytest.raises(release_check.Failed, match="it gave no semantic entropy"):
        release_check.check_answer("it", {"semantic_entropy": None})
