"""The text side of a transformers model: prompts, stops, surfaces. All that needs the tokenizer and not the network.

In: questions and token ids. Out: prompts, texts, and which ids are what.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any

from ..records import Prompt, Question, StopRule
from .prompts import chat_messages, chosen_style, style_stops, untemplated_text

TURN_ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|end_of_turn|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|endoftext|>", "</s>",
)  # fmt: skip
CONTROL = re.compile(r"<\|[^|]*\|>|<(pad|unk|s|/s|mask|bos|eos)>|<[a-z]+_[a-z_]+>")


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading ids two sequences share."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


class TextSide:
    """A tokenizer and the ids at which its model stops."""

    def __init__(self, tokenizer: Any, end_ids: Any, *, name: str) -> None:
        self._tokenizer, self._name, self._turn = tokenizer, name, Lock()
        self._end_ids = self._all_end_ids(end_ids)
        self._special = {int(i) for i in tokenizer.all_special_ids} | {
            int(i)
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special or CONTROL.fullmatch(token.content)
        }

    def _all_end_ids(self, named: Any) -> frozenset[int]:
        values = [self._tokenizer.eos_token_id, named]
        ids = {int(i) for value in values if value is not None for i in (value if isinstance(value, list) else [value])}
        for token in TURN_ENDS:
            index = self._tokenizer.convert_tokens_to_ids(token)
            if index is not None and self._tokenizer.convert_ids_to_tokens(index) == token:
                ids.add(int(index))
        return frozenset(ids)

    def prompt(self, question: Question, style: str, stop: StopRule) -> Prompt:
        """Chat if the tokenizer has a template and nothing else was asked for."""
        text, style = self.prompt_text(question, style)
        return self._encoded(question, text, StopRule(self._end_ids, style_stops(style)) | stop, style)

    def prompt_text(self, question: Question, style: str) -> tuple[str, str]:
        """The prompt as text, and its style: chat, plain or raw."""
        style = chosen_style(style, bool(getattr(self._tokenizer, "chat_template", None)), self._name)
        if style != "chat":
            return untemplated_text(question, style), style
        messages = chat_messages(question)
        return self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False), style

    def _encoded(self, question: Question, text: str, stop: StopRule, style: str) -> Prompt:
        """The prompt's ids, and where prompts with the same context or the same shots would part from it."""

        def encode(part: str) -> list[int]:
            with self._turn:  # a tokenizer that two threads use at once may fail
                ids: list[int] = self._tokenizer(part, add_special_tokens=style != "chat").input_ids
            return ids

        ids = encode(text)
        ends = [text.rfind(question.text)]
        if question.context:
            ends.append(text.find(question.context) + len(question.context))
        counts = {common_length(encode(text[:end]), ids) for end in ends if end > 0}
        return Prompt(tuple(ids), stop, style, tuple(sorted(count for count in counts if 0 < count < len(ids))))

    def answer_ids(self, prompt: Prompt, text: str) -> tuple[int, ...]:
        """An answer's ids as it would follow the prompt: with a space after "A:", with none in a chat turn."""
        if not text:
            return ()
        if prompt.style != "plain":
            return tuple(self._tokenizer(text, add_special_tokens=False).input_ids)
        before = self._tokenizer("A:", add_special_tokens=False).input_ids
        whole = self._tokenizer(f"A: {text}", add_special_tokens=False).input_ids
        return tuple(whole[len(before) :])

    def ending_ids(self, stop: StopRule) -> list[int]:
        """Ids that end an answer: the end ids, and those that spell a stop string all by themselves."""
        strings = [i for i, surface in self.vocabulary if any(string in surface for string in stop.strings)]
        return sorted({*stop.token_ids, *strings})

    def text(self, token_ids: Sequence[int]) -> str:
        """Exactly as decoded."""
        ids = list(token_ids)
        decoded: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return decoded

    def is_special(self, token_id: int) -> bool:
        """Control tokens, also those a converted tokenizer forgot to mark."""
        return token_id in self._special

    @cached_property
    def vocabulary(self) -> list[tuple[int, str]]:
        """Ids and surfaces; a marked word beginning becomes a leading space, a marked newline a newline."""
        tokens = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        marks = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n"})
        return [(i, token.translate(marks)) for i, token in enumerate(tokens) if token is not None]
