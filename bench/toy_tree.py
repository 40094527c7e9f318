"""Exact toy tree language models: how far is each estimator from the true semantic entropy, for each sampler?

A tree of words, 4 to 6 deep and 4 to 6 wide, with a random next-token distribution at every node, an end included. All
outputs can be enumerated, so p(y), p(c) and the semantic entropy are known. What an output means hangs on the words at
one to three of its places (each word there stands for one of a few concepts); one output in ten means something else
than its words say, as in "Schweitzer did not, but Einstein did". The samplers, the beam search, the candidates, their
ranking, the clustering and the measures are the package's own, with their default options. Only the two models are
toys: a script, and an NLI model that knows the truth.

SDLG's scores see either a noisy gradient of the truth (`informed`: as much noise as signal) or noise only (`blind`).

    python bench/toy_tree.py [--trees 300] [--out docs/results]     # toy_tree.csv and .svg; prints the tables
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from toy_study import (
    CHAO_SHEN,
    ESTIMATORS,
    PLANS,
    SAMPLES,
    SHOWN,
    SHOWN_ENTROPY,
    WAYS,
    Found,
    Line,
    half_width,
    measure_tree,
    summarise,
    thirds,
)

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
TREES = 300


def table(lines: list[Line], shown: tuple[int, ...] = SHOWN) -> str:
    """Mean absolute error ± 95 % (bias) for some N, and the rank correlation at N = 10."""
    at = {(line.sampler, line.estimator, line.samples): line for line in lines}
    rows = [
        f"| sampler | estimator | {' | '.join(f'N = {n}' for n in shown)} | ρ, N = 10 |",
        "|---|---|" + "---|" * (len(shown) + 1),
    ]
    for sampler, estimator in dict.fromkeys((line.sampler, line.estimator) for line in lines):
        found = [at.get((sampler, estimator, n)) for n in shown]
        cells = " | ".join("–" if line is None else _cell(line) for line in found)
        ten = at.get((sampler, estimator, 10))
        rows.append(f"| {sampler} | {estimator} | {cells} | {'–' if ten is None else f'{ten.spearman:.2f}'} |")
    return "\n".join(rows)


def _cell(line: Line) -> str:
    return f"{line.mean_absolute_error:.3f} ± {line.mean_absolute_error_half_width:.3f} ({line.bias:+.2f})"


def best_table(lines: list[Line], counts: Sequence[int] = (2, 3, 5, 7, 10, 15, 20)) -> str:
    """The three smallest errors at each N; blind scores aside."""
    rows = ["| N | smallest error | second | third |", "|---|---|---|---|"]
    for count in counts:
        mine = [line for line in lines if line.samples == count and "blind" not in line.sampler]
        ranked = sorted(mine, key=lambda line: line.mean_absolute_error)[:3]
        cells = " | ".join(
            f"{line.sampler} + {line.estimator}, {line.mean_absolute_error:.3f} "
            f"± {line.mean_absolute_error_half_width:.3f}"
            for line in ranked
        )
        rows.append(f"| {count} | {cells} |")
    return "\n".join(rows)


def sequences_table(lines: list[Line], shown: tuple[int, ...] = SHOWN) -> str:
    """How many sequences there were, and how much of all probability SDLG's stand for."""
    rows = [f"| sampler | {' | '.join(f'N = {n}' for n in shown)} |", "|---|" + "---|" * len(shown)]
    for sampler in WAYS:
        at = {line.samples: line for line in lines if line.sampler == sampler}
        cells = [
            f"{at[n].generations:.1f}" + ("" if math.isnan(at[n].coverage) else f", {at[n].coverage:.3f}")
            for n in shown
        ]
        rows.append(f"| {sampler} | {' | '.join(cells)} |")
    return "\n".join(rows)


def by_entropy_table(found: Sequence[Found], lines: list[Line], count: int = 10) -> str:
    """Mean absolute error within thirds of the trees, by their true entropy."""
    parts = thirds(found)
    heads = [f"{name}: {part[0].truth:.2f}–{part[-1].truth:.2f} nats" for name, part in parts.items()]
    at = {(line.sampler, line.estimator, line.part): line for line in lines if line.samples == count}
    rows = [f"| sampler | estimator | {' | '.join(heads)} |", "|---|---|---|---|---|"]
    for sampler, estimator in (*CONTENDERS, *FURTHER):
        cells = " | ".join(_cell(at[sampler, estimator, part]) for part in parts)
        rows.append(f"| {sampler} | {estimator} | {cells} |")
    return "\n".join(rows)


def paired_table(found: Sequence[Found], counts: Sequence[int] = (5, 10, 20)) -> str:
    """Absolute error of SDLG (sampled branches) + branch mass less that of others, on the same trees."""
    parts = {"all": list(found), **thirds(found)}
    rows = [f"| less the error of | N | {' | '.join(parts)} |", "|---|---|" + "---|" * len(parts)]
    for other in RIVALS:
        for count in counts:
            cells = [_paired_cell(part, (*BRANCH_MASS, count), (*other, count)) for part in parts.values()]
            rows.append(f"| {' + '.join(other)} | {count} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _paired_cell(found: Sequence[Found], one: tuple[str, str, int], other: tuple[str, str, int]) -> str:
    both = [tree for tree in found if one in tree.estimates and other in tree.estimates]
    gaps = [abs(tree.estimates[one] - tree.truth) - abs(tree.estimates[other] - tree.truth) for tree in both]
    return f"{np.mean(gaps):+.3f} ± {half_width(np.array(gaps)):.3f}"


def plans_table(found: Sequence[Found], shown: tuple[int, ...] = SHOWN) -> str:
    rows = [f"| plan | {' | '.join(f'N = {n}' for n in shown)} |", "|---|" + "---|" * len(shown)]
    for plan in PLANS:
        errors = [np.array([one.plans[plan, n] - one.truth for one in found]) for n in shown]
        cells = [f"{abs(e).mean():.3f} ± {half_width(abs(e)):.3f} ({e.mean():+.2f})" for e in errors]
        rows.append(f"| {plan} | {' | '.join(cells)} |")
    return "\n".join(rows)


BRANCH_MASS = ("SDLG, sampled branches", "branch mass")
RIVALS = (
    ("SDLG, sampled branches", "importance, length-normalised"),
    ("SDLG, sampled branches", "proper, unique"),
    ("SDLG, sampled branches", "frequency"),
    ("SDLG, sampled branches", "SE*_SDLG (log of the mass)"),
    ("SDLG, sampled branches, blind", "branch mass"),
    ("multinomial", "frequency"),
    ("multinomial", "frequency, Chao–Shen"),
    ("beam", "proper, unique"),
)


# Each sampler with the estimators that are meant for it.
CONTENDERS = (
    ("SDLG, greedy branches", "branch mass"),
    ("SDLG, sampled branches", "branch mass"),
    ("SDLG, greedy branches", "importance, length-normalised"),
    ("SDLG, greedy branches", "proper, unique"),
    ("multinomial", "frequency"),
    ("multinomial", "frequency, Chao–Shen"),
    ("multinomial", "proper, unique"),
    ("arithmetic", "frequency"),
    ("arithmetic", "frequency, Chao–Shen"),
    SHOWN_ENTROPY,
    ("beam", "proper, unique"),
    ("diverse beam", "proper, unique"),
)
FURTHER = (
    ("SDLG, greedy branches", "frequency"),
    ("SDLG, sampled branches", "frequency"),
    ("SDLG, sampled branches", "frequency, Chao–Shen"),
    ("SDLG, greedy branches", "proper, length-normalised"),
    ("SDLG, greedy branches", "SE*_SDLG (log of the mass)"),
    ("beam", "frequency"),
    ("beam", "proper, length-normalised"),
)
HIGHEST_SHOWN = 1.2


def plot(lines: list[Line], path: Path) -> None:
    """A panel per sampler, a line per estimator; the last panel compares the samplers."""
    import matplotlib

    matplotlib.use("svg" if path.suffix == ".svg" else "agg")
    matplotlib.rcParams.update({"svg.hashsalt": "sdlg", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    at: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        at.setdefault((line.sampler, line.estimator), []).append(line)
    figure, axes = plt.subplots(2, 4, figsize=(17, 8), sharex=True)
    colours = {name: f"C{k}" for k, name in enumerate((*ESTIMATORS, CHAO_SHEN))}
    samplers = [name for name in WAYS if "blind" not in name]
    for axis, sampler in zip(axes.flat, samplers, strict=False):
        for estimator, colour in colours.items():
            if mine := at.get((sampler, estimator)):
                _curve(axis, mine, estimator, colour, wide=estimator == "branch mass")
        axis.set(title=sampler, ylim=(0, HIGHEST_SHOWN))
    last = axes.flat[-1]
    for k, (sampler, estimator) in enumerate(CONTENDERS):
        _curve(last, at[sampler, estimator], f"{sampler} + {estimator}", f"C{k}", wide=estimator == "branch mass")
    last.set(title="each sampler with estimators meant for it", ylim=(0, 1.6))
    last.legend(frameon=False, fontsize=7, loc="upper right")
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.set(xlim=(min(SAMPLES), max(SAMPLES)))
    for axis in axes[-1]:
        axis.set(xlabel="number of sequences N")
    for axis in axes[:, 0]:
        axis.set(ylabel="mean absolute error, nats")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=6, frameon=False, loc="lower center")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _curve(axis, lines: list[Line], label: str, colour: str, *, wide: bool) -> None:  # type: ignore[no-untyped-def]
    samples = np.array([line.samples for line in lines])
    errors = np.array([line.mean_absolute_error for line in lines])
    widths = np.array([line.mean_absolute_error_half_width for line in lines])
    axis.plot(samples, errors, color=colour, label=label, linewidth=2.4 if wide else 1.2)
    axis.fill_between(samples, errors - widths, errors + widths, color=colour, alpha=0.12, linewidth=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=TREES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # the tensors are tiny
    chosen.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    found = [measure_tree(seed) for seed in range(chosen.trees)]
    summary = summarise(found)
    lines = [line for line in summary if line.part == "all"]
    pd.DataFrame(summary).to_csv(chosen.out / "toy_tree.csv", index=False, float_format="%.4f", lineterminator="\n")
    plot(lines, chosen.out / "toy_tree.svg")
    truths = np.array([one.truth for one in found])
    print(f"{len(found)} trees in {time.perf_counter() - started:.0f} s")
    print(f"true semantic entropy: mean {truths.mean():.2f}, {truths.min():.2f} to {truths.max():.2f} nats")
    print(f"mass after the answer's end, which SDLG cannot reach: {np.mean([one.after_end for one in found]):.3f}")
    for title, text in (
        ("smallest errors", best_table(lines)),
        ("mean absolute error ± 95 % (bias), nats", table(lines)),
        ("by true entropy, N = 10", by_entropy_table(found, summary)),
        ("paired differences, nats; below 0: branch mass is closer", paired_table(found)),
        ("simulated plans for branch mass with sampled branches", plans_table(found)),
        ("sequences found, coverage", sequences_table(lines)),
    ):
        print(f"\n{title}\n\n{text}")


if __name__ == "__main__":
    main()
