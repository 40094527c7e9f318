"""What the words of an answer tell, compared beside the network: words, numbers, dates and units in one notation.

In: texts. Out: words (lower case, no accents, "twelve" as 12, "8,849 metres" and "8849 m" as 8849 metre), the telling
ones among them (not in the question, not small) with their weight, and the quantities that an answer names.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[%°$€£]")
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w'’-]*")  # a capital that no sentence begins with
_CAPITAL = r"[^\W\d_a-z][\w'’.-]*"  # of any script that has capitals
_NAMES = re.compile(rf"(?<![\w'’-]){_CAPITAL}(?: (?:of |the |de |van |von |al-)*{_CAPITAL})*")
_FOOTNOTE = re.compile(r"(?<=[a-z]{3})\d{1,2}\b|\b((?:1[5-9]|20)\d\d)\d(?=\.|$)")  # earthquakes1, in 19681.
_SMALL = """a an the of in on at to for from by with and or as is was are were be been being it its this that
    these those he she they his her their him them i you we my your our who whom whose which what when
    where why how did do does done has have had having not no yes also known called named there about
    around approximately roughly some s t d than then into over after before during while but so such
    more most very can could would will may might answer according think believe"""
_SMALL_WORDS = frozenset(_SMALL.split())
_MONTH_NAMES = """january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec"""
_MONTHS = frozenset(_MONTH_NAMES.split())
_UP_TO_NINETEEN = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMBERS = {word: value for value, word in enumerate(_UP_TO_NINETEEN.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), 2)
}
_TENS_AND_ONES = re.compile(rf"\b({_TENS.replace(' ', '|')})[ -](one|two|three|four|five|six|seven|eight|nine)\b")
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12.0}
_UNITS = {
    name: names.split()[0]
    for names in (
        "metre metres meter meters m",
        "kilometre kilometres kilometer kilometers km",
        "centimetre centimetres centimeter centimeters cm",
        "mile miles mi",
        "foot feet ft",
        "inch inches",
        "gram grams g",
        "kilogram kilograms kg kilo kilos",
        "pound pounds lb lbs",
        "litre litres liter liters l",
        "celsius c",
        "fahrenheit f",
        "kelvin k",
        "percent %",
        "dollar dollars usd $",
        "euro euros €",
        "second seconds sec s",
        "minute minutes min",
        "hour hours hr hrs h",
        "day days",
        "week weeks",
        "month months",
        "year years",
        "century centuries",
    )
    for name in names.split()
}
_ASKS_QUANTITY = re.compile(
    r"\b(how (many|much|long|tall|far|fast|old|big|high|deep|heavy|large|wide|often|cold|hot)|when|"
    r"what (year|date|day|month|time|age|percent|temperature|number)|which (year|date|day|month)|"
    r"what is the (height|length|population|number|distance|speed|size|age|weight|depth)|population|percentage)\b",
    re.IGNORECASE,
)

_ASKS_YEAR = re.compile(r"\b(?:what|which) year\b", re.IGNORECASE)
_ASKS_DATE = re.compile(r"^\W*when\b|\b(?:what|which) (?:date|day)\b", re.IGNORECASE)


@lru_cache(maxsize=8192)
def split_words(text: str) -> tuple[str, ...]:
    """Words and numbers in one notation."""
    decomposed = unicodedata.normalize("NFKD", text.replace("’", "'"))
    flat = "".join(c for c in decomposed if not unicodedata.combining(c)).casefold()
    flat = re.sub(r"'s\b", "", flat)
    flat = re.sub(r"\b([a-z])\.(?=[a-z]\b)", r"\1", flat)  # u.s. → us
    flat = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", _FOOTNOTE.sub(r"\1", flat))
    flat = _TENS_AND_ONES.sub(lambda match: str(_NUMBERS[match[1]] + _NUMBERS[match[2]]), flat)
    return tuple(_join_numbers([_number_or_word(word) for word in _WORD.findall(flat)]))


def is_number(word: str) -> bool:
    """It begins with a digit."""
    return word[0].isdecimal()


def asks_quantity(question: str) -> bool:
    """The question asks for a number or a date."""
    return bool(_ASKS_QUANTITY.search(question))


def asked_date(question: str) -> tuple[str, ...]:
    """Return what of a date the question asks for: the year alone, all of it, or nothing."""
    if _ASKS_YEAR.search(question):
        return ("year",)
    return ("year", "month", "day") if _ASKS_DATE.search(question) else ()


def telling_words(question: str, answer: str) -> dict[str, float]:
    """The answer's words that are neither in the question nor small (all, if none is left), and what each weighs.

    Names weigh 1, other words a quarter: "Bell, a Scottish-born scientist" is Bell. Numbers weigh 1 where asked for.
    """
    asked = {_stem(word) for word in split_words(question)}
    words = [_stem(word) for word in split_words(answer)]
    heavy = {_stem(word) for match in _NAME.finditer(answer) for word in split_words(match.group())}
    if len(words) <= 4:
        heavy.update(words)
    if asks_quantity(question):
        heavy.update(filter(is_number, words))
    telling = [word for word in words if word not in asked and word not in _SMALL_WORDS] or words
    return {word: 1.0 if word in heavy else 0.25 for word in telling}


def named(question: str, answer: str) -> list[frozenset[str]]:
    """The names of an answer in their order, each as its words; words of the question do not count."""
    asked = {_stem(word) for word in split_words(question)} | _SMALL_WORDS
    names = (frozenset(map(_stem, split_words(match.group()))) - asked for match in _NAMES.finditer(answer))
    return [name for name in names if name]


def named_quantities(question: str, answer: str) -> dict[str, set[str]]:
    """Kind (year, month, day, number, unit) → which of it the answer names; numbers of the question are left out."""
    words, asked = split_words(answer), set(split_words(question))
    quantities: dict[str, set[str]] = {}
    for k, word in enumerate(words):
        before, after = words[max(0, k - 1) : k], words[k + 1 : k + 2]
        if word in _MONTHS and any(map(is_number, before + after)):
            quantities.setdefault("month", set()).add(word[:3])
        elif is_number(word) and word not in asked:
            kind = _kind_of_number(word, before, after)
            quantities.setdefault(kind, set()).add(word)
            units = {_UNITS[w] for w in words[k + 1 : k + 3] if w in _UNITS}
            if kind == "number" and units:
                quantities.setdefault("unit", set()).update(units)
    return quantities


def _kind_of_number(number: str, before: tuple[str, ...], after: tuple[str, ...]) -> str:
    if number.isdecimal() and 1000 <= int(number) <= 2100 and not any(word in _UNITS for word in after):
        return "year"
    if number.isdecimal() and int(number) <= 31 and any(word in _MONTHS for word in before + after):
        return "day"
    return "number"


def _number_or_word(word: str) -> str:
    if is_number(word):
        digits = word.replace(",", "")
        return f"{float(digits):.12g}" if digits.count(".") <= 1 and len(digits) < 15 else digits
    return str(_NUMBERS[word]) if word in _NUMBERS else word


def _join_numbers(words: list[str]) -> list[str]:
    """380 thousand → 380000; 8849 m → 8849 metre; 100 °C → 100 celsius."""
    joined: list[str] = []
    for word in words:
        after_number = bool(joined) and is_number(joined[-1])
        if after_number and word in _SCALES and joined[-1].count(".") <= 1:
            joined[-1] = f"{float(joined[-1]) * _SCALES[word]:.12g}"
        elif after_number and word in ("°", "degree", "degrees"):
            continue
        else:
            joined.append(_UNITS[word] if after_number and word in _UNITS else word)
    return joined


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith("ss") else word
