"""How well scores tell wrong answers from right ones: twins by brute force, invariants, and what is undefined."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, rankdata
from sklearn.metrics import roc_auc_score

from sdlg.evaluation.resampling import resample_counts
from sdlg.evaluation.statistics import (
    Figure,
    auroc,
    calibration_error,
    error_at_coverage,
    paired_difference,
    paired_error_difference,
    risk_coverage,
)
from sdlg.measures.shares import wilson

INTERVALLED = [auroc, partial(error_at_coverage, coverage=0.5)]


def made_up(n: int = 300, *, signal: float = 1.0, ties: bool = False, seed: int = 0):
    """Scores that know something of what is wrong."""
    random = np.random.default_rng(seed)
    wrong = random.random(n) < 0.4
    scores = random.normal(size=n) + signal * wrong
    return (scores.round() if ties else scores), wrong


# few distinct scores, so that ties are common; both classes are there
@st.composite
def judged(draw, most: int = 40):
    n = draw(st.integers(2, most))
    scores = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    wrong = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda w: 0 < sum(w) < len(w)))
    return np.array(scores, dtype=float), np.array(wrong)


# -- twins ------------------------------------------------------------------------------------------------------


def auroc_by_pairs(scores, wrong) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[wrong] for b in scores[~wrong]]
    return sum(pairs) / len(pairs)


def auroc_by_ranks(scores, wrong) -> float:
    positive, negative = wrong.sum(), (~wrong).sum()
    return (rankdata(scores)[wrong].sum() - positive * (positive + 1) / 2) / (positive * negative)


def orders(scores):
    """Every order of the questions in which the scores do not fall."""
    return [list(p) for p in permutations(range(len(scores))) if (np.diff(scores[list(p)]) >= 0).all()]


def curve_by_orders(scores, target):
    """The mean of the first k, averaged over all orders."""
    sizes = np.arange(1, len(scores) + 1)
    return np.mean([np.cumsum(target[order]) / sizes for order in orders(scores)], axis=0)


# -- AUROC ------------------------------------------------------------------------------------------------------


def test_auroc_by_hand():
    """Wrong .9, .5; right .5, .1: of four pairs three are in order and one is a tie."""
    figure = auroc([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
    assert figure.value == 0.875
    assert (figure.n, figure.dropped, figure.reason) == (4, 0, "")


@given(judged())
def test_auroc_equals_its_twins(data):
    scores, wrong = data
    found = auroc(scores, wrong, resamples=0).value
    assert found == pytest.approx(auroc_by_pairs(scores, wrong), abs=1e-12)
    assert found == pytest.approx(auroc_by_ranks(scores, wrong), abs=1e-12)
    assert found == pytest.approx(roc_auc_score(wrong, scores), abs=1e-12)


@given(judged())
def test_auroc_is_mirrored_by_negated_scores_and_by_swapped_classes(data):
    scores, wrong = data
    found = auroc(scores, wrong, resamples=0).value
    assert auroc(-scores, wrong, resamples=0).value == pytest.approx(1 - found, abs=1e-12)
    assert auroc(scores, ~wrong, resamples=0).value == pytest.approx(1 - found, abs=1e-12)


@given(judged(), st.randoms(use_true_random=False))
def test_every_figure_is_blind_to_increasing_maps_and_to_the_order_of_the_questions(data, random):
    scores, wrong = data
    order = random.sample(range(len(scores)), len(scores))
    for statistic in INTERVALLED:
        found = statistic(scores, wrong, resamples=0).value
        assert statistic(np.exp(scores) + 7, wrong, resamples=0).value == pytest.approx(found, abs=1e-12)
        assert statistic(scores[order], wrong[order], resamples=0).value == pytest.approx(found, abs=1e-9)


def test_equal_scores_are_worth_a_coin():
    assert auroc(np.zeros(10), np.arange(10) < 3).value == 0.5


def test_infinite_scores_are_ranked():
    assert auroc([math.inf, 1.0, -math.inf], [True, False, False], resamples=0).value == 1.0


# -- what is undefined ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "name"), [(True, "wrong"), (False, "right")])
def test_one_class_has_no_auroc_and_says_so(wrong, name):
    figure = auroc(np.arange(300.0), np.full(300, wrong))
    assert math.isnan(figure.value)
    assert math.isnan(figure.low)
    assert figure.reason == f"all 300 answers are {name}: AUROC needs both wrong and right ones"
    assert figure.n == 300


def test_no_questions_at_all_is_a_reason_too():
    for statistic in INTERVALLED:
        figure = statistic([math.nan, 1.0], [1.0, math.nan])
        assert math.isnan(figure.value)
        assert figure.reason == "no question has both a score and a verdict (2 were dropped)"
    assert risk_coverage([], []).x.size == 0


def test_unknown_scores_and_verdicts_are_dropped_and_counted():
    scores, wrong = made_up(50)
    more_scores = np.r_[scores, math.nan, 0.3, math.nan]
    more_wrong = np.r_[wrong.astype(float), 1.0, math.nan, math.nan]
    found = auroc(more_scores, more_wrong)
    assert found.dropped == 3
    assert found == Figure(**{**_fields(auroc(scores, wrong)), "dropped": 3})


def _fields(figure: Figure) -> dict:
    return {name: getattr(figure, name) for name in Figure.__slots__}


def test_a_verdict_is_yes_or_no_and_there_is_one_per_score():
    with pytest.raises(ValueError, match="wrong"):
        auroc([0.1, 0.2], [0.5, 1.0])
    with pytest.raises(ValueError, match="one number per question"):
        auroc([0.1, 0.2, 0.3], [0, 1])
    with pytest.raises(ValueError, match="coverage"):
        error_at_coverage([0.1, 0.2], [0, 1], 0.0)


# -- curves and areas -------------------------------------------------------------------------------------------


def test_curves_by_hand():
    """Certain and right, then a tie of one right and one wrong, then wrong."""
    scores, wrong = [0.1, 0.5, 0.5, 0.9], [0, 1, 0, 1]
    curve = risk_coverage(scores, wrong)
    assert curve.x.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.y == pytest.approx([0, 0.25, 1 / 3, 0.5])


@settings(max_examples=40, deadline=None)
@given(judged(most=6))
def test_error_rates_are_the_mean_over_all_orders_of_the_ties(data):
    scores, wrong = data
    by_orders = curve_by_orders(scores, wrong.astype(float))
    assert risk_coverage(scores, wrong).y == pytest.approx(by_orders, abs=1e-12)
    for kept, expected in enumerate(by_orders, start=1):
        found = error_at_coverage(scores, wrong, kept / len(scores), resamples=0)
        assert found.value == pytest.approx(expected, abs=1e-12)


# -- intervals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
def test_resamples_by_counts_equal_resamples_by_drawing(ties):
    scores, wrong = made_up(60, ties=ties)
    counts = np.concatenate(list(resample_counts(60, 300, seed=4)))
    drawn = [np.repeat(np.arange(60), row.astype(int)) for row in counts]
    low, high = np.quantile([auroc_by_ranks(scores[d], wrong[d]) for d in drawn], (0.025, 0.975))
    figure = auroc(scores, wrong, resamples=300, seed=4)
    assert (figure.low, figure.high) == pytest.approx((low, high), abs=1e-12)
    errors = [error_at_coverage(scores[d], wrong[d], 0.5, resamples=0).value for d in drawn]
    figure = error_at_coverage(scores, wrong, 0.5, resamples=300, seed=4)
    assert (figure.low, figure.high) == pytest.approx(np.quantile(errors, (0.025, 0.975)), abs=1e-12)
    other = -(scores**2)
    gaps = [auroc_by_ranks(scores[d], wrong[d]) - auroc_by_ranks(other[d], wrong[d]) for d in drawn]
    figure = paired_difference(scores, other, wrong, resamples=300, seed=4)
    assert (figure.low, figure.high) == pytest.approx(np.quantile(gaps, (0.025, 0.975)), abs=1e-12)


def test_every_resample_has_as_many_questions_as_there_are_in_blocks_or_at_once(monkeypatch):
    whole = np.concatenate(list(resample_counts(7, 50, seed=0)))
    assert whole.shape == (50, 7)
    assert (whole.sum(axis=1) == 7).all()
    monkeypatch.setattr("sdlg.evaluation.resampling._BLOCK", 70)
    blocks = list(resample_counts(7, 45, seed=0))
    assert [len(block) for block in blocks] == [10, 10, 10, 10, 5]


def test_same_seed_same_interval_another_seed_another():
    scores, wrong = made_up(80)
    assert auroc(scores, wrong, seed=1) == auroc(scores, wrong, seed=1)
    assert auroc(scores, wrong, seed=1).low != auroc(scores, wrong, seed=2).low


def test_the_interval_covers_the_true_value_about_as_often_as_it_says():
    """The true AUROC of two normal distributions one deviation apart is Φ(1/√2) = 0.7602."""
    figures = [auroc(*made_up(200, seed=seed), resamples=400, seed=seed) for seed in range(200)]
    covered = np.mean([figure.low <= 0.7602 <= figure.high for figure in figures])
    assert 0.89 <= covered <= 0.99


def test_resamples_of_one_class_are_left_out_and_counted():
    """With one wrong answer of 50 it is missing from (1 − 1/50)^50 = 36 % of the resamples."""
    figure = auroc(np.arange(50.0), np.arange(50) == 40, resamples=2000)
    assert figure.excluded / 2000 == pytest.approx(0.364, abs=0.04)
    assert 0 < figure.low <= figure.value <= figure.high < 1


# -- differences ------------------------------------------------------------------------------------------------


def test_a_difference_is_that_of_the_two_figures_and_its_interval_is_paired():
    scores, wrong = made_up(300)
    almost = scores + np.random.default_rng(9).normal(scale=0.3, size=300)
    found = paired_difference(scores, almost, wrong)
    single = [auroc(score, wrong) for score in (scores, almost)]
    assert found.value == pytest.approx(single[0].value - single[1].value, abs=1e-12)
    assert found.low <= found.value <= found.high
    assert found.high - found.low < 0.5 * (single[0].high - single[0].low)  # far narrower than two apart
    assert found.n == 300


def test_a_score_differs_from_itself_by_nothing():
    scores, wrong = made_up(100)
    found = paired_difference(scores, scores, wrong)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


@given(judged(), st.sampled_from([0.5, 0.8, 1.0]))
def test_the_error_rate_at_a_coverage_is_the_risk_curves(data, coverage):
    scores, wrong = data
    kept = max(1, round(coverage * len(wrong)))
    found = error_at_coverage(scores, wrong, coverage, resamples=0)
    assert found.value == pytest.approx(risk_coverage(scores, wrong).y[kept - 1])


def test_error_rates_differ_by_their_difference_paired():
    scores, wrong = made_up()
    other = made_up(signal=0.2, seed=1)[0] + wrong
    found = paired_error_difference(scores, other, wrong, 0.5)
    alone = [error_at_coverage(one, wrong, 0.5).value for one in (scores, other)]
    assert found.value == pytest.approx(alone[0] - alone[1])
    assert found.low <= found.value <= found.high
    assert paired_error_difference(scores, scores, wrong, 0.8).high == 0.0


def test_a_difference_uses_the_questions_that_have_both_scores():
    scores, wrong = made_up(100)
    first, second = scores.copy(), -scores
    first[:10], second[5:20] = math.nan, math.nan
    found = paired_difference(first, second, wrong)
    assert (found.n, found.dropped) == (80, 20)
    assert found.value == pytest.approx(2 * auroc(scores[20:], wrong[20:]).value - 1)


def test_a_difference_of_one_class_is_undefined():
    found = paired_difference([1.0, 2.0], [2.0, 1.0], [True, True])
    assert found.reason == "all 2 answers are wrong: a difference of AUROCs needs both wrong and right ones"
    assert math.isnan(found.value)


# -- shares -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "trials"), [(0, 5), (5, 5), (3, 10), (150, 300)])
def test_wilson_intervals_are_those_of_scipy(hits, trials):
    expected = binomtest(hits, trials).proportion_ci(method="wilson")
    assert wilson(hits, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


# -- probabilities against what happened --------------------------------------------------------------------------


def test_calibration_error_by_hand():
    """Two bins of two: risks of 0.1 with none wrong, and of 0.8 with one wrong of two. NaN is dropped and counted."""
    found = calibration_error([0.1, 0.1, 0.8, 0.8, math.nan, 0.5], [0, 0, 0, 1, 1, math.nan])
    assert found.value == pytest.approx((2 * 0.1 + 2 * 0.3) / 4)
    assert (found.n, found.dropped) == (4, 2)
    assert math.isnan(calibration_error([], []).value)


def test_true_risks_have_nearly_no_calibration_error():
    random = np.random.default_rng(0)
    risks = random.random(20_000)
    wrong = random.random(20_000) < risks
    assert calibration_error(risks, wrong).value < 0.02 < 0.2 < calibration_error(1 - risks, wrong).value
