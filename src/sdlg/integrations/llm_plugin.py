"""A plug-in of `llm`: `llm doubt` asks any model that llm knows several times; our own models are `-m sdlg/NAME`.

`llm doubt` needs nothing but answers, so shares are frequencies. With `-m sdlg/…` the answer comes with its uncertainty
in the log (`llm logs --json`, `response_json`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import click
import llm

from ..options import CATALOGUE_MODELS, DEFAULT_NLI

_ANSWERS = click.IntRange(2, 100)  # every two that differ are compared


@cache
def _pipeline(model: str | None) -> Any:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # before the import
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from ..pipeline import Pipeline

    return Pipeline(model, DEFAULT_NLI)


@llm.hookimpl
def register_commands(cli: click.Group) -> None:
    """Add `llm doubt`."""

    @cli.command(name="doubt")
    @click.argument("question")
    @click.option("-m", "--model", "model_id", help="a model that llm knows (default: llm's own)")
    @click.option("-s", "--system", help="instructions for the model")
    @click.option("-n", "--answers", default=5, show_default=True, type=_ANSWERS, help="how often it is asked")
    def doubt(question: str, model_id: str | None, system: str | None, answers: int) -> None:
        """Ask a model several times, and show how its answers spread over meanings."""
        if not question.strip():
            raise click.ClickException("the question is empty")
        try:
            _show_doubt(question, model_id, system, answers)
        except Exception as error:  # whatever a stranger's model raises: a key, a name, a server; as llm itself does
            raise click.ClickException(str(error.args[0] if error.args else error)) from error


def _show_doubt(question: str, model_id: str | None, system: str | None, answers: int) -> None:
    from rich.console import Console

    from ..views.terminal import print_result

    model, texts = llm.get_model(model_id), []
    for number in range(answers):
        click.echo(f"asking {model.model_id}: {number + 1}/{answers}", err=True)
        texts.append(model.prompt(question, system=system, stream=False).text().strip())
    print_result(Console(highlight=False, file=sys.stdout), _pipeline(None).score(question, texts))


@llm.hookimpl
def register_models(register: Any) -> None:
    """Our own models, answered with their uncertainty."""
    for name in CATALOGUE_MODELS:
        register(SdlgModel(name))


class SdlgModel(llm.Model):
    """A model of `sdlg models`. Its answers carry `uncertainty` in the response's JSON."""

    can_stream = False

    def __init__(self, name: str) -> None:
        self.model_id, self.name = f"sdlg/{name}", name

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        """Answer, and keep how sure the model is."""
        from ..views.brief import brief_dict  # not before: llm imports its plug-ins for every command

        turns: list[dict[str, str]] = [{"role": "system", "content": prompt.system}] if prompt.system else []
        for earlier in conversation.responses if conversation else ():
            turns += [
                {"role": "user", "content": earlier.prompt.prompt},
                {"role": "assistant", "content": earlier.text()},
            ]
        result = _pipeline(self.name).ask(messages=[*turns, {"role": "user", "content": prompt.prompt}])
        response.response_json = {"uncertainty": brief_dict(result)}
        yield result.answer.text
