"""A result in the terminal: a dozen lines, or with `verbose` everything.

Colour only where there is a terminal to show it (rich decides). Control characters in model text are made visible, so
no answer can play tricks with the terminal.
"""

from __future__ import annotations

import math
from itertools import islice

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..records import Cluster, Estimate, Sample, Word
from ..result import SEMANTIC_ENTROPY, SHARE_ENTROPY, Result, percent, share_text
from ..scoring.alignment import word_at, word_spans
from .reading import (
    cluster_colour,
    entropy_text,
    explanation,
    judge_line,
    meaning_label,
    reading,
    risk_percent,
    setting_that_may_tell,
    short_note,
    word_shades,
)

_SHADES = ("default", "#b58900", "#cb8a16", "#dc6b16", "bold #dc322f")
_BAR = 12
_NAME = 30  # characters of a model's name in the footer
_MEANINGS = 5  # in the short view
_MEASURES = 4
_SHARED = 16  # characters of a beginning that all answers share, before it is left out of a line that is too long
_MUCH = 0.25  # of the probability at a word
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
_PICTURES |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)


def visible(text: str) -> str:
    """Return the text with control and direction-changing characters made visible."""
    return text.translate(_PICTURES)


def print_result(console: Console, result: Result, *, verbose: bool = False) -> None:
    """Print the short view, or everything."""
    if result.sentences:
        from .long_answer import long_view

        console.print(long_view(result, verbose=verbose))
    else:
        console.print(verbose_view(result) if verbose else short_view(result, console.width))


# -- the short view ---------------------------------------------------------------------------------------------


def short_view(result: Result, width: int) -> Group:
    """Return the answer, a sentence, the meanings, the headline and a footer: a dozen lines with a one-line answer."""
    note = short_note(result)
    noted = [Text(f"note: {note}", "yellow")] if note else []
    lines = [*named_measures(result), *noted, footer(result)]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    headline = _headline(result)  # with a promise it may take two lines
    count = _MEANINGS - (cell_len(headline.plain) > width)
    meanings = indented(_short_meanings(result, width, count))
    return Group(indented(_answer(result)), Text(), summary_line(result), meanings, headline, *lines)


def _short_meanings(result: Result, width: int, count: int) -> Table:
    """The largest ones, the answer's own among them, and how many others there are."""
    table, ordered, own = Table.grid(padding=(0, 1)), result.meanings, result.clusters[0]
    shown = ordered if len(ordered) <= count + 1 else ordered[:count]
    if own not in shown:
        shown = (*shown[:-1], own)
    shares = [share_text(cluster) for cluster in shown]
    room = width - 2 - max(map(len, shares)) - _BAR - 3
    for share, cluster in zip(shares, shown, strict=True):
        text = Text(meaning_label(cluster), "dim", no_wrap=True, overflow="ellipsis")
        text.append(Text(_one_line(cluster.text, result.answer.text, room)))
        table.add_row(Text(share, justify="right", no_wrap=True), _bar(cluster), text)
    if rest := [cluster for cluster in ordered if cluster not in shown]:
        together = percent(sum(cluster.share for cluster in rest))
        table.add_row(Text(together, justify="right"), "", Text(f"{len(rest)} more meanings (-v shows them)", "dim"))
    return table


def _one_line(text: str, answer: str, room: int) -> str:
    """Return a text for one line; if it is too long, without the words that it shares with the answer's beginning."""
    line, start = visible(" ".join(text.split())) or "(empty)", 0
    if cell_len(line) <= room or text == answer:
        return line
    for own, other in zip(line.split(" "), visible(answer).split(), strict=False):
        if own != other:
            break
        start += len(own) + 1
    return f"… {line[start:]}" if _SHARED <= start < len(line) else line


def summary_line(result: Result) -> Text:
    """Return the one sentence that sums a result up, with the setting that may tell more."""
    more = setting_that_may_tell(result)
    return Text(reading(result) + (f" (--set {more})" if more else ""), "bold")


def _headline(result: Result) -> Text:
    entropy = entropy_text(result)
    if result.risk is None:
        return Text.assemble(entropy, (" (higher: less certain)", "dim"))
    return Text.assemble((visible(result.risk.sentence), "bold"), f" · {entropy}")


def named_measures(result: Result) -> list[Text]:
    """Return those that were asked for by name, in one line."""
    named = [name for name in result.setup.measures if name in result.estimates or name in result.unavailable]
    values = (f"{name} {_value(result.estimates[name])}" if name in result.estimates else f"{name} –" for name in named)
    more = " (-v shows all)" if len(named) > _MEASURES else ""
    return [Text(" · ".join(islice(values, _MEASURES)) + more)] if named else []


def footer(result: Result) -> Text:
    """Return the last line: which models, how much was looked at, how long it took."""
    model = "given answers" if result.model is None else result.model
    if len(model) > _NAME:
        model = model.rpartition("/")[2].rpartition("#")[2][-_NAME:]
    parts = [model if result.method in ("sdlg", "given") else f"{model}, {result.method}"]
    parts += [] if result.nli is None else [f"judge {result.nli}"]
    parts += [] if result.coverage is None else [f"{percent(result.coverage)} of probability looked at"]
    return Text(visible(" · ".join([*parts, f"{sum(result.cost.seconds.values()):.1f} s"])), "dim")


# -- the verbose view -------------------------------------------------------------------------------------------


def verbose_view(result: Result) -> Group:
    """Return everything that there is to say."""
    return Group(*details(result, summary_line(result)), *caveats(result), cost_line(result), footer(result))


def details(result: Result, summary: Text) -> list[RenderableType]:
    """Return everything about one answer, or one sentence of a long one, which the summary sums up."""
    parts: list[RenderableType] = [indented(_answer(result, unexplored=True)), Text()]
    parts += [summary, indented(_all_meanings(result)), _headline(result), *_risk(result)]
    return [*parts, *_shares(result), *_turns(result), *_alternatives(result), *_measures(result), *notes(result)]


def notes(result: Result) -> list[RenderableType]:
    """Return what is to be known about a result."""
    return [Text(f"note: {visible(note)}", "yellow") for note in result.notes]


def caveats(result: Result) -> list[RenderableType]:
    """Return what the numbers are, and who says what means the same."""
    ranks = "semantic entropy is the paper's score of doubt: higher is less certain, no percentage"
    return [Text(visible(line), "dim") for line in (explanation(result), ranks, judge_line(result))]


def _all_meanings(result: Result) -> Table:
    """Every meaning, and under it its other wordings."""
    table = Table.grid(padding=(0, 1))
    for cluster in result.meanings:
        times = len(cluster.members) + len(cluster.draws)
        share = Text(share_text(cluster), justify="right", no_wrap=True)
        text = Text(overflow="fold").append(meaning_label(cluster), "dim")
        table.add_row(share, _bar(cluster), text.append(visible(cluster.text) or "(empty)"), Text(f"×{times}", "dim"))
        for other in cluster.texts[1:]:
            table.add_row("", "", Padding(_folded(visible(other) or "(empty)", "dim"), (0, 0, 0, 2)), "")
    return table


def _risk(result: Result) -> list[RenderableType]:
    risk = result.risk
    if risk is None:
        return []
    number = "" if risk.probability is None else f"risk of being wrong {risk_percent(risk.probability)}, "
    return [Text(visible(f"{number}{risk.basis}"), "dim")]


def _shares(result: Result) -> list[RenderableType]:
    estimate = result.share_entropy
    return [] if estimate is None else [Text(f"entropy of these percentages {_value(estimate)} nats")]


def _turns(result: Result) -> list[RenderableType]:
    """Where the model most likely turns to another meaning, in words: there may be no colour."""
    words = [word for word in result.words if word.other_meaning]
    most = max(words, key=lambda word: word.other_meaning or 0.0, default=None)
    if most is None:
        return []
    where = (
        f"most likely to turn at ‘{visible(most.text[:40])}’: {percent(most.other_meaning or 0.0)} to another meaning"
    )
    return [Text(f"{where} there, {percent(most.unexplored or 0.0)} unexplored (underlined: a quarter or more)", "dim")]


def _alternatives(result: Result) -> list[RenderableType]:
    """The branches, with the probability of the changed word where it stands, which is no share of a meaning."""
    grown = [sample for sample in result.samples if sample.substitution is not None]
    if not grown:
        return []
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    for sample in grown:
        assert sample.substitution is not None
        chance = Text(percent(sample.substitution.importance), justify="right")
        table.add_row(Text("●", cluster_colour(sample.cluster or 0)), chance, _branch_text(result, sample))
    title = Text("alternatives, with how likely the [changed] word is at its place (no share of a meaning)", "bold")
    return [title, indented(table)]


def _branch_text(result: Result, sample: Sample) -> Text:
    """The branch with the changed word marked, in brackets too, for where there is no colour."""
    change, text = sample.substitution, sample.text
    assert change is not None
    if change.ends_answer:
        return _folded(visible(text) or "(empty)").append(" [end]", "bold")
    start = min(sum(len(token) for token in result.tokens[: change.position]), len(text))
    start += len(text[start:]) - len(text[start:].lstrip())
    words = word_spans(text)
    word = word_at(words, start)  # a token may be only the beginning of the new word
    end = start + len(change.replacement) if word is None else words[word][1]
    shown = _folded(visible(text[:start]))
    shown.append("[", "dim").append(visible(text[start:end]), "bold underline").append("]", "dim")
    return shown.append(visible(text[end:]))


def _measures(result: Result) -> list[RenderableType]:
    """The measures that were asked for, and why others have no value."""
    table = Table.grid(padding=(0, 2))
    for name, estimate in result.estimates.items():
        if name not in (SEMANTIC_ENTROPY, SHARE_ENTROPY):
            table.add_row(name, Text(_value(estimate), justify="right"), Text(estimate.unit, "dim"))
    for name, reason in result.unavailable.items():
        table.add_row(name, Text("–", justify="right"), Text(visible(reason), "dim"))
    return [Text("measures", "bold"), indented(table)] if table.row_count else []


def _value(estimate: Estimate) -> str:
    interval = "" if estimate.low is None or estimate.high is None else f" ({estimate.low:.2f}–{estimate.high:.2f})"
    return "not known" if math.isnan(estimate.value) else f"{estimate.value:.2f}{interval}"


def cost_line(result: Result) -> Text:
    """Return what the result cost."""
    measured = [one for one in result.sentences if one.clusters]
    cost, samples = result.cost, sum(len(one.samples) for one in measured) or len(result.samples)
    draws = sum(len(one.draws) for one in measured) or len(result.draws)
    sequences = f"{samples} sequences" + (f" and {draws} draws" if draws else "")
    run = f"{cost.forward_tokens} tokens in {cost.decode_steps} steps"
    return Text(f"{sequences} · {run} · {cost.nli_pairs} pairs of answers judged · seed {result.options.seed}", "dim")


# -- parts of both ----------------------------------------------------------------------------------------------


def _answer(result: Result, *, unexplored: bool = False) -> Text:
    shown, at, text = Text(overflow="fold"), 0, result.answer.text
    if not text:
        return Text("(an empty answer)", "italic")
    for word, shade in zip(result.words, word_shades(result), strict=True):
        shown.append(visible(text[at : word.start]))
        shown.append(visible(word.text), _style(word, shade, unexplored=unexplored))
        at = word.end
    return shown.append(visible(text[at:]))


def _style(word: Word, shade: float, *, unexplored: bool) -> str:
    """Stronger where the model turns to another meaning; underlined where much was left unexplored."""
    line = " underline" if unexplored and (word.unexplored or 0.0) >= _MUCH else ""
    return shade_style(shade) + line


def shade_style(shade: float) -> str:
    """Return the colour of a doubt from 0 to 1."""
    return _SHADES[min(int(shade * len(_SHADES)), len(_SHADES) - 1)]


def _bar(cluster: Cluster) -> Text:
    bar = "█" * round(_BAR * cluster.share) or "▏"
    return Text(bar, cluster_colour(cluster.id), no_wrap=True)


def indented(part: RenderableType) -> Padding:
    """Return a part, two columns to the right."""
    return Padding(part, (0, 0, 0, 2))


def _folded(text: str, style: str = "") -> Text:
    """Break where the line ends: a long text without spaces is shown whole."""
    return Text(text, style, overflow="fold")
