"""What was run: data, models, settings, questions skipped and why, right answers for each metric and threshold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ....correctness import AGREEMENT
from ..elements import Block, Paragraph, Section
from ..tables import Table, TableRow
from ..views import FEW, RunView, Target, metric_name

_SENTENCE = 5  # words
_CHANCE = 0.7  # an agreement below it is not worth much
_INTRO = "The settings of each run, what became of its questions, and how many answers are right."


def overview(views: Sequence[RunView]) -> Section:
    """The first section."""
    blocks: list[Block] = [paragraph for view in views for paragraph in _warnings(view)]
    blocks += [_facts(views), _options(views)]
    judged = [view for view in views if view.size]
    if judged:
        blocks += [_right_answers(judged)]
    blocks += [table for table in (_skipped(views), _undefined(judged)) if table.rows]
    return Section("what-was-run", "What was run", _INTRO, tuple(blocks))


# -- settings ---------------------------------------------------------------------------------------------------


def _facts(views: Sequence[RunView]) -> Table:
    facts = [_facts_of(view) for view in views]
    rows = [TableRow((name, *(run[name] for run in facts))) for name in facts[0]]
    return Table("runs", "The runs.", ("", *(view.label for view in views)), tuple(rows))


def _facts_of(view: RunView) -> dict[str, str | int]:
    data = view.run.config.get("data")
    details = data if isinstance(data, Mapping) else {}
    return {
        "data": f"{view.run.data}, {details.get('rows', '?')} rows, sha256 {str(details.get('sha256', '?'))[:12]}",
        "language model": _sized(view, view.run.model, "model"),
        "NLI model": _sized(view, view.run.nli, "nli"),
        "preset": view.run.preset,
        "samplers": "; ".join(view.run.methods),
        "sequences for each question": view.samples,
        "seed": str((view.plan.get("options") or {}).get("seed", "?")),
        "questions that passed all stages": view.size,
        "questions still under way": _under_way(view),
        "questions skipped": len(view.run.skipped),
        "versions": ", ".join(f"{name} {version}" for name, version in sorted(view.run.versions.items())),
        "folder": str(view.run.folder),
    }


def _sized(view: RunView, name: str, which: str) -> str:
    size = view.run.parameters.get(which)
    return f"{name}, {size / 1e6:,.0f} million parameters" if size else name


def _under_way(view: RunView) -> int:
    return len(view.run.generated.keys() - view.run.skipped.keys() - set(view.run.ids))


def _options(views: Sequence[RunView]) -> Table:
    options = [view.plan.get("options") or {} for view in views]
    names = sorted({name for run in options for name in run})
    rows = [TableRow((name, *(_shown(run.get(name, "")) for run in options))) for name in names]
    return Table("options", "Every option.", ("", *(view.label for view in views)), tuple(rows), is_folded=True)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- questions --------------------------------------------------------------------------------------------------


def _warnings(view: RunView) -> Iterator[Paragraph]:
    if not view.size:
        yield Paragraph(
            f"{view.label}: no results yet, since no question has passed all stages ({_stage_counts(view)}; "
            f"{len(view.run.skipped)} skipped). Let the run go on, then make the report again.",
            "warning",
        )
        return
    few = [text for metric in view.metrics if (text := _few_of(view, metric))]
    if few:
        yield Paragraph(
            f"{view.label}: fewer than {FEW} answers of a class for {'; '.join(few)}. AUROCs there say little, "
            "whatever their intervals.",
            "warning",
        )
    yield from _unfit_judge(view)


def _unfit_judge(view: RunView) -> Iterator[Paragraph]:
    """ROUGE and exact match call nearly every sentence wrong that holds the right answer."""
    lengths = [len(answer.text.split()) for name in view.run.ids if (answer := view.run.generated[name].answer)]
    agreement, metric = AGREEMENT.get(view.target.metric), metric_name(view.target.metric)
    if lengths and agreement and np.median(lengths) >= _SENTENCE and agreement.sentences < _CHANCE:
        yield Paragraph(
            f"{view.label}: answers are sentences (median {np.median(lengths):g} words), and {metric} is the judge. Of "
            f"sentences it knows right from wrong hardly better than chance ({agreement.sentences:.2f} against people, "
            "0.5 is chance). Judge the run by the same answer: sdlg eval judge --metrics same_answer --out FOLDER.",
            "warning",
        )


def _stage_counts(view: RunView) -> str:
    done = view.run.generated.keys() - view.run.skipped.keys(), view.run.clustered, view.run.measured, view.run.judged
    names = ("generated", "clustered", "measured", "judged")
    return ", ".join(f"{len(rows)} {name}" for name, rows in zip(names, done, strict=True))


def _few_of(view: RunView, metric: str) -> str:
    """The thresholds at which there are few right or few wrong answers by this metric."""
    smallest = {threshold: min(_counts(view, Target(metric, threshold))) for threshold in view.run.thresholds}
    few = {threshold: count for threshold, count in smallest.items() if count < FEW}
    if len(few) == len(smallest):
        return f"{metric_name(metric)} at every threshold (at most {max(few.values())})"
    listed = ", ".join(f"{threshold:g} ({count})" for threshold, count in few.items())
    return f"{metric_name(metric)} at {listed}" if few else ""


def _counts(view: RunView, target: Target) -> tuple[int, int]:
    verdicts = view.wrong(target)
    return int(np.sum(verdicts == 0)), int(np.sum(verdicts == 1))


def _right_answers(views: Sequence[RunView]) -> Table:
    thresholds = sorted({threshold for view in views for threshold in view.run.thresholds})
    rows = [
        TableRow(
            (
                view.label,
                _metric_label(metric, stock),
                str(AGREEMENT.get(metric, "–")),
                _judged(view, metric, stock),
                *_right(view, metric, thresholds, stock),
            )
        )
        for view in views
        for metric in view.metrics
        for stock in ((True, False) if view.run.has_stock else (True,))
    ]
    columns = ("run", "metric", "agreement", "judged", *(f"≥\u00a0{threshold:g}" for threshold in thresholds))
    caption = "How many answers are right, by the threshold from which a score counts as right."
    note = (
        "Agreement: balanced accuracy against people's verdicts on other answers (EVOUNA, dev), on sentences / on "
        "short answers, at a threshold of 0.5; 0.50 is chance."
    )
    return Table("right-answers", caption, columns, tuple(rows), headings_per_row=2, notes=(note,))


def _metric_label(metric: str, stock: bool) -> str:
    return metric_name(metric) if stock else f"{metric_name(metric)}, without stock references"


def _judged(view: RunView, metric: str, stock: bool) -> int:
    return int(np.sum(~np.isnan(view.run.correctness(metric, stock=stock))))


def _right(view: RunView, metric: str, thresholds: Sequence[float], stock: bool) -> list[int]:
    return [_counts(view, Target(metric, threshold, stock))[0] for threshold in thresholds]


def _skipped(views: Sequence[RunView]) -> Table:
    rows = [
        TableRow((view.label, reason, count))
        for view in views
        for reason, count in sorted(Counter(view.run.skipped.values()).items())
    ]
    return Table("skipped", "Questions that were skipped, and why.", ("run", "reason", "questions"), tuple(rows))


def _undefined(views: Sequence[RunView]) -> Table:
    rows = [
        TableRow((view.label, method, reason, count, ", ".join(measures)))
        for view in views
        for method in view.run.methods
        for (reason, count), measures in _reasons(view, method).items()
    ]
    columns = ("run", "sampler", "reason", "questions", "measures")
    caption = "Measures without a value for some questions. Those questions are left out of the measure's numbers."
    return Table("undefined", caption, columns, tuple(rows), headings_per_row=2, is_folded=True)


def _reasons(view: RunView, method: str) -> dict[tuple[str, int], list[str]]:
    """(reason, questions) → the measures that it holds for."""
    measures: dict[tuple[str, int], list[str]] = {}
    for measure in view.measures(method):
        for reason in sorted(view.run.reasons(method, measure).items()):
            measures.setdefault(reason, []).append(measure)
    return measures
