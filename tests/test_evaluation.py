"""Runs: every stage, nothing lost, nothing done twice, the same rows however often a run is stopped."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import resource
import signal
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from fakes import CAPITAL, CONTRADICTION, ENTAILMENT, MEANINGS, FakeNli
from sdlg import Pipeline, ScriptedModel
from sdlg.cli import main
from sdlg.clustering import PairMemory, cluster_answers
from sdlg.errors import BadOption, RunError, ServerFailed, UnknownName, UsageError
from sdlg.evaluation.plan import Plan, make_plan, parse_method, plan_from, with_additions
from sdlg.evaluation.results import PAPER_COLUMNS, load_run
from sdlg.evaluation.run import local_engine, run_evaluation
from sdlg.evaluation.store import STAGES, JudgedRow, Store
from sdlg.loaded import Models
from sdlg.measures.table import find_measure
from sdlg.nli.base import NliProbabilities
from sdlg.options import Clustering, Loading, Options
from sdlg.records import Cost
from sdlg.schema import adapter

ROWS = [
    {"id": "paris", "question": "Where is the Louvre?", "references": ["It is Paris"], "false_references": ["Nice"]},
    {"id": "rome", "question": "Where is the Forum?", "references": ["Rome"]},
    {"id": "none", "question": "Where is nothing?", "references": []},
]
METHODS = ("sdlg", "multinomial:temperature=0.5", "arithmetic:top_p=0.9")
LEXICAL = ("rouge_l", "rouge_1", "exact_match")


def write(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def plan_of(data, *, methods=("sdlg",), samples=4, measures=("SE*_SDLG", "PE"), **others):
    changes = {"samples": samples, **others.pop("changes", {})}
    others = {"metrics": LEXICAL, **others}  # judges that need no weights
    return make_plan(
        data, model="scripted", nli="fake", changes=changes, methods=methods, measures=measures, **others
    )  # fmt: skip


def scripted(script=CAPITAL, judged=MEANINGS):
    return Models(ScriptedModel(script), FakeNli(judged))


def run(plan, folder, *, models=None, **named):
    """Make a run with a script instead of weights; return its results."""
    run_evaluation(plan, folder, engine=partial(local_engine, models=models or scripted()), **named)
    return load_run(folder)


class Refusing(Models):
    """Models that must not be loaded."""

    def __init__(self):
        super().__init__("none", "none")

    @property
    def language_model(self):
        pytest.fail("the language model was loaded")

    @property
    def nli(self):
        pytest.fail("the NLI model was loaded")


def stored(folder):
    """All rows of a run, but for how long they took."""
    found = {stage: Store(folder).rows(stage) for stage in STAGES}
    found["generate"] = {name: dataclasses.replace(row, seconds={}) for name, row in found["generate"].items()}
    return found


# -- plans ------------------------------------------------------------------------------------------------------


def test_methods_are_read_with_their_options():
    method = parse_method("diverse-beam:diversity-penalty=0.25:top_p=0.5", Options())
    assert method.name == "diverse_beam:diversity_penalty=0.25:top_p=0.5"
    assert (method.options.diversity_penalty, method.options.top_p) == (0.25, 0.5)
    assert parse_method(method.name, Options()) == method


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("nucleus", UnknownName, "unknown method 'nucleus'"),
        ("multinomial:temprature=1", UnknownName, "did you mean temperature"),
        ("multinomial:temperature", BadOption, "write name=value"),
        ("multinomial:temperature=hot", BadOption, "must be a number, not 'hot'"),
        ("multinomial:temperature=0", BadOption, "from 0.01"),
        ("sdlg:linkage=components", BadOption, "linkage cannot differ between the methods"),
        ("sdlg:samples=5", BadOption, "samples cannot differ between the methods"),
        ("sdlg:max-tokens=5", BadOption, "--set max_tokens=5"),
        ("sdlg:dtype=float16", BadOption, "dtype cannot differ"),
    ],
)
def test_a_bad_method_is_refused_before_anything_is_loaded(text, error, words):
    with pytest.raises(error, match=words):
        parse_method(text, Options())


def test_draws_are_made_by_sdlg_and_had_from_methods_that_draw_themselves():
    methods = ("sdlg", "multinomial", "multinomial:temperature=0.5", "arithmetic:top_p=0.5", "arithmetic", "beam")
    assert [parse_method(name, Options()).draws for name in methods] == [5, 5, 0, 0, 5, 0]
    assert parse_method("sdlg", Options(draws=0)).draws == 0


def test_bad_plans_are_refused():
    with pytest.raises(UnknownName, match="unknown measure"):
        plan_of("x.jsonl", measures=("SE_XX",))
    with pytest.raises(BadOption, match="named twice"):
        plan_of("x.jsonl", methods=("multinomial", "multinomial:temperature=1"))
    with pytest.raises(UnknownName, match="unknown metric"):
        plan_of("x.jsonl", metrics=("rouge_9",))
    with pytest.raises(BadOption, match="--bleurt CHECKPOINT"):
        plan_of("x.jsonl", metrics=("bleurt",))
    with pytest.raises(BadOption, match="--limit must be at least 1"):
        plan_of("x.jsonl", limit=0)


def test_a_plan_survives_its_json():
    loading = Loading(gradients="another", device="cpu", other_models=("x",))
    plan = plan_of("x.jsonl", methods=METHODS, limit=3, changes={"stop_strings": ("x",)}, loading=loading)
    document = json.loads(json.dumps(adapter(Plan).dump_python(plan, mode="json")))
    assert plan_from(document) == plan
    assert (plan.fixed["gradients"], plan.fixed["stop_strings"], "device" in plan.fixed) == ("another", ("x",), False)


def test_default_measures_hold_the_papers_and_ask_no_language_model():
    plan = plan_of("x.jsonl", measures=())
    assert {find_measure(name).name for _, name in PAPER_COLUMNS.values()} <= set(plan.measures)
    assert {"share_entropy", "share_beyond_answer"} <= set(plan.measures)
    assert not any(find_measure(name).needs & {"p_true", "assessment", "other_logprobs"} for name in plan.measures)


def test_seeds_depend_on_the_run_and_the_question_only():
    seeds = {parse_method("sdlg", Options(seed=s)).for_question(name).seed for s in range(5) for name in "abc"}
    assert len(seeds) == 15
    assert parse_method("sdlg", Options()).for_question("a") == parse_method("sdlg", Options()).for_question("a")


# -- a run ------------------------------------------------------------------------------------------------------


def test_a_run_goes_through_all_stages(tmp_path):
    seen = []
    found = run(plan_of(write(tmp_path / "q.jsonl")), tmp_path / "run", watch=seen.append)
    assert found.ids == ("paris", "rome")
    assert found.skipped == {"none": "there is no reference answer"}
    assert [(p.finished, p.total) for p in seen] == [(1, 3), (2, 3), (3, 3)]
    assert found.correctness("rouge_l").tolist() == [1.0, 0.0]
    assert found.wrong("rouge_l", 0.5).tolist() == [False, True]
    generated = found.generated["paris"]
    assert generated.answer.text == generated.methods["sdlg"].texts[0] == "It is Paris"
    assert set(generated.seconds) == {"answer", "sdlg", "clusters"}
    values = found.values("sdlg", "SE*_SDLG")
    assert np.isfinite(values).all()
    assert found.values("sdlg", "SE*_SDLG", 1)[0] != values[0]
    assert "SE*_SDLG" not in found.measures("sdlg")  # stored under its own name


ONE_ANSWER = {"": {"Paris": 1.0}, "Paris": {"<end>": 1.0}}


@pytest.mark.parametrize("linkage", ["greedy_first", "components"])
@pytest.mark.parametrize("method", ["sdlg", "multinomial"])
@pytest.mark.parametrize("script", [CAPITAL, ONE_ANSWER], ids=["many answers", "one answer"])
def test_rows_are_those_of_asking(tmp_path, method, script, linkage):
    """The run's numbers are those of `Pipeline.ask` with the same seed and draws, at every number of samples."""
    names = ("SE*_SDLG" if method == "sdlg" else "SE*_MS", "PE", "coverage", "DSE", "share_entropy")
    names += ("share_beyond_answer",) if method == "sdlg" else ()
    plan = plan_of(
        write(tmp_path / "q.jsonl", ROWS[:1]), methods=(method,), samples=5, measures=names,
        changes={"linkage": linkage},
    )  # fmt: skip
    found = run(plan, tmp_path / "run", models=scripted(script))
    seed = plan.all_methods[0].for_question("paris").seed
    for n in range(2, 6):
        pipeline = Pipeline(
            models=scripted(script), method=method, samples=n, seed=seed, measures=names, calibration="none",
            linkage=linkage,
        )  # fmt: skip
        asked = pipeline.ask("Where is the Louvre?").estimates
        for name in names:
            value = found.values(method, name, n)[0]
            assert value == pytest.approx(asked[name].value, abs=1e-12) if name in asked else np.isnan(value)


def test_draws_are_stored_with_their_clusters_and_made_once(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), methods=METHODS, measures=("share_entropy", "PE"))
    found = run(plan, tmp_path / "run")
    methods = found.generated["paris"].methods
    draws = methods["sdlg"].draws
    assert len(draws.samples) == 5
    assert all(draw.cluster is not None and not draw.generation.alternatives for draw in draws.samples)
    assert [methods[name].draws for name in METHODS[1:]] == [None, None]
    assert [name for name in METHODS if "share_entropy" in found.measures(name)] == ["sdlg"]
    without = run(
        plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), measures=("PE",), changes={"draws": 0}), tmp_path / "without"
    )
    assert without.generated["paris"].methods["sdlg"].draws is None
    assert without.generated["paris"].methods["sdlg"].samples == methods["sdlg"].samples  # draws move no sample


def test_clusters_of_any_kind_come_from_the_stored_verdicts(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), samples=6, measures=("EigV",), changes={"draws": 0})
    generated = run(plan, tmp_path / "run").generated["paris"]
    texts = generated.methods["sdlg"].texts
    memory = PairMemory(lambda *_: pytest.fail("asked again"))
    generated.pairs["sdlg"].remembered_in(memory, texts)
    nli = FakeNli(MEANINGS)
    for equivalence, linkage in [("strict", "greedy_first"), ("strict", "components"), ("not_contradiction",) * 2]:
        clustering = Clustering(equivalence=equivalence, linkage=linkage if linkage != equivalence else "greedy_first")
        direct = cluster_answers("", texts, nli.judge, clustering).numbers
        assert cluster_answers("", texts, memory.judge, clustering).numbers == direct
    again = cluster_answers("", texts, memory.judge, plan.options.clustering)
    clusters = tuple(sample.cluster for sample in generated.methods["sdlg"].samples)
    assert (clusters, again.cost) == (again.numbers, Cost())


def test_only_the_pairs_that_are_needed_are_judged_and_the_rest_when_they_are(tmp_path):
    """Clusters ask for few pairs; a measure of all pairs that is added later asks for the rest, with the same value."""
    data = write(tmp_path / "q.jsonl", ROWS[:1])
    few, whole = plan_of(data, samples=6, measures=("PE",)), plan_of(data, samples=6, measures=("PE", "EigV"))
    runs = {"few": run(few, tmp_path / "few"), "whole": run(whole, tmp_path / "whole")}
    rows = {name: found.generated["paris"] for name, found in runs.items()}
    assert 0 < rows["few"].nli_pairs < rows["whole"].nli_pairs
    assert rows["few"].methods["sdlg"].samples == rows["whole"].methods["sdlg"].samples
    assert any(cell is None for row in rows["few"].pairs["sdlg"].entailment for cell in row)
    added = run(whole, tmp_path / "few")
    for name in whole.measures_of("sdlg"):
        np.testing.assert_allclose(added.values("sdlg", name), runs["whole"].values("sdlg", name), atol=1e-6)


def test_the_answer_among_draws_is_clustered_as_they_are_and_asks_no_pair_again(tmp_path):
    asked = []

    def undecided(first, second):
        asked.append((first, second))
        return NliProbabilities(0.0, 1.0, 0.0)

    plan = plan_of(
        write(tmp_path / "q.jsonl", ROWS[:1]), methods=("multinomial",), samples=8, measures=("disagreement",),
        changes={"equivalence": "strict"},
    )  # fmt: skip
    found = run(plan, tmp_path / "run", models=scripted(judged=undecided))
    answer, sampled = found.generated["paris"].answer, found.generated["paris"].methods["multinomial"]
    assert sampled.texts[0] != answer.text  # so the answer is no sample
    others = sampled.texts[:-1]
    expected = sum(text != answer.text for text in others) / len(others)
    assert 0 < expected == pytest.approx(found.values("multinomial", "disagreement")[0])
    assert len(asked) == len(set(asked))


def test_the_answer_among_few_draws_does_not_know_of_later_ones(tmp_path):
    """One draw that means what both do joins the answer and the others, but only from where it was drawn on."""

    def through(middle):
        return lambda first, second: ENTAILMENT if middle in (first, second) else CONTRADICTION

    changes = {"equivalence": "strict", "linkage": "components"}
    data = write(tmp_path / "q.jsonl", ROWS[:1])
    plan = plan_of(data, methods=("multinomial",), samples=8, measures=("disagreement",), changes=changes)
    first = run(plan, tmp_path / "first").generated["paris"]
    texts = (first.answer.text, *first.methods["multinomial"].texts[:-1])
    place = next(k for k, text in enumerate(texts) if k > 1 and text not in texts[:k])
    found = run(plan, tmp_path / "run", models=scripted(judged=through(texts[place])))
    expected = sum(text != texts[0] for text in texts[1:place]) / (place - 1)
    assert 0 < expected == found.values("multinomial", "disagreement", place)[0]
    assert found.values("multinomial", "disagreement", place + 1)[0] == 0.0


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


def test_whether_the_answer_is_true_is_asked_once_for_all_methods(tmp_path):
    """A model that says A with another probability each time it is asked."""
    asked = []

    class Judging(ScriptedModel):
        def prompt(self, question, *rest):
            asked.append(question.text) if "Possible answer" in question.text else None
            return super().prompt(question, *rest)

    letters = {**CAPITAL, "": {**CAPITAL[""], "A": 0.03, "B": 0.01}}
    methods = ("sdlg", "multinomial")
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:2]), methods=methods, measures=("P(True)", "PE"))
    found = run(plan, tmp_path / "run", models=Models(Judging(letters), FakeNli(MEANINGS)))
    assert len(asked) == 2
    for method in methods:
        assert found.values(method, "P(True)").tolist() == pytest.approx([0.25, 0.25])


def test_the_dear_relevance_is_that_of_one_methods_draws():
    methods = ("sdlg", "multinomial:temperature=0.5", "arithmetic", "multinomial")
    plan = plan_of("q.jsonl", methods=methods, measures=("SAR", "PE"))
    assert [method for method in methods if "sar" in plan.measures_of(method)] == ["multinomial:temperature=0.5"]


def test_a_finished_run_loads_nothing(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run(plan, tmp_path / "run")
    before = stored(tmp_path / "run")
    run(plan, tmp_path / "run", models=Refusing())
    assert stored(tmp_path / "run") == before


def test_stages_can_be_run_one_by_one(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"), methods=METHODS, measures=("PE", "DSE", "EigV", "share_entropy"))
    run(plan, tmp_path / "whole")
    for stage in STAGES:
        run(plan, tmp_path / "parts", stages=(stage,))
    assert stored(tmp_path / "parts") == stored(tmp_path / "whole")


def test_rows_that_were_read_are_those_that_were_made(tmp_path):
    """What a stage hands to the next without writing it is what the next would have read."""
    plan = plan_of(write(tmp_path / "q.jsonl"), methods=METHODS)
    made = {}

    def engine(*given):
        for name, new in local_engine(*given, models=scripted()):
            made[name] = new
            yield name, new

    run_evaluation(plan, tmp_path / "run", engine=engine)
    for stage in STAGES:
        assert Store(tmp_path / "run").rows(stage) == {
            name: rows[stage] for name, rows in made.items() if stage in rows
        }


@pytest.mark.parametrize("in_flight", [1, 3])
def test_rows_do_not_depend_on_the_order_of_the_questions_nor_on_threads(tmp_path, in_flight):
    rows = [{**ROWS[0], "id": f"q{k}"} for k in range(5)]
    one = plan_of(write(tmp_path / "one.jsonl", rows), methods=METHODS)
    other = plan_of(write(tmp_path / "other.jsonl", rows[::-1]), methods=METHODS, loading=Loading(in_flight=in_flight))
    run(one, tmp_path / "one")
    run(
        other,
        tmp_path / "other",
        models=Models(ScriptedModel(CAPITAL), FakeNli(MEANINGS), Loading(in_flight=in_flight)),
    )
    assert stored(tmp_path / "other") == stored(tmp_path / "one")


def test_a_new_measure_generates_nothing_again(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"), measures=("PE", "EigV"), changes={"draws": 0})
    run(plan, tmp_path / "run")
    before = stored(tmp_path / "run")
    more = with_additions(plan, plan, measures=("number_of_clusters",))
    found = run(more, tmp_path / "run", models=Refusing(), stages=("measure",))
    after = stored(tmp_path / "run")
    clusters = [len({sample.cluster for sample in found.generated[name].methods["sdlg"].samples}) for name in found.ids]
    assert found.values("sdlg", "number_of_clusters").tolist() == clusters == [2, 2]
    assert (after["generate"], after["judge"]) == (before["generate"], before["judge"])
    old = before["measure"]["paris"].values["sdlg"]
    assert after["measure"]["paris"].values["sdlg"].items() >= old.items()


def test_a_new_metric_judges_only_by_itself(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"), metrics=("rouge_l",))
    run(plan, tmp_path / "run")
    found = run(
        with_additions(plan, plan, metrics=("contains",)), tmp_path / "run", models=Refusing(), stages=("judge",)
    )
    assert found.metrics == ("rouge_l", "contains")
    assert len((tmp_path / "run" / "judge.jsonl").read_text().splitlines()) == 4


def test_answers_that_are_empty_are_rows_like_any_other(tmp_path):
    found = run(
        plan_of(write(tmp_path / "q.jsonl", ROWS[:1])), tmp_path / "run", models=scripted({"": {"<end>": 1.0}}, None)
    )
    assert found.generated["paris"].answer.text == ""
    assert found.correctness("rouge_l").tolist() == [0.0]


def test_stock_replies_are_judged_with_and_without(tmp_path):
    rows = [
        {"question": f"Q{k}?", "best_answer": "because", "correct_answers": ["I have no comment"] * (k == 2),
         "incorrect_answers": []} for k in range(6)
    ]  # fmt: skip
    write(tmp_path / "truthfulqa.jsonl", rows)
    script = {"": {"I have no comment.": 1.0}}
    found = run(plan_of("truthfulqa"), tmp_path / "run", data_dir=tmp_path, models=scripted(script))
    assert found.has_stock
    assert found.correctness("exact_match").tolist() == [1.0]
    assert found.correctness("exact_match", stock=False).tolist() == [0.0]
    run(plan_of("truthfulqa"), tmp_path / "run", models=Refusing())  # it remembers where the data was


# The changed word " Q" makes " A Q:" with what stood before it: the branch's text ends before the change.
ENDS_EARLY = {
    "": {"Paris": 1.0},
    "Paris": {" A": 1.0},
    "Paris A": {" B": 0.6, " Q": 0.4},
    "Paris A B": {"<end>": 1.0},
    "Paris A Q": {":": 1.0},
}


def test_branches_whose_ending_began_before_the_change_are_measured(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), samples=3, changes={"stop_strings": (" A Q:",)})
    assert np.isfinite(run(plan, tmp_path / "run", models=scripted(ENDS_EARLY)).values("sdlg", "SE*_SDLG")[0])


def test_measures_of_the_answer_are_of_the_answer_that_is_judged(tmp_path):
    method, names = "multinomial:temperature=2.0", ("G-NLL", "PPL", "PE")
    plan = plan_of(
        write(tmp_path / "q.jsonl", ROWS[:1]), methods=(method,), samples=6, measures=names, changes={"seed": 0}
    )
    found = run(plan, tmp_path / "run", models=scripted({"": {"Paris": 0.6, "Lyon": 0.4}}))
    generated = found.generated["paris"]
    drawn = generated.methods[method].generations
    assert drawn[0].text != generated.answer.text  # or this shows nothing
    assert found.values(method, "G-NLL")[0] == pytest.approx(-np.log(0.6))
    assert found.values(method, "PPL", 1)[0] == pytest.approx(found.values(method, "PPL")[0])
    assert found.values(method, "PE")[0] == pytest.approx(-sum(g.logprob for g in drawn) / len(drawn))


# -- what can go wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": 5}, "samples=4, not 5"),
        ({"methods": ("sdlg", "multinomial")}, "methods=sdlg, not sdlg,multinomial"),
        ({"changes": {"seed": 3}}, "seed=0, not 3"),
        ({"changes": {"draws": 0}}, "draws=5, not 0"),
        ({"limit": 2}, "limit=None, not 2"),
        ({"loading": Loading(dtype="float16", device="cpu")}, "dtype=None, not float16; use"),
        (
            {"loading": Loading(similarity_model="x"), "limit": 1},
            "limit=None, not 1, and similarity_model=minilm, not x",
        ),
    ],
)
def test_resuming_with_another_option_is_refused_by_name(tmp_path, change, words):
    data = write(tmp_path / "q.jsonl")
    run(plan_of(data), tmp_path / "run")
    before = stored(tmp_path / "run")
    with pytest.raises(UsageError, match=words):
        run(plan_of(data, **change), tmp_path / "run")
    assert stored(tmp_path / "run") == before


def test_a_fit_of_the_equivalence_that_was_made_meanwhile_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path / "home"))
    from sdlg.clustering.same_answer import fitted_file, fitted_same_answer

    data, fit = write(tmp_path / "q.jsonl"), fitted_same_answer("fake")
    run(plan_of(data), tmp_path / "run")
    fitted_file("fake").parent.mkdir(parents=True)
    fitted_file("fake").write_text(json.dumps({"weights": dict(fit.weights), "threshold": 0.9}))
    with pytest.raises(UsageError, match="same_answer_fit=None, not"):
        run(plan_of(data), tmp_path / "run")


def test_the_stages_of_another_run_are_not_gone_on_with(tmp_path):
    data = write(tmp_path / "q.jsonl")
    run(plan_of(data), tmp_path / "run")
    (tmp_path / "run" / "generate.jsonl").unlink()
    with pytest.raises(UsageError, match="samples=4, not 3"):
        run(plan_of(data, samples=3), tmp_path / "run")


def test_a_server_that_is_down_for_a_moment_is_never_stored_as_a_missing_value(tmp_path):
    class Down(ScriptedModel):
        def decode(self, request):
            if request.alternatives_above == 1e-9:  # as P(True) asks
                raise ServerFailed("down for a moment")
            return super().decode(request)

    plan = plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), measures=("P(True)",))
    with pytest.raises(ServerFailed):
        run(plan, tmp_path / "run", models=Models(Down(CAPITAL), FakeNli(MEANINGS)))
    assert not (tmp_path / "run" / "measure.jsonl").exists()


def test_resuming_with_other_data_is_refused(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run(plan, tmp_path / "run")
    write(tmp_path / "q.jsonl", ROWS[:2])
    with pytest.raises(UsageError, match=r"is not what .* was begun with"):
        run(plan, tmp_path / "run")


def test_a_torn_last_line_is_cut_off_and_made_again(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run(plan, tmp_path / "run")
    whole = stored(tmp_path / "run")
    for stage in STAGES:
        path = Store(tmp_path / "run").file(stage)
        os.truncate(path, path.stat().st_size - 7)
    run(plan, tmp_path / "run")
    assert stored(tmp_path / "run") == whole


@pytest.mark.parametrize(
    ("stage", "row", "words"),
    [
        ("generate", "{broken", "Expecting property name"),
        ("generate", '{"id": "q", "question": "q", "answer": []}', "answer"),
        ("generate", '{"id": "q", "skipped": 3}', "question"),
        ("generate", '{"id": "q", "question": "q"}', "an answer"),
        ("generate", '{"id": "q", "question": "q", "methods": {"sdlg": {"samples": [], "words": [3], "cost": {}}}}',
         r"methods\.sdlg\.words\[0\]"),
        ("generate", '{"id": "q", "question": "q", "pairs": {"sdlg": {"distinct": ["a"]}}}',
         r"pairs\.sdlg\.distinct\[0\]"),
        ("measure", f'{{"id": "q", "values": {{"sdlg": {{"PE": [{10**400}]}}}}}}', r"values\.sdlg\.PE\[0\]"),
        ("measure", '{"id": "q", "values": {"sdlg": {"PE": 1.0}}}', r"values\.sdlg\.PE"),
        ("measure", '{"id": "q", "reasons": {"sdlg": ["PE"]}}', r"reasons\.sdlg"),
        ("judge", '{"id": "q", "scores": {"rouge": "high"}}', r"scores\.rouge: .*not 'high'"),
        ("judge", '{"id": 3, "scores": {}}', "id"),
        ("judge", "[]", ""),
    ],
)  # fmt: skip
def test_a_damaged_row_is_named_with_its_file_line_field_and_what_to_do(tmp_path, stage, row, words):
    store = Store(tmp_path)
    good = '{"id": "p", "question": "q", "skipped": "x"}' if stage == "generate" else '{"id": "p"}'
    store.file(stage).write_text(f"{good}\n{row}\n")
    with pytest.raises(RunError, match=rf"{stage}\.jsonl, line 2 is damaged; remove that line and resume.*{words}"):
        store.rows(stage)


def test_a_flipped_byte_is_noticed(tmp_path):
    store = Store(tmp_path)
    for name in ("q1", "q2"):
        store.append("judge", JudgedRow(name, {"rouge": 0.5}))
    assert store.rows("judge")["q2"] == JudgedRow("q2", {"rouge": 0.5})
    file = store.file("judge")
    file.write_bytes(file.read_bytes().replace(b'"q2", "scores": {"rouge": 0.5', b'"q2", "scores": {"rouge": 0.7'))
    with pytest.raises(RunError, match="line 2 is damaged; remove that line"):
        store.rows("judge")


@pytest.mark.parametrize("room", [0, 1, 900, 3000, 9000])
def test_a_full_disk_loses_no_row(tmp_path, room):
    """What did not fit is taken back, whatever of it was written."""
    store = Store(tmp_path / "run")
    store.make_folder()
    store.append("judge", JudgedRow("first"))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (store.file("judge").stat().st_size + room, hard))
    try:
        with pytest.raises(RunError, match=r"Nothing is lost: free some space"):
            store.append("judge", JudgedRow("second", {"q" * 10_000: 1.0}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert store.rows("judge") == {"first": JudgedRow("first")}
    store.append("judge", JudgedRow("third"))
    assert list(store.rows("judge")) == ["first", "third"]


def test_a_run_that_never_began_may_be_asked_for_otherwise(tmp_path):
    """A model that was mistyped is no reason to delete a folder."""
    data = write(tmp_path / "q.jsonl")
    with pytest.raises(RunError, match="no-model"):
        run_evaluation(make_plan(data, model=str(tmp_path / "no-model"), nli="fake", changes={}), tmp_path / "run")
    assert run(plan_of(data), tmp_path / "run").model == "scripted"


def test_a_stage_without_those_before_it_is_refused(tmp_path):
    with pytest.raises(UsageError, match="measure needs generate first"):
        run(plan_of(write(tmp_path / "q.jsonl")), tmp_path / "run", stages=("measure",))


def test_two_writers_do_not_meet_and_the_refused_one_changes_nothing(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    run(plan, tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_text()
    more = with_additions(plan, plan, measures=("number_of_clusters",))
    with Store(tmp_path / "run").writing(), pytest.raises(UsageError, match="another sdlg eval is writing"):
        run(more, tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_text() == before


def test_measures_that_ask_the_model_are_had_by_name(tmp_path):
    found = run(plan_of(write(tmp_path / "q.jsonl", ROWS[:1]), measures=("P(True)",)), tmp_path / "run")
    assert np.isnan(found.values("sdlg", "P(True)")).all()
    assert "gives none of the letters any probability" in next(iter(found.reasons("sdlg", "P(True)")))


def test_every_session_is_noted(tmp_path):
    plan = plan_of(write(tmp_path / "q.jsonl"))
    for _ in range(2):
        found = run(plan, tmp_path / "run")
    assert len(found.config["sessions"]) == 2
    assert found.versions["python"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"plan": None}, "plan"),
        ({"data": {}}, r"data\.name"),
        ({"order": [1]}, r"order\[0\]"),
        ({"sessions": 3}, "sessions"),
        ({"plan": {"options": []}}, r"plan\.options"),
        ({"plan": {"options": {"samples": 10**400}}}, "samples"),
        ({"plan": {"options": {"samples": 0}}}, "samples must be"),
        ({"crc32": "00000000"}, "checksum"),
    ],
    ids=str,
)
def test_a_damaged_description_is_named_with_its_field(tmp_path, change, words):
    run(plan_of(write(tmp_path / "q.jsonl", ROWS[:1])), tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    document = json.loads(path.read_text())
    if isinstance(change.get("plan"), dict):
        change = {"plan": {**document["plan"], **change["plan"]}}
    document.pop("crc32")
    path.write_text(json.dumps({**document, **change}))
    with pytest.raises(RunError, match=rf"run\.json is damaged.*{words}"):
        load_run(tmp_path / "run")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.jsonl").write_text("{}\n")
    with pytest.raises(BadOption, match=r"holds JSONL files but no run\.json"):
        run(plan_of(write(tmp_path / "q.jsonl")), tmp_path / "mine")
    with pytest.raises(BadOption, match="is no run"):
        load_run(tmp_path)


def test_data_of_which_no_row_can_be_used_is_an_error_with_the_reasons(tmp_path, capsys):
    data = write(tmp_path / "q.jsonl", [ROWS[2], {"question": "Who?"}, {"references": ["x"]}])
    assert main(["eval", "--data", data, "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr()
    assert "none of the 3 rows of q.jsonl can be used: there is no reference answer (2 rows)" in said.err
    assert "question" in said.err
    assert "sdlg report" not in said.out
    assert not (tmp_path / "run").exists()


# -- the command, with real models ------------------------------------------------------------------------------


def command(folders, data, *more):
    return [
        "eval", "--data", data, "--model", folders[0], "--nli", folders[1], "--samples", "3", "--max-tokens", "5",
        "--methods", "sdlg,multinomial,diverse-beam:diversity_penalty=0.5",
        "--measures", "SE*_SDLG,PE,DSE,share_entropy", *more,
    ]  # fmt: skip


def test_a_question_longer_than_the_context_is_a_skip_with_its_reason(tmp_path, tiny_folders, capsys):
    long = {"id": "long", "question": "the cat sat " * 4000, "references": ["x"]}
    arguments = command(tiny_folders, write(tmp_path / "q.jsonl", [long, {**ROWS[1], "question": "who?"}]))
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 0
    found = load_run(tmp_path / "run")
    assert found.ids == ("rome",)
    assert "tokens, but" in found.skipped["long"]
    capsys.readouterr()
    arguments = command(tiny_folders, write(tmp_path / "long.jsonl", [long]))
    assert main([*arguments, "--out", str(tmp_path / "none")]) == 1
    shown = capsys.readouterr().out
    assert "1 skipped: " in shown
    assert "next:" not in shown


QUESTIONS = [{"question": f"who is {k} the cat?", "references": ["the cat", "Paris"]} for k in range(40)]


def test_the_command_runs_summarises_resumes_and_exports(tmp_path, tiny_folders, capsys):
    data, out = write(tmp_path / "q.jsonl", QUESTIONS[:3]), str(tmp_path / "run")
    assert main([*command(tiny_folders, data), "--out", out]) == 0
    shown = capsys.readouterr()
    assert "3 of 3 questions of q.jsonl went through all stages" in shown.out
    assert "next: sdlg report" in shown.out
    assert "fewer than 20 answers are right" in shown.out
    assert "3/3" in shown.err
    assert main(["eval", "--out", out]) == 0  # as it was begun
    assert main(["eval", "measure", "--out", out, "--measures", "number_of_clusters"]) == 0
    assert "number_of_clusters" in load_run(Path(out)).measures("sdlg")
    capsys.readouterr()
    for flags, words in [
        (["--samples", "4"], "samples=3, not 4"),
        (["--model", "another"], "not another"),
        (["--set", "temperature=0.5"], "temperature=1.0, not 0.5"),
        (["--methods", "sdlg"], "not sdlg"),
        (["--workers", "3"], "--workers is for --ray"),
    ]:
        assert main(["eval", "--out", out, *flags]) == 2
        assert words in capsys.readouterr().err
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


def test_killed_at_random_moments_a_run_ends_with_the_rows_of_an_undisturbed_one(tmp_path, tiny_folders):
    """Real processes, SIGKILL at random moments while rows are being made, then one that is left alone."""
    data, chance = write(tmp_path / "q.jsonl", QUESTIONS), random.Random(5)
    context = get_context("forkserver")
    preloaded = ["sdlg.evaluation.worker", "sdlg.models.transformers.loading", "sdlg.nli.classifier"]
    context.set_forkserver_preload(preloaded)
    whole, broken = tmp_path / "whole", tmp_path / "broken"

    def start(folder):
        process = context.Process(target=_run_command, args=([*command(tiny_folders, data), "--out", str(folder)],))
        process.start()
        return process

    def size():
        return sum(path.stat().st_size for path in broken.glob("*.jsonl")) if broken.exists() else 0

    for _ in range(4):  # `make test-faults` kills more of them
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
