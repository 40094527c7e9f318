"""The table for whoever must choose: how well each score finds wrong answers, and what it costs.

Scores of the one greedy answer need no samples; perplexity is the cheapest good one, and every other is compared with
it, paired. Where a run has several settings of a sampler, the one that is best on the first half of the questions is
taken, and all numbers of the run are those of the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ... import statistics
from ...resampling import Array
from ...rows import ANSWER
from ..charts import Line, LineChart
from ..columns import Column, column_of, family_of, is_measured
from ..compute import QuestionSamples, drawn_samples, measured_forward_tokens, tokens_shared
from ..elements import Block, Paragraph, Section
from ..tables import Cell, Number, Table, TableRow, undefined
from ..views import RunView, number
from ..wording import said

_INTRO = (
    "What does a score find for what it costs? Every score is compared with the perplexity of the greedy answer, which "
    "costs nothing more than the answer. Error rate: the share of wrong answers among those given, where the least "
    "certain 20 % or 50 % are not given; lower is better. Small print: 95 % intervals of a bootstrap over questions."
)
_NOTES = (
    "Time and tokens are means for a question, the answer included; time is told as a multiple of that of the greedy "
    "answer alone, since seconds hang on the machine and on how many questions were in flight. Sampling as it ran, in "
    "proportion to the tokens where only the first sequences count, and the judge of meaning at the run's seconds for "
    "a pair, for the pairs that were asked. The time of a sentence encoder (SAR, CoCoA of draws) is not in it; P(True) "
    "counts as a second prompt.",
)
_NO_SECONDS = "the run did not record the seconds of each method"
_PERPLEXITY = "perplexity of the answer"
COVERAGES = (0.8, 0.5)
Paired = Callable[[Array, Array, Array], statistics.Difference]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A row of the table. Without a sampler it is of the answer alone, and its point has a colour of its own."""

    label: str
    family: str | None
    measure: str
    samples: int | None = None  # None: all
    clusters: bool = True
    colour: str = ""
    stroke: str = "solid"  # tells apart what one sampler's sequences are measured by


_KINDS = (
    _Kind("likelihood of the answer", None, "G-NLL", colour="green"),
    _Kind(_PERPLEXITY, None, "PPL", colour="grey"),
    _Kind("token entropy of the answer", None, "MTE", colour="orange"),
    _Kind("P(True)", None, "P(True)", colour="purple"),
    _Kind("SAR", "multinomial", "SAR", clusters=False, stroke="dashed"),
    _Kind("CoCoA", "multinomial", "CoCoA_PPL", clusters=False, stroke="dotted"),
    _Kind("semantic entropy, multinomial", "multinomial", "SE*_MS"),
    _Kind("semantic entropy, arithmetic", "arithmetic", "SE*_MS"),
    _Kind("entropy of the shares, arithmetic", "arithmetic", "Chao-Shen", stroke="dashed"),
    _Kind("disagreement, arithmetic", "arithmetic", "disagreement", 6),  # five draws, as many as sdlg ask makes
    _Kind("disagreement, arithmetic", "arithmetic", "disagreement", stroke="dotted"),
    _Kind("semantic entropy, diverse beams", "diverse_beam", "SE*_DBS"),
    _Kind("disagreement, diverse beams", "diverse_beam", "disagreement", stroke="dotted"),
    _Kind("semantic entropy, steered", "steered", "semantic_entropy_self_normalised"),
    _Kind("semantic entropy, SDLG", "sdlg", "SE*_SDLG", 4),
    _Kind("semantic entropy, SDLG", "sdlg", "SE*_SDLG"),
    _Kind("CoCoA, SDLG", "sdlg", "CoCoA_SDLG", 4, stroke="dotted"),
    _Kind("CoCoA, SDLG", "sdlg", "CoCoA_SDLG", stroke="dotted"),
)


@dataclass(frozen=True, slots=True)
class _Scored:
    """A row that the run can fill."""

    kind: _Kind
    column: Column
    samples: int  # 0: the answer alone

    @property
    def label(self) -> str:
        return f"{self.kind.label}, N = {self.samples}" if self.samples else self.kind.label

    def scores(self, view: RunView, n: int | None = None) -> Array:
        """Higher is less certain; with n samples."""
        return view.scores(*self.column.measured, n or self.samples or None)


def against_cost(views: Sequence[RunView]) -> Section:
    """One table, and a figure and a sentence for each run."""
    blocks: list[Block] = [_table(views)]
    for view in views:
        blocks += [_chart(view), Paragraph(f"{view.label}: {_finding(view)}", "finding")]
    return Section("against-cost", "What it finds, and what it costs", _INTRO, tuple(blocks))


# -- rows -------------------------------------------------------------------------------------------------------


def _rows_of(view: RunView) -> list[_Scored]:
    return [scored for kind in _KINDS if (scored := _scored(view, kind)) is not None]


def _scored(view: RunView, kind: _Kind) -> _Scored | None:
    """None where the run does not have it."""
    if kind.family is None:
        methods = [method for method in view.run.methods if is_measured(view, method, kind.measure)]
        return _Scored(kind, Column(kind.label, methods[0], kind.measure), 0) if methods else None
    column, samples = column_of(view, kind.label, kind.family, kind.measure), kind.samples or view.samples
    if not column.is_there or samples > view.samples or (kind.samples is not None and kind.samples == view.samples):
        return None
    return _Scored(kind, column, samples)


def _half(rows: Sequence[_Scored]) -> str:
    """Which questions are told of: not those on which something was chosen."""
    return "second" if any(row.column.is_tuned for row in rows) else "all"


# -- cost -------------------------------------------------------------------------------------------------------


def _tokens(view: RunView, row: _Scored, n: int) -> float:
    """Through the language model, for a question: as measured, for n of the sequences."""
    run = view.run
    costs = [run.generated[name].cost for name in run.ids]
    answer, prompt = (float(np.mean([getattr(c, part) for c in costs])) for part in ("forward_tokens", "prompt_tokens"))
    if not n:
        return answer + prompt * (row.kind.label == "P(True)")
    questions = drawn_samples(view, row.column.method)
    shared, whole = (np.mean([tokens_shared(samples, k) for samples in questions]) for k in (n, view.samples))
    measured = measured_forward_tokens(view, row.column.method) * float(shared / whole)
    return measured if family_of(row.column.method) == "sdlg" else measured + answer - prompt


def _time(view: RunView, row: _Scored, n: int) -> float | None:
    """For a question, as a multiple of the answer's; None where the run did not say."""
    generated = [view.run.generated[name].seconds for name in view.run.ids]
    if not all(ANSWER in seconds and row.column.method in seconds for seconds in generated):
        return None
    answer = float(np.mean([seconds[ANSWER] for seconds in generated]))
    if not n:
        return 2.0 if row.kind.label == "P(True)" else 1.0
    questions, is_sdlg = drawn_samples(view, row.column.method), family_of(row.column.method) == "sdlg"
    new, all_new = (_new_tokens(questions, k, is_sdlg) for k in (n, view.samples))
    sampling = float(np.mean([seconds[row.column.method] for seconds in generated])) * new / max(all_new, 1.0)
    judging = _judging_seconds(view, row.column.method, n) if row.kind.clusters else 0.0
    return (answer + sampling + judging) / answer if answer else None


def _new_tokens(questions: Sequence[QuestionSamples], n: int, is_sdlg: bool) -> float:
    """Tokens of the first n sequences beyond the prompt and, for SDLG, beyond the answer, which is its first."""
    known = [tokens_shared(samples, 1) if is_sdlg else samples.prompt for samples in questions]
    return float(sum(tokens_shared(one, n) - had for one, had in zip(questions, known, strict=True)))


def _judging_seconds(view: RunView, method: str, n: int) -> float:
    """For the pairs of the first n sequences that were asked, at the run's seconds for a pair."""
    clustered = [view.run.clustered[name] for name in view.run.ids]
    pairs = sum(one.nli_pairs for one in clustered)
    each = sum(one.seconds for one in clustered) / pairs if pairs else 0.0
    return each * float(np.mean([one.methods[method].table.asked(n) for one in clustered]))


# -- the table --------------------------------------------------------------------------------------------------


def _table(views: Sequence[RunView]) -> Table:
    rows = [row for view in views for row in _table_rows(view)]
    shares = [
        name for share in COVERAGES for name in (f"error rate, {share:.0%} given", f"−\u00a0perplexity, {share:.0%}")
    ]
    columns = ("run", "score", "AUROC", "−\u00a0perplexity", *shares, "time, × the answer", "tokens", "right")
    tuned = [view.label for view in views if _half(_rows_of(view)) == "second"]
    halves = f" Settings were chosen on the first half and told on the other: {', '.join(tuned)}." if tuned else ""
    caption = f"How well each score finds wrong answers, against what it costs, paired with perplexity.{halves}"
    return Table("against-cost", caption, columns, tuple(rows), headings_per_row=2, notes=_NOTES)


def _table_rows(view: RunView) -> Iterator[TableRow]:
    rows, told = _rows_of(view), _ToldQuestions(view)
    for row in rows:
        time = _time(view, row, row.samples)
        cost = undefined(_NO_SECONDS) if time is None else Number(time, digits=2)
        tokens = Number(_tokens(view, row, row.samples), digits=0)
        yield TableRow((view.label, row.label, *_found(view, row, told), cost, tokens, told.right))


class _ToldQuestions:
    """The questions of a run that its numbers are of: their verdicts, and the scores that others are compared with."""

    def __init__(self, view: RunView) -> None:
        rows = _rows_of(view)
        self.rows = view.part(_half(rows))
        self.wrong = view.wrong(view.target)[self.rows]
        self.baseline = next((row.scores(view)[self.rows] for row in rows if row.kind.label == _PERPLEXITY), None)

    @property
    def right(self) -> str:
        """How many answers are, of those that were judged: what all the intervals hang on."""
        return f"{np.sum(self.wrong == 0)} of {np.sum(~np.isnan(self.wrong))}"


def _found(view: RunView, row: _Scored, told: _ToldQuestions) -> list[Cell]:
    """AUROC, then the error rates, each with its difference to perplexity's; of itself it has none."""
    scores, wrong = row.scores(view)[told.rows], told.wrong
    pairs: list[tuple[Number, Paired]] = [(number(statistics.auroc(scores, wrong)), statistics.paired_difference)]
    pairs += [
        (
            number(statistics.error_at_coverage(scores, wrong, share)),
            partial(statistics.paired_error_difference, coverage=share),
        )
        for share in COVERAGES
    ]
    is_baseline = row.kind.label == _PERPLEXITY
    return [
        cell
        for own, difference in pairs
        for cell in (own, "" if is_baseline else _paired(difference, scores, told.baseline, wrong))
    ]


def _paired(difference: Paired, scores: Array, baseline: Array | None, wrong: Array) -> Number:
    if baseline is None:
        return undefined("the run has no perplexity of the answer", signed=True)
    return number(difference(scores, baseline, wrong), signed=True)


def _finding(view: RunView) -> str:
    """Which scores are above perplexity, said plainly."""
    told = _ToldQuestions(view)
    if told.baseline is None:
        return "the run has no perplexity of the answer to compare with."
    paired = {
        row.label: _paired(statistics.paired_difference, row.scores(view)[told.rows], told.baseline, told.wrong)
        for row in _rows_of(view)
        if row.kind.label != _PERPLEXITY
    }
    above = [f"{label} ({said(one)})" for label, one in paired.items() if one.has_interval and one.low > 0]
    if not above:
        return "nothing is shown to find wrong answers better than the perplexity of the greedy answer."
    return f"better than the perplexity of the greedy answer by AUROC: {'; '.join(above)}."


# -- the figure -------------------------------------------------------------------------------------------------


def _chart(view: RunView) -> LineChart:
    rows = [row for row in _rows_of(view) if not row.samples or row.samples == view.samples]
    has_time = all(_time(view, row, row.samples) is not None for row in rows)
    half = _half(rows)
    lines = tuple(_line(view, row, has_time, half) for row in rows)
    ends = (f"{line.label} {line.y[-1]:.3f} at {line.x[-1]:.3g}" for line in lines)
    unit = "times the time of the answer" if has_time else "tokens through the language model"
    return LineChart(
        f"auroc-cost-{view.slug}",
        f"{view.label}: AUROC against cost",
        f"AUROC against {unit} for a question: {'; '.join(ends)}.",
        f"{unit} for a question",
        "AUROC",
        lines,
        whole_x=False,
    )


def _line(view: RunView, row: _Scored, has_time: bool, half: str) -> Line:
    """A point for a score of the answer alone; for a sampler a line from two sequences to all."""
    steps = range(2, view.samples + 1) if row.samples > 2 else [row.samples]
    costs = [(_time(view, row, n) if has_time else None) or _tokens(view, row, n) for n in steps]
    aurocs = [view.auroc(*row.column.measured, view.target, n or None, half=half) for n in steps]
    reason = next((one.reason for one in aurocs if not one.is_defined), "")
    values = tuple(one.value for one in aurocs)
    return Line(
        row.kind.label,
        tuple(costs),
        values,
        row.kind.colour or row.column.colour,
        row.kind.stroke,
        is_point=not row.samples,
        reason=reason,
    )
