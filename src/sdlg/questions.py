"""What can be asked: a text, a text with something to read first, or a conversation as OpenAI's clients write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .errors import BadQuestion
from .records import Question, is_unicode

Messages = Sequence[Mapping[str, Any]]  # {"role": "user", "content": "…"}
EMPTY = 'the question is empty; type one, for example: sdlg ask "Who wrote Hamlet?"'


def checked_question(
    question: str | Question | None, context: str | None = None, messages: Messages | None = None
) -> Question:
    """Return a question that can be asked, or raise `BadQuestion`."""
    if (question is None) == (messages is None):
        raise BadQuestion("give a question or messages, one of the two")
    if messages is not None:
        asked = question_from_messages(messages)
    else:
        asked = question if isinstance(question, Question) else Question(str(question))
    asked = asked if context is None else replace(asked, context=context)
    if not asked.text.strip():
        raise BadQuestion(EMPTY)
    texts = (asked.text, asked.context or "", asked.system or "", *(text for shot in asked.shots for text in shot))
    if not all(map(is_unicode, texts)):
        raise BadQuestion("the question holds half a surrogate pair, which is no character")
    return asked


def question_from_messages(messages: Messages) -> Question:
    """Return the last user's turn as the question; instructions and earlier turns belong to its prompt."""
    turns = [(str(message.get("role")), _text(message, number)) for number, message in enumerate(messages)]
    instructions: list[str] = []
    while turns and turns[0][0] in ("system", "developer"):
        instructions.append(turns.pop(0)[1])
    expected = ["user", "assistant"] * (len(turns) // 2) + ["user"]
    if [role for role, _ in turns] != expected:
        roles = ", ".join(role[:20] for role, _ in turns[:12]) or "none"
        raise BadQuestion(
            "messages must be instructions (system), then user and assistant in turns, then a last one of the user; "
            f"after the instructions there were: {roles}"
        )
    texts = [text for _, text in turns]
    shots = tuple(zip(texts[:-1:2], texts[1:-1:2], strict=True))
    return Question(texts[-1], shots=shots, system="\n\n".join(instructions) if instructions else None)


def _text(message: Mapping[str, Any], number: int) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or not content:
        raise BadQuestion(f"messages[{number}] has no content; calls of tools and functions are not understood")
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise BadQuestion(f"messages[{number}] holds content that is no text; only text is read")
    return "".join(part["text"] for part in content)
