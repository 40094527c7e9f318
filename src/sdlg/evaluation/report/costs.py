"""What scores cost: tokens and FLOPs against the number of samples, and AUROC against time or tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import statistics
from .compute import count_flops, count_tokens
from .curves import N
from .figures import lines
from .main_results import MULTINOMIAL, SDLG
from .scores import Column, RunScores, number
from .sections import Rows, Section, chart, table

# -- compute ----------------------------------------------------------------------------------------------------

_WAYS = {"SDLG": SDLG, "multinomial": MULTINOMIAL, "SAR": "SAR"}
_SHARINGS = {"from_scratch": "from scratch", "shared": "shared prefixes"}


def tokens_of(run: RunScores, method: str) -> pd.DataFrame:
    """Return the token counts of a method's samples, for each question and number of samples."""
    drawn = run.drawn[run.drawn["method"] == method]
    characters = drawn["text"].str.len().sum()
    rate = drawn["tokens"].sum() / characters if characters else 0.25  # tokens per character
    return count_tokens(drawn.assign(prompt=drawn["prompt_tokens"], question=rate * drawn["question"].str.len()))


def compute(runs: Sequence[RunScores]) -> Section:
    """Tokens and FLOPs against the number of samples."""
    rows = [row for run in runs for way in _WAYS for row in _counted(run, way)]
    last = {run.label: run.samples for run in runs}
    drawn = [row for row in rows if not row["way"].startswith("SAR")]  # SAR's samples are multinomial
    sizes = {run.label: run.run.parameters for run in runs}
    unsized = [label for label, known in sizes.items() if not (known.get("model") and known.get("nli"))]
    return Section(
        "Compute",
        "FLOPs are 2 · parameters · tokens for the language model, plus the NLI model's gradient and clusters, or "
        "SAR's similarities. From scratch: every sample reads the prompt again. Shared prefixes: the prompt is read "
        "once and a branch begins after the word it changes. Measured: tokens as it ran, all beams counted.",
        table("compute", "Mean cost of a question with all samples.", [r for r in rows if r[N] == last[r["run"]]]),
        [
            *chart("flops", "Mean teraflops of a question", rows, "teraflops",
                   partial(lines, x=N, y="teraflops", by="way", from_zero=True)),
            *chart("tokens", "Mean tokens of a question through the language model", drawn, "tokens",
                   partial(lines, x=N, y="tokens", by="way", from_zero=True)),
        ],
        [f"{name}: no FLOPs, since the run does not say how many parameters its models have." for name in unsized],
    )  # fmt: skip


def _counted(run: RunScores, way: str) -> Iterator[dict[str, Any]]:
    """Yield the means over the questions for each number of samples."""
    column = run.column(_WAYS[way])
    model, nli = (run.run.parameters.get(name) or np.nan for name in ("model", "nli"))
    for sharing, words in _SHARINGS.items() if not column.reason else ():
        counts = tokens_of(run, column.method)
        flops = count_flops(counts, way, model, nli, sharing).groupby("sample").mean() / 1e12
        for n, tokens in counts.groupby("sample")[sharing].mean().items():
            measured = _of_method(run, column.method, "forward_tokens") if n == run.samples else np.nan
            yield {"run": run.label, "way": f"{way}, {words}", N: n, "tokens": tokens, "tokens, measured": measured,
                   **flops.loc[n].add_prefix("teraflops of ").rename({"teraflops of all": "teraflops"})}  # fmt: skip


def _of_method(run: RunScores, method: str, what: str) -> float:
    return float(run.costs.loc[run.costs["method"] == method, what].mean(skipna=False))


# -- AUROC against cost -----------------------------------------------------------------------------------------

_PERPLEXITY = "perplexity of the answer"
_TIME = "time, × the answer"


class _Kind(NamedTuple):
    """A row of the table: a measure of a sampler's first samples (None: all), or of the answer alone."""

    label: str
    measure: str
    sampler: str = ""
    samples: int | None = None


_KINDS = (
    _Kind("likelihood of the answer", "G-NLL"),
    _Kind(_PERPLEXITY, "PPL"),
    _Kind("token entropy of the answer", "MTE"),
    _Kind("P(True)", "P(True)"),
    _Kind("SAR", "SAR", "multinomial"),
    _Kind("CoCoA", "CoCoA_PPL", "multinomial"),
    _Kind("semantic entropy, multinomial", "SE*_MS", "multinomial"),
    _Kind("semantic entropy, arithmetic", "SE*_MS", "arithmetic"),
    _Kind("entropy of the shares, arithmetic", "Chao-Shen", "arithmetic"),
    _Kind("disagreement, arithmetic", "disagreement", "arithmetic", 6),  # five draws, as many as sdlg ask makes
    _Kind("disagreement, arithmetic", "disagreement", "arithmetic"),
    _Kind("semantic entropy, diverse beams", "SE*_DBS", "diverse_beam"),
    _Kind("disagreement, diverse beams", "disagreement", "diverse_beam"),
    _Kind("semantic entropy, SDLG", "SE*_SDLG", "sdlg", 4),
    _Kind("semantic entropy, SDLG", "SE*_SDLG", "sdlg"),
    _Kind("CoCoA, SDLG", "CoCoA_SDLG", "sdlg", 4),
    _Kind("CoCoA, SDLG", "CoCoA_SDLG", "sdlg"),
)
_NO_CLUSTERS = ("SAR", "CoCoA")
Scored = tuple[_Kind, Column, int]  # with the number of samples; 0: the answer alone


def against_cost(runs: Sequence[RunScores]) -> Section:
    """How well each score finds wrong answers, and what it costs."""
    rows, points, notes = [], [], []
    for run in runs:
        scored = [one for kind in _KINDS if (one := _scored(run, kind))]
        half = "second" if any(column.is_tuned for _, column, _ in scored) else "all"
        if half == "second":
            notes.append(f"{run.label}: settings were chosen on the first half; these numbers are of the other half.")
        found = list(_found(run, scored, half))
        notes.append(f"{run.label}: {_finding(found)}")
        rows += found
        points += [point for one in scored for point in _points(run, one, half)]
    unit = _TIME if points and all(np.isfinite(point[_TIME]) for point in points) else "tokens"
    return Section(
        "What it finds, and what it costs",
        "Every score is compared with the perplexity of the greedy answer, which costs nothing more than the answer. "
        "Error rate: the share of wrong answers among those given, where the least certain 20 % or 50 % are not given; "
        "lower is better. Time and tokens are means of a question, the answer included. The time of a sentence encoder "
        "(SAR, CoCoA of draws) is not in it; P(True) counts as a second prompt.",
        table("against-cost", "AUROC, error rates and their paired differences to perplexity, against cost.", rows),
        chart("auroc-cost", f"AUROC against {unit}", points, "AUROC", partial(lines, x=unit, y="AUROC", by="score")),
        notes,
    )


def _scored(run: RunScores, kind: _Kind) -> Scored | None:
    """Return None where the run does not have it."""
    if not kind.sampler:
        methods = [method for method in run.run.methods if run.has(method, kind.measure)]
        return (kind, Column(kind.label, methods[0], kind.measure), 0) if methods else None
    column, samples = run.column(kind.label, kind.sampler, kind.measure), kind.samples or run.samples
    is_there = not column.reason and samples <= run.samples and kind.samples != run.samples
    return (kind, column, samples) if is_there else None


def _cost(run: RunScores, kind: _Kind, method: str) -> pd.DataFrame:
    """Return mean tokens and time of a question with n samples: as measured, in proportion to the samples' tokens."""
    answer, prompt = (run.questions[name].mean() for name in ("answer_tokens", "prompt_tokens"))
    seconds = run.questions["answer_seconds"].mean(skipna=False) or np.nan
    if not kind.sampler:
        prompts = int(kind.label == "P(True)")
        return pd.DataFrame({"tokens": answer + prompts * prompt, _TIME: 1 + prompts + 0 * seconds}, index=[0])
    counts, is_sdlg = tokens_of(run, method), kind.sampler == "sdlg"
    shared = counts.groupby("sample")["shared"].mean()
    tokens = _of_method(run, method, "forward_tokens") * shared / shared[run.samples]
    new = shared - (shared[1] if is_sdlg else prompt)  # SDLG's first sample is the answer
    sampling = _of_method(run, method, "seconds") * new / max(new[run.samples], 1.0 / len(run.ids))
    pairs = run.questions["nli_pairs"].sum()
    each = run.questions["cluster_seconds"].sum() / pairs if pairs and kind.label not in _NO_CLUSTERS else 0.0
    asked = run.drawn[run.drawn["method"] == method].groupby("sample")["asked_pairs"].mean()
    time = (seconds + sampling + each * asked) / seconds
    return pd.DataFrame({"tokens": tokens if is_sdlg else tokens + answer - prompt, _TIME: time})


def _found(run: RunScores, scored: list[Scored], half: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each score: AUROC and error rates, their differences to perplexity's, and the cost."""
    rows = run.parts[half]
    wrong = run.wrong(run.target)[rows]
    values = [run.scores(column.method, column.measure, n or None)[rows] for _, column, n in scored]
    baseline = next((own for own, (kind, _, _) in zip(values, scored, strict=True) if kind.label == _PERPLEXITY), None)
    for own, (kind, column, n) in zip(values, scored, strict=True):
        rival = baseline if baseline is not None and own is not baseline else np.full(len(own), np.nan)
        row: dict[str, Any] = {"run": run.label, "score": f"{kind.label}, N = {n}" if n else kind.label}
        row |= number("AUROC", statistics.auroc(own, wrong))
        row |= _paired("− perplexity", statistics.paired_difference(own, rival, wrong))
        for share in (0.8, 0.5):
            row |= number(f"error rate, {share:.0%} given", statistics.error_at_coverage(own, wrong, share))
            gap = statistics.paired_error_difference(own, rival, wrong, share)
            row |= _paired(f"− perplexity, {share:.0%}", gap)
        right = f"{np.sum(wrong == 0)} of {np.sum(~np.isnan(wrong))}"
        yield {**row, **_cost(run, kind, column.method).loc[n], "right": right}


def _paired(name: str, figure: statistics.Figure) -> dict[str, float | str]:
    """Return the cells of a difference; none of a run without perplexity, which a note says."""
    return {**number(name, figure), f"{name} reason": figure.reason if figure.n else ""}


def _points(run: RunScores, scored: Scored, half: str) -> Iterator[dict[str, Any]]:
    """Yield a point for a score of the answer alone; for a sampler, one for each number of samples from 2 on."""
    kind, column, samples = scored
    if samples in (0, run.samples):
        cost = _cost(run, kind, column.method)
        for n in cost.index if samples < 3 else cost.index[1:]:
            auroc = run.auroc(column, run.target, n or None, half, 0).value
            yield {"run": run.label, "score": kind.label, "samples": n, **cost.loc[n], "AUROC": auroc}


def _finding(rows: Rows) -> str:
    """Say which scores are above perplexity."""
    if not any(np.isfinite(row["− perplexity"]) for row in rows):
        return "nothing can be compared with the perplexity of the answer."
    above = [f"{row['score']} ({row['− perplexity']:+.3f})" for row in rows if row["− perplexity low"] > 0]
    return f"better than perplexity by AUROC, with an interval that excludes 0: {'; '.join(above) or 'none'}."
