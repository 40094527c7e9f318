"""A GGUF file's own tokenizer and chat template, in the shape that `PromptTokenizer` expects of a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...errors import NotSupported
from .library import Library

_PIECE_BYTES = 256


@dataclass(frozen=True, slots=True)
class _Encoding:
    input_ids: list[int]


@dataclass(frozen=True, slots=True)
class _Token:
    content: str
    special: bool


class GgufTokenizer:
    """Text ↔ token ids, by llama.cpp."""

    def __init__(self, library: Library, model: Any, check_open: Callable[[], None]) -> None:
        self._library, self._own_vocab = library, library.c.llama_model_get_vocab(model)
        self._check_open = check_open  # llama.cpp aborts where a vocabulary was freed
        self._size = int(library.c.llama_vocab_n_tokens(self._vocab))
        template = library.c.llama_model_chat_template(model, library.ffi.NULL)
        null = library.ffi.NULL
        self.chat_template = None if template == null else library.ffi.string(template).decode("utf-8", "replace")
        self.eos_token_id = int(library.c.llama_vocab_eos(self._vocab))

    @property
    def _vocab(self) -> Any:
        self._check_open()
        return self._own_vocab

    def __len__(self) -> int:
        return self._size

    def __call__(self, text: str, *, add_special_tokens: bool) -> _Encoding:
        """Encode a text; control tokens that it spells become those tokens."""
        raw = text.encode()
        room = len(raw) + 8
        ids = self._library.ffi.new("llama_token[]", room)
        count = self._library.c.llama_tokenize(self._vocab, raw, len(raw), ids, room, add_special_tokens, True)
        return _Encoding([int(ids[k]) for k in range(count)])

    def decode(self, ids: Sequence[int], **_: bool) -> str:
        """Decode ids without control tokens; what is no whole character becomes a replacement character."""
        return b"".join(self._pieces[i] for i in ids if not self._is_control[i]).decode("utf-8", "replace")

    @cached_property
    def _pieces(self) -> list[bytes]:
        buffer = self._library.ffi.new("char[]", _PIECE_BYTES)
        return [self._piece(i, buffer) for i in range(self._size)]

    def _piece(self, token: int, buffer: Any) -> bytes:
        size = self._library.c.llama_token_to_piece(self._vocab, token, buffer, _PIECE_BYTES, 0, True)
        return bytes(self._library.ffi.buffer(buffer, max(size, 0)))

    @cached_property
    def _is_control(self) -> list[bool]:
        c = self._library.c
        return [
            bool(c.llama_vocab_is_control(self._vocab, i) or c.llama_vocab_is_eog(self._vocab, i))
            for i in range(self._size)
        ]

    @property
    def all_special_ids(self) -> list[int]:
        """The ids that are no text."""
        return [i for i, is_control in enumerate(self._is_control) if is_control]

    @property
    def end_ids(self) -> list[int]:
        """The ids that end an answer."""
        return [i for i in self.all_special_ids if self._library.c.llama_vocab_is_eog(self._vocab, i)]

    @property
    def added_tokens_decoder(self) -> Mapping[int, _Token]:
        """The same, spelled."""
        return {i: _Token(self.convert_ids_to_tokens(i), True) for i in self.all_special_ids}

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """Spell one token, or each of several."""
        if isinstance(ids, int):
            return self._pieces[ids].decode("utf-8", "replace")
        return [self.convert_ids_to_tokens(int(i)) for i in ids]

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """Return the id of a token by its spelling; None: there is none."""
        return self._ids.get(token)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {self.convert_ids_to_tokens(i): i for i in self.all_special_ids}

    def apply_chat_template(self, messages: list[dict[str, str]], **named: Any) -> str:
        """Render a conversation with the template that the file carries."""
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def fail(message: str) -> None:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = fail
        spell = self._library.c
        tokens = {
            "bos_token": self.convert_ids_to_tokens(max(int(spell.llama_vocab_bos(self._vocab)), 0)),
            "eos_token": self.convert_ids_to_tokens(max(self.eos_token_id, 0)),
        }
        try:
            text = environment.from_string(self.chat_template or "").render(
                messages=messages, add_generation_prompt=True, tools=None, **tokens
            )
        except TemplateError as error:
            raise NotSupported(f"the model's chat template cannot write this conversation: {error}") from error
        return str(text)
