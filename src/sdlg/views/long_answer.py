"""A long answer in the terminal: its text with each sentence's share in the margin, and below it what to check."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..records import Sentence
from ..result import MEAN_SENTENCE_ENTROPY, Result, percent, sentence_share, share_text
from .reading import elsewhere_note, meaning_label, reading_of_sentence, sentence_note, short_note, to_check
from .terminal import (
    caveats,
    cost_line,
    details,
    footer,
    indented,
    named_measures,
    notes,
    shade_style,
    summary_line,
    visible,
)

_SHOWN = 3  # sentences to check first, and other meanings of each


def long_view(result: Result, *, verbose: bool) -> Group:
    """Return the answer, a sentence that sums it up, what to check, the headline and a footer."""
    parts: list[RenderableType] = [indented(_margin(result)), Text(), summary_line(result)]
    for one in to_check(result)[: None if verbose else _SHOWN]:
        parts += [indented(_others(one)), *map(indented, named_measures(result.sentence(result.sentences.index(one))))]
    parts.append(_headline(result))
    if note := short_note(result):
        parts.append(Text(f"note: {note}", "yellow"))
    if verbose:
        for number, one in enumerate(result.sentences):
            if one.clusters:
                said = "; ".join(filter(None, (reading_of_sentence(one), elsewhere_note(one))))
                parts += [Text(), Text(f"sentence {number + 1}", "bold")]
                parts += details(result.sentence(number), Text(said, "bold"))
        unknown = (f"{name}: no value, {reason}" for name, reason in result.unavailable.items())
        parts += [Text(), *(Text(visible(line), "dim") for line in unknown), *notes(result), *caveats(result)]
        parts.append(cost_line(result))
    return Group(*parts, footer(result))


def _headline(result: Result) -> Text:
    greatest, mean = result.semantic_entropy, result.estimates[MEAN_SENTENCE_ENTROPY].value
    if greatest != greatest:
        return Text("semantic entropy not known: no sentence was measured")
    told = f"semantic entropy of a sentence: greatest {greatest:.2f}, mean {mean:.2f} nats"
    return Text.assemble(told, (" (higher: less certain)", "dim"))


def _margin(result: Result) -> Table:
    """Every sentence with the share of its own meaning, as the answer has its lines; shaded is what was measured."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for one in result.sentences:
        note = sentence_note(one)
        style = "" if one.is_open else shade_style(one.doubt) if one.clusters else "dim"
        about, measured = one.text[: one.measured_from], one.text[one.measured_from :]
        text = Text(visible(about), overflow="fold").append(visible(measured), style)
        table.add_row(Text(sentence_share(one), "dim"), text.append(f"  ({note})", "dim") if note else text)
    return table


def _others(one: Sentence) -> Table:
    """A sentence, and what the model would else have said."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(share_text(one.clusters[0]), Text(visible(one.text), "bold", overflow="fold"))
    for cluster in [other for other in one.meanings if other.id != 0][:_SHOWN]:
        said = Text(f"or: {meaning_label(cluster)}{visible(cluster.text)}", overflow="fold")
        table.add_row(Text(percent(cluster.share), "dim"), said)
    if one.risk is not None:
        table.add_row("", Text(visible(one.risk.sentence), overflow="fold"))
    if note := elsewhere_note(one):
        table.add_row("", Text(note, "dim", overflow="fold"))
    return table
