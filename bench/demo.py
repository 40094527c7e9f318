"""`make demo`: a question that the model knows, one that it wavers on, one that has no answer."""

from __future__ import annotations

from rich.console import Console

import sdlg
from sdlg.cli.files import quiet_transformers
from sdlg.errors import CacheUnavailable, ModelNotFound
from sdlg.options import DEFAULT_MODEL, SMOLLM2
from sdlg.views.progress import ProgressLine, progress_line
from sdlg.views.terminal import print_result

QUESTIONS = (
    "Who wrote the novel Don Quixote?",
    "What is the capital of Australia?",
    "Who was the king of France in 1950?",
)


def main() -> None:
    quiet_transformers()
    console = Console(highlight=False)
    with progress_line() as watch:
        pipeline = load(console, watch)
        for question in QUESTIONS:
            result = pipeline.ask(question)
            console.rule(question, align="left")
            print_result(console, result)
            console.print()
    console.print('Ask your own: .venv/bin/sdlg ask "Who wrote Hamlet?"')


def load(console: Console, watch: ProgressLine) -> sdlg.Pipeline:
    """Load the default model; a small one where it cannot be had today."""
    try:
        return sdlg.Pipeline(DEFAULT_MODEL, max_tokens=40, watch=watch)
    except (ModelNotFound, CacheUnavailable) as error:
        console.print(f"{DEFAULT_MODEL} cannot be had ({error}); going on with the much weaker {SMOLLM2}", style="dim")
        return sdlg.Pipeline(SMOLLM2, max_tokens=40, watch=watch)


if __name__ == "__main__":
    main()
