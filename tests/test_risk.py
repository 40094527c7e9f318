"""A calibration in use: maps, words, files, and whether it holds for what is asked of it."""

from __future__ import annotations

import argparse
import io
import json
import math
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import sdlg
from fakes import fake_pipeline
from sdlg.cli.flags import add_asking, add_models, add_options, named_setup
from sdlg.errors import BadOption, RunError, UnknownName
from sdlg.formats.files import write_whole
from sdlg.options import PACKAGED, Options, flat_options, options_from
from sdlg.records import Question
from sdlg.risk import Origin, RejectionRule, Risk, in_words, lookup
from sdlg.risk.combination import PLAIN, Combination
from sdlg.risk.maps import IsotonicMap, LogisticMap
from sdlg.views.terminal import print_result

SCHEMA = Path(sdlg.__file__).parent / "formats" / "result.schema.json"

ISOTONIC = IsotonicMap((0.0, 1.0, 2.0), (0.1, 0.1, 0.9))
LOGISTIC = LogisticMap(-1.0, 2.0, 0.0, 3.0)
KEEP = RejectionRule(0.2, 0.7, 60, 9, 300, 0.08, 0.26)
MEASURE = "semantic_entropy_frequency"


def origin(**changes) -> Origin:
    return Origin(
        **{
            "model": "scripted", "nli": "fake-nli", "method": "sdlg", "preset": "default", "measures": (MEASURE,),
            "higher_is_less_certain": True, "samples": 10, "metric": "rouge_l", "threshold": 0.5,
            "data": {"name": "triviaqa", "sha256": "ab"}, "options": flat_options(asdict(Options())), **changes,
        }
    )  # fmt: skip


def risk(**changes) -> Risk:
    return Risk(
        **{
            "map": ISOTONIC, "smallest": 1 / 32, "n": 300, "n_wrong": 120, "origin": origin(), "keep": KEEP,
            "out_of_fold": {"brier": 0.2}, "created": "2026-01-01T00:00:00+00:00", "notes": ("rough",),
            "versions": {"sdlg": "0.1.0", "run": {}}, **changes,
        }
    )  # fmt: skip


def asked(**options):
    return fake_pipeline(**options).ask("What is the capital of France?")


def for_result(result, **changes) -> Risk:
    """A calibration that was made like this result."""
    made = {"model": result.model, "nli": result.nli, "samples": result.options.samples}
    return risk(origin=origin(**{**made, "options": flat_options(asdict(result.options)), **changes}))


# -- maps -------------------------------------------------------------------------------------------------------


def test_maps_by_hand():
    assert ISOTONIC([0.5, 1.5]).tolist() == pytest.approx([0.1, 0.5])
    assert LOGISTIC(0.5) == pytest.approx(0.5)
    assert LOGISTIC(1.0) == pytest.approx(1 / (1 + math.exp(-1)))


def test_beyond_what_was_seen_the_risk_is_that_of_the_last_value_seen():
    assert ISOTONIC([-5.0, 9.0]).tolist() == [0.1, 0.9]
    assert LOGISTIC([-5.0, 9.0]).tolist() == LOGISTIC([0.0, 3.0]).tolist()


@given(st.floats(-1e300, 1e300), st.floats(-1e3, 1e3), st.floats(0, 1e3))
def test_a_logistic_map_never_overflows(value, intercept, slope):
    assert 0 <= LogisticMap(intercept, slope, -1e3, 1e3)(value) <= 1


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=20))
def test_the_risk_never_falls_with_the_uncertainty(values):
    ordered = sorted(values)
    for made in (risk(), risk(map=LOGISTIC)):
        found = [made(value) for value in ordered]
        assert found == sorted(found)


def test_no_risk_is_finer_than_the_answers_support():
    made = risk(map=IsotonicMap((0.0, 1.0), (0.0, 1.0)))
    assert made(0.0) == 1 / 32
    assert made(1.0) == 1 - 1 / 32
    assert made(0.4) == pytest.approx(0.4)


def test_an_undefined_value_has_an_undefined_risk():
    assert math.isnan(risk()(math.nan))
    assert risk().sentence(math.nan) == f"{MEASURE} is undefined for this answer, and so is its risk"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"map": IsotonicMap((0.0, 1.0), (0.9, 0.1))}, "not monotone"),
        ({"map": LogisticMap(0.0, -1.0, 0.0, 1.0)}, "not monotone"),
        ({"origin": origin(higher_is_less_certain=False)}, "not monotone"),
        ({"n_wrong": 0}, "cannot be calibrated"),
        ({"n_wrong": 300}, "cannot be calibrated"),
        ({"smallest": 0.5}, "smallest risk"),
    ],
)
def test_a_calibration_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        risk(**changes)


def test_a_measure_of_certainty_has_a_falling_map():
    made = risk(map=IsotonicMap((0.0, 1.0), (0.9, 0.1)), origin=origin(higher_is_less_certain=False))
    assert made(0.0) > made(1.0)
    assert made.keeps(0.8)
    assert not made.keeps(0.6)


# -- words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "about 1 in 1000 such answers is wrong"),
        (0.031, "about 1 in 30 such answers is wrong"),
        (0.05, "about 1 in 20 such answers is wrong"),
        (0.1, "about 1 in 10 such answers is wrong"),
        (0.149, "about 1 in 7 such answers is wrong"),
        (0.15, "about 2 in 10 such answers are wrong"),
        (0.5, "about 5 in 10 such answers are wrong"),
        (0.7, "about 7 in 10 such answers are wrong"),
        (0.92, "about 9 in 10 such answers are wrong"),
        (0.95, "about 19 in 20 such answers are wrong"),
        (0.97, "nearly all such answers are wrong"),
        (1.0, "nearly all such answers are wrong"),
    ],
)
def test_risks_in_words(share, words):
    assert in_words(share) == words


@given(st.floats(0, 1))
def test_words_never_say_none_or_all_and_are_close(share):
    words = in_words(share)
    assert " 0 in" not in words
    assert "10 in 10" not in words
    if words.startswith("about"):
        count, of = (int(part) for part in words.removeprefix("about ").split(" such")[0].split(" in "))
        assert count / of == pytest.approx(share, abs=0.051)


def test_the_sentence_is_clipped_to_what_the_answers_support():
    made = risk(map=IsotonicMap((0.0, 1.0), (0.0, 1.0)))
    assert made.sentence(0.0) == "about 1 in 30 such answers is wrong"
    assert replace(made, smallest=1 / 12).sentence(0.0) == "about 1 in 10 such answers is wrong"
    assert replace(made, smallest=1 / 12).sentence(1.0) == "about 9 in 10 such answers are wrong"


def test_the_basis_says_what_was_measured():
    assert risk().basis == "measured on 300 answers to triviaqa, 180 of them right (wrong is rouge_l below 0.5)"
    unsure = risk(out_of_fold={"skill": {"value": 0.1, "low": -0.01, "high": 0.2}})
    assert unsure.basis.endswith(f"(wrong is rouge_l below 0.5; {MEASURE} was not shown to tell more than that share)")
    sure = risk(out_of_fold={"skill": {"value": 0.1, "low": 0.01, "high": 0.2}})
    strange = risk(out_of_fold={"skill": "little"})  # a file that somebody edited
    assert sure.basis == strange.basis == risk().basis


# -- keeping ----------------------------------------------------------------------------------------------------


def test_answers_are_kept_up_to_the_threshold_if_there_is_one():
    assert risk().keeps(0.7) is True
    assert risk().keeps(0.71) is False
    assert risk().keeps(math.nan) is None
    assert risk(keep=replace(KEEP, threshold=None)).keeps(0.0) is None


def test_coverage_and_error_rate_are_those_of_the_counts():
    assert (KEEP.coverage, KEEP.error_rate) == (0.2, 0.15)
    nothing = RejectionRule(0.2, None, 0, 0, 300, None, None)
    assert nothing.coverage == 0.0
    assert math.isnan(nothing.error_rate)


# -- does it hold here? -----------------------------------------------------------------------------------------


def test_a_result_made_alike_has_no_warnings_and_its_value_is_found():
    result = asked()
    made = for_result(result)
    assert made.check(result) == []
    assert made.value_in(result) == result.estimates[MEASURE].value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "gpt2"}, "--model gpt2, not scripted"),
        ({"method": "multinomial"}, "--method multinomial, not sdlg"),
        ({"measures": ("SAR",)}, "is of SAR, which the result does not have; add --measures 'SAR'"),
        (
            {
                "measures": (f"{MEASURE} @ strict+components",),
                "options": {**flat_options(asdict(Options())), "equivalence": "strict", "linkage": "components"},
            },
            "--linkage components, not greedy_first",
        ),
        (
            {"method": "sdlg:beams=3", "options": {**flat_options(asdict(Options())), "beams": 3}},
            "--beams 3, not 5",
        ),
    ],
)
def test_another_model_method_or_measure_is_an_error(changes, message):
    result = asked()
    with pytest.raises(BadOption, match=message.replace("(", r"\(")):
        for_result(result, **changes).check(result)


def test_other_differences_are_warnings():
    result = asked()
    options = {**flat_options(asdict(result.options)), "max_tokens": 7, "seed": 99, "weighting": "uniform"}
    found = for_result(result, nli="other", samples=5, options=options).check(result)
    assert found == [
        "the calibration was made with --nli other, not fake-nli: the risk may be off",
        "the calibration was made with --samples 5, not 10: the risk may be off",
        "the calibration was made with --max-tokens 7, not 64: the risk may be off",
    ]


def test_options_of_scoring_only_matter_to_sdlg():
    result = asked(method="multinomial")
    options = {**flat_options(asdict(result.options)), "ranking": "raw"}
    assert for_result(result, method="multinomial", options=options).check(result) == []


def test_options_that_are_lists_in_the_file_are_compared_as_such():
    result = asked(stop_strings=("\n",))
    assert for_result(result).check(result) == []
    options = {**flat_options(asdict(result.options)), "stop_strings": []}
    assert len(for_result(result, options=options).check(result)) == 1


def test_a_measure_is_found_under_an_alias():
    result = asked(measures=["DSE"])
    without = replace(result, estimates={"DSE": result.estimates["DSE"]})
    assert for_result(result).value_in(without) == result.estimates["DSE"].value


def test_a_measure_that_was_asked_for_and_is_undefined_is_not_an_error():
    result = asked(method="multinomial", measures=["semantic_entropy_importance_only"])
    made = for_result(result, method="multinomial", measures=("semantic_entropy_importance_only",))
    assert math.isnan(made.value_in(result))
    assert made.check(result) == []


def test_a_setup_is_checked_before_anything_is_generated():
    pipeline = fake_pipeline()
    made = for_result(pipeline.ask("What?"))
    assert made.check_setup(pipeline.model.name, pipeline.nli.name, pipeline.method, pipeline.options) == []
    with pytest.raises(BadOption, match="--method sdlg, not beam"):
        made.check_setup(pipeline.model.name, pipeline.nli.name, "beam", pipeline.options)


# -- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made", [risk(), risk(map=LOGISTIC), risk(keep=RejectionRule(0.2, None, 0, 0, 300, None, None, "no"))]
)
def test_a_file_gives_back_what_was_saved(made, tmp_path):
    made.save(tmp_path / "risk.json")
    again = Risk.load(tmp_path / "risk.json")
    assert again == made
    values = np.linspace(-1, 4, 50)
    assert [again(value) for value in values] == [made(value) for value in values]


def test_the_file_is_plain_json_that_says_its_format(tmp_path):
    risk().save(tmp_path / "risk.json")
    found = json.loads((tmp_path / "risk.json").read_text())
    assert found["format"] == "sdlg.calibration/2"
    assert found["map"] == {"kind": "isotonic", "values": [0.0, 1.0, 2.0], "risks": [0.1, 0.1, 0.9]}


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    for made in (risk(), risk(map=LOGISTIC)):
        made.save(tmp_path / "risk.json")
    assert Risk.load(tmp_path / "risk.json").map == LOGISTIC
    assert [path.name for path in tmp_path.iterdir()] == ["risk.json"]


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path):
    with pytest.raises(RunError, match="cannot write"):
        risk().save(tmp_path / "no" / "risk.json")
    with pytest.raises(BadOption, match="cannot read the calibration"):
        Risk.load(tmp_path / "risk.json")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    risk().save(tmp_path / "risk.json")
    monkeypatch.setattr("pathlib.Path.replace", _full_disk)
    with pytest.raises(RunError, match="No space left"):
        risk(map=LOGISTIC).save(tmp_path / "risk.json")
    assert Risk.load(tmp_path / "risk.json") == risk()
    assert [path.name for path in tmp_path.iterdir()] == ["risk.json"]


def _full_disk(*_):
    raise OSError(28, "No space left on device")


def test_a_link_stays_a_link_and_a_device_stays_a_device(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"x"
    write_whole(tmp_path.__class__("/dev/null"), b"x")
    assert tmp_path.__class__("/dev/null").is_char_device()


def broken(tmp_path, change):
    """A file that was damaged after it was saved."""
    risk().save(tmp_path / "risk.json")
    found = json.loads((tmp_path / "risk.json").read_text())
    change(found)
    (tmp_path / "risk.json").write_text(json.dumps(found))
    return tmp_path / "risk.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.pop("map"), "has no map"),
        (lambda row: row.pop("n"), "has no n"),
        (lambda row: row["origin"].pop("model"), "origin has no model"),
        (lambda row: row["map"].pop("risks"), "map has no risks"),
        (lambda row: row["keep"].update(kept=-1), "kept must be a whole number"),
        (lambda row: row.update(format="sdlg.calibration/3"), "this version reads sdlg.calibration/2"),
        (lambda row: row.pop("format"), "it has no format; make one with sdlg calibrate"),
        (lambda row: row["map"].update(risks=[0.9, 0.5, 0.1]), "not monotone"),
        (lambda row: row["map"].update(values=[1.0, 1.0, 2.0]), "values must rise"),
        (lambda row: row["map"].update(values=[0.0, 1.0]), "are not knots"),
        (lambda row: row["map"].update(values=[], risks=[]), "are not knots"),
        (lambda row: row["map"].update(risks=[0.1, 0.5, 1.5]), "between 0 and 1"),
        (lambda row: row["map"].update(risks=[0.1, math.nan, 0.5]), "must be a list of numbers"),
        (lambda row: row["map"].update(risks="high"), "must be a list of numbers"),
        (lambda row: row.update(map=[]), "unknown map"),
        (lambda row: row.update(origin=3), "origin is not an object"),
        (lambda row: row["origin"].update(threshold=True), "threshold must be a number"),
        (lambda row: row["origin"].update(model=None), "model must be a text"),
        (lambda row: row["origin"].update(higher_is_less_certain=0), "true or false"),
        (lambda row: row.update(notes=[1]), "a list of texts"),
        (lambda row: row["origin"]["data"].update(format=True), "the format of its data is no text"),
        # whole numbers that fit no float
        (lambda row: row["map"].update(values=[0.0, 1.0, 10**400]), "must be a list of numbers"),
        (lambda row: row["map"].update(risks=[0.1, 0.2, 10**400]), "must be a list of numbers"),
        (lambda row: row.update(smallest=10**400), "smallest must be a number"),
        (lambda row: row.update(n=10**400), "n must be a whole number"),
        (lambda row: row["origin"].update(threshold=10**400), "threshold must be a number"),
        (lambda row: row["keep"].update(threshold=10**400), "threshold must be a number or null"),
        (lambda row: row["keep"].update(kept=10**400), "kept must be a whole number"),
    ],
)
def test_a_damaged_file_says_what_is_wrong_with_it(change, message, tmp_path):
    with pytest.raises((BadOption, UnknownName), match=message):
        Risk.load(broken(tmp_path, change))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null", b"[" * 100_000])
def test_what_is_no_calibration_is_refused(content, tmp_path):
    (tmp_path / "risk.json").write_bytes(content)
    with pytest.raises(BadOption, match="is not a calibration"):
        Risk.load(tmp_path / "risk.json")


def test_a_logistic_map_with_its_ends_swapped_is_refused(tmp_path):
    swapped = {"kind": "logistic", "intercept": 0.0, "slope": 1.0, "low": 4.0, "high": 1.0}
    with pytest.raises(BadOption, match="above the highest"):
        Risk.load(broken(tmp_path, lambda row: row.update(map=swapped)))


def test_using_a_calibration_needs_numpy_only():
    code = (
        "import sys, sdlg.risk; print([m for m in ('torch', 'transformers', 'sklearn', 'scipy', 'matplotlib', 'rich')"
        " if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


# -- several measures ---------------------------------------------------------------------------------------------

SEVERAL = Combination((2.0, -1.0), (1.0, 0.0), (0.5, 2.0), (0.25, 0.0))


def test_the_score_of_several_measures_by_hand():
    assert SEVERAL([2.0, 4.0]) == pytest.approx(2 * (2 - 1) / 0.5 - 4 / 2)
    assert SEVERAL([math.nan, 4.0]) == pytest.approx(0.25 - 2)
    assert math.isnan(SEVERAL([math.nan, math.nan]))
    assert SEVERAL([[2.0, 4.0], [1.0, 0.0]]).tolist() == pytest.approx([2.0, 0.0])


@given(st.floats(allow_nan=False))
def test_one_measure_is_the_case_of_one_coefficient(value):
    assert PLAIN([value]) == value


def test_a_file_of_several_measures_gives_back_what_was_saved_and_is_used(tmp_path):
    result = asked(measures=[MEASURE, "number_of_clusters"])
    alone = for_result(result)
    both = replace(alone.origin, measures=(MEASURE, "number_of_clusters"))
    made = replace(alone, origin=both, combination=SEVERAL, map=LOGISTIC)
    made.save(tmp_path / "risk.json")
    assert Risk.load(tmp_path / "risk.json") == made
    used = fake_pipeline(calibration=tmp_path / "risk.json").ask("What is the capital of France?").risk
    values = [result.estimates[name].value for name in (MEASURE, "number_of_clusters")]
    assert used.value == pytest.approx(float(SEVERAL(values)))
    assert used.probability == pytest.approx(made(float(SEVERAL(values))))
    assert used.measure == f"{MEASURE} + number_of_clusters"


def test_a_file_of_the_first_format_is_still_read(tmp_path):
    risk().save(tmp_path / "new.json")
    row = json.loads((tmp_path / "new.json").read_text())
    row["format"] = "sdlg.calibration/1"
    row["origin"]["measure"] = row["origin"].pop("measures")[0]
    del row["combination"]
    (tmp_path / "old.json").write_text(json.dumps(row))
    assert Risk.load(tmp_path / "old.json") == risk()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.pop("combination"), "has no combination"),
        (lambda row: row["combination"].update(weights=[1.0, 1.0]), "are no combination"),
        (lambda row: row["combination"].update(weights=[0.0]), "all weights are 0"),
        (lambda row: row["combination"].update(scales=[0.0]), "a scale must be above 0"),
        (lambda row: row["combination"].update(means=[math.inf]), "means must be a list of numbers"),
        (lambda row: row["combination"].update(undefined=None), "undefined must be a list of numbers"),
        (lambda row: row["origin"].update(measures=[]), "at least one"),
        (lambda row: row["origin"].update(measures=["a", "a"]), "must be different ones"),
        (lambda row: row["origin"].update(measures=["a", "b"]), "1 weights are not of 2 measures"),
        (lambda row: row["origin"].update(measures="a"), "measures must be a list of texts"),
    ],
)
def test_a_damaged_combination_says_what_is_wrong_with_it(change, message, tmp_path):
    with pytest.raises(BadOption, match=message):
        Risk.load(broken(tmp_path, change))


# -- calibrations that come with the package ------------------------------------------------------------------------


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """The folder of the package, empty at first."""
    monkeypatch.setattr(lookup, "FOLDER", tmp_path)
    return tmp_path


def test_a_packaged_calibration_is_used_where_it_fits_and_says_so(packaged):
    for_result(asked(calibration="none")).save(packaged / "a.json")
    result = asked()
    assert result.risk.basis.startswith("measured on 300 answers to triviaqa, 180 of them right (wrong is rouge_l")
    assert "comes with sdlg" in result.risk.basis
    assert result.estimates[MEASURE].value == result.risk.value
    assert result.setup.calibration is not None
    console = Console(record=True, width=300, file=io.StringIO())
    print_result(console, result)
    assert "comes with sdlg; --calibration none leaves it out" in console.export_text()


@pytest.mark.parametrize("nothing", ["none", None])
def test_a_packaged_calibration_can_be_left_out(packaged, nothing):
    for_result(asked(calibration="none")).save(packaged / "a.json")
    result = asked(calibration=nothing)
    assert result.risk is None
    assert result.setup.calibration is None
    assert result.setup.measures == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "another"},
        {"nli": "another"},
        {"method": "multinomial"},
        {"options": {**flat_options(asdict(Options())), "prompt": "chat"}},
        {"options": {**flat_options(asdict(Options())), "stop_at": "sentence"}},
        {"data": {"name": "coqa", "format": "with a context"}},
        {"data": {"name": "triviaqa", "format": "10-shot"}},
    ],
)
def test_a_packaged_calibration_is_not_used_where_it_does_not_fit(packaged, changes):
    for_result(asked(calibration="none"), **changes).save(packaged / "a.json")
    assert asked().risk is None


def test_each_kind_of_question_has_its_own_packaged_calibration(packaged):
    made = asked(calibration="none")
    for name, format in {"coqa": "with a context", "triviaqa": "10-shot", "open": "zero-shot"}.items():
        for_result(made, data={"name": name, "format": format}).save(packaged / f"{name}.json")
    pipeline = fake_pipeline()
    shot = (("Who?", "She."),)
    questions = {"coqa": Question("Who?", "A text.", shot), "triviaqa": Question("Who?", None, 10 * shot)}
    for name, question in {**questions, "open": Question("Who?")}.items():
        assert f"answers to {name}, " in pipeline.ask(question).risk.basis
    assert pipeline.ask(Question("Who?", None, shot)).risk is None  # after one example: nobody measured that
    assert pipeline.ask(Question("Who?", system="Be brief.")).risk is None
    assert len({pipeline.ask(question).setup.calibration for question in questions.values()}) == 1


def test_a_method_that_a_packaged_calibration_does_not_know_has_no_risk(packaged):
    for_result(asked(calibration="none")).save(packaged / "a.json")
    pipeline = fake_pipeline()
    assert pipeline.ask("Who?").risk is not None
    assert pipeline.changed(method="multinomial").ask("Who?").risk is None
    assert MEASURE not in pipeline.changed(method="multinomial").measures


def test_what_is_named_goes_before_what_comes_with_the_package(packaged, tmp_path):
    for_result(asked(calibration="none")).save(packaged / "a.json")
    named = for_result(asked(calibration="none"), data={"name": "mine"})
    assert asked(calibration=named).risk.basis.startswith("measured on 300 answers to mine")


def test_every_calibration_in_the_package_can_be_read_and_all_but_one_were_shown_to_say_something():
    packaged = lookup.packaged_risks(lookup.FOLDER)
    cells = {(made.origin.model, made.origin.data["name"]): made for made in packaged}
    assert set(cells) == set(product(("smollm2", "gemma3-270m"), ("coqa", "triviaqa", "open_questions")))
    for made in packaged:
        assert made.origin.measures
        assert "folder" not in made.origin.data
    unsure = {cell for cell, made in cells.items() if made.out_of_fold["skill"]["low"] <= 0}
    assert unsure == {cell for cell, made in cells.items() if "was not shown to tell more" in made.basis}
    assert unsure == {("gemma3-270m", "open_questions")}


def test_the_documentation_says_what_the_packaged_calibrations_are():
    docs = (Path(__file__).parents[1] / "docs/evaluation.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line.strip(" |").split(" | ") for line in docs.splitlines() if line.startswith("| `")}
    for path in lookup.FOLDER.glob("*.json"):
        made = Risk.load(path)
        right, auroc, skill = rows[path.stem][-3:]
        assert right.split()[0] == str(made.n - made.n_wrong)
        assert auroc == f"{made.out_of_fold['auroc']['value']:.3f}"[1:]
        assert skill.startswith(f"{made.out_of_fold['skill']['value']:.0%}".replace("%", " %"))


@pytest.mark.parametrize(
    ("prompt", "stop_at", "context", "measured_on"),
    [
        ("plain", "sentence", "A story.", "coqa"),
        ("plain", "sentence", None, None),
        ("auto", "sentence", None, "open_questions"),
        ("auto", "turn", None, None),
        ("chat", "turn", "A story.", None),
    ],
)
def test_the_embedded_models_answers_have_a_risk_where_such_answers_were_measured(
    prompt, stop_at, context, measured_on
):
    options = options_from("default", {"prompt": prompt, "stop_at": stop_at})
    found = lookup.calibrations_for(PACKAGED, "smollm2", "nli-minilm", "sdlg", options)
    risk = found.for_question(Question("Who?", context=context))
    assert (risk.origin.data["name"] if risk else None) == measured_on


@pytest.mark.parametrize(("judge", "gradients"), [("self", "another"), ("nli-minilm", None)])
def test_the_model_of_the_gradients_is_part_of_the_setup_where_it_matters(judge, gradients):
    parser = argparse.ArgumentParser()
    add_asking(add_models(parser))
    add_options(parser)
    assert named_setup(parser.parse_args(["--nli", judge, "--gradients", "another"])).gradients == gradients


def test_what_the_command_says_beforehand_of_a_packaged_calibration_is_what_results_say(packaged, monkeypatch):
    made = for_result(asked(calibration="none"), model="smollm2", nli="nli-minilm")
    made.save(packaged / "a.json")
    parser = argparse.ArgumentParser()
    add_asking(add_models(parser))
    add_options(parser)
    assert named_setup(parser.parse_args(["--equivalence", "strict"])).calibration == made.fingerprint
    assert named_setup(parser.parse_args(["--calibration", "none"])).calibration is None


# -- with an answer -----------------------------------------------------------------------------------------------


def test_asking_with_a_calibration_tells_the_risk_everywhere(tmp_path):
    """In the record, in JSON, in the terminal and in a notebook; the measure it needs is made without being named."""
    made = for_result(asked())
    made.save(tmp_path / "risk.json")
    result = fake_pipeline(samples=3, calibration=tmp_path / "risk.json").ask("Where is the Louvre?")
    assert result.risk is not None
    assert result.risk.probability == made(made.value_in(result))
    assert result.risk.sentence in repr(result)
    assert json.loads(result.to_json())["risk"]["sentence"] == result.risk.sentence
    jsonschema.validate(json.loads(result.to_json()), json.loads(SCHEMA.read_text()))
    console = Console(record=True, width=200, file=io.StringIO())
    print_result(console, result)
    assert f"risk {result.risk.probability:.0%} — {result.risk.sentence}" in console.export_text()
    assert result.risk.sentence in result._repr_html_()


def test_without_a_calibration_there_is_no_risk():
    result = fake_pipeline(samples=3).ask("Where is the Louvre?")
    assert result.risk is None
    assert json.loads(result.to_json())["risk"] is None


def test_a_calibration_of_another_model_is_refused_before_anything_is_generated(tmp_path):
    for_result(asked(), model="another").save(tmp_path / "risk.json")
    with pytest.raises(BadOption, match="--model another"):
        fake_pipeline(samples=3, calibration=str(tmp_path / "risk.json"))
