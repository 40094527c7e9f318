"""What was run, how many answers were right, what was skipped; and some questions with what was sampled."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..correctness import AGREEMENT
from ..frames import stage_counts
from .main_results import MULTINOMIAL, SDLG
from .scores import METRIC_NAMES, RunScores, Target
from .sections import Rows, Section, table

_FEW = 20  # members of a class below which an AUROC says little
_SENTENCE = 5  # words
_HARDLY = 0.7  # an agreement with people below it is little above chance


def overview(runs: Sequence[RunScores]) -> Section:
    """The settings of each run, what became of its questions, and how many answers are right."""
    skipped: Rows = [
        {"run": run.label, "reason": reason, "questions": count}
        for run in runs
        for reason, count in sorted(Counter(run.run.skipped.values()).items())
    ]
    options = {run.label: dict(sorted(run.options.items())) for run in runs}
    return Section(
        "What was run",
        "The settings of each run, what became of its questions, and how many answers are right.",
        [
            *table("runs", "The runs.", _by_name({run.label: _facts(run) for run in runs})),
            *table("right-answers", "How many answers are right, by the threshold from which a score counts as right. "
                   "Agreement: balanced accuracy of the metric against people's verdicts on other answers, on "
                   "sentences / on short answers; 0.50 is chance.", [row for run in runs for row in _right(run)]),
            *table("skipped", "Questions that were skipped, and why.", skipped),
            *table("undefined", "Measures without a value for some questions, which are left out of their numbers.",
                   [row for run in runs for row in _undefined(run)], is_folded=True),
            *table("options", "Every option.", _by_name(options), is_folded=True),
        ],
        warnings=[warning for run in runs for warning in _warnings(run)],
    )  # fmt: skip


def _by_name(runs: dict[str, dict[str, Any]]) -> Rows:
    """Return a row for each name, a column for each run."""
    names = dict.fromkeys(name for facts in runs.values() for name in facts)
    return [{"": name, **{label: str(facts.get(name, "")) for label, facts in runs.items()}} for name in names]


def _facts(run: RunScores) -> dict[str, Any]:
    data, sizes = run.run.config["data"], run.run.parameters
    return {
        "data": f"{run.run.data}, {data.get('rows', '?')} rows, sha256 {str(data.get('sha256', '?'))[:12]}",
        "language model": run.run.model,
        "NLI model": run.run.nli,
        "parameters": " / ".join(f"{size / 1e6:,.0f} M" for name in ("model", "nli") if (size := sizes.get(name))),
        "preset": run.run.preset,
        "methods": "; ".join(run.run.methods),
        "samples": run.samples,
        "questions": len(run.ids),
        "under way": stage_counts(run.run)["generated"] - len(run.ids),
        "skipped": len(run.run.skipped),
        "versions": ", ".join(f"{name} {version}" for name, version in sorted(run.run.versions.items())),
        "folder": str(run.run.folder),
    }


def _counts(run: RunScores, target: Target) -> tuple[int, int]:
    wrong = run.wrong(target)
    return int(np.sum(wrong == 0)), int(np.sum(wrong == 1))


def _right(run: RunScores) -> Iterator[dict[str, Any]]:
    for metric in run.run.metrics:
        for stock in (True, False) if run.run.has_stock else (True,):
            targets = [Target(metric, threshold, stock) for threshold in run.run.thresholds]
            yield {
                "run": run.label,
                "metric": METRIC_NAMES.get(metric, metric) + ("" if stock else ", without stock references"),
                "agreement": str(AGREEMENT.get(metric, "–")),
                "judged": sum(_counts(run, targets[0])),
                **{f"≥ {target.threshold:g}": _counts(run, target)[0] for target in targets},
            }


def _undefined(run: RunScores) -> Iterator[dict[str, Any]]:
    for method in run.run.methods:
        measures: dict[tuple[str, int], list[str]] = {}
        for measure in run.run.measures(method):
            for found in sorted(run.run.reasons(method, measure).items()):
                measures.setdefault(found, []).append(measure)
        for (reason, count), names in measures.items():
            yield {
                "run": run.label,
                "method": method,
                "reason": reason,
                "questions": count,
                "measures": ", ".join(names),
            }


def _warnings(run: RunScores) -> Iterator[str]:
    if not run.ids:
        yield f"{run.label}: no question has passed all stages, so the run has no results here. {why_empty(run)}"
        return
    smallest = min(_counts(run, run.target))
    if smallest < _FEW:
        yield f"{run.label}: only {smallest} answers of a class at {run.target}. AUROCs there say little."
    agreement, words = AGREEMENT.get(run.target.metric), run.questions["answer"].str.split().str.len().median()
    if agreement and words >= _SENTENCE and agreement.sentences < _HARDLY:
        yield (
            f"{run.label}: answers are sentences (median {words:g} words), which {run.target} judges hardly better "
            f"than chance ({agreement.sentences:.2f} against people). Judge the run by the same answer: "
            "sdlg eval judge --metrics same_answer --out FOLDER."
        )


def why_empty(run: RunScores) -> str:
    """Say how far a run without results came, and what to do."""
    stages = stage_counts(run.run)
    done = ", ".join(f"{count} {name}" for name, count in stages.items())
    most = Counter(run.run.skipped.values()).most_common(1)
    why = f" {len(run.run.skipped)} were skipped, mostly since {most[0][0]}." if most else ""
    go_on = f"Let the run go on (sdlg eval --out {run.run.folder}), then make the report again."
    advice = go_on if stages["generated"] or not most else "Start a run on other questions, in another folder."
    return f"Of its questions {done}.{why} {advice}"


# -- examples ---------------------------------------------------------------------------------------------------


def examples(runs: Sequence[RunScores]) -> Section:
    """Some questions side by side: what SDLG and multinomial sampling answered, and which answers mean the same."""
    return Section(
        "Examples",
        "Answers with the same letter mean the same, by the run's own clustering; letters belong to one sampler. The "
        "percentage is the geometric mean of the tokens' probabilities.",
        examples=[example for run in runs for example in _examples(run)],
    )


def _examples(run: RunScores) -> Iterator[dict[str, Any]]:
    columns = [column for label in (SDLG, MULTINOMIAL) if not (column := run.column(label)).reason]
    wrong = run.wrong(run.target)
    for place, why in _chosen(run, wrong).items() if columns else ():
        yield {
            **run.questions.iloc[place][["question", "answer"]],
            "verdict": {0.0: f"right, {run.target}", 1.0: f"wrong, {run.target}"}.get(wrong[place], "not judged"),
            "why": f"{run.label}: {why}",
            "samples": {column.method: _answers(run, run.ids[place], column.method) for column in columns},
        }


def _chosen(run: RunScores, wrong: Any) -> dict[int, str]:
    """Choose three at random (by a hash of their ids), then some that show what goes well and what does not."""
    order = sorted(range(len(run.ids)), key=lambda k: hashlib.sha256(f"example {run.ids[k]}".encode()).digest())
    chosen = dict.fromkeys(order[:3], "at random")
    column = run.column(SDLG)
    scores = np.full(len(run.ids), np.nan) if column.reason else run.scores(column.method, column.measure)
    for verdict, sign, why in ((1, 1, "wrong, and most uncertain"), (1, -1, "wrong, though most certain"),
                               (0, 1, "right, though most uncertain")):  # fmt: skip
        candidates = np.where(np.isfinite(scores) & (wrong == verdict), sign * scores, -np.inf)
        if np.isfinite(candidates).any():
            chosen.setdefault(int(np.argmax(candidates)), f"{why} by {SDLG}")
    return chosen


def _answers(run: RunScores, name: str, method: str) -> Rows:
    rows = run.drawn[(run.drawn["id"] == name) & (run.drawn["method"] == method)]
    letters = {cluster: chr(ord("A") + place % 26) for place, cluster in enumerate(rows["cluster"].unique())}
    return [
        {"meaning": letters[row["cluster"]], "text": row["text"][:400], "likelihood": row["likelihood"],
         "change": f"{row['changed']} → {row['changed_to']}" if row["position"] >= 0 else ""}
        for row in rows.to_dict("records")
    ]  # fmt: skip
