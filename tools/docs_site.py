"""Hooks of mkdocs.yml: the pages that are made when the site is built.

- reference/cli.md: what the parser says of each command, in the place of `<!-- commands -->`
- quickstart.md: the notebook docs/quickstart.ipynb with the outputs that it holds
- contributing/index.md: CONTRIBUTING.md
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from sdlg.cli import _parser

ROOT = Path(__file__).parents[1]
COMMANDS = "<!-- commands -->"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "quickstart.md", content=notebook_page(ROOT / "docs/quickstart.ipynb")))
    files.append(File.generated(config, "contributing/index.md", abs_src_path=str(ROOT / "CONTRIBUTING.md")))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    return markdown.replace(COMMANDS, command_sections(_parser())) if COMMANDS in markdown else markdown


def command_sections(parser: argparse.ArgumentParser) -> str:
    """A heading and the help for each command that can be run."""
    children = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    below = "\n".join(command_sections(one) for action in children for one in action.choices.values())
    parser.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(
        prog, width=110
    )  # the same on any screen
    return f"## {parser.prog}\n\n```text\n{parser.format_help().rstrip()}\n```\n\n{below}"


def notebook_page(path: Path) -> str:
    """The cells of a notebook as Markdown."""
    return "\n\n".join(map(_cell, json.loads(path.read_text(encoding="utf-8"))["cells"]))


def _cell(cell: dict) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_output, cell["outputs"])])


def _output(output: dict) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return f"<div>\n{''.join(data['text/html'])}\n</div>"  # a div is left as it is, to the last character
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```"
