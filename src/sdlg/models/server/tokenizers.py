"""Prompts and tokens of a served model, by what the server and the user have.

- a tokenizer here (`tokenizer`, or the one that vLLM names): nothing is asked of the server
- llama-server: it renders its template and tokenises, two small requests per question
- text only: the server tokenises; whole answers can be drawn, but no branch can begin with given tokens
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...errors import ModelNotFound, NotSupported, ServerFailed, first_line
from ...records import Prompt, Question, StopRule
from ..prompts import CONTROL, TURN_ENDS, PromptTokenizer, chat_messages, chosen_style, style_stops, untemplated_text
from .connection import Connection, Json

_TEXTS = 10_000  # whole texts that are remembered: far more than there are questions at once


@dataclass(frozen=True, slots=True)
class TextPrompt(Prompt):
    """A prompt that the server tokenises: its `token_ids` are not known."""

    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()  # role and content, where the server has its own template


class TokenSpellings:
    """Ids and bytes of every token that a server has spelled in its replies.

    A token without an id gets one made from its spelling, so it is the same in every run.
    """

    def __init__(self) -> None:
        self._bytes: dict[int, bytes] = {}
        self._texts: OrderedDict[int, None] = OrderedDict()  # ids of whole texts, oldest first

    def learn(self, spelled: bytes, token_id: int | None = None) -> int:
        """Remember a token; return its id."""
        number = _id_of(spelled) if token_id is None else token_id
        self._bytes[number] = b"" if CONTROL.fullmatch(spelled.decode("utf-8", "replace")) else spelled
        return number

    def learn_text(self, text: str) -> int:
        """Remember a whole text as one token, whatever it looks like; return its id."""
        number = _id_of(text.encode())
        self._texts[number], self._bytes[number] = None, text.encode()
        self._texts.move_to_end(number)
        while len(self._texts) > _TEXTS:
            del self._bytes[self._texts.popitem(last=False)[0]]
        return number

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of these tokens, control tokens left out."""
        return b"".join(self._bytes.get(i, b"") for i in token_ids).decode("utf-8", "replace")

    def is_special(self, token_id: int) -> bool:
        """Whether a token spells nothing."""
        return not self._bytes.get(token_id)


def _id_of(spelled: bytes) -> int:
    """48 bits of a spelling's digest: two spellings with one id do not occur in practice."""
    return int.from_bytes(hashlib.sha256(spelled).digest()[:6])


@dataclass(frozen=True, slots=True)
class ServedTokenizer:
    """How prompts for one served model are made, and what its tokens spell."""

    prompt: Callable[[Question, str, StopRule], Prompt]
    own: PromptTokenizer | None = None  # None: tokens are known by their spellings in replies
    spellings: TokenSpellings = field(default_factory=TokenSpellings)

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of answer tokens."""
        return (self.own or self.spellings).text(token_ids)

    def is_special(self, token_id: int) -> bool:
        """Whether a token is a control token."""
        return (self.own or self.spellings).is_special(token_id)


def load_own_tokenizer(source: str, name: str) -> PromptTokenizer:
    """Load the tokenizer of the served model `name` from a folder or the hub."""
    from ...loading.pretrained import load_tokenizer

    try:
        return PromptTokenizer(load_tokenizer(source), None, name=name)
    except Exception as error:  # whatever a stranger's files make transformers raise
        raise ModelNotFound(
            f"cannot load the tokenizer {source!r} for {name}: {first_line(error)} "
            "Give the model's folder or hub name with --set tokenizer=NAME."
        ) from error


class LlamaPrompts:
    """Prompts that a llama-server renders and tokenises."""

    def __init__(self, connection: Connection, name: str, *, has_template: bool, ending: str | None = None) -> None:
        self._connection, self._name, self._has_template = connection, name, has_template
        endings = [self._tokenise(text, special=False) for text in (*TURN_ENDS, *([ending] if ending else []))]
        self._end_ids = frozenset(ids[0] for ids in endings if len(ids) == 1)

    def prompt(self, question: Question, style: str, stop: StopRule) -> Prompt:
        """Have the question rendered as text, then as ids."""
        style = chosen_style(style, self._has_template, self._name)
        if style == "chat":
            text = self._request("/apply-template", {"messages": chat_messages(question)}, "prompt", str)
        else:
            text = untemplated_text(question, style)
        own = StopRule(self._end_ids, style_stops(style))
        return Prompt(tuple(self._tokenise(text, special=True)), own | stop, style)

    def _tokenise(self, text: str, *, special: bool) -> list[int]:
        body = {"content": text, "add_special": special, "parse_special": True}
        tokens: list[Any] = self._request("/tokenize", body, "tokens", list)
        if not all(type(token) is int for token in tokens):
            raise ServerFailed(f"{self._name} sends tokens that are no ids")
        return tokens

    def _request(self, path: str, body: Json, field: str, kind: type) -> Any:
        reply = self._connection.run(self._connection.post(path, body))
        value = reply.get(field) if isinstance(reply, dict) else None
        if not isinstance(value, kind):
            raise ServerFailed(f"{self._name} sends no {field} for {path}")
        return value


def text_tokenizer(name: str, own: PromptTokenizer | None, *, chat: bool) -> ServedTokenizer:
    """Return a tokenizer for a server that takes messages (chat), or text; a template needs a tokenizer `own`."""
    spellings = TokenSpellings()
    ends = StopRule(frozenset(spellings.learn(text.encode()) for text in TURN_ENDS))
    make = partial(_messages_prompt, name, ends) if chat else partial(_text_prompt, name, ends, own)
    return ServedTokenizer(make, spellings=spellings)


def _messages_prompt(name: str, ends: StopRule, question: Question, style: str, stop: StopRule) -> Prompt:
    if style in ("plain", "raw"):
        raise NotSupported(f"{name} only chats; use the prompt style 'chat'")
    messages = tuple((message["role"], message["content"]) for message in chat_messages(question))
    return TextPrompt((), ends | stop, "chat", messages=messages)


def _text_prompt(
    name: str, ends: StopRule, own: PromptTokenizer | None, question: Question, style: str, stop: StopRule
) -> Prompt:
    if own is not None:
        text, style = own.prompt_text(question, style)
    else:
        style = chosen_style(style, False, f"{name} (without --set tokenizer=NAME)")
        text = untemplated_text(question, style)
    return TextPrompt((), ends | StopRule(strings=style_stops(style)) | stop, style, text=text)
