"""The study of toy_tree.py: every sampler on every tree, every estimator on its samples, and their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from sdlg.clustering import cluster_answers
from sdlg.measures import MeasureInputs, inputs_of
from sdlg.measures.measuring import measure_all
from sdlg.measures.semantic import cluster_counts
from sdlg.measures.shares import Tally, chao_shen_entropy, numbered, share_entropy_estimate
from sdlg.options import Options, options_from
from sdlg.records import Question
from sdlg.sampling import SAMPLERS, SamplingRequest
from toy_model import (
    Array,
    Meaning,
    Random,
    Tree,
    TreeModel,
    TreeNli,
    Words,
    greedy_answer,
    mass_after_end,
    random_tree,
)

QUESTION = Question("?")
SAMPLES = range(2, 21)
SEED = 0


# -- sampling ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """A sampler with its options. `grows`: its first N sequences are what it would give for N."""

    sampler: str
    options: Mapping[str, object] = field(default_factory=dict)
    informed: bool = True
    grows: bool = True


WAYS: Mapping[str, Way] = {
    "SDLG, greedy branches": Way("sdlg"),
    "SDLG, sampled branches": Way("sdlg", {"branch_strategy": "multinomial"}),
    "SDLG, greedy branches, blind": Way("sdlg", informed=False),
    "SDLG, sampled branches, blind": Way("sdlg", {"branch_strategy": "multinomial"}, informed=False),
    "multinomial": Way("multinomial"),
    "arithmetic": Way("arithmetic", grows=False),
    "beam": Way("beam", grows=False),
    "diverse beam": Way("diverse_beam", grows=False),
}


@lru_cache(maxsize=1)
def model_of(tree: Tree) -> TreeModel:
    return TreeModel(tree)


def options_for(tree: Tree, way: Way, samples: int, seed: int) -> Options:
    changes = {
        **way.options,
        "samples": samples,
        "seed": seed,
        "max_tokens": tree.depth + 1,
        "draws": 0,
        "unexplored": 0.0,
    }
    return options_from("default", changes)


def sample(tree: Tree, way: Way, samples: int, seed: int, **changes: object) -> MeasureInputs:
    """As `Pipeline.ask` does: sequences by the sampler, clusters by the NLI model."""
    model, nli = model_of(tree), TreeNli(tree, informed=way.informed, seed=seed)
    options = options_for(tree, way, samples, seed).updated(**changes)
    sampled = SAMPLERS[way.sampler](SamplingRequest(QUESTION, model, nli, options))
    clusters = cluster_answers(QUESTION.text, sampled.texts, nli.judge, options.clustering)
    return replace(inputs_of(sampled.samples), clusters=clusters.numbers)


SHOWN_ENTROPY = ("answer + even draws outside it", "what sdlg ask shows")


def shown_entropy(tree: Tree, count: int, seed: int) -> float:
    """The share entropy of `sdlg ask` from the greedy answer and count − 1 draws: exact mass, Chao and Shen."""
    model, nli = model_of(tree), TreeNli(tree, informed=True, seed=seed)
    options = options_for(tree, Way("sdlg"), 1, seed).updated(draws=count - 1)
    sampled = SAMPLERS["sdlg"](SamplingRequest(QUESTION, model, nli, options))
    texts = (*sampled.texts, *(draw.text for draw in sampled.draws_beside))
    sampled = numbered(sampled, cluster_answers(QUESTION.text, texts, nli.judge, options.clustering).numbers)
    assert sampled.draws is not None
    return share_entropy_estimate(sampled.samples, sampled.draws).value


def sample_each(tree: Tree, way: Way, counts: Sequence[int], seed: int) -> Iterator[tuple[int, MeasureInputs]]:
    if way.grows:
        most = sample(tree, way, max(counts), seed)
        yield from ((count, most.first(count)) for count in counts)
    else:
        yield from ((count, sample(tree, way, count, seed)) for count in counts)


# -- measuring ---------------------------------------------------------------------------------------------------

ESTIMATORS: Mapping[str, str] = {
    "frequency": "discrete_semantic_entropy",
    "proper, unique": "aleatoric_semantic_uncertainty",
    "proper, length-normalised": "semantic_entropy_proper_normalised",
    "SE*_MS (log of the mass)": "semantic_entropy_proper",
    "improper (SE_MS)": "semantic_entropy_improper",
    "importance, length-normalised": "semantic_entropy_sdlg_normalised",
    "SE*_SDLG (log of the mass)": "semantic_entropy_sdlg",
    "branch mass": "semantic_entropy_branch_mass",
}
CHAO_SHEN = "frequency, Chao–Shen"
EXTRA = ("coverage",)
SHOWN = (2, 5, 10, 20)  # numbers of samples in the tables


@dataclass(frozen=True, slots=True)
class Found:
    """Of one tree: the truth, and every estimate."""

    truth: float
    estimates: Mapping[tuple[str, str, int], float]  # way, estimator, N → nats
    generations: Mapping[tuple[str, int], int]  # way, N → how many there were
    coverage: Mapping[tuple[str, int], float]
    after_end: float  # mass that SDLG cannot reach
    plans: Mapping[tuple[str, int], float]


def frequency_chao_shen(samples: MeasureInputs) -> float:
    """Frequency entropy corrected for unseen meanings, as of draws without any answer of known mass."""
    counts = cluster_counts(samples)
    return chao_shen_entropy(Tally(np.zeros_like(counts), counts, 1.0, np.zeros_like(counts)))


def measure_tree(seed: int, ways: Mapping[str, Way] = WAYS, counts: Sequence[int] = tuple(SAMPLES)) -> Found:
    tree = random_tree(np.random.default_rng([SEED, seed]))
    estimates: dict[tuple[str, str, int], float] = {}
    generations: dict[tuple[str, int], int] = {}
    coverage: dict[tuple[str, int], float] = {}
    for name, way in ways.items():
        for count, samples in sample_each(tree, way, counts, seed):
            measured = measure_all(samples, (*ESTIMATORS.values(), *EXTRA)).estimates
            generations[name, count] = len(samples)
            estimates[name, CHAO_SHEN, count] = frequency_chao_shen(samples)
            for label, measure in ESTIMATORS.items():
                if measure in measured:
                    estimates[name, label, count] = measured[measure].value
            if "coverage" in measured:
                coverage[name, count] = measured["coverage"].value
    for count in counts:
        estimates[(*SHOWN_ENTROPY, count)] = shown_entropy(tree, count, seed)
        generations[SHOWN_ENTROPY[0], count] = count
    plans = simulate_plans(tree, seed, counts)
    return Found(tree.semantic_entropy, estimates, generations, coverage, mass_after_end(tree), plans)


@dataclass(frozen=True, slots=True)
class Line:
    """One sampler, estimator and N over all trees, or a third of them; the intervals are 95 %."""

    part: str  # all, or the third by true entropy: low, middle, high
    sampler: str
    estimator: str
    samples: int
    trees: int
    mean_absolute_error: float
    mean_absolute_error_half_width: float
    bias: float
    bias_half_width: float
    spearman: float  # rank correlation of estimate and truth over the trees
    generations: float  # that there were, mean
    coverage: float  # mean; NaN for samplers that do not branch


def summarise(found: Sequence[Found]) -> list[Line]:
    """All trees at every N, and their thirds at some."""
    keys = dict.fromkeys(key for one in found for key in one.estimates)
    lines = [_line("all", found, *key) for key in keys]
    return lines + [_line(name, part, *key) for name, part in thirds(found).items() for key in keys if key[2] in SHOWN]


def thirds(found: Sequence[Found]) -> dict[str, list[Found]]:
    """By true entropy."""
    ordered = sorted(found, key=lambda one: one.truth)
    cuts = [len(found) * k // 3 for k in range(4)]
    return {name: ordered[cuts[k] : cuts[k + 1]] for k, name in enumerate(("low", "middle", "high"))}


def _line(part: str, found: Sequence[Found], sampler: str, estimator: str, samples: int) -> Line:
    having = [one for one in found if (sampler, estimator, samples) in one.estimates]
    values = np.array([one.estimates[sampler, estimator, samples] for one in having])
    truths = np.array([one.truth for one in having])
    errors = values - truths
    generations = float(np.mean([one.generations[sampler, samples] for one in having]))
    coverages = [one.coverage[sampler, samples] for one in having if (sampler, samples) in one.coverage]
    return Line(
        part, sampler, estimator, samples, len(having),
        float(np.abs(errors).mean()), half_width(np.abs(errors)), float(errors.mean()), half_width(errors),
        spearman(values, truths), generations, float(np.mean(coverages)) if coverages else math.nan,
    )  # fmt: skip


def half_width(values: Array) -> float:
    return 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def spearman(one: Array, other: Array) -> float:
    """Correlation of midranks."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(np.corrcoef(_midranks(one), _midranks(other))[0, 1])


def _midranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


# -- what would help: a simulation of other ways to spend N branches, without the package's sampler ----------------

PLANS: Mapping[str, tuple[bool, bool]] = {  # branches after the answer's end, several per stratum
    "one branch per stratum, heaviest first": (False, False),
    "…, and strata after the answer's end": (True, False),
    "several branches in heavy strata": (False, True),
    "both": (True, True),
}


def simulate_plans(tree: Tree, seed: int, counts: Sequence[int]) -> dict[tuple[str, int], float]:
    """Branch mass entropy of each plan. Strata are ordered by their mass, which a sampler knows before it branches."""
    answer, random = greedy_answer(tree), np.random.default_rng([SEED, seed, 1])
    found = {}
    for name, (after_end, several) in PLANS.items():
        strata = _strata(tree, answer, after_end=after_end)
        for count in counts:
            branches = _allocate([sum(one.values()) for one in strata], count - 1, several=several)
            masses = {tree.meanings[answer]: tree.outputs[answer]}
            for stratum, times in zip(strata, branches, strict=True):
                _add_draws(masses, stratum, times, random)
            shares = np.array(list(masses.values())) / sum(masses.values())
            found[name, count] = -float((shares * np.log(np.maximum(shares, 1e-300))).sum())
    return found


def _strata(tree: Tree, answer: Words, *, after_end: bool) -> list[dict[Meaning, float]]:
    """{meaning: mass} of each way to leave the answer, heaviest first. An early end is a stratum of its own."""
    found: dict[Words, dict[Meaning, float]] = {}
    for words, p in tree.outputs.items():
        goes_on = words[: len(answer)] == answer
        if words == answer or p == 0 or (goes_on and not after_end):
            continue
        shared = next((k for k, (a, b) in enumerate(zip(words, answer, strict=False)) if a != b), None)
        at = min(len(words), len(answer)) if shared is None else shared
        masses = found.setdefault((*words[: at + 1], -1) if at == len(words) else words[: at + 1], {})
        masses[tree.meanings[words]] = masses.get(tree.meanings[words], 0.0) + p
    return sorted(found.values(), key=lambda masses: -sum(masses.values()))


def _allocate(masses: list[float], branches: int, *, several: bool) -> list[int]:
    """One for each of the heaviest; or each next one to the stratum whose branches would stand for most."""
    times = [int(not several and k < branches) for k in range(len(masses))]
    for _ in range(branches if several and masses else 0):
        times[max(range(len(masses)), key=lambda k: masses[k] / (times[k] + 1))] += 1
    return times


def _add_draws(masses: dict[Meaning, float], stratum: dict[Meaning, float], times: int, random: Random) -> None:
    whole = sum(stratum.values())
    for k in random.choice(len(stratum), size=times, p=np.array(list(stratum.values())) / whole):
        meaning = list(stratum)[k]
        masses[meaning] = masses.get(meaning, 0.0) + whole / times
