"""Would a Bayesian estimate of the entropy need fewer samples? The idea is that of arXiv 2504.03579.

    python bench/bayes.py runs/*

Samples at temperature 1 are counted by meaning. The distribution over meanings has a Dirichlet prior, the number of
meanings a prior of its own, and no meaning is less likely than its sampled sequences together. The score is the
posterior mean of the entropy; the *adaptive* one stops at the first sample that brings its deviation below a bound.
Prior and bound are chosen on one half of the questions, by a hash of their ids, and told on the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from math import exp
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gammaln

from evidence import CELLS, SAMPLERS, Cell, difference, markdown, question_table, signed
from sdlg.evaluation.results import RunResults, load_run
from sdlg.records import Sample

DRAWS = 400  # of distributions over meanings, for each number of meanings
MOST_MEANINGS = 20
CONCENTRATIONS = (0.1, 0.3, 1.0)
BOUNDS = (0.1, 0.2, 0.3, 0.4)
COUNTS = (2, 4, 6, 10)
METHOD = SAMPLERS["sampling at 1"]


def posterior(counts: Sequence[int], least: Sequence[float], concentration: float) -> tuple[float, float]:
    """The posterior mean and deviation of the entropy, by importance sampling for each number of meanings.

    `counts`: samples of each meaning seen. `least`: what its distinct sequences have together of all probability.
    """
    random = np.random.default_rng(0)
    logs, entropies = [], []
    for meanings in range(len(counts), MOST_MEANINGS + 1):
        powers = np.full(meanings, concentration)
        powers[: len(counts)] += counts
        floor = np.zeros(meanings)
        floor[: len(counts)] = least
        room = 1 - floor.sum()
        proposed = np.maximum(random.dirichlet(powers, size=DRAWS), 1e-300)
        shares = floor + room * proposed
        log_weights = ((powers - 1) * (np.log(shares) - np.log(proposed))).sum(axis=1) + (meanings - 1) * np.log(room)
        proposal = gammaln(powers).sum() - gammaln(powers.sum())
        prior = gammaln(concentration * meanings) - meanings * gammaln(concentration)
        which_are_seen = gammaln(meanings + 1) - gammaln(meanings - len(counts) + 1)
        logs.append(log_weights + proposal + prior + which_are_seen)
        entropies.append(-(shares * np.log(shares)).sum(axis=1))
    log_weights, entropy = np.concatenate(logs), np.concatenate(entropies)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = float(weights @ entropy)
    return mean, float(np.sqrt(weights @ (entropy - mean) ** 2))


def _of_tree(found: Sequence[Sample], draws: Sequence[Sample], concentration: float) -> tuple[float, float]:
    """The estimate from draws, which are counted, and from sequences that were searched for, which are not."""
    meanings = list(dict.fromkeys(one.cluster for one in (*draws, *found)))
    counts = [sum(one.cluster == meaning for one in draws) for meaning in meanings]
    return posterior(counts, _least(meanings, (*found, *draws)), concentration)


def _least(meanings: Sequence[int | None], samples: Sequence[Sample]) -> list[float]:
    """What the distinct sequences of each meaning have together of all probability."""
    masses: dict[tuple[int | None, tuple[int, ...]], float] = {}
    for sample in samples:
        one = sample.generation
        masses[sample.cluster, one.token_ids] = exp(sum(one.logprobs) + sum(one.ending_logprobs))
    least = [sum(mass for (of, _), mass in masses.items() if of == meaning) for meaning in meanings]
    too_much = max(1.0, sum(least) / 0.999)
    return [mass / too_much for mass in least]


def estimates(samples: Sequence[Sample], concentration: float) -> Iterator[tuple[float, float]]:
    """Yield the estimate after each sample."""
    for size in range(1, len(samples) + 1):
        yield _of_tree((), samples[:size], concentration)


def bayesian_table(run: RunResults) -> pd.DataFrame:
    """A line for each question: the usual scores, and the Bayesian ones."""
    rows = question_table(run)
    for concentration in CONCENTRATIONS:
        values = np.array(
            [list(estimates(run.generated[one].methods[METHOD].samples, concentration)) for one in run.ids]
        )  # (questions, samples, 2)
        for n in COUNTS:
            rows[f"Bayes {concentration}, N = {n}"] = values[:, n - 1, 0]
        for bound in BOUNDS:
            is_sure = values[:, :, 1] <= bound
            last = np.where(is_sure.any(axis=1), is_sure.argmax(axis=1), values.shape[1] - 1)
            rows[f"Bayes {concentration}, stops at {bound}"] = values[np.arange(len(last)), last, 0]
            rows[f"sequences of Bayes {concentration}, stops at {bound}"] = last + 1
        for n in COUNTS:
            made = [run.generated[one].methods[SAMPLERS["SDLG"]] for one in run.ids]
            few = [(one.samples[:n], one.draws_beside) for one in made]
            rows[f"Bayes {concentration} on SDLG, N = {n}"] = [_of_tree(*one, concentration)[0] for one in few]
    for n in COUNTS:
        rows[f"discrete entropy, N = {n}"] = run.values(METHOD, "discrete_semantic_entropy", n)
    return rows


def report(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what became of it, as Markdown."""
    chosen, told = ([cell.half(told=told) for cell in cells] for told in (False, True))

    def mean_auroc(score: str) -> float:
        return float(np.mean([cell.auroc(score)[0] for cell in chosen]))

    best = max(CONCENTRATIONS, key=lambda one: mean_auroc(f"Bayes {one}, N = 4"))
    bound = max(BOUNDS, key=lambda one: mean_auroc(f"Bayes {best}, stops at {one}"))
    adaptive = f"Bayes {best}, stops at {bound}"
    scores = [
        *(f"{name}, N = {n}" for name, n in product(("discrete entropy", f"Bayes {best}"), COUNTS)), adaptive,
        *(f"Bayes {best} on SDLG, N = {n}" for n in (4, 10)), "SDLG · SE*_SDLG, the paper's",
        "SDLG · share of other meanings, N = 4", "SDLG · share of other meanings", "perplexity",
    ]  # fmt: skip
    base = "discrete entropy, N = 10"
    yield ", ".join(f"{cell.name} {len(cell.rows)} ({int((1 - cell.wrong).sum())} right)" for cell in told) + "\n"
    yield markdown(
        ["score", *(cell.name for cell in told), "less ten samples, all", "sequences"],
        [
            [
                score,
                *(f"{cell.auroc(score)[0]:.3f}" for cell in told),
                signed(difference(told, score, base)),
                f"{np.mean([cell.rows[f'sequences of {score}'].mean() for cell in told]):.1f}"
                if score == adaptive
                else "",
            ]
            for score in scores
        ],
    )


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    rows = pd.concat([bayesian_table(load_run(folder)) for folder in parser.parse_args().runs])
    cells = [Cell(f"{CELLS[data]}, {model}", some) for (model, data), some in rows.groupby(["model", "cell"])]
    print("\n".join(report(cells)))


if __name__ == "__main__":
    main()
