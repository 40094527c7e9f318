"""Estimators: the vectors, brute-force twins written from the formulas, and invariants."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import vectors
from sdlg.measures import headline
from sdlg.measures import semantic as s
from sdlg.measures.base import MeasureInputs
from sdlg.options import Estimation
from sdlg.records import Branching

V = vectors("estimator")
COMMON = ("ms_duplicates", "ms_distinct", "single", "identical", "sdlg")


def samples_of(case):
    given_ = V[case]["input"]
    positions = given_.get("subst_pos", [None] * len(given_["token_logprobs"]))
    logprobs = tuple(map(tuple, given_["token_logprobs"]))
    chances = given_.get("subst_prob", positions)
    branchings = tuple(
        None if t is None else Branching(sum(row[:t]), math.log(p), p)
        for row, t, p in zip(logprobs, positions, chances, strict=True)
    )
    return MeasureInputs(logprobs, tuple(given_["sequence_ids"]), tuple(given_["cluster_ids"]), branchings)


def close(value):
    return pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("case", COMMON)
def test_likelihood_vectors(case):
    draws, out = samples_of(case), V[case]["output"]
    assert s.total_logprobs(draws).tolist() == close(out["total_logprob"])
    assert s.mean_logprobs(draws).tolist() == close(out["ln_logprob"])
    assert s.predictive_entropy(draws) == close(out["PE"])
    assert s.length_normalised_predictive_entropy(draws) == close(out["LN_PE"])
    assert s.frequency_entropy(draws) == close(out["SE_mc"])


@pytest.mark.parametrize("case", COMMON)
@pytest.mark.parametrize(("short", "likelihood"), [("ln", "length_normalised"), ("tot", "total")])
def test_semantic_entropy_vectors(case, short, likelihood):
    draws, out = samples_of(case), V[case]["output"][short]
    terms = s.LIKELIHOODS[likelihood](draws)
    for duplicates, suffix in (("counted", "dup"), ("unique", "unique")):
        masses = s.cluster_log_masses(draws, terms, duplicates=duplicates)
        assert np.exp(masses).tolist() == close(out[f"mass_{suffix}"])
        assert s.shares(masses).tolist() == close(out[f"p_c_{suffix}"])
        assert s.proper_entropy(masses) == close(out[f"SE_proper_{suffix}"])
        assert s.unnormalised_entropy(masses) == close(out[f"SE_norm_outside_{suffix}"])
    masses = s.cluster_log_masses(draws, terms)
    assert s.improper_entropy(masses) == close(out["SE_kuhn_improper"])
    assert s.improper_entropy(masses - 5) == close(out["SE_kuhn_improper_shift5"])


def test_underflow_vectors():
    draws, out = samples_of("underflow"), V["underflow"]["output"]
    masses = s.cluster_log_masses(draws, s.total_logprobs(draws))
    assert masses.tolist() == close(out["tot"]["log_mass"])
    assert s.proper_entropy(masses) == close(out["tot"]["SE_proper"])
    assert s.improper_entropy(masses) == close(out["tot"]["SE_kuhn_improper"])
    assert s.unnormalised_entropy(masses) == close(out["tot"]["SE_norm_outside"])
    assert s.predictive_entropy(draws) == close(out["PE"])
    assert s.frequency_entropy(draws) == close(out["SE_mc"])


def test_sdlg_weight_vectors():
    draws, out = samples_of("sdlg"), V["sdlg"]["output"]["sdlg"]
    raw = s.importance_log_weights(draws)
    assert np.exp(raw).tolist() == close(out["w_raw"])
    assert np.exp(s.l1_normalised(raw)).tolist() == close(out["w_l1"])
    eq8 = s.cluster_log_masses(draws, raw) - math.log(5)
    assert np.exp(eq8).tolist() == close(out["mass_eq8"])
    assert s.shares(eq8).tolist() == close(out["p_c_eq8"])
    assert (s.proper_entropy(eq8), s.unnormalised_entropy(eq8)) == close((out["SE_eq8"], out["SE_eq8_norm_outside"]))


@pytest.mark.parametrize(("short", "likelihood"), [("ln", "length_normalised"), ("tot", "total")])
def test_sdlg_entropy_vectors(short, likelihood):
    draws, out = samples_of("sdlg"), V["sdlg"]["output"]["sdlg"][short]
    masses = s.cluster_log_masses(draws, log_terms(draws, "importance", likelihood))
    assert np.exp(masses).tolist() == close(out["mass"])
    assert s.shares(masses).tolist() == close(out["p_c"])
    assert (s.proper_entropy(masses), s.unnormalised_entropy(masses)) == close(
        (out["SE_proper"], out["SE_norm_outside"])
    )


def test_branch_mass_vectors():
    draws, out = samples_of("sdlg"), V["sdlg"]["output"]["sdlg"]["branch"]
    weights = s.branch_log_masses(draws)
    masses = s.cluster_log_masses(draws, weights)
    assert np.exp(weights).tolist() == close(out["W"])
    assert np.exp(masses).tolist() == close(out["mass"])
    assert s.coverage(draws) == close(out["coverage"])
    assert s.shares(masses).tolist() == close(out["p_c"])
    assert (s.proper_entropy(masses), s.unnormalised_entropy(masses)) == close(
        (out["SE_proper"], out["SE_norm_outside"])
    )


def test_official_code_agrees():
    given_, out = V["official_cross_check"]["input"], V["official_cross_check"]["output"]
    draws = MeasureInputs(tuple((x,) for x in given_["sum_logprob"]), (0, 1, 2), tuple(given_["cluster_ids"]))
    weights = s.l1_normalised(np.log(given_["weights_raw"]))
    for short, values in (("ln", given_["avg_logprob"]), ("tot", given_["sum_logprob"])):
        likelihoods = np.array(values)
        plain = s.cluster_log_masses(draws, likelihoods)
        assert s.unnormalised_entropy(s.cluster_log_masses(draws, likelihoods + weights)) == close(out[f"sdlg_{short}"])
        assert s.unnormalised_entropy(plain) == close(out[f"base_{short}"])
        assert s.improper_entropy(plain) == close(out[f"kuhn_{short}"])


def test_asymptotics_of_duplicates():
    """Many samples: counting duplicates converges to p² shares, unique ones to the truth."""
    given_ = V["asymptotics"]
    counts = [round(1000 * p) for p in given_["p_y"]]
    identities = [k for k, n in enumerate(counts) for _ in range(n)]
    logprobs = tuple((math.log(given_["p_y"][k]),) for k in identities)
    draws = MeasureInputs(logprobs, tuple(identities), tuple(given_["cluster"][k] for k in identities))
    terms = s.total_logprobs(draws)
    assert s.shares(s.cluster_log_masses(draws, terms)).tolist() == close(given_["limit_sum_with_duplicates"])
    assert s.shares(s.cluster_log_masses(draws, terms, duplicates="unique")).tolist() == close(
        given_["limit_sum_unique"]
    )


# -- invariants -------------------------------------------------------------------------------------------------


@st.composite
def any_draws(draw):
    n = draw(st.integers(1, 8))
    rows = tuple(tuple(draw(st.lists(st.floats(-600, 0), min_size=1, max_size=5))) for _ in range(n))
    clusters = tuple(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    branchings = tuple(
        None if k == 0 else Branching(draw(st.floats(-600, 0)), draw(st.floats(-20, 0)), draw(st.floats(1e-9, 1)))
        for k in range(n)
    )
    return MeasureInputs(rows, tuple(range(n)), clusters, branchings)


WEIGHTINGS = ("importance", "merged_importance", "branch_mass", "uniform")


def log_terms(draws, weighting, likelihood):
    return headline.log_terms(draws, Estimation(weighting, likelihood))


def every_estimate(draws):
    found = [
        s.predictive_entropy(draws),
        s.length_normalised_predictive_entropy(draws),
        s.frequency_entropy(draws),
        s.coverage(draws),
    ]
    for weighting, likelihood in product(WEIGHTINGS, s.LIKELIHOODS):
        masses = s.cluster_log_masses(draws, log_terms(draws, weighting, likelihood))
        found += [s.proper_entropy(masses), s.unnormalised_entropy(masses), s.improper_entropy(masses)]
    return found


def reordered(draws, order):
    pick = lambda values: tuple(values[k] for k in order)  # noqa: E731
    return MeasureInputs(pick(draws.logprobs), pick(draws.identities), pick(draws.clusters), pick(draws.branchings))


@given(any_draws(), st.randoms())
def test_the_order_of_answers_does_not_matter(draws, random):
    order = list(range(len(draws.logprobs)))
    random.shuffle(order)
    assert every_estimate(reordered(draws, order)) == pytest.approx(every_estimate(draws), rel=1e-9, abs=1e-9)


@given(any_draws())
def test_relabelled_clusters_do_not_matter(draws):
    relabelled = MeasureInputs(draws.logprobs, draws.identities, tuple(9 - c for c in draws.clusters), draws.branchings)
    assert every_estimate(relabelled) == pytest.approx(every_estimate(draws), rel=1e-9, abs=1e-9)


@given(any_draws())
def test_entropies_are_between_zero_and_the_log_of_the_clusters(draws):
    most = math.log(len(set(draws.clusters)))
    for weighting in WEIGHTINGS:
        masses = s.cluster_log_masses(draws, log_terms(draws, weighting, "total"))
        assert -1e-12 <= s.proper_entropy(masses) <= most + 1e-9
        assert s.shares(masses).sum() == pytest.approx(1.0)
    assert all(math.isfinite(value) for value in every_estimate(draws))


@given(any_draws())
def test_a_duplicate_changes_nothing_where_duplicates_count_once(draws):
    twice = MeasureInputs(
        *(values + values[:1] for values in (draws.logprobs, draws.identities, draws.clusters, draws.branchings))
    )
    for likelihood in s.LIKELIHOODS.values():
        one = s.cluster_log_masses(draws, likelihood(draws), duplicates="unique")
        two = s.cluster_log_masses(twice, likelihood(twice), duplicates="unique")
        assert s.proper_entropy(one) == pytest.approx(s.proper_entropy(two), abs=1e-12)


@given(any_draws())
def test_semantic_entropy_equals_a_brute_force_twin(draws):
    rows = [row if sum(row) > -300 else (-1.0,) for row in draws.logprobs]
    draws = MeasureInputs(tuple(map(tuple, rows)), draws.identities, draws.clusters)
    mass: dict[int, float] = {}
    for row, cluster in zip(rows, draws.clusters, strict=True):
        mass[cluster] = mass.get(cluster, 0.0) + math.exp(sum(row))
    total = sum(mass.values())
    wanted = -sum(m / total * math.log(m / total) for m in mass.values() if m > 0)
    masses = s.cluster_log_masses(draws, log_terms(draws, "uniform", "total"))
    assert s.proper_entropy(masses) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_very_small_likelihoods_stay_exact():
    draws = MeasureInputs(((-5000.0,), (-5001.0,)), (0, 1), (0, 1))
    p = 1 / (1 + math.exp(-1))
    masses = s.cluster_log_masses(draws, s.total_logprobs(draws))
    assert s.proper_entropy(masses) == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p))


@pytest.mark.parametrize("parts", [((), (), ()), (((-1.0,),), (0, 1), (0,)), (((-1.0,),), (0,), (0, 1))])
def test_parts_of_different_lengths_are_refused(parts):
    with pytest.raises(ValueError):
        MeasureInputs(*parts)
