"""The integrations, against the real packages they fit into."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from fakes import FakeNli, fake_pipeline
from sdlg import Pipeline
from sdlg.serving.settings import Settings

# -- MCP ----------------------------------------------------------------------------------------------------------

mcp = pytest.importorskip("mcp.client")
TOOLS = {"ask_with_uncertainty", "check_text", "score_answers"}


def called(tool: str, settings: Settings | None = None, **arguments):
    """What a tool says to the reference client: its content, and whether it is an error."""
    from sdlg.integrations.mcp_server import mcp_server

    async def call():
        async with mcp.Client(mcp_server(fake_pipeline(), settings or Settings())) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(call())


def test_an_agent_sees_the_tools_with_their_arguments():
    from sdlg.integrations.mcp_server import mcp_server

    async def listed():
        async with mcp.Client(mcp_server(fake_pipeline(), Settings())) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asyncio.run(listed())}
    assert set(tools) == TOOLS
    assert tools["check_text"].input_schema["required"] == ["question", "text"]
    assert all(tool.description for tool in tools.values())


def test_an_agent_asks_with_uncertainty():
    reply = called("ask_with_uncertainty", question="What is the capital of France?", samples=4)
    assert not reply.is_error
    told = reply.structured_content
    asked = fake_pipeline(samples=4).ask("What is the capital of France?")
    assert told["answer"] == asked.answer.text
    assert told["semantic_entropy"] == pytest.approx(asked.semantic_entropy)
    assert told["meanings"][0]["share"] == pytest.approx(asked.meanings[0].share)


def test_an_agent_scores_answers_it_has():
    told = called("score_answers", question="Where?", answers=["Paris", "It is Paris", "Lyon"]).structured_content
    assert [one["text"] for one in told["meanings"]] == ["Paris", "Lyon"]


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("ask_with_uncertainty", {"question": "  "}, "empty"),
        ("ask_with_uncertainty", {"question": "Who?", "samples": 10**6}, "samples"),
        ("ask_with_uncertainty", {"question": "x" * 50_000}, "shorten the question"),
        ("check_text", {"question": "Who?", "text": "Somebody."}, "cannot read given texts"),
        ("check_text", {"question": "Who?", "text": " "}, "empty"),
        ("score_answers", {"question": "Who?", "answers": []}, ""),
    ],
)
def test_what_is_wrong_is_told_to_the_agent(tool, arguments, says):
    reply = called(tool, **arguments)
    assert reply.is_error
    assert says in str(reply.content)


def test_the_command_speaks_mcp_and_loads_nothing_before_it_is_asked(tmp_path):
    """With the reference client, over pipes; the home folder stays empty."""
    from mcp.client.stdio import StdioServerParameters

    home = tmp_path / "home"
    environment = {**os.environ, "SDLG_HOME": str(home)}
    server = StdioServerParameters(command=sys.executable, args=["-m", "sdlg.cli", "mcp"], env=environment)

    async def listed():
        async with mcp.Client(server) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(listed()) == TOOLS
    assert not home.exists()


# -- llm ----------------------------------------------------------------------------------------------------------

llm = pytest.importorskip("llm")


@pytest.fixture
def run_llm(tmp_path, monkeypatch):
    """Run a command of llm, with a model that gives these answers in turn."""
    from click.testing import CliRunner
    from llm.cli import cli

    from sdlg.integrations import llm_plugin

    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    answers = iter(["Paris", "It is Paris", "Lyon", "Paris", "Lyon 🦁", ""])

    class Fake(llm.Model):
        model_id = "fake"

        def execute(self, prompt, stream, response, conversation):
            answer = next(answers, None)
            if answer is None:
                raise RuntimeError("the model is broken")
            yield answer

    class Plugin:
        @staticmethod
        @llm.hookimpl
        def register_models(register):
            register(Fake())

    meanings = {"Paris": "paris", "It is Paris": "paris"}
    pipelines = {None: Pipeline(None, FakeNli(meanings), equivalence="strict"), "smollm2": fake_pipeline()}
    monkeypatch.setattr(llm_plugin, "_pipeline", pipelines.__getitem__)
    llm.plugins.pm.register(Plugin, name="fake-plugin")
    yield lambda *arguments: CliRunner().invoke(cli, list(arguments))
    llm.plugins.pm.unregister(name="fake-plugin")


def test_llm_doubt_compares_the_answers_of_any_model(run_llm):
    ran = run_llm("doubt", "What is the capital of France?", "-m", "fake", "-n", "4")
    assert ran.exit_code == 0, ran.output
    assert "Paris" in ran.output
    assert "Lyon" in ran.output
    assert "2 meanings" in ran.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Who?", "-m", "fake", "-n", "1"), "1 is not in the range"),
        (("Who?", "-m", "fake", "-n", "1000"), "1000 is not in the range"),
        ((" ", "-m", "fake"), "Error: the question is empty"),
        (("Who?", "-m", "nosuch"), "Error: Unknown model: nosuch"),
        (("Who?", "-m", "fake", "-n", "7"), "Error: the model is broken"),
    ],
)
def test_what_llm_doubt_cannot_do_is_told_in_a_line(run_llm, arguments, says):
    ran = run_llm("doubt", *arguments)
    assert ran.exit_code in (1, 2)
    assert says in ran.output
    assert isinstance(ran.exception, SystemExit)


def test_llm_doubt_shows_pictures_and_empty_answers(run_llm):
    ran = run_llm("doubt", "Where? 🗼", "-m", "fake", "-n", "6")
    assert ran.exit_code == 0, ran.output
    assert "Lyon 🦁" in ran.output
    assert "(empty)" in ran.output


def test_our_models_answer_in_llm_with_their_uncertainty(run_llm, tmp_path):
    ran = run_llm("-m", "sdlg/smollm2", "What is the capital of France?")
    assert ran.exit_code == 0, ran.output
    assert ran.output.strip() == "It is Paris"
    logged = json.loads(run_llm("logs", "--json").output)[0]["response_json"]
    assert logged["uncertainty"]["meanings"][0]["text"] == "It is Paris"
