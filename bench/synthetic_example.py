"""The paper's synthetic example: how well a cluster's probability is estimated, against the number of samples.

p(y) = (.15, .1, .3, .45) with clusters {0, 1}, {2, 3}; a second distribution shows what the first one hides. Samples
are independent draws from p. Four estimators of p(c), all functions of how often each output was drawn, n_y:

    Monte Carlo shares       Σ_{y∈c} n_y / N                                          (Eq. 6)
    sum, duplicates counted  m_c = Σ_{y∈c} n_y p(y), m/Σm                             (Eq. 19, normalised)
    sum, unique              m_c = Σ_{y∈c} [n_y > 0] p(y), m/Σm                       (Eq. 21, normalised)
    mean within cluster      m_c = Σ_{y∈c} n_y p(y) / Σ_{y∈c} n_y, m/Σm               (the authors' notebook)

    python bench/synthetic_example.py [--out docs/results]        # synthetic_example.csv and .svg
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
RUNS, MOST_SAMPLES, SEED = 200, 50, 0
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


@dataclass(frozen=True, slots=True)
class Example:
    """Outputs with their probabilities; the first two are cluster 0, the others cluster 1."""

    name: str
    p_y: tuple[float, ...]
    clusters: tuple[int, ...] = (0, 0, 1, 1)

    @property
    def members(self) -> Array:
        """(outputs, clusters), 1 where the output is in the cluster."""
        return np.eye(max(self.clusters) + 1)[list(self.clusters)]

    @property
    def truth(self) -> Array:
        """p(c)."""
        found: Array = np.array(self.p_y) @ self.members
        return found


EXAMPLES = (Example("paper", (0.15, 0.1, 0.3, 0.45)), Example("second", (0.05, 0.35, 0.2, 0.4)))


# -- the estimators: counts (runs, outputs) → p(c), (runs, clusters) ---------------------------------------------


def monte_carlo_shares(counts: Array, example: Example) -> Array:
    return _normalised(counts @ example.members)


def sum_counted(counts: Array, example: Example) -> Array:
    return _normalised((counts * np.array(example.p_y)) @ example.members)


def sum_unique(counts: Array, example: Example) -> Array:
    return _normalised(((counts > 0) * np.array(example.p_y)) @ example.members)


def mean_within_cluster(counts: Array, example: Example) -> Array:
    drawn = counts @ example.members
    return _normalised((counts * np.array(example.p_y)) @ example.members / np.maximum(drawn, 1e-300))


def _normalised(masses: Array) -> Array:
    shares: Array = masses / masses.sum(axis=-1, keepdims=True)
    return shares


Estimator = Callable[[Array, Example], Array]
ESTIMATORS: Mapping[str, Estimator] = {
    "Monte Carlo shares": monte_carlo_shares,
    "sum, duplicates counted": sum_counted,
    "sum, unique": sum_unique,
    "mean within cluster": mean_within_cluster,
}


def limit(estimator: Estimator, example: Example) -> Array:
    """What an estimator tends to with ever more samples: each output is drawn as often as its probability says."""
    shares: Array = estimator(np.array([example.p_y]), example)[0]
    return shares


# -- measuring ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """Of one estimator of p(cluster 0) = truth, over all runs."""

    example: str
    estimator: str
    samples: int
    mean: float
    bias: float
    bias_standard_error: float
    variance: float
    mean_squared_error: float


def measure(example: Example, runs: int = RUNS, most: int = MOST_SAMPLES, seed: int = SEED) -> list[Line]:
    """Each run draws up to `most` samples; its first N are the sample of size N. All estimators see the same draws."""
    draws = np.random.default_rng(seed).choice(len(example.p_y), size=(runs, most), p=example.p_y)
    counts = np.cumsum(np.eye(len(example.p_y))[draws], axis=1)  # (runs, N, outputs)
    return [
        _line(example, name, samples, estimator(counts[:, samples - 1], example)[:, 0])
        for name, estimator in ESTIMATORS.items()
        for samples in range(1, most + 1)
    ]


def _line(example: Example, name: str, samples: int, found: Array) -> Line:
    bias, variance = float(found.mean() - example.truth[0]), float(found.var(ddof=1))
    error = (variance / len(found)) ** 0.5
    squared = float(((found - example.truth[0]) ** 2).mean())
    return Line(example.name, name, samples, float(found.mean()), bias, error, variance, squared)


# -- showing -----------------------------------------------------------------------------------------------------


def plot(lines: list[Line], path: Path) -> None:
    """Bias and variance against N, one row per example."""
    import matplotlib

    matplotlib.use("svg" if path.suffix == ".svg" else "agg")
    matplotlib.rcParams.update({"svg.hashsalt": "sdlg", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(EXAMPLES), 2, figsize=(9, 6), sharex=True)
    for row, example in zip(axes, EXAMPLES, strict=True):
        for name in ESTIMATORS:
            mine = [line for line in lines if (line.example, line.estimator) == (example.name, name)]
            samples = [line.samples for line in mine]
            row[0].plot(samples, [line.bias for line in mine], label=name)
            row[1].plot(samples, [line.variance for line in mine], label=name)
        row[0].axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
        row[0].set(title=f"bias of p(c₀) = {example.truth[0]:g}, p(y) = {example.p_y}", ylabel="bias")
        row[1].set(title="variance", ylabel="variance", ylim=(0, 0.13))
    axes[0][1].legend(frameon=False)
    for axis in axes[-1]:
        axis.set(xlabel="number of samples", xlim=(1, MOST_SAMPLES))
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def table(lines: list[Line]) -> str:
    shown = (2, 5, 10, 20, 50)
    rows = [
        f"| example | estimator | {' | '.join(f'N = {n}' for n in shown)} | limit of the bias |",
        "|---|---|" + "---|" * (len(shown) + 1),
    ]
    at = {(line.example, line.estimator, line.samples): line for line in lines}
    for example in EXAMPLES:
        for name, estimator in ESTIMATORS.items():
            found = [at[example.name, name, n] for n in shown]
            cells = " | ".join(f"{line.bias:+.3f}, {line.variance:.4f}" for line in found)
            bias = limit(estimator, example)[0] - example.truth[0]
            rows.append(f"| {example.name} | {name} | {cells} | {bias + 0.0:+.3f} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    lines = [line for example in EXAMPLES for line in measure(example)]
    pd.DataFrame(lines).to_csv(out / "synthetic_example.csv", index=False, float_format="%.6g", lineterminator="\n")
    plot(lines, out / "synthetic_example.svg")
    print(f"bias, variance of p(c₀) over {RUNS} runs\n\n{table(lines)}")


if __name__ == "__main__":
    main()
