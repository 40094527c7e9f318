"""What n samples cost, counted from the recorded sequences: tokens through the language model and analytic FLOPs.

P and Q are the parameters of the language model and of the NLI model (SAR's similarity model is taken to be as large as
the latter); p the prompt's tokens, q those of the bare question, T_i the decisions of sequence i (its ending
included), t_i the place of its substitution, K the distinct texts among the n sequences.

Tokens through the language model (the last decision of a sequence is never run):

    from scratch, any sampler    Σ_i (p + T_i − 1)
    shared prefixes, multinomial p + Σ_i (T_i − 1)
    shared prefixes, SDLG        p + (T_1 − 1) + Σ_{i>1} (T_i − t_i − 1)

FLOPs: 2 P per token through the language model, 2 Q per token through the NLI model, and as much again for its gradient
with respect to the inputs. Every text that the NLI or the similarity model reads begins with the question.

    generation   2P · tokens, for all
    reading      SDLG: the scores, 4Q · 2(q + T_1); multinomial: nothing;
                 SAR: Σ_{distinct i} 2Q T_i (2(q + T_i) − 1) + Σ_{distinct i<j} 2Q (2q + T_i + T_j)
    clusters     SDLG and multinomial: Σ_{distinct i≠j} 2Q (2q + T_i + T_j); SAR: nothing

Attention over earlier positions is left out: at these lengths it is small beside 2P. Beams are left out as well: a
sequence counts once, however many were followed to find it (`measured_forward_tokens` has them all). An
ending of several tokens counts as one. The NLI model's tokens are counted as the language model's; q is the question's
characters times the run's tokens per character of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...records import Sample
from ..rows import Clustered, Generated
from .views import RunView

Tokens = Callable[["QuestionSamples", int], float]


@dataclass(frozen=True, slots=True)
class Parameters:
    """How large the models are."""

    model: float
    nli: float


@dataclass(frozen=True, slots=True)
class QuestionSamples:
    """What one question's samples look like to the accountant."""

    prompt: int  # p
    question: float  # q
    lengths: tuple[int, ...]  # T_i
    positions: tuple[int, ...]  # t_i; −1: not branched
    distinct: tuple[int, ...]  # index of each sample's text

    def firsts(self, n: int) -> list[int]:
        """The first sample of each distinct text among the first n."""
        return sorted({text: place for place, text in reversed(list(enumerate(self.distinct[:n])))}.values())


# -- tokens through the language model --------------------------------------------------------------------------


def tokens_from_scratch(samples: QuestionSamples, n: int) -> float:
    """Every sample reads the prompt again."""
    return float(sum(samples.prompt + max(0, length - 1) for length in samples.lengths[:n]))


def tokens_shared(samples: QuestionSamples, n: int) -> float:
    """The prompt is read once; a branch begins after the word it changes."""
    pairs = zip(samples.lengths[:n], samples.positions[:n], strict=True)
    return float(samples.prompt + sum(max(0, length - 1 - max(0, position)) for length, position in pairs))


# -- FLOPs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flops:
    """Of one question."""

    generation: float
    reading: float  # scores of words, or relevance and similarities
    clusters: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.generation + self.reading + self.clusters


def sdlg_flops(samples: QuestionSamples, n: int, sizes: Parameters, tokens: Tokens) -> Flops:
    """Generation, one gradient of the NLI model, and clusters."""
    gradient = 4 * sizes.nli * 2 * (samples.question + samples.lengths[0])
    return Flops(2 * sizes.model * tokens(samples, n), gradient, 2 * sizes.nli * _pair_tokens(samples, n))


def multinomial_flops(samples: QuestionSamples, n: int, sizes: Parameters, tokens: Tokens) -> Flops:
    """Generation and clusters."""
    return Flops(2 * sizes.model * tokens(samples, n), 0.0, 2 * sizes.nli * _pair_tokens(samples, n))


def sar_flops(samples: QuestionSamples, n: int, sizes: Parameters, tokens: Tokens) -> Flops:
    """Generation, each token's relevance, and similarities of all pairs."""
    lengths = [samples.lengths[place] for place in samples.firsts(n)]
    relevance = sum(length * (2 * (samples.question + length) - 1) for length in lengths)
    similarity = _pair_tokens(samples, n) / 2
    return Flops(2 * sizes.model * tokens(samples, n), 2 * sizes.nli * (relevance + similarity), 0.0)


def _pair_tokens(samples: QuestionSamples, n: int) -> float:
    """Σ_{i≠j} (2q + T_i + T_j) = 2 (K − 1) (K q + Σ T_i)."""
    lengths = [samples.lengths[place] for place in samples.firsts(n)]
    return 2 * (len(lengths) - 1) * (len(lengths) * samples.question + sum(lengths))


# -- from a run -------------------------------------------------------------------------------------------------


def parameters_of(view: RunView) -> Parameters | None:
    """As recorded; None where the run does not say."""
    model, nli = (view.run.parameters.get(name) for name in ("model", "nli"))
    return Parameters(float(model), float(nli)) if model and nli else None


def drawn_samples(view: RunView, method: str) -> list[QuestionSamples]:
    """One per question that passed all stages."""
    rows = [(view.run.generated[name], view.run.clustered[name]) for name in view.run.ids]
    rate = _tokens_per_character([sample for generated, _ in rows for sample in generated.methods[method].samples])
    return [_question_samples(generated, clustered, method, rate) for generated, clustered in rows]


def _question_samples(generated: Generated, clustered: Clustered, method: str, rate: float) -> QuestionSamples:
    samples = generated.methods[method].samples
    positions = tuple(-1 if sample.substitution is None else sample.substitution.position for sample in samples)
    decisions = tuple(len(sample.generation.decision_logprobs) for sample in samples)
    distinct = clustered.methods[method].table.distinct
    return QuestionSamples(generated.cost.prompt_tokens, rate * len(generated.question), decisions, positions, distinct)


def _tokens_per_character(samples: Sequence[Sample]) -> float:
    characters = sum(len(sample.text) for sample in samples)
    return sum(len(sample.generation.token_ids) for sample in samples) / characters if characters else 0.25


def measured_forward_tokens(view: RunView, method: str) -> float:
    """Mean tokens that really went through the language model, all beams counted, as from a cold start."""
    costs = [view.run.generated[name].methods[method].cost for name in view.run.ids]
    return float(sum(cost.forward_tokens for cost in costs)) / len(costs)
