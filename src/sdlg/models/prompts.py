"""Questions as prompts: messages for chat models, `Q: … A:` for all others (method.md §2).

In: a `Question`. Out: messages or text, and the strings at which an answer in that format stops.
"""

from __future__ import annotations

from ..records import Question

HEADER = "This is a bot that correctly answers questions."
PLAIN_STOPS = ("\n", " Q:")


def chat_messages(question: Question) -> list[dict[str, str]]:
    """Shots become earlier turns; the context stands before the question."""
    messages = []
    for asked, answered in question.shots:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    asked = f"{question.context}\n\n{question.text}" if question.context else question.text
    return [*messages, {"role": "user", "content": asked}]


def plain_text(question: Question) -> str:
    """The paper's formats: a story and its turns, or a header and shots; then the question."""
    shots = " ".join(f"Q: {asked} A: {answered}" for asked, answered in question.shots)
    parts = [question.context or HEADER, shots, f"Q: {question.text} A:"]
    return " ".join(part for part in parts if part)
