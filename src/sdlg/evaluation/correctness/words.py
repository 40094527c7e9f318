"""Texts as words, in any script. In: a text. Out: its folded form, or its words.

The tokenizer of rouge-score keeps runs of a-z and 0-9 and nothing else: "🚁" and "将棋" have no words there and score 0
against themselves. Here, ASCII texts give the same words as there. In other texts, too, punctuation and the signs of
currency and mathematics lie between words; letters with their marks make words; what is written without spaces gives
one word per character, and so do symbols that stand for a thing.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

_ASCII_WORD = re.compile("[a-z0-9]+")
_DECORATION = str.maketrans(dict.fromkeys("™℠®©°", " "))  # symbols, but Google™ is Google
_INVISIBLE = frozenset(["Cf", "Me"])  # joiners, soft hyphens, the frame of a keycap
_SYMBOL = "So"  # emoji, signs of planets, chess pieces
_UNSPACED = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


def folded(text: str) -> str:
    """The text without differences of case, width and composition: "CO₂" and "co2" are the same."""
    return unicodedata.normalize("NFKC", text).casefold()


@lru_cache(maxsize=4096)  # an answer meets hundreds of references, and each of them several metrics
def words(text: str) -> tuple[str, ...]:
    """The words of a text, folded. A text beyond ASCII that has none, such as "∞", keeps its characters."""
    if text.isascii():
        return tuple(_ASCII_WORD.findall(text.lower()))
    found = "".join(map(_spaced, folded(text.translate(_DECORATION)))).split()
    return tuple(found or "".join(folded(text).split()))


@lru_cache(maxsize=4096)
def vocabulary(text: str) -> frozenset[str]:
    """The different words of a text."""
    return frozenset(words(text))


@cache
def _spaced(char: str) -> str:
    """A character with the spaces that make it part of a word, a word, or a gap."""
    kind, name = unicodedata.category(char), unicodedata.name(char, "")
    if kind in _INVISIBLE or name.startswith("VARIATION SELECTOR"):
        return ""
    if kind == _SYMBOL or (kind[0] in "LMN" and name.startswith(_UNSPACED)):
        return f" {char} "
    return char if kind[0] in "LMN" else " "
