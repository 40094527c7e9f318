"""Does an answer decline to answer? "I don't know", "As an AI, I cannot …", "Could you tell me more?".

In: an answer's text. Out: yes or no. English. Whatever their words, all of these say one thing, so they are one
meaning. Who denies the question's assumption ("There was no king of France in 1950") answers, and so does who goes on
to answer.
"""

from __future__ import annotations

import re

from ..sentences import first_sentence

_NOT_ABLE = (
    r"(?:do not|don't|cannot|can not|can't|could not|couldn't|am not able to|'m not able to|am unable to|'m unable to)"
)
_DOING = (
    r"(?:know|have|find|answer|say|provide|tell|help|assist|determine|predict|access|recall|understand|see|identify|"
    r"give|offer|comment|verify|confirm|browse|disclose|share|remember|guess|recommend|address|discuss|engage|respond)"
)
_KIND = r"(?:ai|artificial intelligence|language model)"
_AN_AI = rf"\b(?:as an? (?:\w+ )?{_KIND}|i(?:'m| am) (?:just )?an? {_KIND})\b"
_DECLINES = re.compile(
    rf"\b(?:i|we) ?{_NOT_ABLE} (?:\w+ ){{0,2}}{_DOING}\b"
    r"|\bi(?:'m| am) (?:not|un)(?: \w+)? ?(?:sure|certain|aware|familiar)\b"
    r"|\bi have no (?:idea|information|comment|knowledge|way|access|opinion)\b"
    rf"|{_AN_AI}[^.!?]*?\b(?:not|cannot|unable|no|never|committed|subject to|designed to|\w+n't)\b"
    r"|\bit(?:'s| is) (?:not possible|impossible|difficult|hard|unclear|unknown|not clear|not known|uncertain)\b"
    r"|\b(?:answer|name|date|number|person|information|question|it) is "
    r"(?:unknown|unclear|ambiguous|not (?:known|clear|available|specified))\b"
    r"|\b(?:not enough|insufficient|no) (?:information|context|details|comment|idea)\b"
    r"|\bmore (?:context|information|details) (?:is|are|about|to|would|on)\b"
    r"|\b(?:please|could you|can you|you could|would you) (?:please )?"
    r"(?:provide|specify|clarify|rephrase|give|tell|share|explain)\b"
    r"|\bunable to (?:answer|determine|find|provide|say|help|assist)\b"
    r"|\bi need (?:more|some|additional|further)\b"
    r"|^\W*(?:unknown|unclear|not known|unsure|no answer|n/a|not sure)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\b(?:however|nevertheless|that said)\b(?!,? i (?:can't|cannot|can not|could not|couldn't|do not|don't|am|'m))"
    r"|\bbut (?:it|the|he|she|they|there|here|some|many|most|in|i (?:think|believe|can|would))\b",
    re.IGNORECASE,
)
_POLITE = re.compile(
    rf"\W*(?:{_AN_AI}|(?:i'm |i am )?sorry|i apologi[sz]e|unfortunately|hello|hi\b|thank)", re.IGNORECASE
)
_ASKS_BACK = re.compile(r"\byou(?:r|'re)?\b[^.?!]*\?\s*$", re.IGNORECASE)
_FIRST = 200  # characters: who declines does so at once


def declines(text: str) -> bool:
    """The answer says that it has none, or asks back."""
    plain = text.replace("’", "'").strip()
    found = _DECLINES.search(plain[:_FIRST])
    if found is None:
        return bool(_ASKS_BACK.search(plain)) and plain.count(".") == 0
    first = plain[: first_sentence(plain)]
    if found.start() >= len(first) and not _POLITE.match(first):
        return False  # it has answered before
    return not _GOES_ON.search(plain, found.end())
