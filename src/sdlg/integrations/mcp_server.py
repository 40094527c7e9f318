"""Tools for agents (MCP): an answer with how sure the model is, a given text sentence by sentence, given answers.

In: a pipeline and the limits of a server. Out: an MCP server, which the caller runs. Limits and deadlines are those of
`sdlg serve`. Nothing is written to disk.
"""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from .. import __version__
from ..concurrency.in_flight import in_thread
from ..errors import SdlgError
from ..pipeline import Pipeline
from ..schema import first_fault
from ..serving.asked import asked_by
from ..serving.bodies import UncertaintyBody
from ..serving.failures import Failure
from ..serving.settings import Settings
from ..views.brief import brief_dict

_INSTRUCTIONS = (
    "Measures how sure a local language model is of what it means. Percentages say how often the model would give a "
    "meaning if asked again; they are not chances that it is true."
)


def mcp_server(pipeline: Pipeline, settings: Settings) -> MCPServer:
    """Return the server with its three tools."""
    server = MCPServer("sdlg", instructions=_INSTRUCTIONS, version=__version__)
    limits = settings.widened(pipeline.options)

    async def measured(**body: Any) -> dict[str, Any]:
        try:
            asked = asked_by(pipeline, limits, UncertaintyBody(**{k: v for k, v in body.items() if v is not None}))
            result = await in_thread(lambda: asked.answer(None), seconds=limits.deadline)
            return {"answer": result.answer.text, **brief_dict(result)}
        except (SdlgError, Failure) as error:
            raise ToolError(str(error)) from error
        except ValidationError as error:
            raise ToolError(first_fault(error)) from error

    @server.tool()
    async def ask_with_uncertainty(
        question: str, context: str | None = None, samples: int | None = None, max_tokens: int | None = None
    ) -> dict[str, Any]:
        """Answer a question with the local model and say how sure it is of what it means, with its other meanings."""
        return await measured(question=question, context=context, samples=samples, max_tokens=max_tokens)

    @server.tool()
    async def check_text(question: str, text: str, context: str | None = None) -> dict[str, Any]:
        """Check a text that answers a question, sentence by sentence: where would the local model say otherwise?"""
        return await measured(question=question, answer=text, context=context)

    @server.tool()
    async def score_answers(question: str, answers: list[str]) -> dict[str, Any]:
        """Group several answers to one question by meaning, and measure how they are spread (semantic entropy)."""
        return await measured(question=question, answers=answers)

    return server
