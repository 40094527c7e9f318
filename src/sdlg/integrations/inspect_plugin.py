"""A plug-in of inspect_ai: the scorer `sdlg/semantic_entropy` for any model, and our own models as `sdlg/NAME`.

In: a sample's answer, its target, and further answers, which the scorer draws. Out: a score whose value says whether
the answer is right, its semantic entropy, and the share of the draws that mean the same. The metrics say how well the
entropy tells wrong answers from right ones. An answer of `sdlg/NAME` brings its entropy along: nothing is drawn for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from logging import getLogger
from typing import Any

import inspect_ai.model as im
from anyio.to_thread import run_sync
from inspect_ai.scorer import CORRECT, INCORRECT, Metric, SampleScore, Score, Scorer, Target, accuracy, stderr
from inspect_ai.scorer import metric as as_metric
from inspect_ai.scorer import scorer as as_scorer
from inspect_ai.scorer import value_to_float as to_float
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util import collect

from ..errors import BadOption, NotSupported
from ..evaluation import statistics
from ..pipeline import Pipeline
from ..records import Sample
from ..result import Result, percent
from ..schema import GivenAnswer
from ..views.reading import reading
from .judging import meaning_judge, wrongness

UNCERTAINTY = "uncertainty"  # in the metadata of an output
COUNTED, WEIGHED = "frequencies", "log-probabilities"  # what an entropy is made from
_log = getLogger(__name__)

# -- metrics ------------------------------------------------------------------------------------------------------

Column = list[float]  # one number per sample; NaN: not known


def _over(statistic: Callable[[Column, Column, Column], Any]) -> Metric:
    """Return the metric of a statistic of entropies, doubts (1 − confidence) and wrong answers (1).

    Entropies of different kinds do not compare: those that are not as most are become NaN.
    """

    def measured(scores: list[SampleScore]) -> Any:
        values: list[Any] = [one.score.as_dict() for one in scores]
        kinds = [(one.score.metadata or {})["from"] for one in scores]
        usual = max(set(kinds), key=kinds.count, default=None)  # inspect also asks before there is any score
        if odd := sum(kind != usual for kind in kinds):
            _log.warning("%d of %d samples left out: their entropy is not from %s", odd, len(kinds), usual)
        entropies = [v["semantic_entropy"] if k == usual else math.nan for v, k in zip(values, kinds, strict=True)]
        return statistic(entropies, [1 - v["confidence"] for v in values], [_wrong(v["correct"]) for v in values])

    return measured


def _wrong(correct: Any) -> float:
    """1 or 0, by the mean where there are several epochs; NaN: there was no target."""
    return math.nan if correct is None or correct != correct else float(to_float()(correct) < 0.5)


@as_metric
def auroc() -> Metric:
    """How often a wrong answer has the higher entropy than a right one, with a 95 % interval; 0.5 is chance."""

    def figure(entropies: Column, _: Column, wrong: Column) -> dict[str, float]:
        found = statistics.auroc(entropies, wrong)
        return {"auroc": found.value, "auroc_low": found.low, "auroc_high": found.high}

    return _over(figure)


@as_metric
def error_at_80() -> Metric:
    """The error rate among the 80 % of answers with the lowest entropy."""
    return _over(lambda entropies, _, wrong: statistics.error_at_coverage(entropies, wrong, 0.8, resamples=0).value)


@as_metric
def error_at_50() -> Metric:
    """The error rate among the 50 % of answers with the lowest entropy."""
    return _over(lambda entropies, _, wrong: statistics.error_at_coverage(entropies, wrong, 0.5, resamples=0).value)


@as_metric
def calibration_error() -> Metric:
    """How far off, on average, who takes the confidence for the chance that the answer is right (ECE)."""
    return _over(lambda _, doubts, wrong: statistics.calibration_error(doubts, wrong).value)


# -- the scorer ---------------------------------------------------------------------------------------------------


@as_scorer(metrics=[auroc(), error_at_80(), error_at_50(), calibration_error(), {"correct": [accuracy(), stderr()]}])
def semantic_entropy(
    num_choices: int = 10, temperature: float = 1.0, logprobs: bool = True, right: Scorer | None = None
) -> Scorer:
    """Measure how the model's answers spread over meanings.

    `right` is a scorer that says which answers are right (default: those that say what the target says, in whatever
    words). Without `logprobs`, or where the provider has none, meanings are counted.
    """
    if num_choices < 2:
        raise BadOption(f"at least 2 answers are needed to compare them, not num_choices={num_choices}")

    async def score(state: TaskState, target: Target) -> Score:
        answer, question = state.output.completion, state.input_text
        told: dict[str, Any] = (state.output.metadata or {}).get(UNCERTAINTY, {})
        if not told:
            choices = state.output.choices
            if len(choices) < num_choices:
                choices = await _draw(state, num_choices, temperature, logprobs)
            told = await run_sync(lambda: _measured(question, answer, choices, logprobs))
        if right is None:
            wrong = await run_sync(lambda: wrongness(question, answer, target))
        else:
            verdict = await right(state, target)
            wrong = _wrong(verdict and verdict.value)
        correct = wrong if math.isnan(wrong) else INCORRECT if wrong else CORRECT
        value = {"correct": correct, "semantic_entropy": told["semantic_entropy"], "confidence": told["confidence"]}
        meanings = [f"- {percent(one['share'])}: {one['text']}" for one in told["meanings"]]
        return Score(value=value, answer=answer, explanation="\n".join([told["reading"], "", *meanings]), metadata=told)

    return score


async def _draw(state: TaskState, count: int, temperature: float, logprobs: bool) -> list[im.ChatCompletionChoice]:
    """Ask the task's model for further answers; one by one where its provider gives one at a time."""
    messages = state.messages[:-1] if state.messages[-1].role == "assistant" else state.messages
    model = im.get_model()

    async def drawn(number: int, shift: int) -> list[im.ChatCompletionChoice]:
        seed = None if model.config.seed is None else model.config.seed + shift  # the same one gives the same answer
        config = im.GenerateConfig(num_choices=number, temperature=temperature, logprobs=logprobs or None, seed=seed)
        return (await model.generate(messages, config=config, cache=False)).choices

    choices = await drawn(count, 1)
    more = await collect(*(drawn(1, 2 + k) for k in range(count - len(choices))))
    return [*choices, *(choice for one in more for choice in one)]


def _measured(question: str, answer: str, choices: Sequence[im.ChatCompletionChoice], logprobs: bool) -> dict[str, Any]:
    """Group the answer with the draws; measure the draws alone: the answer may be no draw."""
    texts = [choice.message.text for choice in choices]
    own, *groups = (sample.cluster for sample in meaning_judge().score(question, [answer, *texts]).samples)
    steps = [_steps(choice) if logprobs else () for choice in choices]
    known = all(steps)
    given = [GivenAnswer(t, s if known else (), cluster=g) for t, s, g in zip(texts, steps, groups, strict=True)]
    told = uncertainty_of(meaning_judge().score(question, given))
    return {**told, "confidence": groups.count(own) / len(groups), "answers": texts}


def _steps(choice: im.ChatCompletionChoice) -> tuple[float, ...]:
    """The log-probabilities of an answer's tokens; () where there are none, or the tokens do not spell the answer.

    Not every provider's do: inspect's own `hf` lists the likeliest token of each step, drawn or not.
    """
    tokens, text = choice.logprobs.content if choice.logprobs else [], choice.message.text.strip()
    spelled = "".join(token.token for token in tokens).strip()
    return tuple(min(token.logprob, 0.0) for token in tokens) if text and spelled.startswith(text) else ()


def uncertainty_of(result: Result) -> dict[str, Any]:
    """Return what metadata keeps of a result."""
    variant = result.estimates["semantic_entropy"].options.get("variant")
    measured = [one for one in result.sentences if one.clusters]  # of a long answer
    told = [one for one in measured if not one.is_open] or measured
    claims = [(one.text, 1 - one.doubt) for one in told]
    meanings = claims or [(one.text, one.share) for one in result.meanings]
    return {
        "semantic_entropy": result.semantic_entropy,
        "from": COUNTED if variant == "discrete_semantic_entropy" else WEIGHED,
        "confidence": min((share for _, share in claims), default=result.clusters[0].share),
        "reading": reading(result),
        "meanings": [{"text": text, "share": share} for text, share in meanings],
    }


# -- our own models -----------------------------------------------------------------------------------------------


@im.modelapi(name="sdlg")
class SdlgAPI(im.ModelAPI):
    """A model by its name in sdlg. `-M` takes what `Pipeline` takes: `-M samples=5`."""

    def __init__(
        self, model_name: str, base_url: str | None = None, api_key: str | None = None,
        config: im.GenerateConfig = im.GenerateConfig(), **model_args: Any,  # noqa: B008 (as inspect has it)
    ) -> None:  # fmt: skip
        super().__init__(model_name, base_url, api_key, [], config)
        self.pipeline = Pipeline(model_name, **model_args)

    def max_connections(self) -> int:
        """As many questions at once as suit the model."""
        return self.pipeline.in_flight

    def close(self) -> None:
        """End what was started for the model."""
        self.pipeline.close()

    async def generate(
        self, input: list[im.ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: im.GenerateConfig
    ) -> im.ModelOutput:
        """Answer, with the uncertainty in the metadata. Several choices are draws, and nothing else is measured."""
        if tools:
            raise NotSupported("models of sdlg call no tools")
        count = config.num_choices or 1
        asked: dict[str, Any] = {"max_tokens": config.max_tokens, "seed": config.seed, "stop_strings": config.stop_seqs}
        if count > 1:
            asked |= {"method": "multinomial", "samples": count, "temperature": config.temperature}
        pipeline = self.pipeline.changed(**{name: value for name, value in asked.items() if value is not None})
        messages = [{"role": message.role, "content": message.text} for message in input]
        result = await run_sync(lambda: pipeline.ask(messages=messages))
        read, made = result.cost.prompt_tokens, result.cost.generated_tokens
        return im.ModelOutput(
            model=self.model_name,
            choices=[self._choice(sample, bool(config.logprobs)) for sample in result.samples[:count]],
            usage=im.ModelUsage(input_tokens=read, output_tokens=made, total_tokens=read + made),
            metadata={UNCERTAINTY: uncertainty_of(result)} if count == 1 else None,
        )

    def _choice(self, sample: Sample, logprobs: bool) -> im.ChatCompletionChoice:
        steps = zip(sample.tokens, sample.generation.logprobs, strict=False)
        content = [im.Logprob(token=token, logprob=logprob) for token, logprob in steps]
        return im.ChatCompletionChoice(
            message=im.ChatMessageAssistant(content=sample.text, model=self.model_name, source="generate"),
            stop_reason="max_tokens" if sample.generation.stop_reason == "length" else "stop",
            logprobs=im.Logprobs(content=content) if logprobs else None,
        )
