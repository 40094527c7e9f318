"""What streams say: our own events, and OpenAI's chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..formats.codec import generation_dict
from ..formats.results import Result
from ..pipeline import Progress
from .deltas import Deltas
from .engine import Ask
from .replies import Reply
from .uncertainty import branch_dict

Json = dict[str, Any]


class OurEvents:
    """token …, answer, branch …, result."""

    def __init__(self, ask: Ask) -> None:
        self._deltas = Deltas(ask.pipeline.options.decoding.stop_strings)

    def opening(self) -> Iterable[Json]:
        """Nothing."""
        return []

    def progress(self, progress: Progress) -> Iterable[Json]:
        """Tokens, the answer, branches."""
        if progress.stage == "answer":
            yield from self._token(self._deltas.grow(progress.text))
        elif progress.generation is not None and progress.stage == "scores":
            yield from self._token(self._deltas.finish(progress.generation.text))
            yield {"type": "answer", "answer": generation_dict(progress.generation)}
        elif progress.generation is not None:
            yield {"type": "branch", "sample": branch_dict(progress)}

    def _token(self, text: str) -> Iterable[Json]:
        return [{"type": "token", "text": text}] if text else []

    def result(self, result: Result) -> Iterable[Json]:
        """The whole of it."""
        return [{"type": "result", "result": result.to_dict()}]

    def error(self, error: Json) -> Json:
        """What went wrong."""
        return {"type": "error", "error": error}


class RowEvents:
    """Of given answers there is only a result to tell."""

    def opening(self) -> Iterable[Json]:
        """Nothing."""
        return []

    def progress(self, progress: Progress) -> Iterable[Json]:
        """Nothing."""
        return []

    def result(self, result: Json) -> Iterable[Json]:
        """The row."""
        return [{"type": "result", "result": result}]

    def error(self, error: Json) -> Json:
        """What went wrong."""
        return {"type": "error", "error": error}


class Chunks:
    """OpenAI's: pieces of the answer, its end, then branches, then the estimate.

    Methods without an initial answer tell their samples first: these are kept until it is known which is the answer.
    """

    def __init__(self, reply: Reply, ask: Ask) -> None:
        self._reply = reply
        self._deltas = Deltas(ask.pipeline.options.decoding.stop_strings)
        self._answered = False
        self._pending: list[Progress] = []

    def opening(self) -> Iterable[Json]:
        """The role."""
        return self._reply.opening()

    def progress(self, progress: Progress) -> Iterable[Json]:
        """Pieces, the end of the answer, branches."""
        if progress.stage == "answer":
            yield from self._piece(self._deltas.grow(progress.text))
        elif progress.generation is not None and progress.stage == "scores":
            yield from self._piece(self._deltas.finish(progress.generation.text))
            self._answered = True
            yield self._reply.ending(progress.generation)
        elif self._answered:
            yield from self._reply.branch(progress)
        else:
            self._pending.append(progress)

    def result(self, result: Result) -> Iterable[Json]:
        """What is left to say."""
        if not self._answered:
            yield from self._piece(result.answer.text)
            yield self._reply.ending(result.answer)
            for progress in self._pending:
                yield from self._reply.branch(progress)
        yield from self._reply.last(result)

    def _piece(self, text: str) -> Iterable[Json]:
        return [self._reply.piece(text)] if text else []

    def error(self, error: Json) -> Json:
        """As OpenAI's clients raise it."""
        return {"error": error}
