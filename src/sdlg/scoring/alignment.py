"""LM tokens ↔ characters of the answer ↔ NLI pieces, for any pair of tokenizers.

In: an answer's token ids and a way to decode them. Out: character spans of tokens and words in the stripped text.
Tokens get spans by incremental decoding, never one by one: a token that ends inside a character shares the span of the
tokens that complete it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

Span = tuple[int, int]
TextOf = Callable[[Sequence[int]], str]

_BROKEN = "\ufffd"  # what an incomplete character decodes to
_CONTEXT = 4  # tokens before a candidate that decide how it is spelled

# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, Kana, CJK ideographs.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def token_spans(ids: Sequence[int], text_of: TextOf) -> list[Span]:
    """Each token's span in `text_of(ids).strip()`; white space at the ends belongs to nobody."""
    spans: list[Span] = [(0, 0)] * len(ids)
    anchor = read = waiting = length = 0  # the window starts at `anchor`; tokens before `read` have their span
    for k in range(len(ids)):
        before, now = text_of(ids[anchor:read]), text_of(ids[anchor : k + 1])
        if now.endswith(_BROKEN) and k + 1 < len(ids):
            continue
        start, length = length, length + len(now) - len(before)
        spans[waiting : k + 1] = [(start, length)] * (k + 1 - waiting)
        anchor, read, waiting = read, k + 1, k + 1
    text = text_of(ids)
    lead, end = len(text) - len(text.lstrip()), len(text.strip())
    return [(min(max(a - lead, 0), end), min(max(b - lead, 0), end)) for a, b in spans]


def token_texts(ids: Sequence[int], text_of: TextOf) -> list[str]:
    """Each token's part of the stripped text, so that they join to it: a character of several tokens is the first's."""
    text, spans = text_of(ids).strip(), token_spans(ids, text_of)
    return ["" if k and span == spans[k - 1] else text[slice(*span)] for k, span in enumerate(spans)]


def visible_start(text: str, span: Span) -> int | None:
    """Where a token's first visible character is; None if it shows nothing."""
    shown = text[span[0] : span[1]].lstrip()
    return span[1] - len(shown) if shown else None


def starts_unit(text: str, at: int) -> bool:
    """Whether a word begins here; in scripts without spaces every character begins one."""
    if at == 0 or text[at - 1].isspace():
        return True
    return bool(_UNSPACED.match(text[at]) or _UNSPACED.match(text[at - 1]))


def word_spans(text: str) -> list[Span]:
    """The words of a text: from one unit start to the next white space or unit start."""
    starts = [at for at, character in enumerate(text) if not character.isspace() and starts_unit(text, at)]
    ends = [*starts, len(text)][1:]
    return [(start, start + len(text[start:end].rstrip())) for start, end in zip(starts, ends, strict=True)]


def word_at(words: Sequence[Span], at: int) -> int | None:
    """Index of the word that holds this character."""
    index = bisect_right([start for start, _ in words], at) - 1
    return index if index >= 0 and at < words[index][1] else None


def overlapping(span: Span, pieces: Sequence[Span]) -> list[int]:
    """Indices of the pieces that share characters with the span."""
    return [k for k, (start, end) in enumerate(pieces) if start < span[1] and end > span[0]]


def surface_in_context(ids: Sequence[int], token_id: int, text_of: TextOf) -> str:
    """What the reader sees if `token_id` follows `ids`."""
    context = list(ids[-_CONTEXT:])
    return text_of([*context, token_id])[len(text_of(context)) :]


def is_complete(surface: str) -> bool:
    """Whether a surface is whole characters."""
    return _BROKEN not in surface
