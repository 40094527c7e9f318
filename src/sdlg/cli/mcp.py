"""`sdlg mcp`: tools for agents, over standard input and output."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..errors import BadOption
from ..serving.settings import Settings
from .flags import add_asking, add_models, lazy_pipeline

_EXAMPLES = """examples:
  sdlg mcp                                                     # started by an agent, which speaks MCP to it
  {"mcpServers": {"sdlg": {"command": "sdlg", "args": ["mcp", "--model", "smollm2"]}}}     # in the agent's settings
"""


def add_mcp(commands: Any) -> None:
    """Add the command and its flags."""
    mcp = commands.add_parser(
        "mcp", help="tools for agents (MCP): ask with uncertainty, check a text, score answers",
        usage="sdlg mcp [options]", epilog=_EXAMPLES,
        description="Speak the Model Context Protocol on standard input and output.",
    )  # fmt: skip
    mcp.set_defaults(run=_mcp)
    add_models(mcp)
    add_asking(mcp)


def _mcp(parsed: argparse.Namespace) -> int:
    try:
        from ..integrations.mcp_server import mcp_server
    except ModuleNotFoundError as error:
        raise BadOption(f"{error}. Tools for agents are an extra: pip install 'sdlg[mcp]'") from error
    if sys.stdin is not None and sys.stdin.isatty():
        print(
            "sdlg: waiting for an agent, which speaks MCP and starts this by itself (Ctrl-C ends it)",
            file=sys.stderr,
        )
    with lazy_pipeline(parsed) as pipeline:  # models are loaded by the first question
        mcp_server(pipeline, Settings()).run("stdio")
    return 0
