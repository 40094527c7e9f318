"""Questions as prompts: messages for chat models, `Q: … A:` for all others, or the text as it is.

In: a `Question`. Out: messages or text, and the strings at which an answer in that format stops.
"""

from __future__ import annotations

from ..errors import NotSupported, PromptTooLong
from ..records import Question

HEADER = "This is a bot that correctly answers questions."
PLAIN_STOPS = ("\n", " Q:")


def chosen_style(style: str, has_template: bool, name: str) -> str:
    """Chat, plain or raw: auto is chat where there is a template."""
    if style == "raw":
        return style
    if style == "chat" and not has_template:
        raise NotSupported(f"{name} has no chat template; use the prompt style 'plain'")
    return "chat" if style != "plain" and has_template else "plain"


def untemplated_text(question: Question, style: str) -> str:
    """The prompt in a style that needs no template: plain or raw."""
    return plain_text(question) if style == "plain" else question.text


def style_stops(style: str) -> tuple[str, ...]:
    """The strings that end an answer in this style."""
    return PLAIN_STOPS if style == "plain" else ()


def check_fits(name: str, tokens: int, limit: int | None, what: str = "with its answer") -> None:
    """Raise if a prompt leaves no room in the model's context."""
    if limit is not None and tokens >= limit:
        raise PromptTooLong(
            f"the prompt has {tokens} tokens, but {name} reads at most {limit} {what}; "
            "shorten the question or its context"
        )


def chat_messages(question: Question) -> list[dict[str, str]]:
    """Shots and earlier turns become turns; the context stands before the first of them, instructions before all."""
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
