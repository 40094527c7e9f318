"""The documents: every command that they show can be typed, every flag exists, every link leads somewhere."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from documented import DOCUMENTS, ROOT
from sdlg.cli import _parser
from sdlg.evaluation.plan import parse_method
from sdlg.measures.table import find_measures
from sdlg.options import Options

# A diary, and measurements of options that are gone.
HISTORY = {
    ROOT / "docs/experiments.md", *ROOT.glob("docs/contributing/tried/*.md"), *ROOT.glob("docs/results/tables/*.md"),
}  # fmt: skip
LONGEST = 200  # lines of a page
OTHERS = re.compile(r"^(vllm|llama-server|llm|lm-eval|inspect|pip|python|make)\b")  # of others
OTHER_FLAGS = {
    "--enable-prefix-caching", "--enable-prompt-tokens-details", "--generation-config", "--logprobs-mode",
    "--max-logprobs",
}  # fmt: skip
_SHELL = re.compile(r"^```(?:console|bash|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def ids_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def subparsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The commands of a parser, and theirs."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [one for child in action.choices.values() for one in subparsers(child)]
    return found


PARSERS = subparsers(_parser())
FLAGS = {flag for parser in PARSERS for flag in parser._option_string_actions} | {"--debug"}


def typed_commands(text: str) -> list[list[str]]:
    """The words after `sdlg` of each command in a piece of shell text."""
    lines = text.replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"\s\|\s|&&", re.sub(r"(^|\s)#\s.*$", "", line))]
    found = (re.match(r"\s*(?:\$ )?(?:\w+=\S*(?:\([^)]*\))?\s+)*(?:\S*/)?sdlg\s+(.*)", part) for part in parts)
    return [shlex.split(re.sub(r"\s[12]?>\s*\S+", "", match.group(1))) for match in found if match]


def check_command(words: list[str]) -> None:
    """Parse a command as it would be; nothing is run."""
    parsed = _parser().parse_args([word for word in words if word != "--debug"])
    for method in filter(None, getattr(parsed, "methods", "").split(",")):
        parse_method(method, Options())
    if (named := getattr(parsed, "measures", "")) and named != "all":
        find_measures(named.split(","))


SHOWN = [
    pytest.param(command, id=f"{ids_of(path)}: {' '.join(command)}")
    for path in DOCUMENTS
    for block in _SHELL.findall(path.read_text(encoding="utf-8"))
    for command in typed_commands(block)
]
HELPED = [
    pytest.param(command, id=f"{parser.prog} --help: {' '.join(command)}")
    for parser in PARSERS
    for command in typed_commands(parser.epilog or "")
]


@pytest.mark.parametrize("command", SHOWN + HELPED)
def test_a_command_that_is_shown_can_be_typed(command):
    check_command(command)


def test_commands_are_found_in_shell_text():
    text = '$ sdlg ask "Who?" --json | jq .x  # one\nKEY=$(make it) sdlg serve \\\n  --port 1\npip install sdlg\n'
    assert typed_commands(text) == [["ask", "Who?", "--json"], ["serve", "--port", "1"]]
    assert len(SHOWN) > 20
    assert len(HELPED) > 20


@pytest.mark.parametrize(
    "command",
    [
        ["ask", "Who?", "--linkage", "components"],
        ["ask", "Who?", "--set", "gradient_side=both"],
        ["eval", "--out", "x", "--methods", "steered"],
        ["score", "x", "--measures", "no_such_measure"],
    ],
)
def test_a_command_that_does_not_exist_is_noticed(command):
    with pytest.raises(Exception, match=r"linkage|gradient_side|steered|no_such_measure"):
        check_command(command)


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path not in HISTORY], ids=ids_of)
def test_flags_in_running_text_exist(path):
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    spans = [span for span in re.findall(r"`([^`\n]+)`", text) if not OTHERS.match(span)]
    named = {flag for span in spans for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)}
    assert named <= FLAGS | OTHER_FLAGS
    settings = [setting for span in spans for setting in re.findall(r"--set (\w+=[^\s`]+)", span)]
    for setting in settings:
        if not re.search(r"=([A-Z]+|…)$", setting):  # NAME=VALUE, in_flight=N
            check_command(["ask", "Who?", "--set", setting])


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path not in HISTORY], ids=ids_of)
def test_files_and_targets_that_are_named_exist(path):
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"\b(?:bench|tests|tools|faults|src/sdlg)/[\w/.]*\w/?", text):
        assert (ROOT / name).exists() or list(ROOT.glob(f"{name}*")), name
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z][\w-]*)", text)) <= targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids_of)
def test_links_lead_somewhere(path):
    for link in _LINK.findall(_FENCED.sub("", path.read_text(encoding="utf-8"))):
        if link.startswith(("http:", "https:")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, link


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")], ids=ids_of)
def test_a_page_can_be_read_in_one_go(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST
