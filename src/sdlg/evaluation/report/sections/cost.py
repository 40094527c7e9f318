"""Compute against the number of samples: analytic FLOPs, and tokens that went through the language model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..charts import Line, LineChart
from ..columns import MULTINOMIAL, SAR, SDLG, Column, named_column
from ..compute import (
    Flops,
    Parameters,
    QuestionSamples,
    Tokens,
    drawn_samples,
    measured_forward_tokens,
    multinomial_flops,
    parameters_of,
    sar_flops,
    sdlg_flops,
    tokens_from_scratch,
    tokens_shared,
)
from ..elements import Block, Paragraph, Section
from ..tables import Number, Table, TableRow, undefined
from ..views import RunView
from ..wording import percent

_INTRO = (
    "FLOPs are 2 · parameters · tokens for the language model, plus the NLI model's gradient and clusters, or SAR's "
    "similarities, counted from the recorded sequences (attention over earlier positions is left out, and so are beams "
    "other than the best). From scratch: every sequence reads the prompt again. Shared prefixes: the prompt is read "
    "once and a branch begins after the word it changes. The smaller the language model, the more the NLI model's part "
    "weighs; with OPT of 2.7 to 30 billion parameters the paper has 15 % (TruthfulQA), 33 % (CoQA) and 21 % (TriviaQA) "
    "fewer FLOPs than multinomial."
)
_NO_SIZES = "the run does not say how many parameters its models have"
_SHARINGS: tuple[tuple[str, str, Tokens], ...] = (
    ("from-scratch", "from scratch", tokens_from_scratch),
    ("shared", "shared prefixes", tokens_shared),
)
Formula = Callable[[QuestionSamples, int, Parameters, Tokens], Flops]
_FORMULAS: tuple[tuple[str, str, Formula], ...] = (
    ("SDLG", SDLG, sdlg_flops),
    ("multinomial", MULTINOMIAL, multinomial_flops),
    ("SAR", SAR, sar_flops),
)


@dataclass(frozen=True, slots=True)
class _Counted:
    """A way to an estimate, with the samples that it needs."""

    name: str
    column: Column
    formula: Formula
    questions: list[QuestionSamples]

    @property
    def has_clusters(self) -> bool:
        """SAR does without, on samples that are multinomial's."""
        return self.name != "SAR"

    def teraflops(self, n: int, sizes: Parameters, tokens: Tokens) -> Flops:
        """Means over the questions."""
        flops = [self.formula(samples, n, sizes, tokens) for samples in self.questions]
        parts = np.mean([(one.generation, one.reading, one.clusters) for one in flops], axis=0) / 1e12
        return Flops(*map(float, parts))

    def mean_tokens(self, n: int, tokens: Tokens) -> float:
        """Through the language model, for a question."""
        return float(np.mean([tokens(samples, n) for samples in self.questions]))


def cost(views: Sequence[RunView]) -> Section:
    """Charts for each run, and one table."""
    blocks: list[Block] = []
    for view in views:
        blocks += _of_run(view)
    return Section("compute", "Compute", _INTRO, (*blocks, _table(views)))


def _of_run(view: RunView) -> Iterator[Block]:
    counted, sizes = _counted(view), parameters_of(view)
    if not counted:
        yield Paragraph(f"{view.label}: the run has neither SDLG nor multinomial samples.")
        return
    if sizes is None:
        yield Paragraph(f"{view.label}: no FLOPs, since {_NO_SIZES}.")
    else:
        yield from (_flops_chart(view, counted, sizes, *sharing) for sharing in _SHARINGS)
    yield _token_chart(view, counted)
    yield Paragraph(f"{view.label}: {cost_words(view)}", "finding")


def _counted(view: RunView) -> list[_Counted]:
    columns = ((name, named_column(view, label), formula) for name, label, formula in _FORMULAS)
    return [
        _Counted(name, column, formula, drawn_samples(view, column.method))
        for name, column, formula in columns
        if column.is_there
    ]


# -- charts -----------------------------------------------------------------------------------------------------


def _flops_chart(
    view: RunView, counted: list[_Counted], sizes: Parameters, name: str, words: str, tokens: Tokens
) -> LineChart:
    steps = tuple(range(1, view.samples + 1))
    lines = [
        line for way in counted for line in _flops_lines(way, steps, [way.teraflops(n, sizes, tokens) for n in steps])
    ]
    ends = (f"{line.label} {line.y[-1]:.3g}" for line in lines)
    return LineChart(
        f"flops-{name}-{view.slug}",
        f"{view.label}: teraflops for each question, {words}",
        f"Mean teraflops for each question with {view.samples} sequences, {words}: {'; '.join(ends)}.",
        "number of sequences",
        "teraflops",
        tuple(lines),
        starts_at_zero=True,
    )


def _flops_lines(way: _Counted, steps: tuple[int, ...], means: list[Flops]) -> Iterator[Line]:
    """All of it; and without the clusters, which the paper does not count."""
    yield Line(way.name, steps, tuple(mean.total for mean in means), way.column.colour, way.column.stroke)
    if way.has_clusters:
        bare = tuple(mean.total - mean.clusters for mean in means)
        yield Line(f"{way.name}, no clusters", steps, bare, way.column.colour, "dotted")


def _token_chart(view: RunView, counted: list[_Counted]) -> LineChart:
    lines = tuple(line for way in counted if way.has_clusters for line in _token_lines(view, way))
    ends = (f"{line.label} {line.y[-1]:.0f}" for line in lines)
    return LineChart(
        f"tokens-{view.slug}",
        f"{view.label}: tokens through the language model for each question",
        f"Mean tokens through the language model with {view.samples} sequences: {'; '.join(ends)}.",
        "number of sequences",
        "tokens",
        lines,
        starts_at_zero=True,
    )


def _token_lines(view: RunView, way: _Counted) -> Iterator[Line]:
    steps, colour = tuple(range(1, view.samples + 1)), way.column.colour
    for (_, words, tokens), stroke in zip(_SHARINGS, ("dotted", "solid"), strict=True):
        yield Line(f"{way.name}, {words}", steps, tuple(way.mean_tokens(n, tokens) for n in steps), colour, stroke)
    measured = measured_forward_tokens(view, way.column.method)
    yield Line(f"{way.name}, measured", (view.samples,), (measured,), colour, is_point=True)


# -- numbers ----------------------------------------------------------------------------------------------------


def _table(views: Sequence[RunView]) -> Table:
    rows = [row for view in views for row in _rows(view)]
    tokens = ("tokens, from scratch", "tokens, shared prefixes", "tokens, measured")
    flops = ("generation, from scratch", "generation, shared prefixes", "scores or similarities", "clusters")
    caption = "Mean cost of a question with all sequences: tokens through the language model, then teraflops."
    notes = ("Measured: as the program ran it, prefixes shared, all beams counted; SDLG with its initial answer.",)
    return Table("compute", caption, ("run", "method", *tokens, *flops), tuple(rows), 2, notes)


def _rows(view: RunView) -> Iterator[TableRow]:
    sizes = parameters_of(view)
    for way in _counted(view):
        tokens = [Number(way.mean_tokens(view.samples, count), digits=0) for _, _, count in _SHARINGS]
        measured = Number(measured_forward_tokens(view, way.column.method), digits=0)
        yield TableRow((view.label, way.name, *tokens, measured, *_flops_numbers(way, view.samples, sizes)))


def _flops_numbers(way: _Counted, n: int, sizes: Parameters | None) -> list[Number]:
    if sizes is None:
        return [undefined(_NO_SIZES)] * 4
    scratch, shared = (way.teraflops(n, sizes, count) for _, _, count in _SHARINGS)
    values = (scratch.generation, shared.generation, shared.reading, shared.clusters)
    return [Number(value, digits=4 if value else 0) for value in values]


def cost_words(view: RunView) -> str:
    """SDLG's cost beside multinomial's, in a sentence."""
    ways, sizes, n = {way.name: way for way in _counted(view)}, parameters_of(view), view.samples
    if not {"SDLG", "multinomial"} <= ways.keys():
        return "SDLG and multinomial sampling cannot be compared, since one of them is not there."
    pair = ways["SDLG"], ways["multinomial"]
    comparisons = [
        f"{_excess(*(way.mean_tokens(n, count) for way in pair))} tokens ({words})" for _, words, count in _SHARINGS
    ]
    if sizes is not None:
        comparisons += [
            f"{_excess(*(way.teraflops(n, sizes, count).total for way in pair))} FLOPs ({words}, clusters included)"
            for _, words, count in _SHARINGS
        ]
    return f"with {n} sequences, SDLG takes, against multinomial sampling, {', '.join(comparisons)}."


def _excess(first: float, second: float) -> str:
    return percent(first / second - 1)
