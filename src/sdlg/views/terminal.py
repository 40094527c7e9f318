"""A result in the terminal: the answer with its words coloured, meanings with mass bars, alternatives, and the cost.

Colour only where there is a terminal to show it (rich decides). Control characters in model text are made visible, so
no answer can play tricks with the terminal.
"""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..formats.results import Result
from ..records import Sample
from ..scoring.alignment import word_at, word_spans
from .reading import cluster_colours, reading, word_shades

_SHADES = ("default", "#b58900", "#cb8a16", "#dc6b16", "bold #dc322f")
_BAR = 20
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
_PICTURES |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)


def visible(text: str) -> str:
    """The text with control and direction-changing characters made visible."""
    return text.translate(_PICTURES)


def print_result(console: Console, result: Result) -> None:
    """The whole view."""
    console.print(terminal_view(result))


def terminal_view(result: Result) -> Group:
    """All parts, one under the other."""
    entropy = Text.assemble(
        ("semantic entropy ", "bold"), (f"{result.semantic_entropy:.2f} nats", "bold"), f" — {reading(result)}"
    )
    parts: list[RenderableType] = [_indented(_answer(result)), Text(), entropy, *_risk(result)]
    parts.append(_indented(_meanings(result)))
    if any(sample.substitution for sample in result.samples):
        parts += [Text("alternatives", "bold"), _indented(_alternatives(result))]
    parts += [Text(f"note: {note}", "yellow") for note in result.notes]
    return Group(*parts, _cost(result))


def _risk(result: Result) -> list[RenderableType]:
    if result.risk is None:
        return []
    probability = "" if result.risk.probability is None else f"risk {result.risk.probability:.2f} — "
    return [Text.assemble((f"{probability}{result.risk.sentence}", "bold"), f", {result.risk.basis}")]


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _folded(text: str) -> Text:
    """Broken where the line ends: a long text without spaces is shown whole."""
    return Text(text, overflow="fold")


def _answer(result: Result) -> Text:
    shown, at, text = Text(), 0, result.answer.text
    if not text:
        return Text("(an empty answer)", "italic")
    for word, shade in zip(result.words, word_shades(result), strict=True):
        shown.append(visible(text[at : word.start]))
        shown.append(visible(word.text), _SHADES[min(int(shade * len(_SHADES)), len(_SHADES) - 1)])
        at = word.end
    return shown.append(visible(text[at:]))


def _meanings(result: Result) -> Table:
    table = Table.grid(padding=(0, 1))
    for cluster in sorted(result.clusters, key=lambda cluster: -cluster.probability):
        bar = Text("█" * max(1, round(_BAR * cluster.probability)), cluster_colours(cluster.id))
        first = visible(result.samples[cluster.members[0]].text) or "(empty)"
        count = f"×{len(cluster.members)}" if len(cluster.members) > 1 else ""
        table.add_row(
            Text(f"{_percent(cluster.probability)}", justify="right"), bar, _folded(first), Text(count, "dim")
        )
    return table


def _alternatives(result: Result) -> Table:
    table = Table.grid(padding=(0, 1))
    for sample in result.samples[1:]:
        change = sample.substitution
        if change is None:
            continue
        mark = Text("●", cluster_colours(sample.cluster or 0))
        table.add_row(mark, Text(_percent(change.importance), justify="right"), _branch_text(result, sample))
    return table


def _branch_text(result: Result, sample: Sample) -> Text:
    """The branch with the changed word marked, in brackets too, for where there is no colour."""
    change, text = sample.substitution, sample.text
    assert change is not None
    if change.ends_answer:
        return _folded(visible(text) or "(empty)").append(" [end]", "bold")
    start = min(_offset(result, change.position), len(text))
    start += len(text[start:]) - len(text[start:].lstrip())
    words = word_spans(text)
    word = word_at(words, start)  # a token may be only the beginning of the new word
    end = start + len(change.replacement) if word is None else words[word][1]
    shown = _folded(visible(text[:start]))
    shown.append("[", "dim").append(visible(text[start:end]), "bold underline").append("]", "dim")
    return shown.append(visible(text[end:]))


def _offset(result: Result, position: int) -> int:
    """Where the answer's token at `position` begins."""
    return sum(len(token) for token in result.tokens[:position])


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"


def _cost(result: Result) -> Text:
    cost = result.cost
    seconds = sum(cost.seconds.values())
    looked_at = "" if result.coverage is None else f"{result.coverage:.1%} of all probability looked at · "
    return Text(
        f"{looked_at}{len(result.samples)} sequences · "
        f"{cost.forward_tokens} tokens in {cost.decode_steps} steps · {cost.nli_pairs} NLI pairs · {seconds:.1f} s",
        "dim",
    )
