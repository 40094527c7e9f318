"""Stop rules: when an answer ends and which of its tokens came before the end.

In: a `StopRule`, the answer's ids so far. Out: why it ended, and how many ids to keep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..records import StopReason, StopRule
from ..sentences import first_sentence

# A full stop after one of these never ends a sentence: something always follows, or an answer that is a little too
# long is better than one that is cut ("Apple Inc. CEO …"); a line's end still ends it. Titles, ranks and companies
# have a capital: "one more rep." ends a sentence.
_TITLES = "Mr|Mrs|Ms|Mx|Messrs|Mme|Mmes|Mlle|Dr|Drs|Prof|Fr|Rev|Msgr|Hon|Sen|Rep|Gov|Pres|Amb|Atty|Supt|Det|Jr|Sr|Esq"
_RANKS = "Gen|Brig|Col|Maj|Capt|Cpt|Lt|Sgt|Cpl|Pvt|Pfc|Adm|Cmdr|Cdr|Comdr"
_COMPANIES = "Inc|Corp|Ltd|Co|Cos|Bros|Pty|Dept|Univ|Assn"
_PLACES = "St|Ste|Mt|Ft|Ave|Blvd"
_SMALL_WORDS = "[Vv]s|[Cc]f|[Vv]iz|[Aa]pprox|[Cc]a|et al|e\\.g|i\\.e|pp|[Vv]ols?|Ch|Op"
_INITIAL = "[A-Za-z]"  # "U.S.", "J. Smith", "5 p.m.", "Ph.D.", "c. 1850"
_NEVER_ENDS = re.compile(
    rf"(?:^|[\s(.])(?:{'|'.join((_TITLES, _RANKS, _COMPANIES, _PLACES, _SMALL_WORDS, _INITIAL))})$"
)
# After one of these the next word decides: a capital begins a sentence ("No. It is Paris."), anything else goes on
# ("No. 5"). Not "no", which ends sentences far more often than it stands for a number. Units only count after a number:
# "6 in. long", but "the year he was born in." ends.
_MONTHS = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
_UNITS = "ft|in|yd|mi|lbs?|oz|sq|cu|min|sec|hrs?|gal|pt|qt|tbsp|tsp"
_MAY_END = re.compile(
    rf"(?:^|[\s(])(?:Nos?|{_MONTHS}|[Ff]ig|Figs|[Ee]st|etc)$|\d[\s-]?(?:{_UNITS})$|\d (?:sq|cu)\. (?:{_UNITS})$"
)

_INSIDE = ",;:)#-–—&/"  # what stands between the words of one sentence

TextOf = Callable[[Sequence[int]], str]

# Stop strings are short: this many last tokens are enough to see one.
_WINDOW = 24


@dataclass(frozen=True, slots=True)
class Stop:
    """An ending: its reason, how many of the answer's ids come before it, and up to which id it goes."""

    reason: StopReason
    kept: int
    end: int  # ids after this one were only needed to see the ending


def find_stop(rule: StopRule, ids: Sequence[int], text_of: TextOf) -> Stop | None:
    """Whether the last id of `ids` ends the answer."""
    if not ids:
        return None
    if ids[-1] in rule.token_ids:
        return _at_end_token(rule, ids, text_of)
    if rule.one_sentence and (stop := _at_next_sentence(ids, text_of)):
        return stop
    if not (rule.strings or rule.sentence_end):
        return None
    first = max(0, len(ids) - _WINDOW)
    tail = ids[first:]
    ending = _first_ending(rule, text_of(tail))
    if ending is None:
        return None
    length = _tokens_within(tail, ending[0], text_of)
    end = next(n for n in range(length, len(tail) + 1) if len(text_of(tail[:n])) >= ending[1])
    return Stop("stop_string", first + length, first + end)


def _at_end_token(rule: StopRule, ids: Sequence[int], text_of: TextOf) -> Stop:
    """Where sentences end answers, a full stop before the end token belongs to the ending."""
    length = len(ids) - 1
    text = text_of(ids[:length]).rstrip() if rule.sentence_end else ""
    if text.endswith(".") and sentence_end(text + "\n") == len(text) - 1:  # as the line's end: nothing follows
        length = _tokens_within(ids[:length], len(text) - 1, text_of)
    return Stop("eos", length, len(ids))


def _at_next_sentence(ids: Sequence[int], text_of: TextOf) -> Stop | None:
    """Where another sentence has begun, which the last id shows: all before it is kept, its full stop too."""
    text = text_of(ids)
    length = first_sentence(text)
    if length == len(text):
        return None
    kept = _tokens_within(ids, length, text_of)
    return Stop("stop_string", kept, kept) if kept else None


def _tokens_within(ids: Sequence[int], characters: int, text_of: TextOf) -> int:
    """How many leading ids fit into so many characters."""
    count = len(ids)
    while count and len(text_of(ids[:count])) > characters:
        count -= 1
    return count


def cut_at_ending(rule: StopRule, text: str) -> str:
    """A text up to its first ending, where its tokens are not known."""
    ending = _first_ending(rule, text)
    return text if ending is None else text[: ending[0]]


def _first_ending(rule: StopRule, text: str) -> tuple[int, int] | None:
    """Where the first ending in a text begins and where it is complete."""
    endings = [(text.find(string), text.find(string) + len(string)) for string in rule.strings if string in text]
    if rule.sentence_end and (at := sentence_end(text)) is not None:
        endings.append((at, at + 1))
    return min(endings, default=None)


def sentence_end(text: str) -> int | None:
    """Offset of the first full stop that ends a sentence: not "St.", "U.S.", "3.5" or the "1." of a list."""
    for match in re.finditer(r"\.(?=\s|$)", text):
        before, after = text[: match.start()], text[match.end() :]
        if before.strip() and not before.strip().isdigit() and not _goes_on(before, after):
            return match.start()
    return None


def _goes_on(before: str, after: str) -> bool:
    """Whether the sentence goes on after a full stop between these, or may do so."""
    if before[-1].isdigit():
        return not after  # "3." may become "3.5"
    if _MAY_END.search(before):
        following = after.lstrip(" \t\u00a0")[:1]
        return not following or following.islower() or following.isdigit() or following in _INSIDE
    return _NEVER_ENDS.search(before) is not None
