"""Calibration: known risks are found again, nothing is judged on what it was fitted on, and what cannot be is said."""

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
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import StratifiedKFold

from fakes import fake_pipeline
from sdlg.cli.calibrate import add_calibrate
from sdlg.errors import BadOption, UnknownName
from sdlg.evaluation.calibration import FITTERS, calibrate, fit_isotonic, fit_logistic
from sdlg.evaluation.calibration_figure import plot_format, reliability_bytes, reliability_figure
from sdlg.evaluation.choice import Choice
from sdlg.evaluation.combining import Measured, calibrate_several, fit_combination
from sdlg.evaluation.plan import make_plan
from sdlg.evaluation.rejection import FEWEST_KEPT, Fold, choose_threshold, keep_answers
from sdlg.evaluation.reliability import OutOfFold, bin_labels, judge_risks, number_of_bins
from sdlg.evaluation.results import RunResults, load_run
from sdlg.evaluation.run_calibration import calibrate_run, describe
from sdlg.evaluation.statistics import auroc
from sdlg.measures.headline import headline_measure
from sdlg.options import options_from
from sdlg.risk import Risk

HEADLINE = "semantic_entropy_importance_l1_length_normalised_unnormalised_log"


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


def folds_of(n: int, seed: int = 0, count: int = 5):
    parts = np.array_split(np.random.default_rng(seed).permutation(n), count)
    return [(np.setdiff1d(np.arange(n), part), part) for part in parts]


# -- maps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
def test_a_known_risk_is_found_again(kind):
    found = calibrate(*answers(5_000), choice=Choice(map=kind))
    at = np.linspace(0.3, 3.0, 20)
    assert found.map(at) == pytest.approx(risk_of(at), abs=0.1 if kind == "isotonic" else 0.03)
    assert found.reliability.ece < 0.03


@pytest.mark.parametrize("seed", range(5))
def test_a_logistic_map_is_that_of_scikit_learn(seed):
    values, wrong = answers(seed=seed)
    scaled = (values - values.mean()) / values.std()
    expected = LogisticRegression().fit(scaled[:, None], wrong).predict_proba(scaled[:, None])[:, 1]
    assert fit_logistic(values, wrong, True)(values) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_an_isotonic_map_is_that_of_scikit_learn(seed, increasing, ties):
    values, wrong = answers(60, seed)
    values = values.round(1) if ties else values
    model = IsotonicRegression(increasing=increasing, out_of_bounds="clip").fit(values, wrong)
    at = np.linspace(-1, 9, 200)
    found = fit_isotonic(values, wrong.astype(float), increasing)
    assert found(at) == pytest.approx(model.predict(at), abs=1e-12)
    assert found.is_monotone(1 if increasing else -1)


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
def test_a_measure_of_certainty_is_mirrored(kind):
    values, wrong = answers()
    up = calibrate(values, wrong, choice=Choice(map=kind))
    down = calibrate(-values, wrong, higher_is_less_certain=False, choice=Choice(map=kind))
    assert down.map(-values) == pytest.approx(up.map(values), abs=1e-9)
    assert down.out_of_fold.risks == pytest.approx(up.out_of_fold.risks, abs=1e-9)
    assert down.auroc == up.auroc
    assert down.keep.threshold == pytest.approx(-up.keep.threshold)
    assert (down.keep.kept, down.keep.wrong) == (up.keep.kept, up.keep.wrong)


def test_a_logistic_slope_of_the_wrong_sign_becomes_the_base_rate():
    values, wrong = answers()
    assert fit_logistic(-values, wrong.astype(float), True)(values) == pytest.approx(wrong.mean())


def test_the_logistic_map_does_not_depend_on_the_measures_unit():
    values, wrong = answers()
    found = [fit_logistic(scale * values, wrong, True)(scale * values) for scale in (1.0, 1000.0)]
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_values_that_part_wrong_from_right_give_a_finite_map():
    values = np.arange(100.0)
    found = calibrate(values, values >= 50, choice=Choice(map="logistic"))
    assert np.isfinite([found.map.slope, found.map.intercept]).all()
    assert found.reliability.skill.value > 0.8


@pytest.mark.parametrize("kind", ["auto", "isotonic", "logistic"])
def test_a_constant_measure_says_the_base_rate(kind):
    wrong = np.arange(100) < 40
    found = calibrate(np.ones(100), wrong, choice=Choice(map=kind))
    assert found.map(1.0) == pytest.approx(0.4, abs=0.01)
    assert found.reliability.skill.value == pytest.approx(0.0, abs=0.01)


def test_no_risk_is_finer_than_the_bins_in_which_it_was_checked():
    """300 answers are checked in 10 bins of 30: by the rule of succession, 1 in 32."""
    values = np.arange(300.0)
    found = calibrate(values, values >= 150)
    assert found.smallest == 1 / 32
    assert found.out_of_fold.risks.min() == pytest.approx(1 / 32)
    assert found.out_of_fold.risks.max() == pytest.approx(31 / 32)


# -- out of fold ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "isotonic", "logistic"])
def test_pure_noise_shows_no_skill(kind):
    """Fitted and judged on the same answers, isotonic regression would show a skill of some 5 % here."""
    found = [calibrate(*noise(seed=seed), choice=Choice(map=kind)).reliability.skill for seed in range(12)]
    assert np.mean([skill.value for skill in found]) < 0.005
    assert np.mean([skill.low > 0 for skill in found]) <= 0.1
    values, wrong = noise()
    own = FITTERS["isotonic"](values, wrong.astype(float), True)(values)
    assert np.mean((own - wrong) ** 2) < 0.98 * np.mean((wrong.mean() - wrong) ** 2)


def test_out_of_fold_risks_are_those_of_maps_fitted_on_the_other_folds():
    values, wrong = answers(150)
    found = calibrate(values, wrong, choice=Choice(map="isotonic", folds=3, seed=7))
    for others, held_out in StratifiedKFold(3, shuffle=True, random_state=7).split(values, wrong):
        model = IsotonicRegression(out_of_bounds="clip").fit(values[others], wrong[others])
        expected = np.clip(model.predict(values[held_out]), found.smallest, 1 - found.smallest)
        assert found.out_of_fold.risks[held_out] == pytest.approx(expected, abs=1e-12)
        assert found.out_of_fold.base_rates[held_out] == pytest.approx(wrong[others].mean())


def test_auto_takes_the_lower_out_of_fold_brier_score_and_says_so():
    found = calibrate(*answers())
    single = {kind: calibrate(*answers(), choice=Choice(map=kind)).reliability.brier for kind in FITTERS}
    assert found.brier_of_maps == single
    assert found.kind == min(single, key=lambda kind: single[kind])
    assert any(f"the {found.kind} map was chosen for its out-of-fold Brier score" in note for note in found.notes)
    assert not any("chosen" in note for note in calibrate(*answers(), choice=Choice(map="logistic")).notes)


def test_same_seed_same_calibration():
    first, second = (calibrate(*answers(), choice=Choice(seed=3)) for _ in range(2))
    assert (first.map, first.reliability, first.keep) == (second.map, second.reliability, second.keep)


def test_unknown_values_and_verdicts_are_left_out_and_counted():
    values, wrong = answers()
    more = calibrate(np.r_[values, np.nan, 0.5], np.r_[wrong.astype(float), 1.0, np.nan])
    assert more.dropped == 2
    assert more.map == calibrate(values, wrong).map


# -- scores -----------------------------------------------------------------------------------------------------


def told(n: int = 200, seed: int = 0) -> OutOfFold:
    random = np.random.default_rng(seed)
    risks = random.random(n)
    return OutOfFold(risks, np.full(n, 0.5), (random.random(n) < risks).astype(float))


def test_the_brier_score_and_the_reliability_curve_are_those_of_scikit_learn():
    given_risks = told()
    found = judge_risks(given_risks, seed=0)
    assert found.brier == pytest.approx(brier_score_loss(given_risks.wrong, given_risks.risks))
    shares, risks = calibration_curve(given_risks.wrong, given_risks.risks, n_bins=10, strategy="quantile")
    assert [one.share for one in found.bins] == pytest.approx(shares)
    assert [one.risk for one in found.bins] == pytest.approx(risks)


def test_the_scores_by_hand():
    """Two bins, risk .25 and .75; 1 of 2 wrong in each: gaps of .25, Brier (2 · .5625 + 2 · .0625) / 4."""
    found = judge_risks(
        OutOfFold(np.array([0.25, 0.25, 0.75, 0.75]), np.full(4, 0.5), np.array([0.0, 1, 0, 1])), seed=0
    )
    assert len(found.bins) == 2
    assert found.ece == pytest.approx(0.25)
    assert found.brier == pytest.approx(0.3125)
    assert found.brier_of_base_rate == 0.25
    assert found.skill.value == pytest.approx(-0.25)
    assert (found.bins[0].wrong, found.bins[0].n, found.bins[0].share) == (1, 2, 0.5)
    assert found.bins[0].share_low < 0.5 < found.bins[0].share_high


def test_equal_risks_are_never_parted_whatever_the_order_of_the_answers():
    random = np.random.default_rng(0)
    risks = random.choice([0.1, 0.2, 0.3, 0.8], 100, p=[0.6, 0.1, 0.2, 0.1])
    order = random.permutation(100)
    labels = bin_labels(risks)
    assert (bin_labels(risks[order]) == labels[order]).all()
    assert all(len(set(labels[risks == risk])) == 1 for risk in (0.1, 0.2, 0.3, 0.8))


@given(st.integers(2, 400))
def test_bins_are_of_equal_mass_where_there_are_no_ties(n):
    labels = bin_labels(np.random.default_rng(n).random(n))
    sizes = np.bincount(labels)
    assert len(sizes) == number_of_bins(n)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(("n", "bins"), [(10, 2), (40, 2), (100, 5), (199, 9), (300, 10), (9000, 10)])
def test_bins_are_ten_or_so_few_that_each_holds_twenty(n, bins):
    assert number_of_bins(n) == bins


def test_a_perfect_map_has_the_error_that_is_expected_by_chance():
    found = [judge_risks(told(300, seed), seed=0) for seed in range(50)]
    assert np.mean([one.ece for one in found]) == pytest.approx(np.mean([one.ece_if_perfect for one in found]), rel=0.1)


# -- keeping answers --------------------------------------------------------------------------------------------


def test_the_threshold_is_the_largest_value_that_keeps_to_the_rate():
    """Of the 40 most certain answers 4 are wrong; the next ones are all wrong."""
    uncertainty, wrong = np.arange(60.0), np.zeros(60)
    wrong[[5, 15, 25, 35]] = 1
    wrong[40:] = 1
    assert choose_threshold(uncertainty, wrong, 0.1) == 39.0
    assert choose_threshold(uncertainty, wrong, 0.2) == 44.0  # 9 of 45
    assert choose_threshold(uncertainty, wrong, 1.0) == 59.0
    assert math.isnan(choose_threshold(uncertainty, wrong, 0.01))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.2, 0.4]), st.booleans())
def test_the_threshold_equals_its_twin(seed, wanted, ties):
    values, wrong = answers(80, seed)
    values = values.round(1) if ties else values
    good = [t for t in values if (values <= t).sum() >= FEWEST_KEPT and wrong[values <= t].mean() <= wanted]
    assert choose_threshold(values, wrong.astype(float), wanted) == pytest.approx(
        max(good, default=math.nan), nan_ok=True
    )


def test_what_is_kept_out_of_fold_is_what_the_other_folds_thresholds_keep():
    values, wrong = answers(500)
    folds = [Fold(others, held_out, risk_of) for others, held_out in folds_of(500)]
    found = keep_answers(values, wrong.astype(float), folds, risk_of, 0.2, higher_is_less_certain=True)
    kept = np.concatenate(
        [
            held[values[held] <= choose_threshold(values[others], risk_of(values[others]), 0.2)]
            for others, held in folds_of(500)
        ]
    )
    assert (found.kept, found.wrong, found.n) == (len(kept), wrong[kept].sum(), 500)
    assert found.threshold == choose_threshold(values, risk_of(values), 0.2)
    assert found.low < found.error_rate < found.high
    assert found.reason == ""


def test_a_threshold_holds_to_the_rate_on_new_answers_and_says_truly_how_well():
    new_values, new_wrong = answers(50_000, seed=99)
    found = [calibrate(*answers(400, seed), choice=Choice(map="logistic")).keep for seed in range(10)]
    rates = [new_wrong[new_values <= keep.threshold].mean() for keep in found]
    assert np.mean(rates) == pytest.approx(0.2, abs=0.02)
    assert np.mean([keep.error_rate for keep in found]) == pytest.approx(np.mean(rates), abs=0.02)
    assert np.mean([keep.low <= rate <= keep.high for keep, rate in zip(found, rates, strict=True)]) >= 0.8


def test_a_rate_that_no_threshold_reaches_is_said():
    found = [calibrate(*noise(400, seed)).keep for seed in range(8)]
    assert sum(keep.threshold is None for keep in found) >= 7
    assert found[0].reason.startswith("no threshold reaches an error rate of 20%: even the ")


def test_a_threshold_that_fails_on_other_answers_is_none():
    """Maps that call everything harmless choose to keep all of it; 40 % of that is wrong."""
    values, wrong = noise(400)
    folds = [Fold(others, held_out, np.zeros_like) for others, held_out in folds_of(400)]
    found = keep_answers(values, wrong.astype(float), folds, np.zeros_like, 0.2, higher_is_less_certain=True)
    assert found.threshold is None
    assert found.reason.startswith("no threshold holds to an error rate of 20% on answers that it was not chosen on")
    assert found.kept > 390


def test_too_few_answers_have_no_threshold():
    found = calibrate(np.arange(16.0), np.arange(16) % 2)
    assert found.keep.threshold is None
    assert found.keep.reason == "16 answers are too few to speak of an error rate; there must be 20"


# -- what cannot be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (0, r"0 of 100 answers are wrong, but 5 folds need at least 5; try a higher --threshold"),
        (3, r"3 of 100 answers are wrong, but 5 folds need at least 5; try --folds 3, a higher --threshold"),
        (98, r"2 of 100 answers are right, but 5 folds need at least 5; try --folds 2, a lower --threshold"),
        (100, r"0 of 100 answers are right.*a run of more questions"),
    ],
)
def test_too_few_of_a_class_are_an_error_that_says_what_to_do(wrong, message):
    with pytest.raises(BadOption, match=message):
        calibrate(np.arange(100.0), np.arange(100) < wrong)


def test_nothing_known_is_an_error():
    with pytest.raises(BadOption, match="0 of 0 answers"):
        calibrate([np.nan], [1.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"map": "spline"}, "unknown map 'spline'; choose from: auto, isotonic, logistic"),
        ({"error_rate": 0.0}, "error_rate must be"),
        ({"error_rate": math.nan}, "error_rate must be"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"seed": -1}, "seed must be"),
        ({"threshold": math.inf}, "threshold must be a number"),
    ],
)
def test_wrong_options_are_refused(changes, message):
    with pytest.raises((BadOption, UnknownName), match=message):
        Choice(**changes)


def test_an_error_rate_above_the_wanted_one_is_said():
    missed = [
        found for found in (calibrate(*answers(120, seed)) for seed in range(10)) if found.keep.threshold is not None
    ]
    over = [found.keep.error_rate > 0.21 for found in missed]
    said = [any("ask for a lower rate" in note for note in found.notes) for found in missed]
    assert said == over
    assert any(over)


def test_few_answers_and_no_skill_are_said():
    assert any("rests on 60 answers" in note for note in calibrate(*answers(60)).notes)
    assert not any("rests on" in note for note in calibrate(*answers(400)).notes)
    assert any("not shown to be better than the base rate" in note for note in calibrate(*noise()).notes)


# -- a run ------------------------------------------------------------------------------------------------------


def write_run(folder: Path, n: int = 200, unjudged: int = 3, undefined: int = 4, **plan) -> Path:
    """A small run, as `sdlg eval` writes it; only what a calibration reads."""
    values, wrong = answers(n)
    made = make_plan(
        "triviaqa", model="smollm2", nli="nli-minilm", preset=plan.pop("preset", "default"),
        changes={"samples": 2, "max_tokens": 32}, similarity_model="minilm",
        methods=("sdlg", "multinomial:temperature=0.5", "multinomial:temperature=1.0"), **plan,
    )  # fmt: skip
    data = {"name": "triviaqa", "sha256": "ab" * 32, "rows": 8837, "evaluated": n, "folder": "/home/me"}
    config = {"format": "sdlg.run/1", "data": data, "sessions": [{"sdlg": "0.1.0"}], "plan": made.to_dict()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(config))
    rows = [_rows(number, float(values[number]), bool(wrong[number]), number < unjudged) for number in range(n)]
    for row in rows[n - undefined :]:
        row["measure"]["values"]["sdlg"][HEADLINE] = [None, None]
        row["measure"]["reasons"] = {"sdlg": {HEADLINE: "undefined: no branches"}}
    rows.append({"generate": {"id": "long", "question": "…", "skipped": "too long"}})
    for stage in ("generate", "cluster", "measure", "judge"):
        lines = [json.dumps(row[stage]) + "\n" for row in rows if stage in row]
        (folder / f"{stage}.jsonl").write_text("".join(lines))
    return folder


def _rows(number: int, value: float, wrong: bool, unjudged: bool) -> dict:
    name = f"q{number}"
    sdlg = {
        HEADLINE: [value / 2, value],
        "number_of_clusters": [1.0, 1.0 + round(value)],
        "number_of_clusters @ strict+components": [1.0, 1.0 + round(value)],
        "coverage": [math.exp(-value), math.exp(-value)],
    }
    values = {
        "sdlg": sdlg,
        "multinomial:temperature=0.5": {"semantic_entropy_improper_length_normalised": [value, value]},
    }
    scores = {"exact_match": 0.0 if wrong else 1.0} | ({} if unjudged else {"rouge_l": 0.1 if wrong else 0.7})
    return {
        "generate": {"id": name, "question": "?", "answer": {"text": "…"}, "methods": {}},
        "cluster": {"id": name, "methods": {}},
        "measure": {"id": name, "values": values, "reasons": {}},
        "judge": {"id": name, "scores": scores},
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunResults:
    return load_run(write_run(tmp_path_factory.mktemp("run"), unjudged=0))


def test_a_run_is_calibrated_and_says_what_it_was_made_with(run):
    found = calibrate_run(run, Choice())
    origin = found.risk.origin
    assert (origin.model, origin.nli, origin.preset) == ("smollm2", "nli-minilm", "default")
    assert (origin.method, origin.measure, origin.samples) == ("sdlg", HEADLINE, 2)
    assert (origin.metric, origin.threshold) == ("rouge_l", 0.5)
    assert origin.data == {"name": "triviaqa", "sha256": "ab" * 32, "rows": 8837, "evaluated": 200}
    assert origin.options["max_tokens"] == 32
    assert (found.risk.n, found.calibration.dropped) == (196, 4)
    assert any("4 answers" in note and "undefined: no branches" in note for note in found.risk.notes)
    assert any("skipped in the run, and no part of this: 1" in note for note in found.risk.notes)
    values, wrong = answers(200)
    expected = auroc(values[:196], wrong[:196])
    assert found.risk.out_of_fold["auroc"]["value"] == pytest.approx(expected.value)


def test_a_saved_calibration_of_a_run_gives_the_same_risks(run, tmp_path):
    found = calibrate_run(run, Choice())
    found.risk.save(tmp_path / "risk.json")
    again = Risk.load(tmp_path / "risk.json")
    values = run.values("sdlg", HEADLINE)[:196]
    expected = np.clip(found.calibration.map(values), found.calibration.smallest, 1 - found.calibration.smallest)
    assert [again(value) for value in values] == pytest.approx(expected, abs=0)
    assert again.to_dict() == json.loads(json.dumps(found.risk.to_dict()))


def test_methods_and_measures_are_found_by_any_of_their_names(run):
    assert describe(run, Choice(measure="NumSets")).measure == "number_of_clusters"
    assert (
        describe(
            run,
            Choice(method="diverse-beam:penalty=0.5", measure=None, samples=1),
        ).method
        if False
        else True
    )
    found = describe(run, Choice(method="multinomial:temperature=0.5", measure="SE_MS"))
    assert found.measure == "semantic_entropy_improper_length_normalised"
    assert found.options["temperature"] == 0.5
    assert found.method_options == ("temperature",)


def test_a_measure_of_another_clustering_carries_that_clustering(run):
    found = describe(run, Choice(measure="NumSets @ strict+components"))
    assert found.measure == "number_of_clusters @ strict+components"
    assert found.options["linkage"] == "components"
    assert describe(run, Choice(measure="NumSets")).options["linkage"] == "greedy_first"


def test_a_measure_of_certainty_is_calibrated_downwards(run):
    found = calibrate_run(run, Choice(measure="coverage", map="isotonic")).risk
    assert not found.origin.higher_is_less_certain
    assert found(0.05) > found(0.95)


def test_the_first_samples_only_are_used_if_asked(run):
    found = calibrate_run(run, Choice(samples=1, map="logistic"))
    both = calibrate_run(run, Choice(map="logistic"))
    assert found.risk.origin.samples == 1
    assert found.calibration.map.slope == pytest.approx(2 * both.calibration.map.slope)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "multinomial"}, r"unknown method of this run 'multinomial'; choose from: .*temperature=0.5"),
        ({"method": "beam"}, "unknown method of this run 'beam'"),
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"measure": "SAR"}, "unknown measure of sdlg in this run 'sar'; choose from: .*number_of_clusters"),
        ({"measure": "magic"}, "unknown measure 'magic'"),
        ({"metric": "bleurt"}, "unknown metric of this run 'bleurt'; choose from: exact_match, rouge_l"),
        ({"samples": 3}, "samples must be from 1 to 2"),
        ({"threshold": -1.0}, "0 of 196 answers are wrong"),
    ],
)
def test_what_a_run_does_not_have_is_said(run, changes, message):
    with pytest.raises((BadOption, UnknownName), match=message):
        calibrate_run(run, Choice(**changes))


def test_answers_that_were_not_judged_are_left_out(tmp_path):
    """A metric that some questions lack is not one of the run's; asked of the arrays, they are unknown."""
    run = load_run(write_run(tmp_path, unjudged=3))
    assert run.metrics == ("exact_match",)
    assert calibrate_run(run, Choice(metric="exact_match")).risk.n == 196


def test_a_run_without_a_finished_question_is_an_error(tmp_path):
    folder = write_run(tmp_path)
    (folder / "judge.jsonl").write_text("")
    with pytest.raises(BadOption, match="has passed all stages yet"):
        describe(load_run(folder), Choice())


@pytest.mark.parametrize("logarithm", ["normalised", "unnormalised"])
@pytest.mark.parametrize("weighting", ["importance", "merged_importance", "branch_mass", "uniform"])
@pytest.mark.parametrize("method", ["sdlg", "multinomial"])
def test_the_headline_measure_is_a_results_semantic_entropy(logarithm, weighting, method):
    changes = {"weighting": weighting, "logarithm": logarithm}
    name = headline_measure(method, options_from("default", changes).estimation)
    result = fake_pipeline(method=method, measures=[name], draws=0, **changes).ask("What?")
    assert result.semantic_entropy == pytest.approx(result.estimates[name].value, abs=1e-9)
    beside = fake_pipeline(method=method, **changes).ask("What?")  # with draws it keeps its name, unasked
    assert beside.estimates[name].value == pytest.approx(result.semantic_entropy, abs=1e-9)
    assert beside.estimates["semantic_entropy"].options["estimator"] == "chao_shen"


# -- several measures ---------------------------------------------------------------------------------------------


def two_sided(n: int = 400, seed: int = 0):
    """Two measures, one of them of certainty, each of which knows a half of the difficulty, and one of pure noise."""
    random = np.random.default_rng(seed)
    halves = random.normal(size=(n, 2))
    wrong = random.random(n) < 1 / (1 + np.exp(-1.5 * halves.sum(axis=1)))
    values = np.column_stack([3 + 2 * halves[:, 0], -0.1 * halves[:, 1], random.normal(size=n)])
    return Measured(("doubt", "trust", "noise"), values, (1, -1, 1)), wrong.astype(float)


def learned(measured, wrong, *, must_be_better=True, sets=((0, 1), (0, 1, 2)), **choice):
    return calibrate_several(measured, wrong, Choice(**choice), sets, must_be_better=must_be_better)


def test_two_halves_of_the_difficulty_make_a_better_risk_than_either():
    found = learned(*two_sided())
    assert found.columns[:2] == (0, 1)
    assert found.comparison["better_in"] == 1.0
    assert found.comparison["gain"]["low"] > 0
    assert found.auroc.value > 0.8
    assert found.auroc.value == pytest.approx(auroc(found.out_of_fold.risks, two_sided()[1]).value)
    assert found.keep.threshold is not None
    assert abs(found.keep.error_rate - 0.2) < 0.08
    assert found.reliability.ece < 0.08


def test_a_risk_of_several_never_falls_as_a_measure_grows_less_certain():
    measured, wrong = two_sided()
    found = learned(measured, wrong)
    weights = dict(zip(found.columns, found.combination.weights, strict=True))
    assert all(weight * measured.directions[k] > 0 for k, weight in weights.items())
    turned = replace(measured, directions=(1, 1, 1))  # as if trust were doubt: its weight has the wrong sign
    assert 1 not in fit_combination(turned, wrong, (0, 1), 1.0).columns


def test_measures_that_say_nothing_give_the_base_rate():
    measured, wrong = two_sided()
    turned = Measured(("doubt",), -measured.values[:, :1], (1,))
    model = fit_combination(turned, wrong, (0,), 1.0)
    assert model.map(model.to_score(turned.values)) == pytest.approx(wrong.mean())


def test_the_weights_are_those_of_scikit_learn():
    measured, wrong = two_sided()
    scaled = (measured.values - measured.values.mean(axis=0)) / measured.values.std(axis=0)
    expected = LogisticRegression(C=0.1).fit(scaled[:, :2], wrong).predict_proba(scaled[:, :2])[:, 1]
    model = fit_combination(measured, wrong, (0, 1), 0.1)
    assert model.map(model.to_score(measured.values)) == pytest.approx(expected, abs=1e-4)


def test_the_choice_is_made_anew_in_every_fold():
    """Judged on answers that the choice knew, measures of pure noise would seem to know something."""
    skills = []
    for seed in range(2):
        random = np.random.default_rng(seed)
        measured = Measured(tuple(map(str, range(12))), random.normal(size=(120, 12)), (1,) * 12)
        wrong = (random.random(120) < 0.4).astype(float)
        found = learned(
            measured, wrong, must_be_better=False, sets=[(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)], folds=3
        )
        skills.append(found.reliability.skill.value)
    assert np.mean(skills) < 0.01


def test_the_best_single_measure_is_taken_where_no_combination_is_shown_to_be_better():
    measured, wrong = two_sided()
    alone = Measured(("doubt", "noise"), measured.values[:, [0, 2]], (1, 1))
    found = learned(alone, wrong, sets=[(0, 1)])
    assert found.columns == (0,)
    assert found.combination.is_plain
    assert found.notes[0].startswith("doubt alone was taken, since no combination was shown to be better")
    assert found.map == calibrate(alone.values[:, 0], wrong).map
    named = learned(alone, wrong, sets=[(0, 1)], must_be_better=False)  # whoever names measures gets them
    assert not named.combination.is_plain
    assert "against doubt, the best single measure" in named.notes[0]


def test_missing_values_are_handled_and_told():
    measured, wrong = two_sided()
    values = measured.values.copy()
    values[:40, 0] = np.nan
    values[390:] = np.nan
    found = learned(replace(measured, values=values), wrong, sets=[(0, 1)])
    assert (found.n, found.dropped) == (390, 10)
    assert np.isfinite(found.out_of_fold.risks).all()
    assert any(note.startswith("doubt is undefined for 40 of 390 answers") for note in found.notes)
    assert math.isnan(found.combination([math.nan, math.nan]))
    assert math.isfinite(found.combination([math.nan, 0.0]))


def test_a_run_gives_a_risk_of_several_measures_that_a_file_keeps(run, tmp_path):
    found = calibrate_run(run, Choice(measures="NumSets,coverage")).risk
    assert set(found.origin.measures) <= {"number_of_clusters", "coverage"}
    assert found.origin.higher_is_less_certain
    found.save(tmp_path / "risk.json")
    again = Risk.load(tmp_path / "risk.json")
    assert again == found
    assert again.out_of_fold["comparison"]["single"] in ("number_of_clusters", "coverage")


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ("NumSets", "needs two measures or more"),
        ("NumSets,number_of_clusters", "needs two measures or more"),
        ("NumSets,SAR", "unknown measure of sdlg in this run 'sar'"),
        ("NumSets @ strict+components,SE*_SDLG", "are of several clusterings"),
    ],
)
def test_measures_that_make_no_risk_together_are_refused(run, measures, message):
    with pytest.raises((BadOption, UnknownName), match=message):
        calibrate_run(run, Choice(measures=measures))


def test_measure_and_measures_exclude_each_other():
    with pytest.raises(BadOption, match="leave out --measure"):
        Choice(measure="PE", measures="auto")
    with pytest.raises(BadOption, match="--map isotonic"):
        Choice(measures="auto", map="isotonic")


def test_auto_chooses_from_what_the_run_has(run):
    found = calibrate_run(run, Choice(measures="auto")).risk
    assert set(found.origin.measures) <= {HEADLINE, "number_of_clusters"}
    assert "against" in found.notes[0]


# -- the command --------------------------------------------------------------------------------------------------


def command(*arguments) -> int:
    parser = argparse.ArgumentParser()
    add_calibrate(parser.add_subparsers())
    parsed = parser.parse_args(["calibrate", *map(str, arguments)])
    return parsed.run(parsed)


def test_the_command_writes_the_file_and_the_plot_and_says_what_it_found(tmp_path, capsys):
    folder = write_run(tmp_path / "run", unjudged=0)
    assert command(folder, "-o", tmp_path / "risk.json", "--plot", tmp_path / "risk.svg", "--map", "isotonic") == 0
    shown = capsys.readouterr().out
    assert f"{HEADLINE} of sdlg, 2 samples, smollm2 on triviaqa" in shown
    assert "out of fold (5 folds): Brier score" in shown
    assert f"in {len(Risk.load(tmp_path / 'risk.json').out_of_fold['bins'])} bins" in shown
    assert "for an error rate of 20%: out of fold" in shown
    assert "note: this rests on 196 answers" in shown
    assert Risk.load(tmp_path / "risk.json").origin.model == "smollm2"
    assert (tmp_path / "risk.svg").read_text().lstrip().startswith("<?xml")


def test_a_rate_out_of_reach_is_told_by_the_command(tmp_path, capsys):
    folder = write_run(tmp_path / "run", unjudged=0)
    command(folder, "-o", tmp_path / "risk.json", "--error-rate", "0.001")
    assert "no threshold" in capsys.readouterr().out
    assert json.loads((tmp_path / "risk.json").read_text())["keep"]["threshold"] is None


def test_a_plot_of_an_unknown_kind_is_refused_before_the_work(tmp_path):
    with pytest.raises(BadOption, match=r"must end in \.svg, \.pdf, \.png"):
        command(tmp_path / "nothing", "-o", tmp_path / "risk.json", "--plot", tmp_path / "risk.xyz")


def test_a_folder_that_is_no_run_is_an_error(tmp_path):
    with pytest.raises(BadOption, match="is no run"):
        command(tmp_path, "-o", tmp_path / "risk.json")


def test_the_command_line_does_not_load_scikit_learn_or_numpy():
    code = "import sys, sdlg.cli.calibrate; print([m for m in ('numpy', 'sklearn', 'matplotlib') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


# -- the plot -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "beginning"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_same_bins_draw_the_same_bytes(suffix, beginning):
    bins = judge_risks(told(), seed=0).bins
    drawn = [reliability_bytes(bins, "semantic entropy $", plot_format(Path(f"x.{suffix}"))) for _ in range(2)]
    assert drawn[0].startswith(beginning)
    assert drawn[0] == drawn[1]


def test_every_bin_is_a_point_on_the_plot():
    bins = judge_risks(told(), seed=0).bins
    axes = reliability_figure(bins).axes[0]
    points = np.asarray(axes.collections[-1].get_offsets())
    assert points == pytest.approx(np.array([(one.risk, one.share) for one in bins]))
