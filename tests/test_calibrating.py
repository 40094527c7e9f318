"""Calibrating a run: known risks are found again, nothing is judged on what it was fitted on, and gaps are errors."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from fakes import fake_pipeline
from sdlg.calibration import Calibration, IsotonicMap, OutOfFold
from sdlg.cli.calibrate import add_calibrate
from sdlg.errors import BadOption, UnknownName
from sdlg.evaluation.calibrating import Choice, calibrate_run, semantic_entropy_of
from sdlg.evaluation.plan import Plan, make_plan
from sdlg.evaluation.reliability_plot import reliability_bytes, reliability_figure
from sdlg.evaluation.results import RunResults, load_run
from sdlg.evaluation.risk_fitting import (
    CrossFit,
    fit_isotonic,
    fit_logistic,
    fit_risk,
    judge_risks,
    keep_answers,
)
from sdlg.evaluation.statistics import bin_labels, number_of_bins
from sdlg.measures.table import find_measure
from sdlg.schema import adapter

SEMANTIC_ENTROPY = find_measure("SE*_SDLG").name
CLUSTERS, IMPROPER = find_measure("NumSets").name, find_measure("SE_MS").name


def risk_of(value):
    """The risk by which answers are made wrong here."""
    return 1 / (1 + np.exp(2.5 - 2 * np.asarray(value)))


def answers(n: int = 300, seed: int = 0):
    """Values of a measure, and answers that are wrong as often as `risk_of` says."""
    random = np.random.default_rng(seed)
    values = random.gamma(1.5, size=n)
    return values, random.random(n) < risk_of(values)


def noise(n: int = 300, seed: int = 0):
    random = np.random.default_rng(seed)
    return random.normal(size=n), random.random(n) < 0.4


def fit(values, wrong, **choice):
    return fit_risk(values, wrong, Choice(**choice))


# -- maps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
def test_a_known_risk_is_found_again(kind):
    found = fit(*answers(5_000), map=kind)
    at = np.linspace(0.3, 3.0, 20)
    assert found.map(at) == pytest.approx(risk_of(at), abs=0.1 if kind == "isotonic" else 0.03)
    assert found.out_of_fold.ece < 0.03


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_the_maps_are_those_of_scikit_learn(seed, ties):
    values, wrong = answers(60, seed)
    values, wrong = values.round(1) if ties else values, wrong.astype(float)
    at = np.linspace(values.min(), values.max(), 200)
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(values, wrong)
    assert fit_isotonic(values, wrong)(at) == pytest.approx(isotonic.predict(at), abs=1e-12)
    middle, scale = values.mean(), values.std()
    logistic = LogisticRegression().fit((values[:, None] - middle) / scale, wrong)
    if logistic.coef_[0, 0] > 0:
        expected = logistic.predict_proba((at[:, None] - middle) / scale)[:, 1]
        assert fit_logistic(values, wrong)(at) == pytest.approx(expected, abs=1e-12)


def test_a_measure_that_points_the_wrong_way_or_nowhere_says_the_base_rate():
    values, wrong = answers()
    assert fit_logistic(-values, wrong.astype(float))(values) == pytest.approx(wrong.mean())
    for kind in ("isotonic", "logistic"):
        found = fit(np.ones(100), np.arange(100) < 40, map=kind)
        assert found.map(1.0) == pytest.approx(0.4, abs=0.01)
        assert found.out_of_fold.skill.value == pytest.approx(0.0, abs=0.01)


def test_the_logistic_map_does_not_depend_on_the_measures_unit():
    values, wrong = answers()
    found = [fit_logistic(scale * values, wrong)(scale * values) for scale in (1.0, 1000.0)]
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_values_that_separate_wrong_from_right_give_finite_maps_no_finer_than_their_bins():
    """300 answers are checked in 10 bins of 30: by the rule of succession, 1 in 32."""
    values = np.arange(300.0)
    for kind in ("isotonic", "logistic"):
        found = fit(values, values >= 150, map=kind)
        assert (found.risks.min(), found.risks.max()) == pytest.approx((1 / 32, 31 / 32))
        assert found.out_of_fold.skill.value > 0.8


# -- out of fold ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "isotonic", "logistic"])
def test_pure_noise_shows_no_skill(kind):
    """Fitted and judged on the same answers, isotonic regression would show a skill of some 5 % here."""
    found = [fit(*noise(seed=seed), map=kind) for seed in range(12)]
    assert np.mean([one.out_of_fold.skill.value for one in found]) < 0.005
    assert np.mean([one.out_of_fold.skill.low > 0 for one in found]) <= 0.1
    assert any("not shown to be better than the base rate" in note for note in found[0].notes)
    values, wrong = noise()
    own = fit_isotonic(values, wrong.astype(float))(values)
    assert np.mean((own - wrong) ** 2) < 0.98 * np.mean((wrong.mean() - wrong) ** 2)


def test_out_of_fold_risks_are_those_of_maps_fitted_on_the_other_folds():
    values, wrong = answers(150)
    found = fit(values, wrong, map="isotonic", folds=3, seed=7)
    base_rates = np.empty(150)
    for others, held_out in StratifiedKFold(3, shuffle=True, random_state=7).split(values, wrong):
        model = IsotonicRegression(out_of_bounds="clip").fit(values[others], wrong[others])
        expected = np.clip(model.predict(values[held_out]), found.smallest, 1 - found.smallest)
        assert found.risks[held_out] == pytest.approx(expected, abs=1e-12)
        base_rates[held_out] = wrong[others].mean()
    assert found.out_of_fold.brier == pytest.approx(brier_score_loss(wrong, found.risks))
    assert found.out_of_fold.brier_of_base_rate == pytest.approx(brier_score_loss(wrong, base_rates))
    assert found.out_of_fold.auroc.value == pytest.approx(roc_auc_score(wrong, values))


def test_auto_takes_the_lower_out_of_fold_brier_score_and_says_so():
    found = fit(*answers())
    single = {kind: fit(*answers(), map=kind).out_of_fold.brier for kind in ("isotonic", "logistic")}
    assert found.out_of_fold.brier_of_maps == single
    assert found.map.kind == min(single, key=lambda kind: single[kind])
    assert any(f"the {found.map.kind} map was chosen" in note for note in found.notes)


def test_same_seed_same_fit_and_what_is_unknown_is_left_out():
    values, wrong = answers()
    found = fit(values, wrong, seed=3)
    more = fit(np.r_[values, np.nan, 0.5], np.r_[wrong.astype(float), 1.0, np.nan], seed=3)
    assert (more.n, more.map, more.out_of_fold, more.keep) == (300, found.map, found.out_of_fold, found.keep)


# -- scores -----------------------------------------------------------------------------------------------------


def judged(risks, wrong, base_rate: float = 0.5) -> OutOfFold:
    risks, wrong = np.asarray(risks), np.asarray(wrong, dtype=float)
    whole = CrossFit(IsotonicMap((0.0,), (0.5,)), risks, np.full(len(risks), base_rate))
    return judge_risks(risks, wrong, whole, Choice(), {})


def perfect(n: int = 200, seed: int = 0):
    random = np.random.default_rng(seed)
    risks = random.random(n)
    return risks, random.random(n) < risks


def test_the_scores_by_hand():
    """Two bins, risk .25 and .75; 1 of 2 wrong in each: gaps of .25, Brier (2 · .5625 + 2 · .0625) / 4."""
    found = judged([0.25, 0.25, 0.75, 0.75], [0, 1, 0, 1])
    assert (found.ece, found.brier, found.brier_of_base_rate) == pytest.approx((0.25, 0.3125, 0.25))
    assert found.skill.value == pytest.approx(-0.25)
    assert [(one.risk, one.wrong, one.n) for one in found.bins] == [(0.25, 1, 2), (0.75, 1, 2)]
    assert found.bins[0].share_low < 0.5 < found.bins[0].share_high


def test_the_reliability_curve_is_that_of_scikit_learn():
    risks, wrong = perfect()
    shares, means = calibration_curve(wrong, risks, n_bins=10, strategy="quantile")
    bins = judged(risks, wrong).bins
    assert [one.wrong / one.n for one in bins] == pytest.approx(shares)
    assert [one.risk for one in bins] == pytest.approx(means)


def test_equal_risks_share_a_bin_whatever_the_order_of_the_answers():
    random = np.random.default_rng(0)
    risks = random.choice([0.1, 0.2, 0.3, 0.8], 100, p=[0.6, 0.1, 0.2, 0.1])
    order, labels = random.permutation(100), bin_labels(risks)
    assert (bin_labels(risks[order]) == labels[order]).all()
    assert all(len(set(labels[risks == risk])) == 1 for risk in (0.1, 0.2, 0.3, 0.8))


@given(st.integers(2, 400))
def test_bins_are_of_equal_mass_where_there_are_no_ties(n):
    sizes = np.bincount(bin_labels(np.random.default_rng(n).random(n)))
    assert len(sizes) == number_of_bins(n)
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) == 2 or (len(sizes) <= 10 and sizes.min() >= 20)


def test_a_perfect_map_has_the_error_that_is_expected_by_chance():
    found = [judged(*perfect(300, seed)) for seed in range(50)]
    assert np.mean([one.ece for one in found]) == pytest.approx(np.mean([one.ece_if_perfect for one in found]), rel=0.1)


# -- keeping answers --------------------------------------------------------------------------------------------


def test_a_threshold_is_shown_by_the_exact_test_from_the_most_certain_answers_on():
    """200 certain answers, 4 wrong; then 100 of which half are wrong."""
    values = np.concatenate([np.full(200, 0.1), np.full(100, 0.9)])
    wrong = np.zeros(300)
    wrong[:4] = 1
    wrong[200::2] = 1
    found = keep_answers(values, wrong, 0.1, 0.95)
    assert (found.kept, found.wrong, found.n, found.reason) == (200, 4, 300, "")
    assert 0.1 <= found.threshold < 0.9
    assert keep_answers(values, wrong, 0.3, 0.95).kept == 300
    assert keep_answers(values, wrong, 0.02, 0.95).threshold is None


def test_where_no_threshold_can_be_shown_there_is_none_and_a_reason():
    found = [keep_answers(*(array.astype(float) for array in noise(400, seed)), 0.2, 0.95) for seed in range(8)]
    assert all(keep.threshold is None for keep in found)
    assert "no threshold can be shown to keep to an error rate of 20%" in found[0].reason
    few = keep_answers(np.arange(16.0), np.zeros(16), 0.2, 0.95)
    assert few.threshold is None
    assert "16 answers are too few" in few.reason


@pytest.mark.parametrize(
    ("risk", "mean"),
    [
        (lambda u: 0.6 * u, lambda t: 0.3 * t),  # grows from nothing
        (
            lambda u: np.full_like(u, 0.105),
            lambda t: 0.105,
        ),  # the measure is worth nothing, and the rate is just missed
        (lambda u: np.where(u < 0.2, 0.11, 0.05), lambda t: (0.11 * min(t, 0.2) + 0.05 * max(t - 0.2, 0)) / t),
        (lambda u: np.where(u < 0.3, 0.02, 0.5), lambda t: (0.02 * min(t, 0.3) + 0.5 * max(t - 0.3, 0)) / t),
    ],
)
def test_the_promise_holds_in_at_least_as_many_runs_as_it_says(risk, mean):
    """2,000 runs of 300 answers whose true risk is known. A run that promises nothing breaks nothing."""
    random, broken, promised = np.random.default_rng(7), 0, 0
    for _ in range(2000):
        values = random.random(300)
        wrong = (random.random(300) < risk(values)).astype(float)
        threshold = keep_answers(values, wrong, 0.1, 0.95).threshold
        if threshold is not None:
            promised += 1
            broken += mean(min(threshold, 1.0)) > 0.1 + 1e-9
    assert broken / 2000 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 2000)
    if mean(0.3) < 0.05:
        assert promised > 1000  # and it is not kept by promising nothing


def test_few_answers_are_noted():
    found = [fit(*answers(120, seed)) for seed in range(3)]
    assert all(any("rests on 120 answers" in note for note in one.notes) for one in found)
    assert not any("rests on" in note for note in fit(*answers(400)).notes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (0, r"0 of 100 answers are wrong, but 5 folds need at least 5; try a higher --threshold"),
        (98, r"2 of 100 answers are right, but 5 folds need at least 5; try --folds 2, a lower --threshold"),
    ],
)
def test_too_few_of_a_class_are_an_error_that_says_what_to_do(wrong, message):
    with pytest.raises(BadOption, match=message):
        fit(np.arange(100.0), np.arange(100) < wrong)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"map": "spline"}, "unknown map 'spline'; choose from: auto, isotonic, logistic"),
        ({"error_rate": math.nan}, "error_rate must be"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"seed": -1}, "seed must be"),
        ({"threshold": math.inf}, "threshold must be a number"),
    ],
)
def test_wrong_options_are_refused(changes, message):
    with pytest.raises((BadOption, UnknownName), match=message):
        Choice(**changes)


# -- a run ------------------------------------------------------------------------------------------------------


def write_run(folder: Path, n: int = 200, undefined: int = 4) -> Path:
    """A small run, as `sdlg eval` writes it; only what a calibration reads."""
    values, wrong = answers(n)
    made = make_plan(
        "triviaqa", model="smollm2", nli="nli-minilm", preset="default",
        changes={"samples": 2, "max_tokens": 32},
        methods=("sdlg", "multinomial:temperature=0.5", "multinomial:temperature=1.0"),
    )  # fmt: skip
    data = {"name": "triviaqa", "sha256": "ab" * 32, "rows": 8837, "evaluated": n, "folder": "/home/me"}
    config = {
        "format": "sdlg.run/1",
        "data": data,
        "sessions": [{"sdlg": "0.1.0"}],
        "plan": adapter(Plan).dump_python(made, mode="json"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(config))
    rows = [_rows(number, float(values[number]), bool(wrong[number])) for number in range(n)]
    for row in rows[n - undefined :]:
        row["measure"]["values"]["sdlg"][SEMANTIC_ENTROPY] = [None, None]
        row["measure"]["reasons"] = {"sdlg": {SEMANTIC_ENTROPY: "undefined: no branches"}}
    rows.append({"generate": {"id": "long", "question": "…", "skipped": "too long"}})
    for stage in ("generate", "measure", "judge"):
        lines = [json.dumps(row[stage]) + "\n" for row in rows if stage in row]
        (folder / f"{stage}.jsonl").write_text("".join(lines))
    return folder


def _rows(number: int, value: float, wrong: bool) -> dict:
    name = f"q{number}"
    sdlg = {
        SEMANTIC_ENTROPY: [value / 2, value],
        CLUSTERS: [1.0, 1.0 + round(value)],
        "coverage": [math.exp(-value), math.exp(-value)],
    }
    answer = {"generation": {"text": "…", "token_ids": [1], "logprobs": [-1.0], "stop_reason": "eos"}}
    values = {"sdlg": sdlg, "multinomial:temperature=0.5": {IMPROPER: [value, value]}}
    return {
        "generate": {"id": name, "question": "?", "answer": answer},
        "measure": {"id": name, "values": values, "reasons": {}},
        "judge": {
            "id": name,
            "scores": {"exact_match": 0.0 if wrong else 1.0, "rouge_l": 0.1 if wrong else 0.7},
        },
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunResults:
    return load_run(write_run(tmp_path_factory.mktemp("run")))


def test_a_run_is_calibrated_and_the_file_says_what_it_was_made_with(run, tmp_path):
    found = calibrate_run(run, Choice())
    origin = found.origin
    assert (origin.model, origin.nli, origin.method) == ("smollm2", "nli-minilm", "sdlg")
    assert (origin.measure, origin.samples) == (SEMANTIC_ENTROPY, 2)
    assert (origin.metric, origin.threshold) == ("rouge_l", 0.5)
    assert (origin.data.name, origin.data.sha256, origin.data.evaluated) == ("triviaqa", "ab" * 32, 200)
    assert origin.options["max_tokens"] == 32
    assert found.n == 196
    assert any("4 answers" in note and "undefined: no branches" in note for note in found.notes)
    assert any("skipped in the run, and no part of this: 1" in note for note in found.notes)
    values, wrong = answers(200)
    assert found.out_of_fold.auroc.value == pytest.approx(roc_auc_score(wrong[:196], values[:196]))
    found.save(tmp_path / "risk.json")
    assert Calibration.load(tmp_path / "risk.json") == found


def test_methods_and_measures_are_found_by_any_of_their_names(run):
    assert calibrate_run(run, Choice(measure="NumSets")).origin.measure == CLUSTERS
    found = calibrate_run(run, Choice(method="multinomial:temperature=0.5", measure="SE_MS")).origin
    assert (found.method, found.measure, found.options["temperature"]) == ("multinomial", IMPROPER, 0.5)


def test_the_default_measure_is_the_number_that_stands_first(tmp_path):
    folder = write_run(tmp_path / "run")
    for file in ("run.json", "measure.jsonl"):
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace(SEMANTIC_ENTROPY, "share_beyond_answer"))
    assert calibrate_run(load_run(folder), Choice()).origin.measure == "share_beyond_answer"


@pytest.mark.parametrize("method", ["sdlg", "multinomial"])
def test_where_nothing_was_drawn_the_default_measure_is_a_results_semantic_entropy(method):
    name = semantic_entropy_of(method)
    result = fake_pipeline(method=method, measures=[name], draws=0).ask("What?")
    assert result.semantic_entropy == pytest.approx(result.estimates[name].value, abs=1e-9)


def test_answers_that_ask_measures_by_sentence_are_no_part_of_a_calibration_of_answers(tmp_path):
    folder = write_run(tmp_path / "run", undefined=0)
    rows = list(map(json.loads, (folder / "generate.jsonl").read_text().splitlines()))
    for row in rows[:30]:
        row["answer"]["generation"]["text"] = "It is Paris. It lies on the Seine."
    (folder / "generate.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = calibrate_run(load_run(folder), Choice())
    assert found.n == 170
    independent = calibrate_run(load_run(folder), Choice(method="multinomial:temperature=0.5", measure="SE_MS"))
    assert independent.n == 200  # ask measures those as one
    assert any(note.startswith("30 answers of several sentences were left out") for note in found.notes)
    for row in rows:
        if "answer" in row:
            row["answer"]["generation"]["text"] = "It is Paris. It lies on the Seine."
    (folder / "generate.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadOption, match="all 200 answers of this run have several sentences"):
        calibrate_run(load_run(folder), Choice())


def test_folds_of_answers_with_several_parts_need_enough_answers():
    values, wrong = answers(40)
    owners = np.repeat(np.arange(4), 10)
    with pytest.raises(BadOption, match="of 4 answers have a part that is wrong, but 5 folds need at least 5"):
        fit_risk(values, wrong, Choice(), owners)
    one_wrong = np.r_[np.ones(4), np.zeros(36)]
    with pytest.raises(BadOption, match="1 of 10 answers have a part that is wrong"):
        fit_risk(values, one_wrong, Choice(), np.repeat(np.arange(10), 4))


def test_a_measure_of_certainty_is_mirrored(run):
    found = calibrate_run(run, Choice(measure="coverage", map="isotonic"))
    assert not found.origin.higher_is_less_certain
    assert found.risk_at(0.05) > found.risk_at(0.95)
    values, wrong = run.values("sdlg", "coverage"), run.wrong("rouge_l", 0.5)
    mirrored = fit(-values, wrong, map="isotonic")
    assert found.map == mirrored.map
    kept = [found.keeps(value) for value in values]
    assert kept == [bool(-value <= mirrored.keep.threshold) for value in values]


def test_the_first_samples_only_are_used_if_asked(run):
    found, both = (calibrate_run(run, Choice(samples=samples, map="logistic")) for samples in (1, None))
    assert (found.origin.samples, both.origin.samples) == (1, 2)
    assert found.map.slope == pytest.approx(2 * both.map.slope)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "multinomial"}, r"unknown method of this run 'multinomial'; choose from: .*temperature=0.5"),
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"measure": "SAR"}, f"unknown measure of sdlg in this run 'sar'; choose from: .*{CLUSTERS}"),
        ({"measure": "magic"}, "unknown measure 'magic'"),
        ({"metric": "bleurt"}, "unknown metric of this run 'bleurt'; choose from: exact_match, rouge_l"),
        ({"samples": 3}, "samples must be from 1 to 2"),
        ({"threshold": -1.0}, "0 of 196 answers are wrong"),
    ],
)
def test_what_a_run_does_not_have_is_an_error_that_says_what_it_has(run, changes, message):
    with pytest.raises((BadOption, UnknownName), match=message):
        calibrate_run(run, Choice(**changes))


def test_a_run_without_a_finished_question_is_an_error(run):
    with pytest.raises(BadOption, match="has passed all stages yet"):
        calibrate_run(replace(run, ids=()), Choice())


# -- the command --------------------------------------------------------------------------------------------------


def command(*arguments) -> int:
    parser = argparse.ArgumentParser()
    add_calibrate(parser.add_subparsers())
    parsed = parser.parse_args(["calibrate", *map(str, arguments)])
    return parsed.run(parsed)


def test_the_command_writes_the_file_and_the_plot_and_says_what_it_found(tmp_path, capsys):
    folder = write_run(tmp_path / "run")
    assert command(folder, "-o", tmp_path / "risk.json", "--plot", tmp_path / "risk.svg", "--map", "isotonic") == 0
    made, shown = Calibration.load(tmp_path / "risk.json"), capsys.readouterr().out
    assert f"{SEMANTIC_ENTROPY} of sdlg, 2 samples, smollm2 on triviaqa" in shown
    assert f"Brier score {made.out_of_fold.brier:.3f}" in shown
    assert f"keep answers ≤ {made.keep.threshold:.4g}: at most 20% of them are wrong, with 95% confidence" in shown
    assert (tmp_path / "risk.svg").read_text().lstrip().startswith("<?xml")
    command(folder, "-o", tmp_path / "risk.json", "--error-rate", "0.001")
    assert "too few to show an error rate" in capsys.readouterr().out
    assert Calibration.load(tmp_path / "risk.json").keep.threshold is None


def test_a_wrong_folder_or_a_plot_of_an_unknown_kind_is_refused_before_the_work(tmp_path):
    with pytest.raises(BadOption, match=r"must end in \.svg, \.pdf, \.png"):
        command(tmp_path / "nothing", "-o", tmp_path / "risk.json", "--plot", tmp_path / "risk.xyz")
    with pytest.raises(BadOption, match="is no run"):
        command(tmp_path, "-o", tmp_path / "risk.json")


def test_the_command_line_does_not_load_scikit_learn_or_numpy():
    code = "import sys, sdlg.cli.calibrate; print([m for m in ('numpy', 'sklearn', 'matplotlib') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


@pytest.mark.parametrize(("suffix", "beginning"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_plot_has_a_point_for_every_bin_and_the_same_bytes_for_the_same_bins(suffix, beginning):
    bins = judged(*perfect()).bins
    points = np.asarray(reliability_figure(bins, "").axes[0].collections[-1].get_offsets())
    assert points == pytest.approx(np.array([(one.risk, one.wrong / one.n) for one in bins]))
    drawn = [reliability_bytes(bins, "semantic entropy $", suffix) for _ in range(2)]
    assert drawn[0].startswith(beginning)
    assert drawn[0] == drawn[1]
