"""What a question's work shows while it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .records import Generation, Sentence, Substitution


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done: a stage (load, answer, scores, branches, clusters, sentence) and something to show for it.

    `generation` is one that was just finished: the answer in stage scores, a branch or sample in stage branches.
    `sentence` is one of a long answer that was just measured.
    """

    stage: str
    text: str
    generation: Generation | None = None
    substitution: Substitution | None = None
    sentence: Sentence | None = None


Watch = Callable[[Progress], None]


def ignore(_: Progress) -> None:
    """Show nothing."""
