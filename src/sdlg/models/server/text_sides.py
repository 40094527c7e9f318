"""The text side of a served model: prompts in, texts out. Three of them, by what the server and the user have.

- a tokenizer here (`--tokenizer`, or the one that vLLM names): `TokenizerTextSide`; nothing is asked of the server
- llama-server: `LlamaTextSide`; it renders its template and tokenises, two small requests per question
- text only: `SpelledTextSide`; the server tokenises, and may do so otherwise than we would wish
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import NotSupported, ServerFailed
from ...records import Prompt, Question, StopRule
from ..prompts import chat_messages, chosen_style, style_stops, untemplated_text
from ..tokenizing import TURN_ENDS, TextSide
from .connection import Connection, Json
from .tokens import LearnedTokens, own_id


@dataclass(frozen=True, slots=True)
class TextPrompt(Prompt):
    """A prompt that the server tokenises: its `token_ids` are not known."""

    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()  # role and content, where the server has its own template


class ServedTextSide(Protocol):
    """Prompts and texts of one served model."""

    tokens: LearnedTokens
    is_learned: bool  # tokens are known by their spellings in replies

    def prompt(self, question: Question, style: str, stop: StopRule) -> Prompt:
        """A question in the form that the model reads."""

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of answer tokens."""

    def is_special(self, token_id: int) -> bool:
        """Whether a token is a control token."""


class TokenizerTextSide:
    """A tokenizer of our own: ids go to the server, ids come back."""

    is_learned = False

    def __init__(self, side: TextSide) -> None:
        self._side, self.tokens = side, LearnedTokens()
        self.prompt, self.text, self.is_special = side.prompt, side.text, side.is_special


class _LearnedTextSide:
    """Texts are known from the spellings in the replies."""

    is_learned = True

    def __init__(self) -> None:
        self.tokens = LearnedTokens()
        self.text, self.is_special = self.tokens.text, self.tokens.is_special


class LlamaTextSide(_LearnedTextSide):
    """llama-server renders and tokenises; every reply spells its tokens in bytes."""

    def __init__(self, connection: Connection, name: str, *, has_template: bool, ending: str | None = None) -> None:
        super().__init__()
        self._connection, self._name, self._has_template = connection, name, has_template
        endings = [self._tokenise(text, special=False) for text in (*TURN_ENDS, *([ending] if ending else []))]
        self._end_ids = frozenset(ids[0] for ids in endings if len(ids) == 1)

    def prompt(self, question: Question, style: str, stop: StopRule) -> Prompt:
        """As text, then as ids."""
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


class SpelledTextSide(_LearnedTextSide):
    """Text goes to the server, spellings come back. A template is only at hand with a tokenizer."""

    def __init__(self, name: str, side: TextSide | None = None, *, chat: bool = False) -> None:
        super().__init__()
        self._name, self._side, self._chat = name, side, chat
        self._end_ids = frozenset(own_id(text.encode()) for text in TURN_ENDS)
        for text in TURN_ENDS:
            self.tokens.learn(text.encode())

    def prompt(self, question: Question, style: str, stop: StopRule) -> Prompt:
        """Messages for a chat endpoint, text for any other."""
        if self._chat:
            if style in ("plain", "raw"):
                raise NotSupported(f"{self._name} only chats; use the prompt style 'chat'")
            messages = tuple((message["role"], message["content"]) for message in chat_messages(question))
            return TextPrompt((), StopRule(self._end_ids) | stop, "chat", messages=messages)
        if self._side is not None:
            text, style = self._side.prompt_text(question, style)
        else:
            style = chosen_style(style, False, f"{self._name} (without --tokenizer)")
            text = untemplated_text(question, style)
        return TextPrompt((), StopRule(self._end_ids, style_stops(style)) | stop, style, text=text)


class WholeTextSide(_LearnedTextSide):
    """Where no log-probabilities are told, an answer is one token: its text. Prompts are those of others."""

    def __init__(self, text_side: ServedTextSide) -> None:
        super().__init__()
        self.prompt = text_side.prompt
