"""A result as a small piece of HTML for notebooks. Model text never reaches the page as HTML."""

from __future__ import annotations

from html import escape

from ..results import Result
from .reading import cluster_colours, reading, word_shades


def notebook_view(result: Result) -> str:
    """The shaded answer, the clusters with mass bars, the reading."""
    rows = "".join(_cluster_row(result, number) for number in range(len(result.clusters)))
    risk = f"<div><b>{escape(result.risk.sentence)}</b>, {escape(result.risk.basis)}</div>" if result.risk else ""
    notes = "".join(f"<div style='opacity:.7'>{escape(note)}</div>" for note in result.notes)
    return (
        f"<div style='font-family:sans-serif;line-height:1.6'><div>{_shaded_answer(result)}</div>"
        f"<div><b>semantic entropy {result.semantic_entropy:.2f} nats</b> — {escape(reading(result))}</div>{risk}"
        f"<table style='border:0'>{rows}</table>{notes}</div>"
    )


def _shaded_answer(result: Result) -> str:
    parts, at, text = [], 0, result.answer.text
    if not text:
        return "<i>(an empty answer)</i>"
    for word, shade in zip(result.words, word_shades(result), strict=True):
        mark = f"<span style='background:rgba(230,159,0,{0.6 * shade:.2f})'>{escape(word.text)}</span>"
        parts += [escape(text[at : word.start]), mark]
        at = word.end
    return "".join([*parts, escape(text[at:])])


def _cluster_row(result: Result, number: int) -> str:
    cluster = result.clusters[number]
    texts = dict.fromkeys(result.samples[n].text for n in cluster.members)
    colour = cluster_colours(number)
    bar = f"<div style='background:{colour};height:.8em;width:{max(1, round(120 * cluster.probability))}px'></div>"
    answers = "<br>".join(escape(text) or "<i>(empty)</i>" for text in texts)
    return f"<tr><td>{cluster.probability:.1%}</td><td>{bar}</td><td style='text-align:left'>{answers}</td></tr>"
