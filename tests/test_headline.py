"""The paper's estimate, its shares and weights: vectors, a brute-force twin, invariants, and what is not known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import vector_inputs, vectors
from sdlg.measures import MeasureInputs
from sdlg.measures import semantic as s
from sdlg.measures.branches import branch_log_masses, importance_log_weights, l1_normalised
from sdlg.measures.decomposition import aleatoric_semantic_uncertainty
from sdlg.measures.headline import cluster_score_shares, sample_weights, semantic_entropy
from sdlg.measures.table import find_measure
from sdlg.measures.tokens import mean_logprobs, total_logprobs
from sdlg.records import Branching

V = vectors("estimator")
CASES = ("ms_duplicates", "ms_distinct", "single", "identical", "sdlg")


def samples_of(case):
    return vector_inputs(V[case]["input"])


def close(value):
    return pytest.approx(value, abs=1e-9)


# -- vectors ----------------------------------------------------------------------------------------------------


def test_sdlg_vectors():
    inputs, out = samples_of("sdlg"), V["sdlg"]["output"]["sdlg"]
    assert semantic_entropy(inputs).value == close(out["ln"]["SE_norm_outside"])
    assert cluster_score_shares(inputs) == close(out["ln"]["p_c"])
    assert sample_weights(inputs) == close(out["w_l1"])
    assert np.exp(branch_log_masses(inputs)).tolist() == close(out["branch"]["W"])


@pytest.mark.parametrize("case", CASES[:-1])
def test_vectors_where_nothing_branched(case):
    inputs, out = samples_of(case), V[case]["output"]
    assert semantic_entropy(inputs).value == close(out["ln"]["SE_norm_outside_dup"])
    assert cluster_score_shares(inputs) == close(out["ln"]["p_c_dup"])
    assert sample_weights(inputs) == close([1 / len(inputs)] * len(inputs))


@pytest.mark.parametrize("case", CASES)
def test_vectors_without_likelihoods(case):
    inputs, out = replace(samples_of(case), logprobs=None), V[case]["output"]
    assert semantic_entropy(inputs).value == close(out["SE_mc"])
    assert cluster_score_shares(inputs) == close(out["p_c_mc"])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("short", "likelihood"), [("ln", mean_logprobs), ("tot", total_logprobs)])
def test_cluster_mass_vectors(case, short, likelihood):
    inputs, out = samples_of(case), V[case]["output"][short]
    distinct = [n for n, identity in enumerate(inputs.identities) if identity not in inputs.identities[:n]]
    for kept, suffix in ((None, "dup"), (distinct, "unique")):
        masses = s.cluster_log_masses(inputs, likelihood(inputs), kept)
        assert np.exp(masses).tolist() == close(out[f"mass_{suffix}"])
        assert s.shares(masses).tolist() == close(out[f"p_c_{suffix}"])
        assert s.proper_entropy(masses) == close(out[f"SE_proper_{suffix}"])
        assert s.unnormalised_entropy(masses) == close(out[f"SE_norm_outside_{suffix}"])


def test_underflow_vectors():
    inputs, out = samples_of("underflow"), V["underflow"]["output"]["tot"]
    masses = s.cluster_log_masses(inputs, total_logprobs(inputs))
    assert masses.tolist() == close(out["log_mass"])
    assert s.proper_entropy(masses) == close(out["SE_proper"])
    assert s.unnormalised_entropy(masses) == close(out["SE_norm_outside"])


def test_the_authors_code_agrees():
    """One-token answers have mean = total, so given mean log-probabilities can be passed on."""
    given_, out = V["official_cross_check"]["input"], V["official_cross_check"]["output"]
    branchings = (None, *(Branching(0.0, math.log(w), w) for w in given_["weights_raw"][1:]))
    for short, values in (("ln", given_["avg_logprob"]), ("tot", given_["sum_logprob"])):
        plain = MeasureInputs(logprobs=tuple((x,) for x in values), clusters=tuple(given_["cluster_ids"]))
        assert semantic_entropy(plain).value == close(out[f"base_{short}"])
        assert semantic_entropy(replace(plain, branchings=branchings)).value == close(out[f"sdlg_{short}"])


def test_asymptotics_of_duplicates():
    """Many samples: counting duplicates converges to p² shares, distinct ones to the truth."""
    given_ = V["asymptotics"]
    counts = [round(1000 * p) for p in given_["p_y"]]
    identities = [k for k, n in enumerate(counts) for _ in range(n)]
    logprobs = tuple((math.log(given_["p_y"][k]),) for k in identities)
    inputs = MeasureInputs(logprobs, tuple(identities), tuple(given_["cluster"][k] for k in identities))
    assert cluster_score_shares(inputs) == close(given_["limit_sum_with_duplicates"])
    truth = given_["limit_sum_unique"]
    assert aleatoric_semantic_uncertainty(inputs) == close(-sum(p * math.log(p) for p in truth))


# -- invariants -------------------------------------------------------------------------------------------------


@st.composite
def any_inputs(draw):
    n = draw(st.integers(1, 8))
    rows = tuple(tuple(draw(st.lists(st.floats(-600, 0), min_size=1, max_size=5))) for _ in range(n))
    clusters = tuple(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    branchings = None
    if draw(st.booleans()):
        left = [(draw(st.floats(-600, 0)), draw(st.floats(-20, 0))) for _ in range(n - 1)]
        branchings = (None, *(Branching(shared, own, math.exp(own)) for shared, own in left))
    return MeasureInputs(rows, tuple(range(n)), clusters, branchings)


def twin(inputs):
    """Σ w p(y)^(1/T) by cluster, in plain Python."""
    weights = [1.0 if b is None else math.exp(b.logprob) for b in inputs.branchings or [None] * len(inputs)]
    scale = sum(weights) if inputs.branchings else 1.0
    mass: dict[int, float] = {}
    for row, cluster, weight in zip(inputs.logprobs, inputs.clusters, weights, strict=True):
        mass[cluster] = mass.get(cluster, 0.0) + weight / scale * math.exp(sum(row) / len(row))
    return [mass[cluster] for cluster in sorted(mass)]


@given(any_inputs())
def test_the_estimate_equals_a_brute_force_twin(inputs):
    inputs = replace(inputs, logprobs=tuple(row if sum(row) > -300 else (-1.0,) for row in inputs.logprobs))
    masses = twin(inputs)
    shares = [mass / sum(masses) for mass in masses]
    wanted = -sum(share * math.log(mass) for share, mass in zip(shares, masses, strict=True) if mass > 0)
    assert semantic_entropy(inputs).value == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    assert cluster_score_shares(inputs) == pytest.approx(shares, rel=1e-6, abs=1e-9)


@given(any_inputs())
def test_the_estimate_is_the_measure_that_it_names(inputs):
    for known in (inputs, replace(inputs, logprobs=None)):
        found = semantic_entropy(known)
        assert found.value == pytest.approx(find_measure(found.options["variant"])(known), rel=1e-9, abs=1e-9)
    named = semantic_entropy(inputs).options["variant"]
    assert named == f"semantic_entropy_{'proper' if inputs.branchings is None else 'sdlg'}"


@given(any_inputs(), st.randoms())
def test_the_order_of_answers_does_not_matter(inputs, random):
    order = list(range(len(inputs)))
    random.shuffle(order)
    pick = lambda values: None if values is None else tuple(values[k] for k in order)  # noqa: E731
    other = MeasureInputs(*map(pick, (inputs.logprobs, inputs.identities, inputs.clusters, inputs.branchings)))
    assert semantic_entropy(other).value == pytest.approx(semantic_entropy(inputs).value, rel=1e-9, abs=1e-9)
    assert cluster_score_shares(other) == pytest.approx(cluster_score_shares(inputs), rel=1e-9, abs=1e-9)
    assert sample_weights(other) == pytest.approx(pick(sample_weights(inputs)), rel=1e-9)


@given(any_inputs())
def test_shares_and_weights_sum_to_one(inputs):
    assert math.fsum(cluster_score_shares(inputs)) == pytest.approx(1.0)
    assert math.fsum(sample_weights(inputs)) == pytest.approx(1.0)


@given(any_inputs())
def test_entropies_are_between_zero_and_the_log_of_the_clusters(inputs):
    most = math.log(len(set(inputs.clusters)))
    for terms in (total_logprobs(inputs), mean_logprobs(inputs) + l1_normalised(importance_log_weights(inputs))):
        assert -1e-12 <= s.proper_entropy(s.cluster_log_masses(inputs, terms)) <= most + 1e-9


def test_very_small_likelihoods_stay_exact():
    masses = s.cluster_log_masses(MeasureInputs(clusters=(0, 1)), np.array([-5000.0, -5001.0]))
    p = 1 / (1 + math.exp(-1))
    assert s.proper_entropy(masses) == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p))


@pytest.mark.parametrize("parts", [((), (), ()), (((-1.0,),), (0, 1), (0,)), (((-1.0,),), (0,), (0, 1))])
def test_parts_of_different_lengths_are_refused(parts):
    with pytest.raises(ValueError, match="answers must be of one number"):
        MeasureInputs(*parts)
