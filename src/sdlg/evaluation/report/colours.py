"""Colours by meaning, for light and for dark pages. Okabe and Ito's, which colour-blind readers can tell apart.

A chart is drawn in the light theme's colours; on the page each becomes a CSS variable, so that it follows the reader's
theme. Strokes, markers and printed numbers say the same as the colours do.
"""

from __future__ import annotations

from collections.abc import Mapping

# name → (light, dark)
COLOURS: Mapping[str, tuple[str, str]] = {
    "ink": ("#1c1c1a", "#ecebe6"),
    "soft": ("#5c5b56", "#b2b0a8"),
    "grid": ("#dddbd4", "#3b3a37"),
    "surface": ("#fffffe", "#1b1b1a"),
    "blue": ("#0072b2", "#57aee6"),
    "vermillion": ("#d55e00", "#ff8a45"),
    "green": ("#00795a", "#35c79d"),
    "purple": ("#b0558a", "#e79bc8"),
    "orange": ("#9a6a00", "#f0b429"),
    "grey": ("#6f6e69", "#a5a39b"),
}
LEVELS = 6  # shades on each side of a heat map's 0
_MIDDLE = ("#f4f2ec", "#2b2a28")
_POLES = {1: ("#6cb3de", "#17619a"), -1: ("#f2a271", "#9c4710")}  # more is blue, less is orange


def _mixed(start: str, end: str, share: float) -> str:
    pairs = ((int(start[k : k + 2], 16), int(end[k : k + 2], 16)) for k in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def _heat(level: int) -> tuple[str, str]:
    poles = _POLES[1 if level >= 0 else -1]
    light, dark = (_mixed(_MIDDLE[k], poles[k], abs(level) / LEVELS) for k in (0, 1))
    return light, dark


HEAT: Mapping[int, tuple[str, str]] = {level: _heat(level) for level in range(-LEVELS, LEVELS + 1)}


def heat_level(value: float, strongest: float) -> int:
    """Which shade a number has, where one of this size has the strongest."""
    return round(LEVELS * max(-1.0, min(1.0, value / strongest)))


def variable_names() -> dict[str, str]:
    """Light colour → the CSS variable that stands for it."""
    names = {light: f"--{name}" for name, (light, _) in COLOURS.items()}
    return names | {light: _heat_name(level) for level, (light, _) in HEAT.items()}


def theme(number: int) -> dict[str, str]:
    """CSS variable → colour, of the light (0) or the dark (1) theme."""
    named = {f"--{name}": pair[number] for name, pair in COLOURS.items()}
    return named | {_heat_name(level): pair[number] for level, pair in HEAT.items()}


def _heat_name(level: int) -> str:
    return f"--heat-{'m' if level < 0 else 'p'}{abs(level)}"
