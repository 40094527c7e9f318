"""Numbers as people read them: digits, signs, intervals, letters."""

from __future__ import annotations

from .tables import Number


def shown(number: Number) -> str:
    """As many digits as say something; a dash where it is undefined."""
    if not number.is_defined:
        return "–"
    return percent(number.value, number.signed) if number.percent else _decimal(number.value, number, number.digits)


def interval(number: Number) -> str:
    """Its ends; a difference's in full, since it matters on which side of 0 they are."""
    between = " to " if number.signed else "–"
    ends = (number.low, number.high)
    if number.percent:
        return between.join(percent(end, number.signed) for end in ends)
    return between.join(_decimal(end, number, 3 if number.signed else 2) for end in ends)


def said(number: Number) -> str:
    """In a sentence: the number with its interval, or why there is none."""
    if not number.is_defined:
        return f"undefined ({number.reason})"
    return f"{shown(number)} ({interval(number)})" if number.has_interval else shown(number)


def direction(number: Number) -> str:
    """For a difference whose interval excludes 0: on which side it lies."""
    if not (number.signed and number.excludes_zero):
        return ""
    return "above" if number.value > 0 else "below"


def percent(value: float, signed: bool = True) -> str:
    """0.19 → +19 %."""
    return f"{100 * value:{'+' if signed else ''}.0f}\u00a0%".replace("-", "−")


def letter(place: int) -> str:
    """0 → A, 25 → Z, 26 → A2."""
    return f"{chr(65 + place % 26)}{place // 26 + 1 if place >= 26 else ''}"


def _decimal(value: float, number: Number, digits: int) -> str:
    return f"{value:{'+' if number.signed else ''},.{digits}f}".replace("-", "−")
