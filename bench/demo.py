"""`make demo`: a few questions to the embedded models, and how sure the model is of its answers."""

from __future__ import annotations

from rich.console import Console

import sdlg
from sdlg.views.progress import progress_line
from sdlg.views.terminal import print_result

QUESTIONS = (
    "What is the capital of France?",
    "When was the Declaration of Independence signed?",
    "Who invented the telephone?",
)


def main() -> None:
    console = Console(highlight=False)
    with progress_line() as watch:
        pipeline = sdlg.Pipeline(stop_at="sentence", watch=watch)
        for question in QUESTIONS:
            result = pipeline.ask(question)
            console.rule(question, align="left")
            print_result(console, result)
            console.print()
    console.print('Ask your own: .venv/bin/sdlg ask "Who wrote Hamlet?"')


if __name__ == "__main__":
    main()
