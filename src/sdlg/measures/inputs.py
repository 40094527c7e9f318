"""What measures need and the samples lack, computed by models: this is where measuring costs something.

In: what is known, the question, the models that may be asked. Out: the same with the needed fields, and for each that
is still unknown the reason. What interrupts (a deadline, a server that is down) is not a reason: it is raised, so that
nothing is stored as unavailable because of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ..clustering import cluster_answers
from ..errors import BadQuestion, InputUnavailable, UsageError
from ..models.base import DecodeRequest, LanguageModel
from ..nli.base import NliModel
from ..options import Clustering, Decoding
from ..records import Cost, Generation, Question
from ..scoring.alignment import token_texts
from ..similarity import SimilarityModel
from .base import Array, MeasureInputs

T = TypeVar("T")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NLI_FIELDS = frozenset({"clusters", "entailment"})  # computed by the NLI model
LANGUAGE_MODEL_FIELDS = frozenset({"p_true", "assessment"})  # asked of the language model
SIMILARITY_FIELDS = frozenset({"similarity", "embeddings", "relevance"})  # computed by the similarity model


class MeasuringModels(Protocol):
    """The models that may be asked, and how. None: this one may not. Each may be loaded when it is first asked for."""

    @property
    def model(self) -> LanguageModel | None:
        """For likelihoods, and for the model's opinion of its answers."""

    @property
    def nli(self) -> NliModel | None:
        """For clusters and entailment."""

    @property
    def similarity(self) -> SimilarityModel | None:
        """For how alike answers are."""

    @property
    def others(self) -> tuple[LanguageModel, ...]:
        """For likelihoods under other models."""

    @property
    def prompt(self) -> str:
        """The style of prompts."""

    @property
    def clustering(self) -> Clustering:
        """How clusters are made."""


@dataclass(frozen=True, slots=True)
class InputModels:
    """Models that are loaded already."""

    model: LanguageModel | None = None
    nli: NliModel | None = None
    similarity: SimilarityModel | None = None
    others: tuple[LanguageModel, ...] = ()
    prompt: str = "auto"
    clustering: Clustering = field(default_factory=Clustering)


@dataclass(frozen=True, slots=True)
class ComputedInputs:
    """All that could be computed, and what it cost."""

    inputs: MeasureInputs
    cost: Cost


def compute_inputs(
    inputs: MeasureInputs, question: Question, needs: frozenset[str], models: MeasuringModels
) -> ComputedInputs:
    """Fill the needed fields, in an order in which later ones may use earlier ones; note why one cannot be had."""
    unavailable = dict(inputs.unavailable)
    spent: list[Cost] = []
    started = time.perf_counter()
    for name, compute in _COMPUTE.items():
        if name in needs and getattr(inputs, name) is None:
            try:
                inputs = compute(_Task(inputs, question, models, spent))
            except (InputUnavailable, UsageError) as reason:  # other measures may still have what they need
                unavailable[name] = str(reason)
    own = Cost(seconds={"measures": time.perf_counter() - started})
    cost = sum((each.without_prompt() for each in spent), own)
    return ComputedInputs(replace(inputs, unavailable=unavailable), cost)


def _have(value: T | None, lack: str) -> T:
    if value is None:
        raise InputUnavailable(lack)
    return value


@dataclass(frozen=True, slots=True)
class _Task:
    inputs: MeasureInputs
    question: Question
    models: MeasuringModels
    spent: list[Cost]

    @property
    def texts(self) -> tuple[str, ...]:
        return _have(self.inputs.texts, "the answers' texts are not known")

    @property
    def model(self) -> LanguageModel:
        return _have(self.models.model, "no language model was named (--model)")

    @property
    def nli(self) -> NliModel:
        return _have(self.models.nli, "no NLI model was named (--nli)")

    @property
    def similarity(self) -> SimilarityModel:
        return _have(self.models.similarity, "no similarity model was named (similarity_model)")

    def score(self, model: LanguageModel) -> tuple[Generation, ...]:
        """The answers under a model, ended where they ended here."""
        if not model.capabilities.scores_texts:
            raise InputUnavailable(f"{model.name} cannot compute the likelihood of given answers")
        steps, tokens = self.inputs.logprobs, self.inputs.tokens
        ended = None
        if steps is not None and tokens is not None:
            ended = [len(own) > len(words) for own, words in zip(steps, tokens, strict=True)]
        scored = model.score(model.prompt(self.question, self.models.prompt), self.texts, ended=ended)
        self.spent.append(scored.cost)
        return scored.generations


def _logprobs(task: _Task) -> MeasureInputs:
    """Likelihoods by the language model, and the tokens they belong to."""
    generations = task.score(task.model)
    tokens = tuple(tuple(token_texts(generation.token_ids, task.model.text)) for generation in generations)
    return replace(task.inputs, logprobs=tuple(s.decision_logprobs for s in generations), tokens=tokens)


def _clusters(task: _Task) -> MeasureInputs:
    clusters = cluster_answers(
        task.question.text, task.texts, task.nli.judge, task.models.clustering, nli=task.nli.name
    )
    task.spent.append(clusters.cost)
    return replace(task.inputs, clusters=clusters.numbers)


def _entailment(task: _Task) -> MeasureInputs:
    """All ordered pairs, equal texts at no cost."""
    size = len(task.texts)
    judged = task.nli.judge(task.question.text, [(one, other) for one in task.texts for other in task.texts])
    task.spent.append(judged.cost)
    matrix = np.array([pair.entailment for pair in judged.probabilities]).reshape(size, size)
    return replace(task.inputs, entailment=matrix)


def _similarity(task: _Task) -> MeasureInputs:
    """Of question and answer with question and other answer; the mean of both orders."""
    whole = [f"{task.question.text} {text}" for text in task.texts]
    values = task.similarity.similarity([(one, other) for one in whole for other in whole])
    matrix: Array = values.reshape(len(whole), len(whole))
    return replace(task.inputs, similarity=(matrix + matrix.T) / 2)


def _embeddings(task: _Task) -> MeasureInputs:
    if not task.similarity.has_embeddings:
        raise InputUnavailable(f"{task.similarity.name} has no embeddings")
    return replace(task.inputs, embeddings=task.similarity.embed(list(task.texts)))


def _relevance(task: _Task) -> MeasureInputs:
    """R_t = 1 − sim(q + y, q + y without token t), all answers' tokens in one batch; an ending's relevance is 0."""
    steps = _have(task.inputs.logprobs, "the answers' log-probabilities are not known")
    answers = _have(task.inputs.tokens, "the answers' tokens are not known (give `tokens` beside `logprobs`)")
    question = task.question.text
    pairs = [
        (f"{question} {''.join(tokens)}", f"{question} {''.join((*tokens[:t], *tokens[t + 1 :]))}")
        for tokens in answers
        for t in range(len(tokens))
    ]
    left = iter((1.0 - task.similarity.similarity(pairs)).tolist())
    rows = [[next(left) for _ in tokens] for tokens in answers]
    padded = tuple((*row, *[0.0] * (len(own) - len(row))) for row, own in zip(rows, steps, strict=True))
    return replace(task.inputs, relevance=padded)


def _p_true(task: _Task) -> MeasureInputs:
    """Kadavath et al.: the model is shown the answer and asked whether it is true."""
    text = (
        f"Question: {task.question.text}\nPossible answer: {task.texts[0]}\n"
        "Is the possible answer:\n(A) True\n(B) False\nReply with A or B only."
    )
    return replace(task.inputs, p_true=_letter_shares(task, text, 2)[0])


def _assessment(task: _Task) -> MeasureInputs:
    """Each cluster's first answer is an option; the model's probability for each letter is read off."""
    clusters = _have(task.inputs.clusters, "the answers' clusters are not known")
    numbers = sorted(set(clusters))
    if len(numbers) > len(LETTERS):
        raise InputUnavailable(f"{len(numbers)} clusters are more than there are letters")
    first = [task.texts[clusters.index(number)] for number in numbers]
    options = "\n".join(f"({letter}) {text}" for letter, text in zip(LETTERS, first, strict=False))
    text = (
        f"Question: {task.question.text}\nPossible answers:\n{options}\n"
        "Which answer is right? Reply with its letter only."
    )
    return replace(task.inputs, assessment=tuple(_letter_shares(task, text, len(numbers))))


# Of each model, token → word: nearly the whole vocabulary is compared, for every answer.
_WORDS: WeakKeyDictionary[LanguageModel, dict[int, str]] = WeakKeyDictionary()


def _words_of(model: LanguageModel) -> dict[int, str]:
    try:
        return _WORDS.setdefault(model, {})
    except TypeError:  # a model of the user's own that cannot be a key
        return {}


def _letter_shares(task: _Task, text: str, count: int) -> list[float]:
    """The model's probabilities for the first letters as its next word, normalised over them."""
    asked = Question(text, context=task.question.context)
    prompt = task.model.prompt(asked, task.models.prompt)
    decoded = task.model.decode(DecodeRequest(prompt, [()], Decoding(max_tokens=1), alternatives_above=1e-9))
    task.spent.append(decoded.cost)
    step = decoded.continuations[0]
    if not step.alternatives:
        raise InputUnavailable(f"{task.model.name} returns no log-probabilities of other tokens")
    masses, words = dict.fromkeys(LETTERS[:count], 0.0), _words_of(task.model)
    for option in step.alternatives[0]:
        if option.token_id not in words:
            words[option.token_id] = task.model.text([option.token_id]).strip(" (")
        if (letter := words[option.token_id]) in masses:
            masses[letter] += math.exp(option.logprob)
    total = sum(masses.values())
    if total <= 0:
        raise InputUnavailable(f"{task.model.name} gives none of the letters any probability")
    return [mass / total for mass in masses.values()]


def _other_logprobs(task: _Task) -> MeasureInputs:
    if not task.models.others:
        raise InputUnavailable("no other models were named (other_models)")
    scores = tuple(tuple(generation.logprob for generation in task.score(other)) for other in task.models.others)
    return replace(task.inputs, other_logprobs=scores)


# In this order: later fields may need earlier ones.
_COMPUTE: Mapping[str, Callable[[_Task], MeasureInputs]] = {
    "logprobs": _logprobs,
    "clusters": _clusters,
    "similarity": _similarity,
    "embeddings": _embeddings,
    "entailment": _entailment,
    "relevance": _relevance,
    "p_true": _p_true,
    "assessment": _assessment,
    "other_logprobs": _other_logprobs,
}


# -- what was computed, as JSON ---------------------------------------------------------------------------------

_MATRICES = ("similarity", "entailment", "embeddings")
_SHARE = (-1e-6, 1 + 1e-6)  # as rounding leaves it
_EVIDENCE: Mapping[str, tuple[float, float]] = {  # and the range of its numbers: measures multiply them
    "similarity": (-_SHARE[1], _SHARE[1]),
    "entailment": _SHARE,
    "embeddings": (-1e100, 1e100),
    "relevance": _SHARE,
    "other_logprobs": (-math.inf, 1e-9),
    "assessment": _SHARE,
    "p_true": _SHARE,
}


def evidence_dict(inputs: MeasureInputs) -> dict[str, Any]:
    """Return what models computed for the measures: with it every one of them can be computed again."""
    return {name: _plain(getattr(inputs, name)) for name in _EVIDENCE if getattr(inputs, name) is not None}


def with_evidence(inputs: MeasureInputs, evidence: Mapping[str, Any]) -> MeasureInputs:
    """Return the inputs with what was computed before, as `evidence_dict` wrote it."""
    if unknown := set(evidence) - set(_EVIDENCE):
        raise BadQuestion(f"unknown evidence {', '.join(sorted(unknown))}; choose from: {', '.join(_EVIDENCE)}")
    if "relevance" in evidence and inputs.logprobs is None:
        raise BadQuestion("the evidence has the relevance of tokens, but the answers have no log-probabilities")
    try:
        return replace(inputs, **{name: _read(name, value) for name, value in evidence.items()})
    except (ValueError, TypeError, OverflowError) as error:
        raise BadQuestion(f"the evidence does not fit the answers: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _read(name: str, value: Any) -> Any:
    low, high = _EVIDENCE[name]
    rows = value if isinstance(value, list) else [value]
    every = [float(number) for row in rows for number in (row if isinstance(row, list) else [row])]
    if not all(low <= number <= high for number in every):  # NaN is not within
        raise ValueError(f"{name} has numbers that are not from {low:g} to {high:g}")
    if name in _MATRICES:
        table = np.array(value, dtype=np.float64)
        if table.ndim != 2:
            raise ValueError(f"{name} must be a table of numbers")
        return table
    if name == "p_true":
        return float(value)
    return tuple(tuple(map(float, row)) if isinstance(row, list) else float(row) for row in value)
