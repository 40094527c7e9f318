"""Plug-ins of evaluation frameworks, run by the real inspect_ai and the real lm-eval."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest

from fakes import CAPITAL, MEANINGS, FakeNli, fake_pipeline
from sdlg import Models, Pipeline
from sdlg.cli import main
from sdlg.errors import BadOption, BadQuestion, NotSupported
from sdlg.evaluation import statistics
from sdlg.integrations import judging

# Of what they are made from: old parameters, streams that are not closed.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
]
FRANCE, HAMLET, GOLD = "What is the capital of France?", "Who wrote Hamlet?", "What is the chemical symbol of gold?"
# What a model says at each question: first its answer, then its draws.
SAID = {
    FRANCE: ("Paris", ["Paris", "Paris", "It is Paris", "Lyon"]),
    HAMLET: ("Shakespeare", ["Shakespeare"] * 4),
    GOLD: ("Ag", ["Ag", "Au", "Fe", "Pb"]),
}
TARGETS = {FRANCE: "Paris", HAMLET: "Shakespeare", GOLD: "Au"}


def entropy_of(*counts: int) -> float:
    return -sum(n / sum(counts) * math.log(n / sum(counts)) for n in counts)


@pytest.fixture(autouse=True)
def judge_without_weights(monkeypatch):
    """Meanings are as told; right is who says the reference."""
    pipeline = Pipeline(models=Models(None, FakeNli(MEANINGS)), equivalence="strict")
    monkeypatch.setattr(judging, "_judge", lambda: pipeline)
    judging._right_or_wrong.cache_clear()
    yield
    judging._right_or_wrong.cache_clear()


def test_wrongness_needs_a_reference():
    assert judging.wrongness(FRANCE, "Paris", ["Lyon", "Paris"]) == 0
    assert judging.wrongness(GOLD, "Ag", ["Au"]) == 1
    assert math.isnan(judging.wrongness(FRANCE, "Paris", [" "]))


# -- inspect_ai ---------------------------------------------------------------------------------------------------

inspect_ai = pytest.importorskip("inspect_ai")


def choices_of(texts, logprob=None):
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, Logprob, Logprobs

    def one(text):
        content = [Logprob(token=text[:2], logprob=logprob or 0.0), Logprob(token=text[2:] + "</s>", logprob=-0.5)]
        return ChatCompletionChoice(
            message=ChatMessageAssistant(content=text),
            stop_reason="stop",
            logprobs=None if logprob is None else Logprobs(content=content),
        )

    return [one(text) for text in texts]


def inspected(tmp_path, *, said=SAID, logprob=None, many=True, epochs=1, targets=TARGETS, **arguments):
    """The log of an eval by a mock model, which gives several choices at once or one at a time; what it was asked."""
    from inspect_ai.dataset import Sample
    from inspect_ai.log import read_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from sdlg.integrations.inspect_plugin import semantic_entropy

    usage = ModelUsage()  # or its tokens would be counted, by a tokenizer from the network
    asked, given = [], dict.fromkeys(said, 0)

    def answer(messages, tools, tool_choice, config):
        asked.append(config)
        first, draws = said[messages[-1].text]
        if config.num_choices is None:
            return ModelOutput(model="mock", choices=choices_of([first]), usage=usage)
        place = given[messages[-1].text]
        count = config.num_choices if many else 1
        given[messages[-1].text] += count
        drawn = choices_of((draws * epochs)[place : place + count], logprob)
        return ModelOutput(model="mock", choices=drawn, usage=usage)

    samples = [Sample(input=question, target=targets[question], id=number) for number, question in enumerate(said)]
    logs = inspect_ai.eval(
        inspect_ai.Task(dataset=samples, scorer=semantic_entropy(num_choices=4, **arguments), epochs=epochs),
        model=get_model("mockllm/model", custom_outputs=answer),
        display="none", log_dir=str(tmp_path), log_level="error",
    )  # fmt: skip
    log = read_eval_log(logs[0].location)
    assert log.status == "success", log.error
    return log, asked


def scores_of(log):
    return {sample.input: sample.scores["semantic_entropy"] for sample in log.samples}


def metrics_of(log):
    return {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}


@pytest.mark.parametrize("many", [True, False])
def test_the_scorer_measures_any_model_and_its_log_can_be_read(tmp_path, many):
    log, asked = inspected(tmp_path, many=many)
    scores = scores_of(log)
    assert {question: score.value["correct"] for question, score in scores.items()} == {
        FRANCE: "C",
        HAMLET: "C",
        GOLD: "I",
    }
    assert scores[FRANCE].value["semantic_entropy"] == pytest.approx(entropy_of(3, 1))
    assert scores[FRANCE].value["confidence"] == 0.75
    assert scores[GOLD].value["semantic_entropy"] == pytest.approx(math.log(4))
    assert scores[GOLD].answer == "Ag"
    assert "75%: Paris" in scores[FRANCE].explanation
    assert scores[FRANCE].metadata["from"] == "frequencies"
    assert scores[FRANCE].metadata["meanings"][1] == {"text": "Lyon", "share": 0.25}
    assert {(c.temperature, c.logprobs) for c in asked if c.num_choices} == {(1.0, True)}
    assert len(asked) == 3 * (2 if many else 1 + 4)


def test_its_metrics_are_those_of_our_own_statistics(tmp_path):
    found = metrics_of(inspected(tmp_path)[0])
    entropies, wrong = [entropy_of(3, 1), 0.0, math.log(4)], [0, 0, 1]
    expected = statistics.auroc(entropies, wrong)
    assert (found["auroc"], found["auroc_low"]) == (expected.value, expected.low) == (1.0, 1.0)
    assert found["error_at_80"] == statistics.error_at_coverage(entropies, wrong, 0.8).value == 0.0
    assert found["error_at_50"] == 0.0
    assert found["calibration_error"] == pytest.approx(statistics.calibration_error([0.25, 0.0, 0.75], wrong).value)
    assert found["accuracy"] == pytest.approx(2 / 3)


def test_log_probabilities_weigh_meanings_where_the_provider_has_them(tmp_path):
    score = scores_of(inspected(tmp_path / "with", logprob=-1.0)[0])[FRANCE]
    given = [{"text": text, "logprobs": [-1.0, -0.5]} for text in SAID[FRANCE][1]]
    assert score.metadata["from"] == "log-probabilities"
    assert score.value["semantic_entropy"] == pytest.approx(
        judging.meaning_judge().score(FRANCE, given).semantic_entropy
    )
    assert score.value["confidence"] == 0.75
    score = scores_of(inspected(tmp_path / "without", logprob=-1.0, logprobs=False)[0])[FRANCE]
    assert score.value["semantic_entropy"] == pytest.approx(entropy_of(3, 1))


def test_log_probabilities_of_other_tokens_are_not_used():
    from inspect_ai.model import Logprob, Logprobs

    from sdlg.integrations.inspect_plugin import _steps

    (choice,) = choices_of(["Paris"], -1.0)
    assert _steps(choice) == (-1.0, -0.5)
    choice.logprobs = Logprobs(content=[Logprob(token="Lyon", logprob=-1.0)])
    assert _steps(choice) == ()


def test_entropies_of_two_kinds_are_not_ranked_together(tmp_path):
    """One empty answer has no log-probabilities: its question is left out of the metrics, not the others."""
    said = {
        **SAID,
        HAMLET: ("Shakespeare", ["Shakespeare", "", "Marlowe", "Bacon"]),
        "Who?": ("Me", ["Me", "I", "You", "We"]),
    }
    found = metrics_of(inspected(tmp_path, said=said, logprob=-1.0, targets={**TARGETS, "Who?": "Me"})[0])
    assert found["auroc"] == 0.75  # gold, which is wrong, is above France and level with who
    assert found["accuracy"] == 0.75


def test_without_a_target_the_entropy_is_still_told(tmp_path):
    log, _ = inspected(tmp_path, targets={**TARGETS, GOLD: ""})
    score = scores_of(log)[GOLD]
    assert math.isnan(score.value["correct"])
    assert score.value["semantic_entropy"] == pytest.approx(math.log(4))
    assert math.isnan(metrics_of(log)["auroc"])  # all that were judged are right


def test_metrics_of_no_sample_are_undefined():
    from sdlg.integrations import inspect_plugin as plugin

    assert set(map(math.isnan, plugin.auroc()([]).values())) == {True}
    assert all(math.isnan(made()([])) for made in (plugin.error_at_80, plugin.error_at_50, plugin.calibration_error))


def test_epochs_are_averaged_and_another_scorer_may_say_what_is_right(tmp_path):
    from inspect_ai.scorer import includes

    log, _ = inspected(tmp_path, epochs=2, right=includes(), targets={**TARGETS, FRANCE: "par"})
    assert len(log.samples) == 6
    assert {sample.scores["semantic_entropy"].value["correct"] for sample in log.samples if sample.input == FRANCE} == {
        "C"
    }
    assert metrics_of(log)["auroc"] == 1.0


def test_two_answers_at_least():
    from sdlg.integrations.inspect_plugin import semantic_entropy

    with pytest.raises(BadOption, match="num_choices=1"):
        semantic_entropy(num_choices=1)


@pytest.fixture
def our_model(monkeypatch):
    """Every name is the scripted model."""
    from sdlg.integrations import inspect_plugin

    monkeypatch.setattr(inspect_plugin, "Pipeline", lambda name, **named: fake_pipeline(**named))
    return inspect_ai.model.get_model("sdlg/scripted", samples=4, memoize=False)


def test_our_models_answer_with_their_uncertainty(our_model, tmp_path):
    from inspect_ai.log import read_eval_log

    from sdlg.integrations.inspect_plugin import semantic_entropy

    task = inspect_ai.Task(dataset=[inspect_ai.dataset.Sample(input=FRANCE, target="Paris")], scorer=semantic_entropy())
    log = read_eval_log(inspect_ai.eval(task, model=our_model, display="none", log_dir=str(tmp_path))[0].location)
    assert log.status == "success", log.error
    expected, (sample,) = fake_pipeline(samples=4).ask(FRANCE), log.samples
    told = sample.output.metadata["uncertainty"]
    assert sample.output.completion == expected.answer.text
    assert told["semantic_entropy"] == pytest.approx(expected.semantic_entropy)
    assert told["confidence"] == pytest.approx(expected.clusters[0].share)
    assert sample.scores["semantic_entropy"].value["semantic_entropy"] == told["semantic_entropy"]
    assert len([event for event in sample.events if event.event == "model"]) == 1  # nothing was drawn again


def test_a_log_is_scored_afterwards_by_name(our_model, tmp_path):
    """As `inspect score LOG --scorer sdlg/semantic_entropy` does: found by its entry point."""
    from inspect_ai._util.registry import registry_lookup
    from inspect_ai.scorer import includes

    task = inspect_ai.Task(dataset=[inspect_ai.dataset.Sample(input=FRANCE, target="Paris")], scorer=includes())
    log = inspect_ai.eval(task, model=our_model, display="none", log_dir=str(tmp_path))[0]
    scorer = registry_lookup("scorer", "sdlg/semantic_entropy")()
    scored = inspect_ai.score(log, scorer, action="append", display="none")
    expected = fake_pipeline(samples=4).ask(FRANCE).semantic_entropy
    assert scores_of(scored)[FRANCE].value["semantic_entropy"] == pytest.approx(expected)


@pytest.mark.anyio
async def test_our_models_draw_choices_with_their_log_probabilities(our_model):
    output = await our_model.generate(
        FRANCE, config=inspect_ai.model.GenerateConfig(num_choices=6, logprobs=True, seed=1)
    )
    assert len(output.choices) == 6
    assert output.metadata is None
    assert len({choice.message.text for choice in output.choices}) > 1
    for choice in output.choices:
        assert "".join(token.token for token in choice.logprobs.content) == choice.message.text


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_our_models_call_no_tools(our_model):
    from inspect_ai.tool import ToolInfo

    with pytest.raises(NotSupported, match="no tools"):
        await our_model.api.generate(
            [], [ToolInfo(name="t", description="d")], "auto", inspect_ai.model.GenerateConfig()
        )


# -- lm-eval ------------------------------------------------------------------------------------------------------

lm_eval = pytest.importorskip("lm_eval")
TASKS = os.path.join(os.path.dirname(judging.__file__), "lm_eval_tasks")


def test_the_folder_of_tasks_is_told(capsys):
    assert main(["path", "lm-eval"]) == 0
    assert capsys.readouterr().out.strip() == TASKS
    assert main(["path", "nothing"]) == 2


@pytest.fixture
def run_lm_eval(monkeypatch, tmp_path):
    """The results of a task of ours on three questions, as `lm-eval --include_path` would run it."""
    from lm_eval.tasks import TaskManager

    from sdlg.integrations import lm_eval_plugin

    file = tmp_path / "own.jsonl"
    file.write_text("".join(f'{{"question": "{q}", "references": ["{TARGETS[q]}"]}}\n' for q in SAID))
    script = {**CAPITAL, "": {"It": 0.6, "Paris": 0.3, "Lyon": 0.1}}
    monkeypatch.setattr(
        lm_eval_plugin, "Pipeline", lambda model, device, **named: fake_pipeline(script, **{"samples": 4, **named})
    )
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))

    def run(model, task, **options):
        manager = TaskManager(
            include_path=TASKS, include_defaults=False, metadata={"questions": str(file), "model": "ignored"}
        )
        return lm_eval.simple_evaluate(model, tasks=[task], task_manager=manager, bootstrap_iters=0, **options)

    return run


def test_the_model_generates_and_its_answers_are_measured(run_lm_eval):
    results = run_lm_eval("sdlg", "sdlg_qa", model_args={"model": "scripted"}, device="cuda:0")
    expected = fake_pipeline(samples=4, max_tokens=32).ask(FRANCE)
    told = results["results"]["sdlg_qa"]
    assert told["correct,none"] == pytest.approx(1 / 3)  # it says Paris whatever is asked
    assert told["semantic_entropy,none"] == pytest.approx(expected.semantic_entropy)
    assert told["auroc_uncertainty,none"] == 0.5  # all are as sure
    assert told["error_at_80,none"] == pytest.approx(2 / 3)
    assert results["higher_is_better"]["sdlg_qa"]["auroc_uncertainty"]
    sample = results["samples"]["sdlg_qa"][0]
    assert sample["filtered_resps"] == ["It is Paris"]
    assert sample["semantic_entropy"] == pytest.approx(expected.semantic_entropy)


def test_any_model_is_measured_by_what_it_says_again(run_lm_eval):
    from lm_eval.api.model import LM

    class Said(LM):
        def generate_until(self, requests, disable_tqdm=False):
            assert {request.args[1]["do_sample"] for request in requests} == {True}
            left = {question: iter([*draws, *draws, *draws]) for question, (_, draws) in SAID.items()}
            return [next(left[request.doc["question"]]) for request in requests]

        def loglikelihood(self, requests, disable_tqdm=False):
            raise AssertionError

        loglikelihood_rolling = loglikelihood

    told = run_lm_eval(Said(), "sdlg_qa_sampled")["results"]["sdlg_qa_sampled"]
    assert told["correct,all"] == pytest.approx(2 / 3)
    assert told["auroc_uncertainty,all"] == 1.0
    assert told["error_at_80,all"] == 0.0
    france, gold = entropy_of(8, 2), entropy_of(3, 3, 2, 2)
    assert told["semantic_entropy,all"] == pytest.approx((france + 0 + gold) / 3)


def test_what_was_cached_keeps_its_entropy(run_lm_eval, tmp_path):
    """lm-eval's own cache of answers: the second run asks no model."""
    options = {"model_args": {"model": "scripted"}, "use_cache": str(tmp_path / "cache")}
    first, second = (run_lm_eval("sdlg", "sdlg_qa", **options)["results"] for _ in range(2))
    assert first == second
    assert not math.isnan(second["sdlg_qa"]["semantic_entropy,none"])


def test_the_metrics_serve_other_tasks():
    from lm_eval.api.registry import get_metric, get_metric_aggregation, is_higher_better

    from sdlg.integrations.lm_eval_plugin import Measured

    answers = [Measured("Paris"), Measured("Lyon"), Measured("Paris")]
    for answer, entropy in zip(answers, (0.1, 0.9, 0.2), strict=True):
        answer.semantic_entropy = entropy
    for name, value in (("auroc_uncertainty", 1.0), ("error_at_80", 0.0)):
        pairs = [get_metric(name)(references=["Paris"], predictions=[answer]) for answer in answers]
        assert pairs == [(0.1, 0.0), (0.9, 1.0), (0.2, 0.0)]
        assert get_metric_aggregation(name)(pairs) == value
    assert (is_higher_better("auroc_uncertainty"), is_higher_better("error_at_80")) == (True, False)


def test_what_cannot_be_measured_is_told(run_lm_eval, tmp_path):
    from sdlg.integrations.lm_eval_plugin import process_results, questions

    with pytest.raises(BadOption, match="repeats"):
        process_results({"question": "Who?", "references": ["Me"]}, ["Me"])
    with pytest.raises(NotSupported, match="do_sample"):
        run_lm_eval("sdlg", "sdlg_qa_sampled", model_args={"model": "scripted"})
    (tmp_path / "bad.jsonl").write_text('{"question": "Who?"}\n')
    with pytest.raises(BadQuestion, match=r"line-1: there is no reference"):
        questions(str(tmp_path / "bad.jsonl"))


def test_the_questions_that_come_with_the_package_can_be_asked():
    from sdlg.integrations.lm_eval_plugin import questions

    rows = questions()["test"]
    assert len(rows) > 10
    assert all(row["question"].endswith("?") and row["references"] for row in rows)


def test_naming_a_task_by_its_file_registers_the_model_too():
    """As `lm-eval run --model sdlg --tasks $(sdlg path lm-eval)/sdlg_qa.yaml` does, also in 0.4.13."""
    code = f"""from lm_eval.tasks._yaml_loader import load_yaml
load_yaml({os.path.join(TASKS, "sdlg_qa.yaml")!r}, resolve_func=True)
from lm_eval.api.registry import get_model
print(get_model("sdlg").__name__)"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "SdlgLM"


def test_newer_versions_find_the_same_objects_by_entry_points():
    from importlib.metadata import entry_points

    from lm_eval.api.registry import get_metric, get_model

    (model,) = entry_points(group="lm_eval.models", name="sdlg")
    assert model.load() is get_model("sdlg")
    for entry in entry_points(group="lm_eval.metrics"):
        if entry.value.startswith("sdlg."):
            assert entry.load() is get_metric(entry.name)
            assert entry.load().__name__ == entry.value.split(":")[1]
