"""One prefix that a server continues: its request, and the reader of its reply.

In: a `DecodeRequest` and a prefix of it. Out: a request's body; tokens as they come; a `Continuation`. Where the answer
ends is decided here, token by token, by the rules that hold for a local model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...records import StopReason
from ..base import Continuation, DecodeRequest, finished
from ..stopping import Stop, cut_at_ending, find_stop
from .capabilities import ServerCapabilities, accepted_fields
from .connection import BadReply, Json, SendAgain
from .replies import Chunk, Step, Usage, read_chunk
from .tokenizers import ServedTokenizer, TextPrompt

_STOP_STRINGS = 4  # as many as OpenAI takes


@dataclass(slots=True)
class RequestPath:
    """One prefix that is to be continued."""

    index: int
    prefix: tuple[int, ...]
    room: int  # tokens that it may grow
    seed: int
    shown: list[Step] = field(default_factory=list)  # those whose tokens the watcher has; they are not shown twice
    kept_steps: tuple[Step, ...] = ()  # from an earlier reply; the next request goes on after them
    is_doubtful: bool = False  # a reply could not be read, so what was shown of it may be wrong


def request_body(path: RequestPath, request: DecodeRequest, server: ServerCapabilities) -> Json:
    """Return the body of a request for one path."""
    prompt, decoding, most = request.prompt, request.decoding, server.usable_logprobs
    wants_top, greedy = request.alternatives_above is not None, decoding.strategy == "greedy"
    body: Json = {
        "model": server.model,
        "max_tokens": path.room - len(path.kept_steps),
        "temperature": 0.0 if greedy else decoding.temperature,
        "top_p": 1.0 if greedy else max(decoding.top_p, 1e-6),  # 0 keeps the likeliest; servers want more
        "seed": path.seed,
    }
    if most:
        body["logprobs"] = most if wants_top else 1
    if not isinstance(prompt, TextPrompt):
        ids = [*prompt.token_ids, *prompt.said, *path.prefix, *(step.token_id for step in path.kept_steps)]
        streamed = {"stream": True, "stream_options": {"include_usage": True}}
        return {**body, **server.request_fields, "prompt": ids, **streamed}
    if prompt.stop.strings:
        body["stop"] = list(prompt.stop.strings[:_STOP_STRINGS])
    if not prompt.messages:
        return {**body, "prompt": prompt.text}
    if most:
        body |= {"logprobs": True, **({"top_logprobs": most} if wants_top else {})}
    body["messages"] = [{"role": role, "content": content} for role, content in prompt.messages]
    return accepted_fields(body, server.left_out)


class PathReply:
    """Reads one reply, until the answer ends. `floor` is that of alternatives; None: none are wanted."""

    def __init__(
        self, path: RequestPath, request: DecodeRequest, server: ServerCapabilities, tokenizer: ServedTokenizer
    ) -> None:
        self.path, self.floor = path, request.alternatives_above
        self.steps: list[Step] = list(path.kept_steps)
        self.usage = Usage()
        self._rule, self._watch = request.prompt.stop, request.watch
        self._server, self._tokenizer = server, tokenizer
        self._wants_steps = server.usable_logprobs > 0
        self._stop: Stop | None = None
        self._finish: str | None = None
        self._text = tokenizer.text([step.token_id for step in path.kept_steps])

    @property
    def progress(self) -> int:
        """Tokens so far; characters, where the server sends no log-probabilities."""
        return len(self.steps) if self._wants_steps else len(self._text)

    @property
    def silent_end(self) -> str | None:
        """Why a reply without a word ended; None: something was said."""
        return None if self._text.strip() else self._finish or "no reason given"

    def take(self, chunk: Any) -> bool:
        """Read tokens as they come; return whether the answer has ended."""
        with self._doubt():
            return self._read(chunk)

    @contextmanager
    def _doubt(self) -> Iterator[None]:
        """Mark the path if a reply cannot be read: what came before may be wrong, too."""
        try:
            yield
        except BadReply:
            self.path.is_doubtful = True
            raise

    def _read(self, chunk: Any) -> bool:
        part = read_chunk(chunk, self._tokenizer.spellings, wants_steps=self._wants_steps)
        self._text += part.text
        self._finish = part.finish or self._finish
        self.usage = part.usage or self.usage
        self._check(part)
        if self._stop is not None:  # only the counts were still waited for
            return bool(part.steps)
        for step in part.steps:
            self.steps.append(step)
            if self._is_another_draw():
                return True
            self._stop = find_stop(self._rule, self._ids, self._tokenizer.text)
            if self._stop is not None:  # at its own ending a server stops by itself, and then sends its counts
                return self._finish is None and self._stop.reason != "eos"
            if len(self.steps) > self.path.room:
                raise BadReply(f"sends more than the {self.path.room} tokens it was asked for")
            if self._server.exact:
                self._show(self.steps)
        return False

    def _check(self, part: Chunk) -> None:
        if not self._wants_steps:
            return
        if part.id_count and part.id_count != len(part.steps):
            raise BadReply(f"sends {len(part.steps)} log-probabilities for {part.id_count} tokens")
        if self.floor is not None and any(not step.top for step in part.steps):
            raise BadReply("sends no alternatives, though it can")

    def _show(self, steps: Sequence[Step]) -> None:
        """Call the watcher with the tokens that it does not have."""
        if self._watch is not None:
            for step in steps[len(self.path.shown) :]:
                self.path.shown.append(step)
                self._watch(self.path.index, step.token_id)

    def _is_another_draw(self) -> bool:
        """Whether a reply that was begun again differs from what was shown, and that is all there is room for.

        Not every server draws by the seed. What was shown cannot be taken back, and is as good a draw as any: the next
        request goes on after it.
        """
        shown, place = self.path.shown, len(self.steps) - 1
        is_same = place >= len(shown) or shown[place].token_id == self.steps[place].token_id
        if is_same or self.path.is_doubtful:
            return False
        if len(shown) < self.path.room:
            self.path.kept_steps = tuple(shown)
            raise SendAgain("draws other tokens than those that were shown")
        self.steps, self._finish = list(shown), "length"
        self._text = self._tokenizer.text([step.token_id for step in shown])
        return True

    @property
    def _ids(self) -> tuple[int, ...]:
        return (*self.path.prefix, *(step.token_id for step in self.steps))

    def end(self) -> None:
        """Raise `BadReply` where a reply has no ending, or its tokens do not spell its text."""
        if self._stop is None and self._finish is None:
            raise BadReply("broke off in the middle of an answer")
        if not self._wants_steps:
            return
        with self._doubt():
            self._check_whole()
        if not self._server.exact:  # it cannot go on from tokens, so nothing is shown before it is known to be whole
            self._show(self.steps if self._stop is None else self.steps[:-1])

    def _check_whole(self) -> None:
        if self._server.exact and not self.steps:
            raise BadReply("sends no tokens with log-probabilities")
        if self._tokenizer.own is None:  # replies are all that is known of its tokens
            spelled, text = self._tokenizer.text([step.token_id for step in self.steps]).strip(), self._text.strip()
            is_spelled = spelled.startswith(text) or (self._stop is not None and text.startswith(spelled))
            if not is_spelled and "\ufffd" not in spelled:
                raise BadReply("sends log-probabilities of tokens that do not spell its text", f"{spelled} / {text}")
        if self._server.exact and self._ended_by_itself and not self._ends_with_a_control_token:
            raise BadReply("ends an answer without the log-probabilities of its ending")

    @property
    def _ended_by_itself(self) -> bool:
        return self._stop is None and self._finish != "length"

    @property
    def _ends_with_a_control_token(self) -> bool:
        return bool(self.steps) and self._tokenizer.is_special(self.steps[-1].token_id)

    @property
    def continuation(self) -> Continuation:
        """What was decoded, cut at its stop."""
        if not self._wants_steps:
            return self._text_alone()
        ids = tuple(step.token_id for step in self.steps)
        logprobs = tuple(step.logprob for step in self.steps)
        floor = self.floor
        alternatives = () if floor is None else tuple(step.likely(floor) for step in self.steps)
        truncated_mass = () if floor is None else tuple(step.truncated_mass for step in self.steps)
        stop, size = self._stop, len(self._ids)
        if self._ended_by_itself and self._ends_with_a_control_token:
            stop = Stop("eos", size - 1, size)  # an ending that we did not know
        elif self._ended_by_itself:  # it does not say with what
            return Continuation(
                ids, logprobs, "eos", (), self.decisions, 0, alternatives, truncated_mass=truncated_mass
            )
        return finished(self.path.prefix, ids, logprobs, stop, alternatives, truncated_mass=truncated_mass)

    def _text_alone(self) -> Continuation:
        """Return an answer without log-probabilities: one token of which only the text is known."""
        text = cut_at_ending(self._rule, self._text)
        reason: StopReason = "length" if self._finish == "length" else "eos"
        if text != self._text:
            reason = "stop_string"
        return Continuation((self._tokenizer.spellings.learn_text(text),), (), reason, (), self.decisions)

    @property
    def decisions(self) -> int:
        """How many tokens were decoded, the ending included."""
        return len(self.steps) or self.usage.completion or 0
