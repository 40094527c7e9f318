"""Questions as prompts, and all else that needs a tokenizer and not the network.

In: a `Question`. Out: messages for chat models, `Q: … A:` for all others, or the text as it is; their token ids, and
what ends an answer in that format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any

from ..errors import NotSupported, PromptTooLong
from ..records import Prompt, Question, StopRule

HEADER = "This is a bot that correctly answers questions."
PLAIN_STOPS = ("\n", " Q:")
TURN_ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|end_of_turn|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|endoftext|>", "</s>",
)  # fmt: skip
CONTROL = re.compile(r"<\|[^|]*\|>|<(pad|unk|s|/s|mask|bos|eos)>|<[a-z]+_[a-z_]+>")


def chosen_style(style: str, has_template: bool, name: str) -> str:
    """Return chat, plain or raw: auto is chat where there is a template."""
    if style == "raw":
        return style
    if style == "chat" and not has_template:
        raise NotSupported(f"{name} has no chat template; use the prompt style 'plain'")
    return "chat" if style != "plain" and has_template else "plain"


def untemplated_text(question: Question, style: str) -> str:
    """Return the prompt in a style that needs no template: plain or raw."""
    return plain_text(question) if style == "plain" else question.text


def style_stops(style: str) -> tuple[str, ...]:
    """Return the strings that end an answer in this style."""
    return PLAIN_STOPS if style == "plain" else ()


def check_fits(name: str, tokens: int, limit: int | None, what: str = "with its answer") -> None:
    """Raise if a prompt leaves no room in the model's context."""
    if limit is not None and tokens >= limit:
        raise PromptTooLong(
            f"the prompt has {tokens} tokens, but {name} reads at most {limit} {what}; "
            "shorten the question or its context"
        )


def chat_messages(question: Question) -> list[dict[str, str]]:
    """Make turns of shots and question; the context stands before the first of them, instructions before all."""
    messages = []
    for query, reply in question.shots:
        messages += [{"role": "user", "content": query}, {"role": "assistant", "content": reply}]
    messages.append({"role": "user", "content": question.text})
    if question.context:
        messages[0]["content"] = f"{question.context}\n\n{messages[0]['content']}"
    instructions = [] if question.system is None else [{"role": "system", "content": question.system}]
    return instructions + messages


def plain_text(question: Question) -> str:
    """The paper's formats: a story and its turns, each with a full stop, or a header and shots; then the question."""
    turns = [
        f"Q: {query} A: {reply.rstrip('.')}." if question.context else f"Q: {query} A: {reply}"
        for query, reply in question.shots
    ]
    header = HEADER if question.system is None else question.system
    return " ".join([question.context or header, *turns, f"Q: {question.text} A:"])


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading ids two sequences share."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


class PromptTokenizer:
    """A tokenizer and the ids at which its model stops. Threads may share it."""

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
        """Return a question's prompt: chat if the tokenizer has a template and nothing else was asked for."""
        text, style = self.prompt_text(question, style)
        return self._encoded(question, text, StopRule(self._end_ids, style_stops(style)) | stop, style)

    def prompt_text(self, question: Question, style: str) -> tuple[str, str]:
        """Return the prompt as text, and its style: chat, plain or raw."""
        style = chosen_style(style, bool(getattr(self._tokenizer, "chat_template", None)), self._name)
        if style != "chat":
            return untemplated_text(question, style), style
        messages = chat_messages(question)
        return self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False), style

    def _encoded(self, question: Question, text: str, stop: StopRule, style: str) -> Prompt:
        """Return the prompt's ids, and where prompts with the same context or shots would part from it."""

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
        """Return an answer's ids as it would follow the prompt: with a space after "A:", with none in a chat turn."""
        if not text:
            return ()
        if prompt.style != "plain":
            return tuple(self._tokenizer(text, add_special_tokens=False).input_ids)
        before = self._tokenizer("A:", add_special_tokens=False).input_ids
        whole = self._tokenizer(f"A: {text}", add_special_tokens=False).input_ids
        return tuple(whole[len(before) :])

    def ending_ids(self, stop: StopRule) -> list[int]:
        """Return the ids that end an answer: the end ids, and those that spell a stop string by themselves."""
        strings = [i for i, surface in self._vocabulary if any(string in surface for string in stop.strings)]
        return sorted({*stop.token_ids, *strings})

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text exactly as decoded."""
        ids = list(token_ids)
        decoded: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return decoded

    def is_special(self, token_id: int) -> bool:
        """Whether it is a control token, also one that a converted tokenizer forgot to mark."""
        return token_id in self._special

    @cached_property
    def _vocabulary(self) -> list[tuple[int, str]]:
        """Ids and surfaces; a marked word beginning becomes a leading space, a marked newline a newline."""
        tokens = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        marks = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n"})
        return [(i, token.translate(marks)) for i, token in enumerate(tokens) if token is not None]
