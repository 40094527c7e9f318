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
import csv
import itertools
import math
import re
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdlg.clustering import cluster_answers
from sdlg.estimators import samples_of
from sdlg.estimators.base import Samples
from sdlg.estimators.table import measure_all
from sdlg.models.base import Capabilities, Decoded, Watcher
from sdlg.models.beam_search import beam_search
from sdlg.models.decoding import Start
from sdlg.models.scripted import END, ScriptedModel
from sdlg.nli.base import SAME_TEXT, Sensitivity, Verdict
from sdlg.options import STRATEGIES, Decoding, Options, options_from
from sdlg.records import Cost, Estimate, Prompt, Question
from sdlg.sampling import SAMPLERS, Request, Sampled

Array = NDArray[np.float64]
Words = tuple[int, ...]  # an output or a prefix: the numbers of its words
Meaning = tuple[int, ...]
Random = np.random.Generator

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
QUESTION = Question("?")
SAMPLES = range(2, 21)
TREES, SEED = 300, 0
ODD_OUTPUTS = 0.1  # share of outputs whose meaning is not that of their words
WIDTH = 8  # of the NLI model's embeddings


# -- a tree ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tree:
    """Next-token distributions of all prefixes, and what the outputs mean. The last option of each is the end."""

    distributions: Mapping[Words, Array]  # prefix → (branching + 1,); prefixes of full depth end for certain
    meanings: Mapping[Words, Meaning]
    depth: int
    branching: int
    script: Mapping[str, Mapping[str, float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        named = {
            text_of(prefix): dict(zip([*map(token_of, range(self.branching)), END], p.tolist(), strict=True))
            for prefix, p in self.distributions.items()
        }
        object.__setattr__(self, "script", named)

    @cached_property
    def outputs(self) -> dict[Words, float]:
        """p(y) of every output."""
        found: dict[Words, float] = {}
        level: dict[Words, float] = {(): 1.0}
        for _ in range(self.depth):
            below: dict[Words, float] = {}
            for prefix, mass in level.items():
                *words, end = (mass * self.distributions[prefix]).tolist()
                if prefix:
                    found[prefix] = end
                below.update({(*prefix, word): p for word, p in enumerate(words)})
            level = below
        return {**found, **level}

    @cached_property
    def meaning_masses(self) -> dict[Meaning, float]:
        """p(c)."""
        found: dict[Meaning, float] = {}
        for words, p in self.outputs.items():
            meaning = self.meanings[words]
            found[meaning] = found.get(meaning, 0.0) + p
        return found

    @cached_property
    def semantic_entropy(self) -> float:
        """The truth, in nats."""
        return -math.fsum(p * math.log(p) for p in self.meaning_masses.values() if p > 0)


def greedy_answer(tree: Tree) -> Words:
    words: Words = ()
    while len(words) < tree.depth and (best := int(tree.distributions[words].argmax())) < tree.branching:
        words = (*words, best)
    return words


def mass_after_end(tree: Tree) -> float:
    """Of all outputs that begin with the whole greedy answer and go on: no substitution within it leads there."""
    answer = greedy_answer(tree)
    return math.fsum(p for y, p in tree.outputs.items() if len(y) > len(answer) and y[: len(answer)] == answer)


def token_of(word: int) -> str:
    return " " + "abcdefgh"[word]


def text_of(words: Words) -> str:
    return "".join(map(token_of, words))


def words_of(text: str) -> Words:
    return tuple("abcdefgh".index(word) for word in text.split())


def random_tree(random: Random) -> Tree:
    """Sizes, peakedness, places that matter and concepts are drawn anew for each tree."""
    depth, branching = int(random.integers(4, 7)), int(random.integers(4, 7))
    concentration = float(np.exp(random.uniform(np.log(0.05), np.log(1.0))))  # from nearly certain to undecided
    return make_tree(random, depth, branching, concentration)


def make_tree(random: Random, depth: int, branching: int, concentration: float) -> Tree:
    """Next-token distributions from a symmetric Dirichlet, and random meanings."""
    distributions = {}
    for length in range(depth):
        for prefix in itertools.product(range(branching), repeat=length):
            distributions[prefix] = _next_tokens(random, branching, concentration, may_end=length > 0)
    return Tree(distributions, _random_meanings(random, depth, branching), depth, branching)


def _next_tokens(random: Random, branching: int, concentration: float, *, may_end: bool) -> Array:
    p = random.dirichlet(np.full(branching + may_end, concentration))
    return p if may_end else np.append(p, 0.0)


def _random_meanings(random: Random, depth: int, branching: int) -> dict[Words, Meaning]:
    """The concepts of the words at the places that matter (0 past the end); one output in ten means another's."""
    places = sorted(random.choice(depth, size=int(random.integers(1, 4)), replace=False).tolist())
    concepts = random.integers(1, int(random.integers(3, 5)), size=(depth, branching))  # 2 or 3 concepts a place
    outputs = [words for length in range(1, depth + 1) for words in itertools.product(range(branching), repeat=length)]
    literal = [tuple(int(concepts[k, words[k]]) if k < len(words) else 0 for k in places) for words in outputs]
    odd = random.random(len(outputs)) < ODD_OUTPUTS
    others = random.integers(len(outputs), size=len(outputs))
    return {words: literal[others[n]] if odd[n] else literal[n] for n, words in enumerate(outputs)}


# -- the two models ----------------------------------------------------------------------------------------------


class TreeModel(ScriptedModel):
    """The script of a tree, with the package's beam search on it."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree.script, name="toy-tree")
        self.capabilities = Capabilities(frozenset(STRATEGIES), continues_prefixes=True, alternatives=None)

    def decode(
        self,
        prompt: Prompt,
        prefixes: Many[tuple[int, ...]],
        decoding: Decoding,
        *,
        seed: int | tuple[int, ...] = 0,
        alternatives_above: float | None = None,
        watch: Watcher | None = None,
    ) -> Decoded:
        """Greedy and multinomial as scripted. Beams that the script gives no probability are no hypotheses."""
        if decoding.strategy not in ("beam", "diverse_beam"):
            return super().decode(
                prompt, prefixes, decoding, seed=seed, alternatives_above=alternatives_above, watch=watch
            )
        growth, distinct = ScriptGrowth(self), list(dict.fromkeys(prefixes))
        starts = [Start(prefix, growth.add(prefix), growth.logits(prefix)) for prefix in distinct]
        wanted = [prefixes.count(prefix) for prefix in distinct]
        found = beam_search(
            growth, starts, wanted, decoding, prompt.stop, self.text, min_probability=alternatives_above
        )
        every = [result.continuation for results in found for result in results]
        possible = [c for c in every if math.isfinite(math.fsum((*c.logprobs, c.stop_logprob or 0.0)))]
        return Decoded(tuple(possible), Cost(generated_tokens=sum(c.decisions for c in possible)))


class ScriptGrowth:
    """A `Growth` whose logits are the script's log-probabilities. A node is a path of token ids."""

    def __init__(self, model: TreeModel) -> None:
        self._model = model
        self._size = len(model.vocabulary())
        self._paths: list[tuple[int, ...]] = []

    def add(self, path: tuple[int, ...]) -> int:
        self._paths.append(path)
        return len(self._paths) - 1

    def logits(self, path: tuple[int, ...]) -> Tensor:
        """(V,), in double precision."""
        found = torch.full((self._size,), -math.inf, dtype=torch.float64)
        for option in self._model.next_tokens(self._model.text(path)):
            found[option.token_id] = option.logprob
        return found

    def grow(self, parents: Many[int], tokens: Many[int]) -> tuple[list[int], Tensor]:
        paths = [(*self._paths[parent], token) for parent, token in zip(parents, tokens, strict=True)]
        return [self.add(path) for path in paths], torch.stack([self.logits(path) for path in paths])

    def close(self) -> None:
        """Nothing to leave behind."""

    def adopt(self, node: int) -> bool:
        return False


class TreeNli:
    """Knows what outputs mean: the same meaning entails, another contradicts.

    Words have random embeddings. The gradient at a word points away from the words that would change the meaning of
    the text if they stood there instead, so it is 0 where no word would; to it comes noise of the same mean norm.
    """

    def __init__(self, tree: Tree, *, informed: bool, seed: int) -> None:
        self.name = "toy-nli"
        self.pairs_run = self.gradients_run = 0
        self._tree, self._informed = tree, informed
        self._random = np.random.default_rng([seed, 1])
        self._vectors: Array = np.random.default_rng(seed).standard_normal((tree.branching, WIDTH))

    def judge(self, question: str, pairs: Many[tuple[str, str]]) -> list[Verdict]:
        self.pairs_run += len(pairs)
        return [SAME_TEXT if self._mean_the_same(*pair) else Verdict(1.0, 0.0, 0.0) for pair in pairs]

    def _mean_the_same(self, one: str, other: str) -> bool:
        return self._tree.meanings[words_of(one)] == self._tree.meanings[words_of(other)]

    def sensitivity(self, question: str, answer: str) -> Sensitivity:
        self.gradients_run += 1
        words, spans = words_of(answer), tuple(match.span() for match in re.finditer(r"\S+", answer))
        signal = np.array([self._towards_change(words, place) for place in range(len(words))])  # (words, WIDTH)
        noise = self._random.standard_normal(signal.shape)
        norms = [float(np.linalg.norm(rows, axis=1).mean()) for rows in (signal, noise)]
        gradients = signal + noise * norms[0] / norms[1] if self._informed and norms[0] else noise
        return Sensitivity(spans, self._vectors[list(words)], gradients / 2, gradients / 2)

    def _towards_change(self, words: Words, place: int) -> Array:
        """The sum of z_i − z_j over the words j that would change the meaning here."""
        meanings = self._tree.meanings
        total: Array = np.zeros(WIDTH)
        for other in range(self._tree.branching):
            changed = (*words[:place], other, *words[place + 1 :])
            if meanings[changed] != meanings[words]:
                total = total + self._vectors[words[place]] - self._vectors[other]
        return total

    def embed(self, texts: Many[tuple[str, str]]) -> Array:
        rows: Array = np.array([self._vectors[words_of(surface)[0]] for _, surface in texts])
        return rows


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
    "beam": Way("beam", grows=False),
    "diverse beam": Way("diverse_beam", grows=False),
}


@lru_cache(maxsize=1)
def model_of(tree: Tree) -> TreeModel:
    return TreeModel(tree)


def options_for(tree: Tree, way: Way, samples: int, seed: int) -> Options:
    changes = {**way.options, "samples": samples, "seed": seed, "max_tokens": tree.depth + 1}
    return options_from("default", changes)


def sample(tree: Tree, way: Way, samples: int, seed: int, **changes: object) -> Samples:
    """As `Pipeline.ask` does: sequences by the sampler, clusters by the NLI model."""
    model, nli = model_of(tree), TreeNli(tree, informed=way.informed, seed=seed)
    options = options_for(tree, way, samples, seed).updated(**changes)
    sampled: Sampled = SAMPLERS[way.sampler](Request(QUESTION, model, nli, options))
    texts = [sequence.text for sequence in sampled.sequences]
    clusters = cluster_answers(texts, lambda pairs: nli.judge(QUESTION.text, pairs), options.clustering)
    return samples_of(sampled.sequences, sampled.substitutions, clusters)


def first(samples: Samples, count: int) -> Samples:
    """The first so many of them."""
    cut = {name: getattr(samples, name)[:count] for name in samples.known}
    return replace(samples, **cut)


def sample_each(tree: Tree, way: Way, counts: Many[int], seed: int) -> Iterator[tuple[int, Samples]]:
    if way.grows:
        most = sample(tree, way, max(counts), seed)
        yield from ((count, first(most, count)) for count in counts)
    else:
        yield from ((count, sample(tree, way, count, seed)) for count in counts)


# -- measuring ---------------------------------------------------------------------------------------------------

ESTIMATORS: Mapping[str, str] = {
    "frequency": "semantic_entropy_frequency",
    "frequency, Chao–Shen": "semantic_entropy_chao_shen",
    "proper, counted": "semantic_entropy_proper_counted_total",
    "proper, unique": "semantic_entropy_proper_unique_total",
    "proper, length-normalised": "semantic_entropy_proper_counted_length_normalised",
    "improper (SE_MS)": "SE_MS",
    "improper, total": "semantic_entropy_improper_total",
    "importance": "semantic_entropy_importance_total",
    "importance, length-normalised": "semantic_entropy_importance_length_normalised",
    "importance only (Eq. 8)": "semantic_entropy_importance_only",
    "SE*_SDLG (log of the mass)": "SE*_SDLG",
    "branch mass": "semantic_entropy_branch_mass",
}
EXTRA = ("coverage",)
SHOWN = (2, 5, 10, 20)  # numbers of samples in the tables


@dataclass(frozen=True, slots=True)
class Found:
    """Of one tree: the truth, and every estimate."""

    truth: float
    estimates: Mapping[tuple[str, str, int], float]  # way, estimator, N → nats
    sequences: Mapping[tuple[str, int], int]  # way, N → how many there were
    coverage: Mapping[tuple[str, int], float]
    after_end: float  # mass that SDLG cannot reach
    plans: Mapping[tuple[str, int], float]


def measure_tree(seed: int, ways: Mapping[str, Way] = WAYS, counts: Many[int] = tuple(SAMPLES)) -> Found:
    tree = random_tree(np.random.default_rng([SEED, seed]))
    estimates: dict[tuple[str, str, int], float] = {}
    sequences: dict[tuple[str, int], int] = {}
    coverage: dict[tuple[str, int], float] = {}
    for name, way in ways.items():
        for count, samples in sample_each(tree, way, counts, seed):
            measured = measure_all(samples, (*ESTIMATORS.values(), *EXTRA))
            sequences[name, count] = len(samples)
            for label, measure in ESTIMATORS.items():
                value = measured[measure]
                if isinstance(value, Estimate):
                    estimates[name, label, count] = value.value
            if isinstance(covered := measured["coverage"], Estimate):
                coverage[name, count] = covered.value
    plans = simulate_plans(tree, seed, counts)
    return Found(tree.semantic_entropy, estimates, sequences, coverage, mass_after_end(tree), plans)


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
    sequences: float  # that there were, mean
    coverage: float  # mean; NaN for samplers that do not branch


def summarise(found: Many[Found]) -> list[Line]:
    """All trees at every N, and their thirds at some."""
    keys = dict.fromkeys(key for one in found for key in one.estimates)
    lines = [_line("all", found, *key) for key in keys]
    return lines + [_line(name, part, *key) for name, part in thirds(found).items() for key in keys if key[2] in SHOWN]


def thirds(found: Many[Found]) -> dict[str, list[Found]]:
    """By true entropy."""
    ordered = sorted(found, key=lambda one: one.truth)
    cuts = [len(found) * k // 3 for k in range(4)]
    return {name: ordered[cuts[k] : cuts[k + 1]] for k, name in enumerate(("low", "middle", "high"))}


def _line(part: str, found: Many[Found], sampler: str, estimator: str, samples: int) -> Line:
    having = [one for one in found if (sampler, estimator, samples) in one.estimates]
    values = np.array([one.estimates[sampler, estimator, samples] for one in having])
    truths = np.array([one.truth for one in having])
    errors = values - truths
    sequences = float(np.mean([one.sequences[sampler, samples] for one in having]))
    coverages = [one.coverage[sampler, samples] for one in having if (sampler, samples) in one.coverage]
    return Line(
        part, sampler, estimator, samples, len(having),
        float(np.abs(errors).mean()), half_width(np.abs(errors)), float(errors.mean()), half_width(errors),
        spearman(values, truths), sequences, float(np.mean(coverages)) if coverages else math.nan,
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


def simulate_plans(tree: Tree, seed: int, counts: Many[int]) -> dict[tuple[str, int], float]:
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


# -- showing -----------------------------------------------------------------------------------------------------


def write_csv(lines: list[Line], path: Path) -> None:
    names = list(Line.__dataclass_fields__)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for line in lines:
            values = [getattr(line, name) for name in names]
            writer.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in values])


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


def best_table(lines: list[Line], counts: Many[int] = (2, 3, 5, 7, 10, 15, 20)) -> str:
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
            f"{at[n].sequences:.1f}" + ("" if math.isnan(at[n].coverage) else f", {at[n].coverage:.3f}") for n in shown
        ]
        rows.append(f"| {sampler} | {' | '.join(cells)} |")
    return "\n".join(rows)


def by_entropy_table(found: Many[Found], lines: list[Line], count: int = 10) -> str:
    """Mean absolute error within thirds of the trees, by their true entropy."""
    parts = thirds(found)
    heads = [f"{name}: {part[0].truth:.2f}–{part[-1].truth:.2f} nats" for name, part in parts.items()]
    at = {(line.sampler, line.estimator, line.part): line for line in lines if line.samples == count}
    rows = [f"| sampler | estimator | {' | '.join(heads)} |", "|---|---|---|---|---|"]
    for sampler, estimator in (*CONTENDERS, *FURTHER):
        cells = " | ".join(_cell(at[sampler, estimator, part]) for part in parts)
        rows.append(f"| {sampler} | {estimator} | {cells} |")
    return "\n".join(rows)


def paired_table(found: Many[Found], counts: Many[int] = (5, 10, 20)) -> str:
    """Absolute error of SDLG (sampled branches) + branch mass less that of others, on the same trees."""
    parts = {"all": list(found), **thirds(found)}
    rows = [f"| less the error of | N | {' | '.join(parts)} |", "|---|---|" + "---|" * len(parts)]
    for other in RIVALS:
        for count in counts:
            cells = [_paired_cell(part, (*BRANCH_MASS, count), (*other, count)) for part in parts.values()]
            rows.append(f"| {' + '.join(other)} | {count} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _paired_cell(found: Many[Found], one: tuple[str, str, int], other: tuple[str, str, int]) -> str:
    both = [tree for tree in found if one in tree.estimates and other in tree.estimates]
    gaps = [abs(tree.estimates[one] - tree.truth) - abs(tree.estimates[other] - tree.truth) for tree in both]
    return f"{np.mean(gaps):+.3f} ± {half_width(np.array(gaps)):.3f}"


def plans_table(found: Many[Found], shown: tuple[int, ...] = SHOWN) -> str:
    rows = [f"| plan | {' | '.join(f'N = {n}' for n in shown)} |", "|---|" + "---|" * len(shown)]
    for plan in PLANS:
        errors = [np.array([one.plans[plan, n] - one.truth for one in found]) for n in shown]
        cells = [f"{abs(e).mean():.3f} ± {half_width(abs(e)):.3f} ({e.mean():+.2f})" for e in errors]
        rows.append(f"| {plan} | {' | '.join(cells)} |")
    return "\n".join(rows)


BRANCH_MASS = ("SDLG, sampled branches", "branch mass")
RIVALS = (
    ("SDLG, sampled branches", "importance"),
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
    ("SDLG, greedy branches", "importance"),
    ("SDLG, greedy branches", "proper, unique"),
    ("multinomial", "frequency"),
    ("multinomial", "frequency, Chao–Shen"),
    ("multinomial", "proper, unique"),
    ("beam", "proper, unique"),
    ("diverse beam", "proper, unique"),
)
FURTHER = (
    ("SDLG, greedy branches", "frequency"),
    ("SDLG, sampled branches", "frequency"),
    ("SDLG, sampled branches", "frequency, Chao–Shen"),
    ("SDLG, greedy branches", "proper, length-normalised"),
    ("SDLG, greedy branches", "importance only (Eq. 8)"),
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
    figure, axes = plt.subplots(2, 3, figsize=(13, 8), sharex=True)
    colours = {name: f"C{k}" if k < 10 else ("black", "gold")[k - 10] for k, name in enumerate(ESTIMATORS)}
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
    write_csv(summary, chosen.out / "toy_tree.csv")
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
