"""A plug-in of lm-eval: the model `sdlg`, the metrics `auroc_uncertainty` and `error_at_80`, and what tasks need.

Importing this module registers them; lm-eval after 0.4.13 finds them by entry points. In: answers, either with their
entropy (of the model `sdlg`) or several for each question (`repeats`, of any model). Out: one pair (entropy, 1 if the
answer is wrong) for each question, which the metrics aggregate. `sdlg path lm-eval` is the folder of ready tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_aggregation, register_metric, register_model

from ..concurrency.in_flight import run_in_flight
from ..errors import BadOption, BadQuestion, NotSupported
from ..evaluation.datasets.items import read_items
from ..evaluation.statistics import auroc, error_at_coverage
from ..options import DEFAULT_MODEL
from ..pipeline import Pipeline
from .judging import meaning_judge, wrongness

TASKS = Path(__file__).parent / "lm_eval_tasks"
_DEFAULT_DEVICE = "cuda:0"  # what lm-eval says where nobody has: ours is the best there is
Pair = tuple[float, float]  # the entropy of an answer, and 1 if it is wrong


class Measured(str):
    """An answer that knows its entropy: all that lm-eval hands on from a model to a task is a text."""

    semantic_entropy = math.nan


# -- the model ----------------------------------------------------------------------------------------------------


@register_model("sdlg")
class SdlgLM(LM):  # type: ignore[misc]
    """A model by its name in sdlg. `--model_args` takes what `Pipeline` takes: `model=smollm2,samples=5`."""

    def __init__(
        self, model: str = DEFAULT_MODEL, device: str | None = None, batch_size: object = None,
        max_batch_size: object = None, **named: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        where = None if device == _DEFAULT_DEVICE else device
        self.pipeline = Pipeline(model, device=where, **named)  # batches are its own affair

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer greedily and measure each answer."""
        answers = []
        for request, answered in run_in_flight(self._answer, requests, self.pipeline.in_flight):
            answers.append(answered.result())
            self.cache_hook.add_partial("generate_until", request.args, answers[-1])
        return answers

    def _answer(self, request: Instance) -> str:
        prompt, wanted = request.args
        if wanted.get("do_sample"):
            raise NotSupported("the model sdlg answers greedily and samples by itself: set do_sample to false")
        until = wanted.get("until") or ()
        options: dict[str, Any] = {"stop_strings": (until,) if isinstance(until, str) else tuple(until)}
        if "max_gen_toks" in wanted:
            options["max_tokens"] = wanted["max_gen_toks"]
        result = self.pipeline.changed(**options).ask(prompt)
        answer = Measured(result.answer.text)
        answer.semantic_entropy = result.semantic_entropy
        return answer

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Nothing is generated there, so nothing could be measured."""
        raise NotSupported("the model sdlg only generates: choose tasks of the type generate_until")

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Nothing is generated there, so nothing could be measured."""
        raise NotSupported("the model sdlg only generates: choose tasks of the type generate_until")


# -- metrics: a pair for each question, aggregated over all ---------------------------------------------------------


def aggregate_auroc(pairs: Sequence[Pair]) -> float:
    """Return how often a wrong answer has the higher entropy than a right one; NaN if all are right, or wrong."""
    entropies, wrong = zip(*pairs, strict=True)
    return auroc(entropies, wrong, resamples=0).value


def aggregate_error(pairs: Sequence[Pair]) -> float:
    """Return the error rate among the 80 % of answers with the lowest entropy."""
    entropies, wrong = zip(*pairs, strict=True)
    return error_at_coverage(entropies, wrong, 0.8, resamples=0).value


def auroc_uncertainty(references: Sequence[str], predictions: Sequence[Any], **_: object) -> Pair:
    """Return the pair of one question, for the `metric_list` of other tasks, with one reference for each question."""
    return _pair("", predictions[0], references)


def error_at_80(references: Sequence[str], predictions: Sequence[Any], **_: object) -> Pair:
    """Return the same pair: the metrics differ in how it is aggregated."""
    return _pair("", predictions[0], references)


for _metric, _aggregate, _higher in ((auroc_uncertainty, aggregate_auroc, True), (error_at_80, aggregate_error, False)):
    _name = _metric.__name__
    register_aggregation(_name)(_aggregate)
    register_metric(metric=_name, higher_is_better=_higher, aggregation=_name)(_metric)


def _pair(question: str, answered: str | Sequence[str], references: Sequence[str]) -> Pair:
    """In: an answer that knows its entropy, or several answers, the first of which is judged."""
    answers = [answered] if isinstance(answered, str) else list(answered)
    if isinstance(answers[0], Measured):
        entropy = answers[0].semantic_entropy
    elif len(answers) > 1:
        entropy = meaning_judge().score(question or "?", answers).semantic_entropy
    else:
        raise BadOption("one answer says nothing of other meanings: use --model sdlg, or a task with repeats")
    return entropy, wrongness(question, answers[0], references)


# -- what the tasks in TASKS name -----------------------------------------------------------------------------------


def questions(questions: str = str(TASKS / "questions.jsonl"), **_: object) -> dict[str, Dataset]:
    """Return the data set: rows with a question and its references, as `sdlg eval --data FILE` reads them."""
    with Path(questions).open(encoding="utf-8") as lines:
        items = list(read_items(lines))
    for item in items:
        if item.fault or item.question.context:
            raise BadQuestion(f"{questions}: {item.id}: {item.fault or 'a context is not asked here'}")
    rows = [{"question": item.question.text, "references": list(item.references)} for item in items]
    return {"test": Dataset.from_list(rows)}


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float | Pair]:
    """Return the metrics of one question."""
    pair = _pair(doc["question"], results[0], doc["references"])
    return {"correct": 1 - pair[1], "semantic_entropy": pair[0], "auroc_uncertainty": pair, "error_at_80": pair}
