"""Runs: every stage, nothing lost, nothing done twice, the same rows however often a run is stopped."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import resource
import signal
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from fakes import CAPITAL, CONTRADICTION, ENTAILMENT, MEANINGS, FakeNli
from sdlg import ScriptedModel
from sdlg.cli import main
from sdlg.clustering import PairMemory, cluster_answers
from sdlg.errors import BadOption, RunError, UnknownName, UsageError
from sdlg.evaluation import run_models
from sdlg.evaluation.plan import make_plan, parse_clustering, parse_method, plan_from, seeded, with_additions
from sdlg.evaluation.results import PAPER_COLUMNS, load_run
from sdlg.evaluation.run import run_evaluation
from sdlg.evaluation.store import STAGES, Store
from sdlg.measures.table import find_measure
from sdlg.nli.base import NliProbabilities
from sdlg.options import Options
from sdlg.records import Cost

ROWS = [
    {"id": "paris", "question": "Where is the Louvre?", "references": ["It is Paris"], "false_references": ["Nice"]},
    {"id": "rome", "question": "Where is the Forum?", "references": ["Rome"]},
    {"id": "none", "question": "Where is nothing?", "references": []},
]
METHODS = ("sdlg", "multinomial:temperature=0.5", "diverse_beam")


LEXICAL = ("rouge_l", "rouge_1", "exact_match")


@pytest.fixture
def scripted(monkeypatch):
    """Workers that use a script instead of weights."""

    def load(name, **_):
        if name == "none":
            raise RunError("no such model")
        return ScriptedModel(CAPITAL)

    monkeypatch.setattr(run_models, "load_model", load)
    monkeypatch.setattr(run_models, "load_nli", lambda name, **_: FakeNli(MEANINGS))


def write(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def plan_of(data, *, methods=("sdlg",), samples=4, measures=("SE*_SDLG", "PE"), **others):
    changes = {"samples": samples, **others.pop("changes", {})}
    others = {"metrics": LEXICAL, **others}  # judges that need no weights
    return make_plan(
        data, model="scripted", nli="fake", preset="default", changes=changes, methods=methods, measures=measures,
        similarity_model="minilm", **others,
    )  # fmt: skip


def stored(folder):
    """All rows of a run, but for how long they took."""
    found = {stage: Store(folder).rows(stage) for stage in STAGES}
    for rows in found.values():
        for row in rows.values():
            row.pop("seconds", None)
    return found


# -- plans ------------------------------------------------------------------------------------------------------


def test_methods_are_read_with_their_options():
    method = parse_method("diverse-beam:penalty=0.25:groups=5", Options())
    assert method.name == "diverse_beam:diversity_penalty=0.25:groups=5"
    assert (method.options.decoding.diversity_penalty, method.options.decoding.groups) == (0.25, 5)
    assert parse_method("sdlg:ranking=raw", Options()).options.scoring.ranking == "raw"
    assert parse_method(method.name, Options()) == method


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("nucleus", UnknownName, "unknown method 'nucleus'; choose from: arithmetic, beam, diverse_beam"),
        ("multinomial:temprature=1", UnknownName, "unknown option 'temprature'"),
        ("multinomial:temperature", BadOption, "write name=value"),
        ("multinomial:temperature=hot", BadOption, "must be a number, not 'hot'"),
        ("multinomial:temperature=0", BadOption, "from 0.01"),
        ("sdlg:linkage=components", BadOption, "does not shape a method's samples"),
        ("sdlg:samples=5", BadOption, "samples cannot differ between methods"),
        ("sdlg:max-tokens=5", BadOption, "use --max-tokens 5"),
    ],
)
def test_a_bad_method_is_told_before_anything_is_loaded(text, error, words):
    with pytest.raises(error, match=words):
        parse_method(text, Options())


def test_the_model_of_the_gradients_is_part_of_a_run_and_older_runs_had_the_default():
    plan = plan_of("x.jsonl", gradients="another")
    assert plan.fixed()["gradients"] == "another"
    assert plan_from(plan.to_dict()) == plan
    older = {name: value for name, value in plan.to_dict().items() if name != "gradients"}
    assert plan_from(older).gradients == "nli-minilm"


def test_the_judge_of_a_run_is_loaded_with_its_gradients(monkeypatch):
    named = []
    monkeypatch.setattr(run_models, "load_nli", lambda name, **more: named.append(more["gradients"]))
    _ = run_models.RunModels(plan_of("x.jsonl", gradients="another"), run_models.RuntimeConfig()).nli
    assert named == ["another"]


def test_the_seconds_of_the_answer_and_of_each_method_are_kept(tmp_path, scripted):
    run_evaluation(plan_of(write(tmp_path / "x.jsonl"), methods=("sdlg", "multinomial")), tmp_path / "run")
    kept = [row["seconds"] for row in Store(tmp_path / "run").rows("generate").values() if "seconds" in row]
    assert kept
    assert all(set(seconds) == {"answer", "sdlg", "multinomial"} for seconds in kept)


def test_bad_plans_are_told():
    with pytest.raises(UnknownName, match="unknown measure"):
        plan_of("x.jsonl", measures=("SE_XX",))
    with pytest.raises(BadOption, match="named twice"):
        plan_of("x.jsonl", methods=("sdlg", "sdlg"))
    with pytest.raises(BadOption, match="named twice"):
        plan_of("x.jsonl", methods=("multinomial", "multinomial:temperature=1"))
    with pytest.raises(BadOption, match=r"equivalence\+linkage"):
        plan_of("x.jsonl", clusterings=("strict",))
    with pytest.raises(UnknownName, match="unknown metric"):
        with_additions(plan_of("x.jsonl"), None, metrics=("rouge_9",))
    with pytest.raises(BadOption, match="--bleurt CHECKPOINT"):
        with_additions(plan_of("x.jsonl"), None, metrics=("bleurt",))


def test_a_plan_survives_its_json():
    plan = plan_of(
        "x.jsonl", methods=METHODS, clusterings=("strict+components",), limit=3, changes={"stop_strings": ("x",)}
    )
    assert plan_from(json.loads(json.dumps(plan.to_dict()))) == plan


def test_default_measures_hold_the_papers_and_ask_no_language_model():
    plan = plan_of("x.jsonl", measures=())
    assert {find_measure(name).name for _, name in PAPER_COLUMNS.values()} <= set(plan.measures)
    assert all("p_true" not in measure.needs for measure in plan.all_measures.values())


def test_seeds_depend_on_the_run_and_the_question_only():
    method = parse_method("multinomial", Options())
    assert seeded(method, 0, "a") == seeded(method, 0, "a")
    assert len({seeded(method, run, name).options.seed for run in range(5) for name in "abc"}) == 15


# -- a run ------------------------------------------------------------------------------------------------------


def test_a_run_goes_through_all_stages(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"), clusterings=("not_contradiction+last_match",))
    seen = []
    run_evaluation(plan, tmp_path / "run", watch=seen.append)
    run = load_run(tmp_path / "run")
    assert run.ids == ("paris", "rome")
    assert run.skipped == {"none": "there is no reference answer"}
    assert [(p.finished, p.total) for p in seen] == [(1, 3), (2, 3), (3, 3)]
    assert run.correctness("rouge_l").tolist() == [1.0, 0.0]
    assert run.wrong("rouge_l", 0.5).tolist() == [False, True]
    assert run.generated["paris"].answer.text == "It is Paris"
    assert run.generated["paris"].methods["sdlg"].texts[0] == "It is Paris"
    values = run.values("sdlg", "SE*_SDLG")
    assert np.isfinite(values).all()
    assert run.values("sdlg", "SE*_SDLG", 1)[0] != values[0]
    assert "SE*_SDLG" not in run.measures("sdlg")  # stored under its own name
    assert f"{find_measure('SE*_SDLG').name} @ not_contradiction+last_match" in run.measures("sdlg")
    assert f"{find_measure('PE').name} @ not_contradiction+last_match" not in run.measures("sdlg")


ONE_ANSWER = {"": {"Paris": 1.0}, "Paris": {"<end>": 1.0}}


@pytest.mark.parametrize("method", ["sdlg", "multinomial"])
@pytest.mark.parametrize("script", [CAPITAL, ONE_ANSWER], ids=["many answers", "one answer"])
def test_rows_are_those_of_asking(tmp_path, monkeypatch, method, script):
    """The run's numbers are those of `Pipeline.ask` with the same seed, at every number of samples."""
    from sdlg import Pipeline

    monkeypatch.setattr(run_models, "load_model", lambda *_, **__: ScriptedModel(script))
    monkeypatch.setattr(run_models, "load_nli", lambda *_, **__: FakeNli(MEANINGS))
    names = ("SE*_SDLG" if method == "sdlg" else "SE*_MS", "PE", "coverage", "semantic_entropy_proper_unique_total")
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), methods=(method,), samples=5, measures=names)
    run_evaluation(plan, tmp_path / "run")
    run = load_run(tmp_path / "run")
    seed = seeded(plan.all_methods[0], 0, "paris").options.seed
    for n in range(2, 6):
        pipeline = Pipeline(
            ScriptedModel(script), FakeNli(MEANINGS), method=method, samples=n, seed=seed, measures=names
        )
        asked = pipeline.ask("Where is the Louvre?").estimates
        for name in names:
            value = run.values(method, name, n)[0]
            assert value == pytest.approx(asked[name].value, abs=1e-12) if name in asked else np.isnan(value)


def test_clusters_of_any_kind_come_from_the_stored_verdicts(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), samples=6, measures=("EigV",))
    run_evaluation(plan, tmp_path / "run")
    run = load_run(tmp_path / "run")
    texts = run.generated["paris"].methods["sdlg"].texts
    stored_clusters = run.clustered["paris"].methods["sdlg"]
    memory = PairMemory(lambda *_: pytest.fail("asked again"))
    stored_clusters.table.remembered_in(memory, texts)
    judge_again = memory.judge
    nli = FakeNli(MEANINGS)
    for name in ("strict+greedy_first", "strict+components", "not_contradiction+last_match"):
        clustering = parse_clustering(name)
        direct = cluster_answers("", texts, nli.judge, clustering).numbers
        assert cluster_answers("", texts, judge_again, clustering).numbers == direct
    again = cluster_answers("", texts, judge_again, plan.options.clustering)
    assert (stored_clusters.clusters, again.cost) == (again.numbers, Cost())


def test_only_the_pairs_that_are_needed_are_judged_and_the_rest_when_they_are(tmp_path, scripted):
    """Clusters ask for few pairs; a measure of all pairs that is added later asks for the rest, with the same value."""
    data = write(tmp_path / "q.jsonl", ROWS[:1])
    few, whole = plan_of(data, samples=6, measures=("PE",)), plan_of(data, samples=6, measures=("PE", "EigV"))
    run_evaluation(few, tmp_path / "few")
    run_evaluation(whole, tmp_path / "whole")
    runs = {name: load_run(tmp_path / name) for name in ("few", "whole")}
    asked = {name: run.clustered["paris"].nli_pairs for name, run in runs.items()}
    assert 0 < asked["few"] < asked["whole"]
    tables = {name: run.clustered["paris"].methods["sdlg"] for name, run in runs.items()}
    assert tables["few"].clusters == tables["whole"].clusters
    assert any(cell is None for row in tables["few"].table.entailment for cell in row)

    run_evaluation(whole, tmp_path / "few")
    added = load_run(tmp_path / "few")
    for method in few.methods:
        for name in whole.measures_of(method):
            np.testing.assert_allclose(added.values(method, name), runs["whole"].values(method, name), atol=1e-6)


def test_the_answer_among_draws_is_clustered_as_they_are_and_asks_no_pair_again(tmp_path, scripted, monkeypatch):
    """Where nothing entails and nothing contradicts, all differ under one clustering and none under the other."""
    asked = []

    def undecided(first, second):
        asked.append((first, second))
        return NliProbabilities(0.0, 1.0, 0.0)

    monkeypatch.setattr(run_models, "load_nli", lambda name, **_: FakeNli(undecided))
    data = write(tmp_path / "q.jsonl", ROWS[:1])
    other = "not_contradiction+last_match"
    plan = plan_of(
        data, methods=("multinomial",), samples=8, measures=("disagreement",), clusterings=(other,),
        changes={"equivalence": "strict"},
    )  # fmt: skip
    run_evaluation(plan, tmp_path / "run")
    run = load_run(tmp_path / "run")
    answer, sampled = run.generated["paris"].answer, run.generated["paris"].methods["multinomial"]
    assert sampled.texts[0] != answer.text  # so the answer is no sample
    others = sampled.texts[:-1]
    expected = sum(text != answer.text for text in others) / len(others)
    assert 0 < expected == pytest.approx(run.values("multinomial", "disagreement")[0])
    assert run.values("multinomial", f"disagreement @ {other}")[0] == 0.0
    assert len(asked) == len(set(asked))


def test_the_answer_among_few_draws_does_not_know_of_later_ones(tmp_path, scripted, monkeypatch):
    """One draw that means what both do joins the answer and the others, but only from where it was drawn on."""

    def through(middle):
        def joined(first, second):
            return ENTAILMENT if middle in (first, second) else CONTRADICTION

        return lambda name, **_: FakeNli(joined)

    data = write(tmp_path / "q.jsonl", ROWS[:1])
    changes = {"equivalence": "strict", "linkage": "components"}
    plan = plan_of(data, methods=("multinomial",), samples=8, measures=("disagreement",), changes=changes)
    run_evaluation(plan, tmp_path / "first")
    found = load_run(tmp_path / "first").generated["paris"]
    texts = (found.answer.text, *found.methods["multinomial"].texts[:-1])
    place = next(k for k, text in enumerate(texts) if k > 1 and text not in texts[:k])
    monkeypatch.setattr(run_models, "load_nli", through(texts[place]))
    run_evaluation(plan, tmp_path / "run")
    run = load_run(tmp_path / "run")
    expected = sum(text != texts[0] for text in texts[1:place]) / (place - 1)
    assert 0 < expected == run.values("multinomial", "disagreement", place)[0]
    assert run.values("multinomial", "disagreement", place + 1)[0] == 0.0


def test_a_table_with_gaps_is_filled_as_one_without_would_have_been():
    """Answers that differ in case only are one, also where pairs are asked later; known ones are not asked again."""
    texts, judge = ("Paris", "Lyon", "paris", "Rome"), FakeNli(MEANINGS).judge
    whole, part, asked = PairMemory(judge), PairMemory(judge), []
    whole.judge_all("", texts)
    part.judge("", [("Paris", "Lyon"), ("Rome", "Paris")])
    table = part.table(texts)
    assert (table.asked(4), table.asked(2), whole.table(texts).asked(4)) == (2, 1, 6)
    assert table.of_answers(table.entailment) is None

    def ask(question, pairs):
        asked.extend(pairs)
        return judge(question, pairs)

    later = PairMemory(ask)
    table.remembered_in(later, texts)
    later.judge_all("", texts)
    assert later.table(texts) == whole.table(texts)
    assert sorted(asked) == [("Lyon", "Paris"), ("Lyon", "Rome"), ("Paris", "Rome"), ("Rome", "Lyon")]


def test_whether_the_answer_is_true_is_asked_once_for_all_methods(tmp_path, scripted, monkeypatch):
    from sdlg.measures import inputs

    asked, said = [], (0.25, 0.5)

    def ask(task):
        asked.append(task.question)
        return dataclasses.replace(task.inputs, p_true=said[len(asked) - 1])

    monkeypatch.setitem(inputs._COMPUTE, "p_true", ask)
    methods = ("sdlg", "multinomial")
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:2]), methods=methods, measures=("P(True)", "PE"))
    run_evaluation(plan, tmp_path / "run")
    assert len(asked) == 2
    run = load_run(tmp_path / "run")
    for method in methods:
        assert run.values(method, "P(True)").tolist() == [0.75, 0.5]


def test_the_dear_relevance_is_that_of_one_methods_draws(tmp_path):
    methods = ("sdlg", "multinomial:temperature=0.5", "arithmetic", "multinomial")
    plan = plan_of(write(tmp_path / "q.jsonl"), methods=methods, measures=("SAR", "PE"))
    assert [method for method in methods if "sar" in plan.measures_of(method)] == ["multinomial:temperature=0.5"]


def test_a_finished_run_loads_nothing(tmp_path, scripted, monkeypatch):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run_evaluation(plan, tmp_path / "run")
    before = stored(tmp_path / "run")
    for name in ("load_model", "load_nli", "load_similarity", "load_metrics"):
        monkeypatch.setattr(run_models, name, lambda *_, **__: pytest.fail("loaded again"))
    run_evaluation(plan, tmp_path / "run")
    assert stored(tmp_path / "run") == before


def test_stages_can_be_run_one_by_one(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run_evaluation(plan, tmp_path / "whole")
    for stage in STAGES:
        run_evaluation(plan, tmp_path / "parts", stages=(stage,))
    assert stored(tmp_path / "parts") == stored(tmp_path / "whole")


def test_a_new_measure_generates_nothing_again(tmp_path, scripted, monkeypatch):
    plan = plan_of(write(tmp_path / "q.jsonl"), measures=("PE", "EigV"))
    run_evaluation(plan, tmp_path / "run")
    before = stored(tmp_path / "run")
    for name in ("load_model", "load_nli"):
        monkeypatch.setattr(run_models, name, lambda *_, **__: pytest.fail("loaded again"))
    more = with_additions(plan, plan, measures=("number_of_clusters",), clusterings=("strict+components",))
    run_evaluation(more, tmp_path / "run", stages=("measure",))
    after = stored(tmp_path / "run")
    run = load_run(tmp_path / "run")
    found = [len(set(row["methods"]["sdlg"]["clusters"])) for row in before["cluster"].values()]
    assert run.values("sdlg", "number_of_clusters").tolist() == found == [2, 2]
    assert {"number_of_clusters", "number_of_clusters @ strict+components"} <= set(run.measures("sdlg"))
    assert after["generate"] == before["generate"]
    old = before["measure"]["paris"]["values"]["sdlg"]
    assert after["measure"]["paris"]["values"]["sdlg"].items() >= old.items()


def test_answers_that_are_empty_are_rows_like_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr(run_models, "load_model", lambda *_, **__: ScriptedModel({"": {"<end>": 1.0}}))
    monkeypatch.setattr(run_models, "load_nli", lambda *_, **__: FakeNli())
    run_evaluation(plan_of(write(tmp_path / "q.jsonl", ROWS[:1])), tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert run.generated["paris"].answer.text == ""
    assert run.correctness("rouge_l").tolist() == [0.0]


def test_stock_replies_are_judged_with_and_without(tmp_path, scripted):
    from sdlg.datasets import DataSet, Item
    from sdlg.evaluation import run as running
    from sdlg.records import Question

    item = Item("a", Question("Why?"), ("because",), (), ("It is Paris",))
    plan = plan_of("truthfulqa")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "load_data", lambda *_: DataSet("truthfulqa", (item,)))
        run_evaluation(plan, tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert run.has_stock
    assert run.correctness("exact_match").tolist() == [1.0]
    assert run.correctness("exact_match", stock=False).tolist() == [0.0]


# -- what can go wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": 5}, "--samples 4, not 5"),
        ({"methods": ("sdlg", "multinomial")}, "--methods sdlg, not sdlg,multinomial"),
        ({"changes": {"seed": 3}}, "--seed 0, not 3"),
        ({"changes": {"ranking": "raw"}}, "--ranking dense_rank, not raw"),
        ({"limit": 2}, "--limit None, not 2"),
    ],
)
def test_resuming_with_another_option_is_refused_by_name(tmp_path, scripted, change, words):
    data = write(tmp_path / "q.jsonl")
    run_evaluation(plan_of(data), tmp_path / "run")
    before = stored(tmp_path / "run")
    with pytest.raises(UsageError, match=words):
        run_evaluation(plan_of(data, **change), tmp_path / "run")
    assert stored(tmp_path / "run") == before


def test_resuming_with_other_data_is_refused(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run_evaluation(plan, tmp_path / "run")
    write(tmp_path / "q.jsonl", ROWS[:2])
    with pytest.raises(UsageError, match=r"is not what .* was begun with"):
        run_evaluation(plan, tmp_path / "run")


def test_a_torn_last_line_is_cut_off_and_made_again(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run_evaluation(plan, tmp_path / "run")
    whole = stored(tmp_path / "run")
    for stage in STAGES:
        path = Store(tmp_path / "run").file(stage)
        os.truncate(path, path.stat().st_size - 7)
    run_evaluation(plan, tmp_path / "run")
    assert stored(tmp_path / "run") == whole


def test_a_damaged_line_in_the_middle_is_told(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run_evaluation(plan, tmp_path / "run")
    path = tmp_path / "run" / "judge.jsonl"
    path.write_bytes(b"{broken\n" + path.read_bytes())
    with pytest.raises(RunError, match=r"judge.jsonl, line 1 is damaged; remove that line and resume"):
        run_evaluation(plan, tmp_path / "run")


@pytest.mark.parametrize("room", [0, 1, 900, 3000, 9000])
def test_a_full_disk_loses_no_row(tmp_path, room):
    """What did not fit is taken back, whatever of it was written."""
    store = Store(tmp_path / "run")
    store.make_folder()
    store.append("judge", {"id": "first"})
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (store.file("judge").stat().st_size + room, hard))
    try:
        with pytest.raises(RunError, match=r"Nothing is lost: free some space"):
            store.append("judge", {"id": "second", "text": "q" * 10_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert store.rows("judge") == {"first": {"id": "first"}}
    store.append("judge", {"id": "third"})
    assert list(store.rows("judge")) == ["first", "third"]


def test_a_run_that_never_began_may_be_asked_for_otherwise(tmp_path, scripted):
    """A model that was mistyped is no reason to delete a folder."""
    data = write(tmp_path / "q.jsonl")
    with pytest.raises(RunError, match="no such model"):
        run_evaluation(make_plan(
            data, model="none", nli="fake", preset="default", changes={}, methods=("sdlg",), similarity_model="minilm",
        ), tmp_path / "run")  # fmt: skip
    run_evaluation(plan_of(data), tmp_path / "run")
    assert load_run(tmp_path / "run").model == "scripted"


def test_a_stage_without_those_before_it_is_refused(tmp_path, scripted):
    with pytest.raises(UsageError, match="measure needs generate first"):
        run_evaluation(plan_of(write(tmp_path / "q.jsonl")), tmp_path / "run", stages=("measure",))


def test_a_refused_writer_changes_nothing(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run_evaluation(plan, tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_text()
    more = with_additions(plan, plan, measures=("number_of_clusters",))
    with Store(tmp_path / "run").writing(), pytest.raises(UsageError, match="another sdlg eval"):
        run_evaluation(more, tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_text() == before


def test_measures_that_ask_the_model_are_had_by_name(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), measures=("P(True)",))
    run_evaluation(plan, tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert np.isnan(run.values("sdlg", "P(True)")).all()
    assert "gives none of the letters any probability" in next(iter(run.reasons("sdlg", "P(True)")))


def test_every_session_is_noted(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    for _ in range(2):
        run_evaluation(plan, tmp_path / "run")
    described = Store(tmp_path / "run").read_description()
    assert len(described["sessions"]) == 2
    assert load_run(tmp_path / "run").versions["python"]


@pytest.mark.parametrize("missing", ["plan", "data"])
def test_a_damaged_description_is_told(tmp_path, scripted, missing):
    run_evaluation(plan_of(write(tmp_path / "q.jsonl")), tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != missing}))
    with pytest.raises(RunError, match=f"damaged: it has no {missing}"):
        load_run(tmp_path / "run")


def test_two_writers_do_not_meet(tmp_path, scripted):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run_evaluation(plan, tmp_path / "run")
    with Store(tmp_path / "run").writing(), pytest.raises(UsageError, match="another sdlg eval is writing"):
        run_evaluation(plan, tmp_path / "run")


def test_a_folder_of_something_else_is_left_alone(tmp_path, scripted):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.jsonl").write_text("{}\n")
    with pytest.raises(BadOption, match=r"holds JSONL files but no run\.json"):
        run_evaluation(plan_of(write(tmp_path / "q.jsonl")), tmp_path / "mine")
    with pytest.raises(BadOption, match="is no run"):
        load_run(tmp_path)


def test_a_question_longer_than_the_context_is_a_skip_with_its_reason(tmp_path, tiny_folders):
    rows = [{"id": "long", "question": "the cat sat " * 4000, "references": ["x"]}, {**ROWS[1], "question": "who?"}]
    assert main([*command(tiny_folders, write(tmp_path / "q.jsonl", rows)), "--out", str(tmp_path / "run")]) == 0
    run = load_run(tmp_path / "run")
    assert run.ids == ("rome",)
    assert "tokens, but" in run.skipped["long"]


# -- the command, with real models ------------------------------------------------------------------------------


def command(folders, data, *more):
    return [
        "eval", "--data", data, "--model", folders[0], "--nli", folders[1], "--samples", "3", "--max-tokens", "5",
        "--methods", "sdlg,multinomial,diverse-beam:penalty=0.5",
        "--measures", "SE*_SDLG,PE,semantic_entropy_frequency", *more,
    ]  # fmt: skip


QUESTIONS = [{"question": f"who is {k} the cat?", "references": ["the cat", "Paris"]} for k in range(40)]


def test_the_command_runs_summarises_resumes_and_exports(tmp_path, tiny_folders, capsys):
    data, out = write(tmp_path / "q.jsonl", QUESTIONS[:3]), str(tmp_path / "run")
    assert main([*command(tiny_folders, data), "--out", out]) == 0
    shown = capsys.readouterr()
    assert "3 of 3 questions of q.jsonl went through all stages" in shown.out
    assert "sdlg report" in shown.out
    assert "fewer than 20 answers are right" in shown.out
    assert "3/3" in shown.err
    assert main(["eval", "--out", out]) == 0  # as it was begun
    assert main(["eval", "measure", "--out", out, "--measures", "number_of_clusters"]) == 0
    assert "number_of_clusters" in load_run(Path(out)).measures("sdlg")
    assert main(["eval", "--out", out, "--samples", "4"]) == 2
    assert "leave out --samples" in capsys.readouterr().err
    assert main(["eval", "--out", out, "--model", "another"]) == 2
    assert "leave out --model" in capsys.readouterr().err
    assert main(["eval", "--out", out, "--workers", "3"]) == 2
    assert main(["eval", "export", "--out", out]) == 0
    import pyarrow.parquet as parquet

    samples = parquet.read_table(Path(out) / "samples.parquet").to_pylist()
    assert {row["method"] for row in samples} == {"sdlg", "multinomial", "diverse_beam:diversity_penalty=0.5"}
    assert parquet.read_table(Path(out) / "questions.parquet").num_rows == 3
    assert parquet.read_table(Path(out) / "measures.parquet").num_rows > 0


def test_the_command_says_what_is_missing(tmp_path, capsys):
    assert main(["eval", "--out", str(tmp_path / "new")]) == 2
    assert "name the data to begin one" in capsys.readouterr().err
    assert main(["eval", "--out", str(tmp_path / "new"), "--data", "squad"]) == 2
    assert main(["eval", "--out", str(tmp_path / "new"), "--data", write(tmp_path / "q.jsonl"), "--limit", "0"]) == 2
    assert not (tmp_path / "new").exists()


def _run_command(arguments):
    main(arguments)


def test_killed_at_ten_moments_a_run_ends_with_the_rows_of_an_undisturbed_one(tmp_path, tiny_folders):
    """Real processes, SIGKILL at random moments while rows are being made, then one that is left alone."""
    data, chance = write(tmp_path / "q.jsonl", QUESTIONS), random.Random(5)
    context = get_context("forkserver")
    context.set_forkserver_preload(["sdlg.evaluation.worker", "sdlg.models.transformers.loading", "sdlg.nli.classifier"])
    whole, broken = tmp_path / "whole", tmp_path / "broken"

    def start(folder):
        process = context.Process(target=_run_command, args=([*command(tiny_folders, data), "--out", str(folder)],))
        process.start()
        return process

    def size():
        return sum(path.stat().st_size for path in broken.glob("*.jsonl")) if broken.exists() else 0

    for _ in range(10):
        process, before = start(broken), size()
        while process.is_alive() and size() == before:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.08))
        assert process.is_alive()  # or it would not be killed while at work
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    for folder in (broken, whole):
        process = start(folder)
        process.join()
        assert process.exitcode == 0
    assert len(stored(whole)["judge"]) == len(QUESTIONS)
    assert stored(broken) == stored(whole)
