"""A calibration in use: maps, words, files, which one is chosen, and what is said where it was made otherwise."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fakes import fake_pipeline
from sdlg.calibration import (
    Bin,
    Calibration,
    Data,
    Interval,
    IsotonicMap,
    KeepRule,
    LogisticMap,
    Origin,
    OutOfFold,
    calibrations_for,
    in_words,
    shaping_options,
)
from sdlg.calibration.lookup import FOLDER, packaged
from sdlg.errors import BadOption, RunError
from sdlg.files import write_whole
from sdlg.measures.table import find_measure
from sdlg.options import PACKAGED, Options, options_from
from sdlg.records import Question
from sdlg.views.terminal import print_result

ISOTONIC = IsotonicMap((0.0, 1.0, 2.0), (0.1, 0.1, 0.9))
LOGISTIC = LogisticMap(-1.0, 2.0, 0.0, 3.0)
KEEP = KeepRule(0.2, 0.95, 0.7, 60, 4, 300)
SKILL = Interval(0.1, 0.01, 0.2)
MEASURE = find_measure("DSE").name


def origin(**changes) -> Origin:
    return Origin(
        **{
            "model": "scripted", "nli": "fake-nli", "method": "sdlg", "measure": MEASURE,
            "higher_is_less_certain": True, "samples": 10, "metric": "rouge_l", "threshold": 0.5,
            "data": Data("triviaqa", "ab"), "options": shaping_options(Options(), "sdlg", MEASURE), **changes,
        }
    )  # fmt: skip


def calibration(**changes) -> Calibration:
    bins = (Bin(0.1, 0.9, 0.4, 120, 300, 0.35, 0.46),)
    scores = OutOfFold(5, 0, 0.2, 0.24, SKILL, 0.03, 0.02, bins, {"isotonic": 0.2}, Interval(0.7, 0.6, 0.8))
    return Calibration(
        **{
            "origin": origin(), "map": ISOTONIC, "smallest": 1 / 32, "n": 300, "n_wrong": 120, "keep": KEEP,
            "out_of_fold": scores, "created": "2026-01-01T00:00:00+00:00", "notes": ("rough",),
            "versions": {"sdlg": "0.1.0"}, **changes,
        }
    )  # fmt: skip


def asked(question="What is the capital of France?", **options):
    return fake_pipeline(**{"measures": [MEASURE], "calibration": "none", **options}).ask(question)


# -- risks ------------------------------------------------------------------------------------------------------


def test_maps_by_hand_and_level_beyond_what_was_seen():
    assert ISOTONIC([0.5, 1.5]).tolist() == pytest.approx([0.1, 0.5])
    assert ISOTONIC([-5.0, 9.0]).tolist() == [0.1, 0.9]
    assert LOGISTIC([0.5, 1.0]).tolist() == pytest.approx([0.5, 1 / (1 + math.exp(-1))])
    assert LOGISTIC([-5.0, 9.0]).tolist() == LOGISTIC([0.0, 3.0]).tolist()


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.floats(0, 1e300))
def test_a_logistic_map_never_overflows(value, intercept, slope):
    assert 0 <= LogisticMap(intercept, slope, -1e300, 1e300)(value) <= 1


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=20))
def test_the_risk_never_falls_with_the_uncertainty(values):
    for made in (calibration(), calibration(map=LOGISTIC)):
        found = [made.risk_at(value) for value in sorted(values)]
        assert found == sorted(found)
        certainty = replace(made, origin=origin(higher_is_less_certain=False))
        assert [certainty.risk_at(-value) for value in sorted(values)] == found


def test_no_risk_is_finer_than_the_answers_support():
    made = calibration(map=IsotonicMap((0.0, 1.0), (0.0, 1.0)))
    assert [made.risk_at(value) for value in (0.0, 0.4, 1.0)] == pytest.approx([1 / 32, 0.4, 31 / 32])
    assert math.isnan(made.risk_at(math.nan))


def test_what_is_promised_is_said_in_words():
    assert KEEP.in_words(None) == ""
    assert KEEP.in_words(True) == "; answered: of answers as sure as this at most 1 in 5 is wrong"
    assert replace(KEEP, wanted=0.085).in_words(True).endswith("of answers as sure as this at most 8.5% are wrong")
    assert KEEP.in_words(False) == "; not sure enough to answer"


def test_answers_are_kept_up_to_the_threshold_if_there_is_one():
    made = calibration()
    assert [made.keeps(value) for value in (0.7, 0.71, math.nan)] == [True, False, None]
    certainty = replace(made, origin=origin(higher_is_less_certain=False))
    assert [certainty.keeps(value) for value in (-0.7, -0.71)] == [True, False]
    assert calibration(keep=replace(KEEP, threshold=None)).keeps(0.0) is None
    assert (KEEP.coverage, KEEP.error_rate) == (0.2, 4 / 60)
    assert math.isnan(KeepRule(0.2, 0.95, None, 0, 0, 300).error_rate)


@given(st.floats(0, 1))
def test_words_never_say_none_or_all_and_are_close(share):
    words = in_words(share)
    assert " 0 in" not in words
    assert "10 in 10" not in words
    if words.startswith("about"):
        count, of = (int(part) for part in words.removeprefix("about ").split(" such")[0].split(" in "))
        assert count / of == pytest.approx(share, abs=0.051)
    else:
        assert share >= 0.965


def test_the_basis_says_what_was_measured_and_whether_that_says_anything():
    assert calibration().basis == (
        "measured on 300 answers to triviaqa, 180 of them right (wrong is rouge_l below 0.5)"
    )
    unsure = replace(calibration().out_of_fold, skill=Interval(0.1, -0.01, 0.2))
    assert "was not shown to tell more" in calibration(out_of_fold=unsure).basis
    no_rule = replace(calibration().keep, threshold=None, wanted=0.05)
    assert "at most 5% wrong cannot be promised" in calibration(keep=no_rule).basis


# -- of a result --------------------------------------------------------------------------------------------------


def test_a_result_has_the_risk_of_its_measure_by_any_name():
    for measures in ([MEASURE], ["DSE"]):
        result = asked(measures=measures)
        risk = calibration().risk_of(result)
        assert risk.value == result.estimates[measures[0]].value
        assert (risk.probability, risk.keep) == (calibration().risk_at(risk.value), calibration().keeps(risk.value))
        assert risk.sentence == f"{in_words(risk.probability)}; not sure enough to answer"


def test_a_measure_without_a_value_gives_no_risk_but_says_so():
    made = calibration(origin=origin(measure="SE*_SDLG"))
    risk = made.risk_of(asked(method="multinomial", measures=["SE*_SDLG"]))  # there are no branches to weigh
    assert (risk.probability, risk.value, risk.keep) == (None, None, None)
    assert "SE*_SDLG has no value" in risk.sentence


def test_asking_with_a_calibration_shows_its_risk_and_measures_what_it_needs(tmp_path):
    calibration().save(tmp_path / "risk.json")
    result = fake_pipeline(samples=3, calibration=tmp_path / "risk.json").ask("Where is the Louvre?")
    assert result.risk.probability == calibration().risk_at(result.estimates[MEASURE].value)
    assert any(note.startswith("the calibration was made with --samples 10, not 3: the risk") for note in result.notes)
    assert (result.risk.keep, "made with other options than here" in result.risk.sentence) == (None, True)
    assert json.loads(result.to_json())["risk"]["sentence"] == result.risk.sentence
    assert result.risk.sentence in repr(result)
    assert result.risk.sentence in result._repr_html_()
    console = Console(record=True, width=250, file=io.StringIO())
    print_result(console, result)
    assert result.risk.sentence in console.export_text()
    assert result.setup.calibration is not None


def test_a_calibration_of_another_model_is_refused_before_anything_is_generated(tmp_path):
    calibration(origin=origin(model="another")).save(tmp_path / "risk.json")
    with pytest.raises(BadOption, match="--model another, not scripted"):
        fake_pipeline(calibration=str(tmp_path / "risk.json"))


# -- differences --------------------------------------------------------------------------------------------------


def differences(made: Origin, options=None, **setup) -> list[str]:
    here = {"model": "scripted", "nli": "fake-nli", "method": "sdlg", **setup}
    return made.differences(*here.values(), options or Options())


def test_another_model_or_method_is_an_error_that_says_what_to_do():
    with pytest.raises(BadOption, match="--model scripted, not gpt2, and says nothing of its answers; use --model"):
        differences(origin(), model="gpt2")
    with pytest.raises(BadOption, match="--method sdlg, not beam"):
        differences(origin(), method="beam")


def test_other_differences_are_warnings_but_for_the_seed():
    assert differences(origin()) == []
    options = Options().updated(seed=99, max_tokens=7, stop_strings=("\n",), banned="format")
    made = [text.removeprefix("the calibration was made with ") for text in differences(origin(), options, nli="x")]
    assert [text.split(":")[0] for text in made] == [
        "--nli fake-nli, not x",
        "--set max_tokens=64, not 7",
        "--set stop_strings=[], not ['\\n']",
        "--set banned=none, not format",
    ]
    multinomial = origin(method="multinomial", options=shaping_options(Options(), "multinomial", MEASURE))
    assert not any("banned" in text for text in differences(multinomial, options, method="multinomial"))
    assert differences(origin(options={"an option of another version": 3})) == []


def test_samples_and_the_judge_do_not_matter_to_a_measure_of_the_answer_alone(tmp_path):
    alone = origin(measure="perplexity", options=shaping_options(Options(), "sdlg", "perplexity"))
    options = Options().updated(samples=3, draws=0, equivalence="strict", banned="format")
    assert differences(alone, options, nli="x") == []
    assert len(differences(origin(), options, nli="x")) == 5
    assert len(differences(alone, options.updated(max_tokens=7))) == 1
    calibration(origin=alone).save(tmp_path / "a.json")
    packaged.cache_clear()
    assert chosen(tmp_path, nli="another").all
    assert not chosen(tmp_path, options=Options(stop_at="sentence")).all


def test_an_answer_that_ended_by_itself_is_the_same_with_other_limits():
    named = calibrations_for(calibration(), "scripted", "fake-nli", "sdlg", Options())
    noted = {limit: "max_tokens" in str(named.applied_to(asked(max_tokens=limit)).notes) for limit in (1, 40, 64, 90)}
    assert noted == {1: True, 40: False, 64: False, 90: False}  # with 1 it is cut


def test_branches_that_were_cut_differ_with_other_limits_where_they_matter():
    result = asked(max_tokens=40)
    first, *others = result.samples
    cut = replace(others[0], generation=replace(others[0].generation, stop_reason="length"))
    result = replace(result, samples=(first, cut, *others[1:]))
    for measure, is_noted in ((MEASURE, True), ("perplexity", False)):
        own = origin(measure=measure, options=shaping_options(Options(), "sdlg", measure))
        named = calibrations_for(calibration(origin=own), "scripted", "fake-nli", "sdlg", Options())
        assert ("max_tokens" in str(named.applied_to(result).notes)) is is_noted


# -- which one ----------------------------------------------------------------------------------------------------


def chosen(folder: Path, source=PACKAGED, **setup):
    here = {"model": "scripted", "nli": "fake-nli", "method": "sdlg", "options": Options(), **setup}
    return calibrations_for(source, *here.values(), folder=folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "another"},
        {"nli": "another"},
        {"method": "multinomial"},
        {"options": {**shaping_options(Options(), "sdlg", MEASURE), "prompt": "chat"}},
        {"options": {**shaping_options(Options(), "sdlg", MEASURE), "stop_at": "sentence"}},
    ],
)
def test_a_packaged_calibration_is_only_used_where_model_method_prompt_and_judge_are_its_own(tmp_path, changes):
    calibration(origin=origin(**changes)).save(tmp_path / "a.json")
    assert chosen(tmp_path).all == ()
    calibration(origin=origin(samples=5)).save(tmp_path / "b.json")
    packaged.cache_clear()
    assert [one.origin.samples for one in chosen(tmp_path).all] == [5]


def test_each_kind_of_question_has_its_own_packaged_calibration(tmp_path):
    for name, format in {"coqa": "with a context", "triviaqa": "10-shot", "open": None}.items():
        calibration(origin=origin(data=Data(name, format=format))).save(tmp_path / f"{name}.json")
    found, shot = chosen(tmp_path), (("Who?", "She."),)
    assert found.measure_names("answer") == (MEASURE,)
    assert found.fingerprint not in {one.fingerprint for one in found.all}
    questions = {"coqa": Question("Who?", "A text.", shot), "triviaqa": Question("Who?", None, 10 * shot)}
    for name, question in {**questions, "open": Question("Who?")}.items():
        result = found.applied_to(asked(question))
        assert f"answers to {name}, " in result.risk.basis
        assert "--calibration none leaves it out" in result.risk.basis
    for strange in (Question("Who?", None, shot), Question("Who?", system="Be brief.")):  # nobody measured these
        assert found.applied_to(asked(strange)).risk is None


def test_a_named_calibration_is_used_for_every_question_and_says_what_differs(tmp_path):
    calibration().save(tmp_path / "a.json")
    named = chosen(tmp_path, calibration(origin=origin(data=Data("mine", format="10-shot"))))
    result = named.applied_to(asked())
    assert result.risk.basis.startswith("measured on 300 answers to mine")
    assert any("questions asked 10-shot, not alone" in note for note in result.notes)
    named.check("scripted", "fake-nli", "sdlg", Options())
    with pytest.raises(BadOption, match="--method"):
        named.check("scripted", "fake-nli", "beam", Options())


@pytest.mark.parametrize("nothing", ["none", None])
def test_a_packaged_calibration_can_be_left_out(tmp_path, nothing):
    calibration().save(tmp_path / "a.json")
    found = chosen(tmp_path, nothing)
    assert (found.all, found.fingerprint, found.measure_names("answer")) == ((), None, ())
    assert found.applied_to(asked()).risk is None


@pytest.mark.parametrize(
    ("prompt", "stop_at", "context", "measured_on"),
    [
        ("plain", "sentence", "A story.", None),
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
    found = calibrations_for(PACKAGED, "smollm2", "nli-minilm", "sdlg", options)
    one = found.for_question(Question("Who?", context=context), "answer")
    assert (one.origin.data.name if one else None) == measured_on


def test_the_packaged_calibrations_are_what_the_documentation_says():
    assert {(made.origin.model, made.origin.data.name) for made in packaged()} == {
        *((model, data) for model in ("qwen2.5-coder-1.5b", "smollm2") for data in ("triviaqa", "open_questions")),
        ("gemma3-270m", "open_questions"),
    }  # fmt: skip
    needs_judge = {"clusters", "branchings"}  # theirs would have to be made anew with each judge
    assert not any(find_measure(made.origin.measure).needs & needs_judge for made in packaged())
    docs = (Path(__file__).parents[1] / "docs/guides/calibrate.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line.strip(" |").split(" | ") for line in docs.splitlines() if line.startswith("| `")}
    for path in FOLDER.glob("*.json"):
        made = Calibration.load(path)
        assert find_measure(made.origin.measure)
        assert (
            made.origin.options.keys() <= shaping_options(Options(), "sdlg", MEASURE).keys()
        )  # no option that is gone
        right, auroc, skill = rows[path.stem][-3:]
        assert right.split()[0] == str(made.n - made.n_wrong)
        assert auroc == f"{made.out_of_fold.auroc.value:.3f}"[1:]
        assert skill.startswith(f"{made.out_of_fold.skill.value:.0%}".replace("%", " %"))
        assert ("not shown" in skill) == ("was not shown to tell more" in made.basis)


# -- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made", [calibration(), calibration(map=LOGISTIC), calibration(keep=replace(KEEP, threshold=None))]
)
def test_a_file_gives_back_what_was_saved_to_the_last_bit(made, tmp_path):
    rough = np.nextafter(made.smallest, 1)
    made = replace(made, smallest=float(rough))
    made.save(tmp_path / "risk.json")
    again = Calibration.load(tmp_path / "risk.json")
    assert again == made
    assert again.fingerprint == made.fingerprint != calibration(n=301).fingerprint
    assert json.loads((tmp_path / "risk.json").read_text())["format"] == "sdlg.calibration/1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.pop("map"), "map: Field required"),
        (lambda row: row["origin"].pop("model"), "origin.model: Field required"),
        (lambda row: row["map"].pop("risks"), "map.isotonic.risks: Field required"),
        (lambda row: row.update(format="sdlg.calibration/2"), "format: Input should be 'sdlg.calibration/1'"),
        (lambda row: row["map"].update(kind="spline"), "map: .*'isotonic', 'logistic'"),
        (lambda row: row["map"].update(risks=[0.9, 0.5, 0.1]), "never fall"),
        (lambda row: row["map"].update(values=[1.0, 1.0, 2.0]), "values must rise"),
        (lambda row: row["map"].update(values=[0.0, 1.0]), "are not knots"),
        (lambda row: row["map"].update(risks=[0.1, 0.5, 1.5]), "from 0 to 1"),
        (lambda row: row["map"].update(risks=[0.1, math.nan, 0.5]), "map.isotonic.risks.1: "),
        (lambda row: row["map"].update(values=[0.0, 1.0, 10**400]), "map.isotonic.values.2: "),
        (lambda row: row["origin"].update(threshold=True), "origin.threshold: Input should be a valid number"),
        (lambda row: row["origin"].update(higher_is_less_certain=0), "Input should be a valid boolean"),
        (lambda row: row["origin"]["data"].update(format=True), "origin.data.format: Input should be a valid string"),
        (lambda row: row["keep"].update(kept=-1), "keep.kept: Input should be greater than or equal to 0"),
        (lambda row: row["keep"].update(kept=10**400), "keep.kept: "),
        (lambda row: row["out_of_fold"].update(skill="little"), "out_of_fold.skill"),
        (lambda row: row.update(n_wrong=300), "300 wrong of 300 answers cannot be calibrated"),
        (lambda row: row.update(smallest=0.5), "smallest risk"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_the_field_and_what_was_expected(change, message, tmp_path):
    path = tmp_path / "risk.json"
    calibration().save(path)
    row = json.loads(path.read_text())
    change(row)
    path.write_text(json.dumps(row))
    with pytest.raises(BadOption, match=f"risk.json is no calibration: .*{message}.*; make one with sdlg calibrate"):
        Calibration.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null", b"[" * 100_000])
def test_what_is_no_calibration_is_refused(content, tmp_path):
    (tmp_path / "risk.json").write_bytes(content)
    with pytest.raises(BadOption, match="is no calibration"):
        Calibration.load(tmp_path / "risk.json")
    with pytest.raises(BadOption, match="cannot read the calibration"):
        Calibration.load(tmp_path / "nothing.json")


def test_maps_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="above the highest"):
        LogisticMap(0.0, 1.0, 4.0, 1.0)
    with pytest.raises(ValueError, match="must not fall"):
        LogisticMap(0.0, -1.0, 0.0, 1.0)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    calibration().save(tmp_path / "risk.json")
    monkeypatch.setattr("pathlib.Path.replace", full_disk)
    with pytest.raises(RunError, match="No space left"):
        calibration(map=LOGISTIC).save(tmp_path / "risk.json")
    assert Calibration.load(tmp_path / "risk.json") == calibration()
    assert [path.name for path in tmp_path.iterdir()] == ["risk.json"]


def test_a_link_stays_a_link_and_a_device_stays_a_device(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"x"
    write_whole(Path("/dev/null"), b"x")
    assert Path("/dev/null").is_char_device()


def test_using_a_calibration_needs_no_scikit_learn():
    heavy = "('torch', 'transformers', 'sklearn', 'scipy', 'matplotlib', 'rich')"
    code = f"import sys, sdlg.calibration; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
