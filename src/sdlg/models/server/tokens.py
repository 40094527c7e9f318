"""Tokens as a server spells them, where no tokenizer is at hand.

In: spellings from replies, with the server's ids or without. Out: ids that can be put together to a text again. A
server without ids gets ids of our own, made from the spelling alone, so they are the same in every run.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence

from ..tokenizing import CONTROL

_TEXTS = 10_000  # whole texts that are remembered: far more than there are questions at once
_BYTES = re.compile(r"\\x([0-9a-f]{2})")


class LearnedTokens:
    """Ids and bytes of every token that was seen."""

    def __init__(self) -> None:
        self._bytes: dict[int, bytes] = {}
        self._texts: OrderedDict[int, None] = OrderedDict()  # ids of whole texts, oldest first

    def learn(self, spelled: bytes, token_id: int | None = None) -> int:
        """Remember a token; its id."""
        number = own_id(spelled) if token_id is None else token_id
        self._bytes[number] = b"" if CONTROL.fullmatch(spelled.decode("utf-8", "replace")) else spelled
        return number

    def learn_text(self, text: str) -> int:
        """A whole text as one token, whatever it looks like."""
        number = own_id(text.encode())
        self._texts[number], self._bytes[number] = None, text.encode()
        self._texts.move_to_end(number)
        while len(self._texts) > _TEXTS:
            del self._bytes[self._texts.popitem(last=False)[0]]
        return number

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of these tokens; control tokens are none."""
        return b"".join(self._bytes.get(i, b"") for i in token_ids).decode("utf-8", "replace")

    def is_special(self, token_id: int) -> bool:
        """Whether a token spells nothing."""
        return not self._bytes.get(token_id)

    def is_whole(self, token_ids: Sequence[int]) -> bool:
        """Whether these tokens are a text: no character is cut off at their end."""
        return "\ufffd" not in self.text(token_ids)


def own_id(spelled: bytes) -> int:
    """An id of our own for a spelling: 48 bits of its digest, so that two never meet in practice."""
    return int.from_bytes(hashlib.sha256(spelled).digest()[:6])


def spelled(token: str) -> bytes:
    """The bytes of a token given as text; OpenAI writes half a character as `bytes:\\xe2\\x80`."""
    if token.startswith("bytes:") and (pairs := _BYTES.findall(token)):
        return bytes(int(pair, 16) for pair in pairs)
    return token.encode("utf-8", "surrogatepass")
