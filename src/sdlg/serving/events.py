"""What streams say: our own events, and OpenAI's chunks. Pieces of the answer are never taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..models.prompts import PLAIN_STOPS
from ..progress import Progress
from ..records import Generation, Sentence
from ..result import Result
from ..views.brief import sentence_dict
from ..views.said import said_of, said_of_sentence
from .asked import Asked
from .failures import Json
from .replies import Reply, branch_dict, generation_dict

HALF = "\N{REPLACEMENT CHARACTER}"


class Deltas:
    """Of a growing text, what is new and certain.

    Half a character (U+FFFD), white space at either end (answers are stripped) and what may become a stop string are
    held back until more is known.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stops)
        self._perhaps = (*self._stops, *PLAIN_STOPS)  # the latter only end answers to plain prompts
        self._sent = ""

    def grow(self, text: str) -> str:
        """Return what can be sent of the text so far."""
        return self._new(self._certain(text.lstrip()))

    def finish(self, text: str) -> str:
        """Return the rest of the finished answer; nothing if more than it was sent already."""
        return self._new(text)

    def _new(self, text: str) -> str:
        if not text.startswith(self._sent):
            return ""
        new, self._sent = text[len(self._sent) :], text
        return new

    def _certain(self, text: str) -> str:
        ends = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        text = text[: min(ends, default=len(text))].rstrip(HALF)
        held = max((_overlap(text, stop) for stop in self._perhaps), default=0)
        return text[: len(text) - held].rstrip()


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of the text could begin the stop string."""
    return next((n for n in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:n])), 0)


class OurForm:
    """token …, answer, branch …, result."""

    answer_first = False

    def opening(self) -> Iterable[Json]:
        """Nothing."""
        return []

    def piece(self, text: str) -> Json:
        """Some of the answer."""
        return {"type": "token", "text": text}

    def ending(self, answer: Generation) -> Json:
        """The answer."""
        return {"type": "answer", "answer": generation_dict(answer)}

    def branch(self, progress: Progress) -> Iterable[Json]:
        """A branch."""
        return [{"type": "branch", "sample": branch_dict(progress)}]

    def sentence(self, sentence: Sentence) -> Iterable[Json]:
        """A sentence of a long answer that was just measured."""
        return [{"type": "sentence", "sentence": sentence_dict(sentence), "said": said_of_sentence(sentence)}]

    def last(self, result: Result) -> Iterable[Json]:
        """The whole result."""
        return [{"type": "result", "result": result.to_dict(), "said": said_of(result)}]

    def error(self, error: Json) -> Json:
        """What went wrong."""
        return {"type": "error", "error": error}


Form = OurForm | Reply


class Events:
    """What is said of one question, in order: pieces of the answer, its end, branches, the estimate."""

    def __init__(self, form: Form, asked: Asked) -> None:
        self.form, self._deltas = form, Deltas(asked.pipeline.options.stop_strings)
        self._answered, self._pending = not form.answer_first, list[Progress]()

    def progress(self, progress: Progress) -> Iterator[Json]:
        """Return what can be said now."""
        if progress.stage == "answer":
            yield from self._piece(self._deltas.grow(progress.text))
        elif progress.sentence is not None:
            yield from self.form.sentence(progress.sentence)
        elif progress.generation is None:
            return
        elif progress.stage == "scores":
            yield from self._piece(self._deltas.finish(progress.generation.text))
            yield self.form.ending(progress.generation)
            self._answered = True
        elif self._answered:
            yield from self.form.branch(progress)
        else:
            self._pending.append(progress)

    def result(self, result: Result) -> Iterator[Json]:
        """Return what is left to say."""
        if not self._answered:
            yield from self._piece(result.answer.text)
            yield self.form.ending(result.answer)
            for progress in self._pending:
                yield from self.form.branch(progress)
        yield from self.form.last(result)

    def _piece(self, text: str) -> Iterable[Json]:
        return [self.form.piece(text)] if text else []
