"""The toys of toy_tree.py: a tree of words that is a language model, and an NLI model that knows what outputs mean."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdlg.models.base import Capabilities, Decoded, DecodeRequest
from sdlg.models.decoding.beam_search import beam_search
from sdlg.models.decoding.paths import Start
from sdlg.models.scripted import END, ScriptedModel
from sdlg.nli.base import SAME_TEXT, InputGradients, Judged, NliProbabilities
from sdlg.options import STRATEGIES
from sdlg.records import Cost

Array = NDArray[np.float64]
Words = tuple[int, ...]  # an output or a prefix: the numbers of its words
Meaning = tuple[int, ...]
Random = np.random.Generator

ODD_OUTPUTS = 0.1  # share of outputs whose meaning is not that of their words
WIDTH = 8  # of the NLI model's embeddings


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


class TreeModel(ScriptedModel):
    """The script of a tree, with the package's beam search on it."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree.script, name="toy-tree")
        self.capabilities = Capabilities(frozenset(STRATEGIES), continues_prefixes=True, alternatives=None)

    def decode(self, request: DecodeRequest) -> Decoded:
        """Greedy and multinomial as scripted. Beams that the script gives no probability are no hypotheses."""
        prefixes, decoding = list(request.prefixes), request.decoding
        if decoding.strategy not in ("beam", "diverse_beam"):
            return super().decode(request)
        tree, distinct = ScriptGrowth(self), list(dict.fromkeys(prefixes))
        starts = [Start(prefix, tree.add(prefix), tree.logits(prefix)) for prefix in distinct]
        wanted = [prefixes.count(prefix) for prefix in distinct]
        found = beam_search(
            tree, starts, wanted, decoding, request.prompt.stop, self.text, min_probability=request.alternatives_above
        )
        every = [result.continuation for results in found for result in results]
        possible = [c for c in every if math.isfinite(math.fsum((*c.logprobs, c.stop_logprob or 0.0)))]
        return Decoded(tuple(possible), Cost(generated_tokens=sum(c.decisions for c in possible)))


class ScriptGrowth:
    """A `KVTree` whose logits are the script's log-probabilities. A node is a path of token ids."""

    def __init__(self, model: TreeModel) -> None:
        self._model = model
        self._size = len(model.tokens)
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

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        paths = [(*self._paths[parent], token) for parent, token in zip(parents, tokens, strict=True)]
        return [self.add(path) for path in paths], torch.stack([self.logits(path) for path in paths])

    def prune(self, nodes: Sequence[int]) -> None:
        """There is room for all of them."""

    def close(self) -> None:
        """Nothing to leave behind."""

    def keep_path(self, node: int) -> bool:
        return False


class TreeNli:
    """Knows what outputs mean: the same meaning entails, another contradicts.

    Words have random embeddings. The gradient at a word points away from the words that would change the meaning of
    the text if they stood there instead, so it is 0 where no word would; to it comes noise of the same mean norm.
    """

    def __init__(self, tree: Tree, *, informed: bool, seed: int) -> None:
        self.name = "toy-nli"
        self.parameters: int | None = None
        self._tree, self._informed = tree, informed
        self._random = np.random.default_rng([seed, 1])
        self._vectors: Array = np.random.default_rng(seed).standard_normal((tree.branching, WIDTH))

    def judge(self, question: str, pairs: Sequence[tuple[str, str]]) -> Judged:
        verdicts = [SAME_TEXT if self._mean_the_same(*pair) else NliProbabilities(1.0, 0.0, 0.0) for pair in pairs]
        return Judged(tuple(verdicts), Cost(nli_pairs=len(pairs)))

    def _mean_the_same(self, one: str, other: str) -> bool:
        return self._tree.meanings[words_of(one)] == self._tree.meanings[words_of(other)]

    def input_gradients(self, question: str, answer: str) -> InputGradients:
        words, spans = words_of(answer), tuple(match.span() for match in re.finditer(r"\S+", answer))
        signal = np.array([self._towards_change(words, place) for place in range(len(words))])  # (words, WIDTH)
        noise = self._random.standard_normal(signal.shape)
        norms = [float(np.linalg.norm(rows, axis=1).mean()) for rows in (signal, noise)]
        gradients = signal + noise * norms[0] / norms[1] if self._informed and norms[0] else noise
        return InputGradients(spans, self._vectors[list(words)], gradients)

    def _towards_change(self, words: Words, place: int) -> Array:
        """The sum of z_i − z_j over the words j that would change the meaning here."""
        meanings = self._tree.meanings
        total: Array = np.zeros(WIDTH)
        for other in range(self._tree.branching):
            changed = (*words[:place], other, *words[place + 1 :])
            if meanings[changed] != meanings[words]:
                total = total + self._vectors[words[place]] - self._vectors[other]
        return total

    def embed(self, texts: Sequence[tuple[str, str]]) -> Array:
        rows: Array = np.array([self._vectors[words_of(surface)[0]] for _, surface in texts])
        return rows
