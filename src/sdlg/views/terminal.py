"""A result in the terminal: the answer with its words coloured, meanings with mass bars, alternatives, and the cost.

Colour only where there is a terminal to show it (rich decides). Control characters in model text are made visible, so
no answer can play tricks with the terminal.
"""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..formats.results import Result, interval_text
from ..measures.headline import HEADLINE
from ..records import Sample, Word
from ..scoring.alignment import word_at, word_spans
from .reading import cluster_colours, explanation, judge_line, reading, word_shades

_SHADES = ("default", "#b58900", "#cb8a16", "#dc6b16", "bold #dc322f")
_BAR = 20
_WORD = 24  # characters of a word that is named
ALTERNATIVES = "alternatives, with the probability of the changed word where it stands"
_MUCH = 0.25  # of the probability at a word
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
    verdict = Text(reading(result), "bold")
    parts: list[RenderableType] = [_indented(_answer(result)), Text(), verdict, _entropy(result), *_risk(result)]
    parts += [_indented(_meanings(result)), Text(explanation(result), "dim"), Text(visible(judge_line(result)), "dim")]
    parts += _wavering(result)
    if any(sample.substitution for sample in result.samples):
        parts += [Text(ALTERNATIVES, "bold"), _indented(_alternatives(result))]
    parts += [Text(f"note: {note}", "yellow") for note in result.notes]
    return Group(*parts, _cost(result))


def _entropy(result: Result) -> Text:
    """The headline, its interval, and what it is; then the number that ranks."""
    estimate = result.estimates[HEADLINE]
    interval = "" if estimate.low is None else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    of = "of these percentages" if "estimator" in estimate.options else "the paper's score"
    score = "" if result.score_name == HEADLINE else f"; score {result.score:.2f}"
    entropy = ("semantic entropy ", "bold"), (f"{estimate.value:.2f} nats", "bold"), f"{interval}, {of}"
    return Text.assemble(*entropy, (score, "bold"))


def _wavering(result: Result) -> list[RenderableType]:
    """The word at which the model most likely turns to another meaning, in words, for where there is no colour."""
    words = [word for word in result.words if word.wavering is not None and word.not_looked_at is not None]
    most = max(words, key=lambda word: word.wavering or 0.0, default=None)
    if most is None or not most.wavering:
        return []
    word = most.text if len(most.text) <= _WORD else f"{most.text[:_WORD]}…"
    says = f"wavers most at ‘{visible(word)}’: {_percent(most.wavering)} to another meaning"
    return [Text(f"{says}, {_percent(most.not_looked_at or 0.0)} not looked at", "dim")]


def _risk(result: Result) -> list[RenderableType]:
    if result.risk is None:
        return []
    probability = "" if result.risk.probability is None else f"risk {_risk_percent(result.risk.probability)} — "
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
        shown.append(visible(word.text), _style(word, shade))
        at = word.end
    return shown.append(visible(text[at:]))


def _style(word: Word, shade: float) -> str:
    """Darker where the model turns to another meaning; underlined where much was not looked at."""
    unknown = " underline" if (word.not_looked_at or 0.0) >= _MUCH else ""
    return _SHADES[min(int(shade * len(_SHADES)), len(_SHADES) - 1)] + unknown


def _meanings(result: Result) -> Table:
    table = Table.grid(padding=(0, 1))
    for cluster in sorted(result.clusters, key=lambda cluster: -cluster.share):
        bar = Text("█" * max(1, round(_BAR * cluster.share)), cluster_colours(cluster.id))
        first = visible(result.text_of(cluster)) or "(empty)"
        times = len(cluster.members) + len(cluster.draws)
        share = Text(f"{_percent(cluster.share)}{interval_text(cluster)}", justify="right")
        table.add_row(share, bar, _folded(first), Text(f"×{times}" if times > 1 else "", "dim"))
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


def _risk_percent(risk: float) -> str:
    """No finer than a few hundred judged answers can tell; as on the page."""
    return "<1%" if risk < 0.01 else ">99%" if risk > 0.99 else f"{risk:.0%}"


def _cost(result: Result) -> Text:
    cost = result.cost
    seconds = sum(cost.seconds.values())
    looked_at = "" if result.coverage is None else f"{result.coverage:.1%} of all probability looked at · "
    drawn = f" and {len(result.draws)} draws" if result.draws else ""
    return Text(
        f"{looked_at}{len(result.samples)} sequences{drawn} · "
        f"{cost.forward_tokens} tokens in {cost.decode_steps} steps · {cost.nli_pairs} NLI pairs · {seconds:.1f} s",
        "dim",
    )
