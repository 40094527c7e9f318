"""The frozen records that move rightward through the program. Standard library only.

question → Prompt → Generation (the initial answer, with its alternatives) → Substitution (ranked) → Sample (a branch)
→ Sampled (all of them) → Cluster → Estimate → Result.

Log-probabilities are natural logs at temperature 1. Entropies are in nats; higher is less certain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

StopReason = Literal["eos", "stop_string", "length"]
MeaningKind = Literal["answer", "declines", "elsewhere"]
SentenceKind = Literal["claim", "lead", "code", "cut", "beyond"]


def is_unicode(text: str) -> bool:
    """Whether a text is all characters: half a surrogate pair is none, and no tokenizer takes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. The language model sees all of it; the NLI model only ever sees `text`."""

    text: str
    context: str | None = None  # a story, a document: put before the question
    shots: tuple[tuple[str, str], ...] = ()  # earlier (question, answer) pairs that show the format
    system: str | None = None  # instructions for a chat model, in place of its template's own


@dataclass(frozen=True, slots=True)
class StopRule:
    """When an answer ends: any of these ids, any of these strings, a full stop that ends a sentence (`sentence_end`),
    or where another sentence or line begins (`one_sentence`)."""

    token_ids: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    sentence_end: bool = False
    one_sentence: bool = False

    def __or__(self, other: StopRule) -> StopRule:
        """Whichever of the two comes first."""
        strings = (*self.strings, *other.strings)
        return StopRule(
            self.token_ids | other.token_ids,
            strings,
            self.sentence_end or other.sentence_end,
            self.one_sentence or other.one_sentence,
        )


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question in the form that one language model reads."""

    token_ids: tuple[int, ...]
    stop: StopRule
    style: str = "chat"  # or "plain", where the answer follows "A:" on the same line, or "raw"
    boundaries: tuple[int, ...] = ()  # token counts at which another prompt may part from it (after context, shots)
    said: tuple[int, ...] = ()  # tokens of the answer that are read before what is asked for: its earlier sentences


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that the language model could have chosen at one step."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer: its ids before the stop, their log-probabilities (none: not known), and how it ended."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop_reason: StopReason
    ending_logprobs: tuple[float, ...] = ()  # of the token(s) that ended it; () when it was cut by length, or not known
    alternatives: tuple[tuple[Alternative, ...], ...] = field(default=(), repr=False, compare=False)  # likeliest first
    entropies: tuple[float, ...] = field(default=(), repr=False)  # nats, of the model's distribution; () if not known
    truncated_mass: tuple[float, ...] = field(default=(), repr=False)  # per step, what no alternative stands for
    given: int = 0  # so many of its first tokens were given, not chosen: p(y) is that of what comes after them

    def __post_init__(self) -> None:
        if self.logprobs and self.token_ids and len(self.token_ids) != len(self.logprobs):
            raise ValueError(f"{len(self.token_ids)} tokens but {len(self.logprobs)} log-probabilities")
        if not 0 <= self.given <= len(self.token_ids):
            raise ValueError(f"{self.given} of {len(self.token_ids)} tokens cannot have been given")

    @property
    def identity(self) -> tuple[tuple[int, ...], StopReason]:
        """Equal for generations that are one and the same: their tokens, and how they ended."""
        return self.token_ids, self.stop_reason

    @property
    def decision_logprobs(self) -> tuple[float, ...]:
        """One log-probability per decision of the model, ending included: their sum is log p(y)."""
        return (*self.logprobs[self.given :], *self.ending_logprobs)

    def shared_logprob(self, position: int) -> float:
        """Log p(y_<t), from what was given on."""
        return math.fsum(self.logprobs[self.given : position])

    @property
    def stop_logprob(self) -> float | None:
        """Of the ending as a whole."""
        return math.fsum(self.ending_logprobs) if self.ending_logprobs else None

    @property
    def logprob(self) -> float:
        """Log p(y), ending included; NaN if it is not known."""
        return math.fsum(self.decision_logprobs) if self.decision_logprobs else math.nan


@dataclass(frozen=True, slots=True)
class Substitution:
    """One candidate (position, token) with its three scores. `replacement` is what the reader would see."""

    position: int
    original: str
    replacement: str
    token_id: int
    logprob: float  # log p(token | prefix) of this very token
    attribution: float
    substitution: float
    importance: float  # its probability; of an ending, that of all tokens that end the answer here
    ends_answer: bool = False  # the replacement is the end of the answer
    rank: int = 0  # 1 is tried first


@dataclass(frozen=True, slots=True)
class Branching:
    """How a generation left the initial answer: what it shares with it, and the token it left with."""

    shared_logprob: float  # log p(y_<t)
    logprob: float  # log p(y_t | y_<t) of this very token
    mass: float  # its probability; of an ending, that of all tokens that end the answer here


@dataclass(frozen=True, slots=True)
class Sample:
    """A generation in its place among the others: sampled here, read from a file, or given by a user."""

    generation: Generation
    tokens: tuple[str, ...] = ()  # the text, token by token; () if not known
    substitution: Substitution | None = None  # None for an answer that is not a branch
    branching: Branching | None = None  # as numbers
    cluster: int | None = None  # None: not clustered yet
    weight: float | None = None  # in the semantic entropy; all weights sum to 1

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.generation.text


@dataclass(frozen=True, slots=True)
class Draws:
    """Answers that were drawn with their probability at temperature 1: they weigh meanings."""

    samples: tuple[Sample, ...]
    by: str  # "arithmetic": even codes, or "multinomial": independent
    beside: bool = True  # False: these are the method's own samples
    knows_answer: bool = False  # the first sample was fixed before, and its probability is exact
    left_out: float = 0.0  # what was taken out of samples and draws has so much of all probability


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a method made: the initial answer first where it has one, its words, and what that cost."""

    samples: tuple[Sample, ...]
    words: tuple[Word, ...]  # of the first sample
    cost: Cost
    notes: tuple[str, ...] = ()
    candidates: tuple[Substitution, ...] = ()  # all that were ranked, best first
    draws: Draws | None = None  # None: nothing was drawn that could weigh meanings

    @property
    def draws_beside(self) -> tuple[Sample, ...]:
        """The draws that are not the method's own samples."""
        return self.draws.samples if self.draws is not None and self.draws.beside else ()

    @property
    def generations(self) -> tuple[Generation, ...]:
        """The samples as the model made them."""
        return tuple(sample.generation for sample in self.samples)

    @property
    def texts(self) -> tuple[str, ...]:
        """The answers' texts."""
        return tuple(sample.text for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Answers that mean the same.

    `probability` estimates how often the model would say this at temperature 1; `score_share` is the share of the mass
    that the semantic entropy is made of, which ranks questions and is no such probability.
    """

    id: int
    text: str  # the first answer that means this
    texts: tuple[str, ...]  # all its different wordings, the first one first
    probability: float | None  # None: nothing was drawn
    members: tuple[int, ...]  # indices into the samples
    low: float | None = None  # of the probability's 95 % interval
    high: float | None = None
    score_share: float = 0.0
    draws: tuple[int, ...] = ()  # indices into the draws
    kind: MeaningKind = "answer"  # "declines": has no answer, or asks back; "elsewhere": Sentence.elsewhere

    @property
    def share(self) -> float:
        """What views draw: the probability; the score's share where nothing was drawn."""
        return self.score_share if self.probability is None else self.probability


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the answer, how much of the meaning hangs on it, and how likely the model turns elsewhere there."""

    text: str
    start: int  # character offsets in the answer's text
    end: int
    attribution: float | None  # None where nothing was attributed (no NLI pass was made)
    other_meaning: float | None = None  # probability here of branches that mean something else; None: not known
    unexplored: float | None = None  # probability here of what no branch has followed


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number, what it is in, and exactly which variant it is."""

    value: float
    unit: str
    higher_is_less_certain: bool
    options: Mapping[str, str]
    low: float | None = None  # of a 95 % interval; None: it has none
    high: float | None = None


# What a sentence that was measured has as a result has it.
OF_SENTENCE = ("clusters", "estimates", "coverage", "words", "samples", "draws", "candidates", "notes")


_TELLS_NOTHING = 2 / 3  # an interval so wide


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a long answer, measured as an answer to the question and the sentences before it.

    Its first words, up to `measured_from`, say what it is about: they are given, and all that is measured goes on from
    there. Its meanings are the sentence and what contradicts it; their shares sum to 1. What neither says nor denies it
    but goes on to something else is told apart, in `elsewhere`, with its share of all that the model would say there.

    Its `kind` says why it was not: a lead-in or heading claims nothing, code is not measured, the last sentence was
    cut, or it lies beyond the most sentences that are measured. Only a claim has the fields after it.
    """

    text: str
    start: int  # character offsets in the answer's text
    end: int
    kind: SentenceKind
    clusters: tuple[Cluster, ...] = ()  # its meanings, its own first
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    coverage: float | None = None
    words: tuple[Word, ...] = ()  # their places are those in the sentence's own text
    samples: tuple[Sample, ...] = ()  # the sentence first
    draws: tuple[Sample, ...] = ()
    candidates: tuple[Substitution, ...] = ()
    notes: tuple[str, ...] = ()
    elsewhere: Cluster | None = None  # None: nothing that was found goes on to something else
    risk: AnswerRisk | None = None  # None: no calibration of sentences fits
    measured_from: int = 0  # the character of its own text at which the measured part begins

    @property
    def semantic_entropy(self) -> float | None:
        """The paper's estimate of this sentence, in nats; None: it was not measured."""
        return self.estimates["semantic_entropy"].value if self.estimates else None

    @property
    def meanings(self) -> tuple[Cluster, ...]:
        """Its meanings in the order of their shares, the largest first."""
        return tuple(sorted(self.clusters, key=lambda cluster: -cluster.share))

    @property
    def doubt(self) -> float:
        """The share of what contradicts it; 0 if it was not measured."""
        return 1.0 - self.clusters[0].share if self.clusters else 0.0

    @property
    def is_open(self) -> bool:
        """Whether too few draws were on its matter: the interval of its share is wider than two thirds."""
        own = self.clusters[0] if self.clusters else None
        return own is not None and own.low is not None and own.high is not None and own.high - own.low > _TELLS_NOTHING


@dataclass(frozen=True, slots=True)
class AnswerRisk:
    """How likely an answer (or sentence) like this is wrong, as a calibration found it. None: not known."""

    probability: float | None
    sentence: str  # the same in words
    basis: str  # what it was measured on
    measure: str  # or several, with " + " between them
    value: float | None  # of the measure, or the score that several make together
    keep: bool | None  # whether such answers may be kept for the calibration's error rate; None: not known


@dataclass(frozen=True, slots=True)
class Setup:
    """What shaped a result besides models, method and options: results of two setups do not belong in one file."""

    measures: tuple[str, ...] = ()  # that were asked for, by the names they were asked by
    calibration: str | None = None  # its fingerprint
    similarity_model: str | None = None  # None: no measure needed one
    other_models: tuple[str, ...] = ()
    dtype: str | None = None  # None: the default of the device
    tokenizer: str | None = None  # None: the model's own
    gradients: str | None = None  # the NLI model that gives them; None: the judge of meaning itself
    same_answer_fit: str | None = None  # fingerprint of a user's own fit of the equivalence; None: the packaged one
    engine: str | None = None  # what ran a .gguf file; None: the model was none
    batch_rows: int = 0  # of one call of llama.cpp; 0: as many as keep one probability for a sequence


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer cost. Additive."""

    prompt_tokens: int = 0
    generated_tokens: int = 0  # decisions of the model, endings included
    forward_tokens: int = 0  # tokens that went through the language model
    reused_tokens: int = 0  # prompt tokens whose keys and values were already there
    decode_steps: int = 0  # sequential forward passes
    requests: int = 0  # to a model server, for tokens
    nli_pairs: int = 0
    nli_gradients: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: Cost) -> Cost:
        stages = {**self.seconds}
        for stage, seconds in other.seconds.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
        counts = {name: getattr(self, name) + getattr(other, name) for name in COUNTED}
        return Cost(**counts, seconds=stages)

    def from_cold(self) -> Cost:
        """As if nothing had been there from earlier questions: the same in whatever order they are asked."""
        run = self.forward_tokens + self.reused_tokens
        return Cost(self.prompt_tokens, self.generated_tokens, run, nli_gradients=self.nli_gradients)

    def without_prompt(self) -> Cost:
        """The same for a further round on a prompt that was counted already."""
        return replace(self, prompt_tokens=0, reused_tokens=0)


COUNTED = (
    "prompt_tokens", "generated_tokens", "forward_tokens", "reused_tokens", "decode_steps", "requests", "nli_pairs",
    "nli_gradients",
)  # fmt: skip
