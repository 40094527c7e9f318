"""The table of measures: vectors, a brute-force twin for every measure, invariants over all of them, plug-ins."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from dataclasses import fields, replace
from importlib.metadata import EntryPoint
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import vector_inputs, vectors
from fakes import fake_pipeline
from sdlg.cli import main
from sdlg.errors import RunError, UnknownName
from sdlg.measures import Measure, MeasureInputs, table
from sdlg.measures.base import FIELDS
from sdlg.measures.inputs import InputModels
from sdlg.measures.measuring import measure, measure_all, needed_fields
from sdlg.measures.spread import longest_common_subsequence, rouge_l, words
from sdlg.measures.table import GROUPS, MEASURES, START_WITH, all_measures, find_measure, grouped_measures
from sdlg.records import Branching, Estimate, Question

V = vectors("estimator")
DOCS = Path(__file__).resolve().parents[1] / "docs" / "reference" / "measures.md"
PAIRED = {"lexical_similarity", "cocoa_log_likelihood", "cocoa_log_perplexity", "disagreement"}


def close(value):
    return pytest.approx(value, abs=1e-9)


def same(value):
    return pytest.approx(value, rel=1e-7, abs=1e-8)


def value_of(name, samples):
    found = measure_all(samples, [name])
    assert not found.reasons
    return found.estimates[name].value


# Those that read draws are tested where draws are: test_shares.py.
OF_SAMPLES = {name: measure for name, measure in MEASURES.items() if "draws" not in measure.needs}


def values_of(samples, names=None):
    """Numbers where there are some; the reason otherwise."""
    found = measure_all(samples, OF_SAMPLES if names is None else names)
    return {**{name: estimate.value for name, estimate in found.estimates.items()}, **found.reasons}


def assert_same(one, other, names=None):
    for name in names or one:
        assert other[name] == (one[name] if isinstance(one[name], str) else same(one[name])), name


# -- vectors ----------------------------------------------------------------------------------------------------


def vector_samples(case):
    return vector_inputs(V[case]["input"])


@pytest.mark.parametrize("case", ["ms_duplicates", "ms_distinct", "single", "identical", "sdlg"])
def test_vectors_through_the_table(case):
    samples, out = vector_samples(case), V[case]["output"]
    assert value_of("PE", samples) == close(out["PE"])
    assert value_of("LN-PE", samples) == close(out["LN_PE"])
    assert value_of("DSE", samples) == close(out["SE_mc"])
    assert value_of("number_of_clusters", samples) == out["M"]
    assert value_of("SE_MS", samples) == close(out["ln"]["SE_kuhn_improper"])
    assert value_of("semantic_entropy_proper", samples) == close(out["ln"]["SE_norm_outside_dup"])
    assert value_of("semantic_entropy_proper_normalised", samples) == close(out["ln"]["SE_proper_dup"])
    assert value_of("aleatoric_semantic_uncertainty", samples) == close(out["tot"]["SE_proper_unique"])


def test_sdlg_vectors_through_the_table():
    samples, out = vector_samples("sdlg"), V["sdlg"]["output"]["sdlg"]
    assert value_of("semantic_entropy_sdlg", samples) == close(out["ln"]["SE_norm_outside"])
    assert value_of("semantic_entropy_sdlg_normalised", samples) == close(out["ln"]["SE_proper"])
    assert value_of("semantic_entropy_branch_mass", samples) == close(out["branch"]["SE_proper"])
    assert value_of("coverage", samples) == close(out["branch"]["coverage"])


def test_underflow_vectors_through_the_table():
    samples, out = vector_samples("underflow"), V["underflow"]["output"]
    assert value_of("PE", samples) == close(out["PE"])
    assert value_of("LN-PE", samples) == close(out["LN_PE"])
    assert value_of("aleatoric_semantic_uncertainty", samples) == close(out["tot"]["SE_proper"])


def test_sar_vectors():
    given_, out = V["sar"]["input"], V["sar"]["output"]
    samples = MeasureInputs(
        logprobs=tuple(tuple(-x for x in row) for row in given_["token_nll"]),
        relevance=tuple(map(tuple, given_["relevance"])),
        similarity=np.array(given_["similarity"]),
    )
    assert value_of("tokenSAR", samples) == close(out["tokenSAR"])
    assert value_of("SAR", samples) == close(out["SAR"])


def test_the_papers_names_are_the_variants_of_the_authors_code():
    """official_cross_check gives mean log-probabilities directly: one-token answers have mean = total."""
    given_, out = V["official_cross_check"]["input"], V["official_cross_check"]["output"]
    branchings = (None, *(Branching(0.0, math.log(w), w) for w in given_["weights_raw"][1:]))
    means = tuple((x,) for x in given_["avg_logprob"])
    samples = MeasureInputs(logprobs=means, clusters=tuple(given_["cluster_ids"]), branchings=branchings)
    assert value_of("SE*_SDLG", samples) == close(out["sdlg_ln"])
    assert value_of("SE*_MS", samples) == value_of("SE*_DBS", samples) == close(out["base_ln"])
    assert value_of("SE_MS", samples) == close(out["kuhn_ln"])


# -- samples of every kind --------------------------------------------------------------------------------------

WORDS = ("Paris", "Lyon", "the", "city", "of", "Éire", "京都")


def make(seed, clusters, deepest=3.0, duplicated=True):
    """Samples with every field. The last answer repeats the one before, where there are enough."""
    rng, n = np.random.default_rng(seed), len(clusters)
    source = [*range(n - 1), n - 2] if duplicated and n > 2 and clusters[-1] == clusters[-2] else list(range(n))
    lengths = rng.integers(1, 6, n)
    rows = [tuple((-deepest * rng.random(k)).tolist()) for k in lengths]
    tokens = [tuple(rng.choice(WORDS, k).tolist()) for k in lengths]
    matrices = [np.round(rng.random((n, n)), int(rng.integers(0, 4))) for _ in range(2)]
    pick = lambda values: tuple(values[k] for k in source)  # noqa: E731
    square = lambda matrix: matrix[np.ix_(source, source)]  # noqa: E731
    changes = [(-deepest * rng.random(), -1 - 5 * rng.random()) for _ in range(n - 1)]
    branches = [None, *(Branching(shared, own, math.exp(own)) for shared, own in changes)]
    options = rng.dirichlet(np.ones(len(set(clusters))))
    return MeasureInputs(
        logprobs=pick(rows),
        identities=tuple(source),
        clusters=tuple(clusters),
        branchings=pick(branches),
        texts=pick([" ".join(row) for row in tokens]),
        tokens=pick(tokens),
        token_entropies=pick([tuple(rng.random(k).tolist()) for k in lengths]),
        relevance=pick([tuple(np.round(rng.random(k), 1).tolist()) for k in lengths]),
        similarity=square((matrices[0] + matrices[0].T) / 2),
        entailment=square(matrices[1]),
        embeddings=rng.normal(size=(n, 4))[source],
        p_true=float(rng.random()),
        assessment=tuple(options.tolist()),
        other_logprobs=tuple(pick((-deepest * rng.random(n)).tolist()) for _ in range(2)),
    )


seeds = st.integers(0, 10_000)
clusterings = st.lists(st.integers(0, 3), min_size=1, max_size=6)
any_samples = st.builds(make, seeds, clusterings)
deep_samples = st.builds(make, seeds, clusterings, st.sampled_from([100.0, 700.0, 2000.0]))
often = settings(max_examples=40, deadline=None)

MATRICES = ("similarity", "entailment")
WHOLE = ("samples", "draws", "p_true", "assessment")


def reordered(samples, order):
    changed = {}
    for name in FIELDS:
        value = getattr(samples, name)
        if name in MATRICES:
            changed[name] = value[np.ix_(order, order)]
        elif name == "embeddings":
            changed[name] = value[order]
        elif name == "other_logprobs":
            changed[name] = tuple(tuple(row[k] for k in order) for row in value)
        elif name not in WHOLE:
            changed[name] = tuple(value[k] for k in order)
    return replace(samples, **changed)


def only(samples, names):
    """Just these fields, and as little as a record needs to know how many answers there are."""
    kept = {name: getattr(samples, name) for name in names}
    if not any(name in kept for name in FIELDS if name not in (*WHOLE, "other_logprobs")):
        kept["tokens"] = samples.tokens
    return MeasureInputs(**kept)


# -- brute-force twins, in plain python -------------------------------------------------------------------------


def chances(s, per_token=False):
    return [math.exp(sum(row) / (len(row) if per_token else 1)) for row in s.logprobs]


def distinct(s):
    return [n for n in range(len(s)) if s.identities[n] not in s.identities[:n]]


def masses(s, terms, kept=None):
    found = {}
    for n in kept if kept is not None else range(len(s)):
        found[s.clusters[n]] = found.get(s.clusters[n], 0.0) + terms[n]
    return list(found.values())


def entropy(values):
    return -sum(v / sum(values) * math.log(v / sum(values)) for v in values if v > 0)


def entropy_of_mass(values):
    return -sum(v / sum(values) * math.log(v) for v in values if v > 0)


def weights(s):
    return [1.0 if b is None else math.exp(b.logprob) for b in s.branchings]


def weighted(s, scaled):
    total = sum(weights(s)) if scaled else 1.0
    return masses(s, [w / total * p for w, p in zip(weights(s), chances(s, True), strict=True)])


def branch_weights(s):
    return [
        p if b is None else math.exp(b.shared_logprob + math.log(b.mass))
        for p, b in zip(chances(s), s.branchings, strict=True)
    ]


def twin_token_sar(s):
    found = []
    for row, relevance in zip(s.logprobs, s.relevance, strict=True):
        total = sum(relevance)
        shares = [r / total for r in relevance] if total else [1 / len(row)] * len(row)
        found.append(-sum(x * share for x, share in zip(row, shares, strict=True)))
    return found


def twin_sar(s, likelihoods):
    n = len(s)
    return (
        -sum(
            math.log(likelihoods[i] + sum(s.similarity[i][j] * likelihoods[j] for j in range(n) if j != i) / 0.001)
            for i in range(n)
        )
        / n
    )


def twin_affinity(s):
    n = len(s)
    like = s.entailment
    return [[1.0 if i == j else float(like[i][j] + like[j][i]) / 2 for j in range(n)] for i in range(n)]


def jacobi(matrix):
    """Eigenvalues and eigenvectors (columns) of a symmetric matrix by Jacobi rotations."""
    n, a = len(matrix), [row[:] for row in matrix]
    v = [[float(i == j) for j in range(n)] for i in range(n)]
    for _ in range(100):
        for p, q in combinations(range(n), 2):
            if abs(a[p][q]) < 1e-300:
                continue
            theta = 0.5 * math.atan2(2 * a[p][q], a[q][q] - a[p][p])
            c, s = math.cos(theta), math.sin(theta)
            for k in range(n):
                a[k][p], a[k][q] = c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]
            for k in range(n):
                a[p][k], a[q][k] = c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]
            for k in range(n):
                v[k][p], v[k][q] = c * v[k][p] - s * v[k][q], s * v[k][p] + c * v[k][q]
    return [a[i][i] for i in range(n)], v


def twin_laplacian(s):
    w = twin_affinity(s)
    d = [sum(row) for row in w]
    n = len(w)
    return jacobi([[float(i == j) - w[i][j] / math.sqrt(d[i] * d[j]) for j in range(n)] for i in range(n)])


def twin_degree(s):
    n = len(s)
    return sum(n - sum(row) for row in twin_affinity(s)) / n**2


def twin_eccentricity(s):
    values, vectors_ = twin_laplacian(s)
    n, total = len(s), 0.0
    for k in range(n):
        if values[k] < 0.9 - 1e-9:
            column = [vectors_[i][k] for i in range(n)]
            total += sum((x - sum(column) / n) ** 2 for x in column)
    return math.sqrt(total)


def twin_eigenvalue_sum(s):
    return sum(max(0.0, 1 - value) for value in twin_laplacian(s)[0])


def twin_log_determinant(points):
    """By elimination, of the Gram matrix + αI, over N."""
    n = len(points)
    a = [[sum(x * y for x, y in zip(points[i], points[j], strict=True)) for j in range(n)] for i in range(n)]
    for i in range(n):
        a[i][i] += 0.001
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i][k] / a[k][k]
            a[i] = [x - factor * y for x, y in zip(a[i], a[k], strict=True)]
    return sum(math.log(a[k][k]) for k in range(n)) / n


def twin_eigenscore(s):
    return twin_log_determinant([[float(x - sum(row) / len(row)) for x in row] for row in s.embeddings])


def slow_subsequence(one, other):
    if not one or not other:
        return 0
    if one[0] == other[0]:
        return 1 + slow_subsequence(one[1:], other[1:])
    return max(slow_subsequence(one[1:], other), slow_subsequence(one, other[1:]))


def twin_lexical(s):
    found = []
    for one, other in combinations([text.casefold().split() for text in s.texts], 2):
        lcs = slow_subsequence(one, other)
        precision, recall = lcs / len(one), lcs / len(other)
        found.append(2 * precision * recall / (precision + recall) if lcs else 0.0)
    return sum(found) / len(found)


def twin_disagreement(s):
    return sum(1 - s.similarity[0][n] for n in range(1, len(s))) / (len(s) - 1)


def twin_coverage_adjusted(s):
    n, total, coverage = len(s), 0.0, len(set(s.clusters)) / twin_alphabet(s)
    for count in Counter(s.clusters).values():
        q = min(coverage * count / n, 1.0)
        total -= q * math.log(q) / (1 - (1 - q) ** n)
    return total


def singletons(s):
    return sum(count == 1 for count in Counter(s.clusters).values())


def twin_alphabet(s):
    spectral, n = twin_eigenvalue_sum(s), len(s)
    return spectral if singletons(s) == n else max(len(set(s.clusters)) / (1 - singletons(s) / n), spectral)


def cluster_shares(s, terms):
    found = masses(s, terms, distinct(s))
    return [m / sum(found) for m in found]


def twin_epistemic(s):
    own = cluster_shares(s, chances(s))
    found = []
    for row in s.other_logprobs:
        other = cluster_shares(s, [math.exp(x) for x in row])
        found.append(sum(p * math.log(p / q) for p, q in zip(own, other, strict=True)))
    return sum(found) / len(found)


def twin_total(s):
    own = cluster_shares(s, chances(s))
    found = []
    for row in s.other_logprobs:
        other = cluster_shares(s, [math.exp(x) for x in row])
        found.append(-sum(p * math.log(q) for p, q in zip(own, other, strict=True)))
    return sum(found) / len(found)


def mean(values):
    return sum(values) / len(values)


def other_share(s):
    answers = s.clusters[s.branchings.index(None)]
    elsewhere = [w for w, cluster in zip(branch_weights(s), s.clusters, strict=True) if cluster != answers]
    return sum(elsewhere) / sum(branch_weights(s))


def own_mass(s):
    """Σ W of what means the same as the answer, equal answers once."""
    kept = [n for n in distinct(s) if s.clusters[n] == s.clusters[s.branchings.index(None)]]
    return sum(branch_weights(s)[n] for n in kept)


TWINS = {
    "semantic_entropy_sdlg": lambda s: entropy_of_mass(weighted(s, True)),
    "semantic_entropy_sdlg_normalised": lambda s: entropy(weighted(s, False)),
    "semantic_entropy_branch_mass": lambda s: entropy(masses(s, branch_weights(s))),
    "mass_beyond_answer": lambda s: max(1 - own_mass(s), 0.0),
    "coverage": lambda s: min(sum(branch_weights(s)[n] for n in distinct(s)), 1.0),
    "branch_disagreement": lambda s: other_share(s),
    "cocoa_sdlg": lambda s: -math.log(chances(s, True)[s.branchings.index(None)]) * other_share(s),
    "discrete_semantic_entropy": lambda s: entropy(list(Counter(s.clusters).values())),
    "semantic_entropy_proper": lambda s: entropy_of_mass(masses(s, chances(s, True))),
    "semantic_entropy_proper_normalised": lambda s: entropy(masses(s, chances(s, True))),
    "semantic_entropy_improper": lambda s: -mean([math.log(m) for m in masses(s, chances(s, True))]),
    "number_of_clusters": lambda s: len(set(s.clusters)),
    "disagreement": lambda s: 1 - mean([other == s.clusters[0] for other in s.clusters[1:]]),
    "semantic_alphabet_size": twin_alphabet,
    "coverage_adjusted_entropy": twin_coverage_adjusted,
    "predictive_entropy": lambda s: -mean([math.log(p) for p in chances(s)]),
    "length_normalised_predictive_entropy": lambda s: -mean([math.log(p) for p in chances(s, True)]),
    "greedy_negative_log_likelihood": lambda s: -math.log(chances(s)[0]),
    "perplexity": lambda s: math.prod(math.exp(x) for x in s.logprobs[0]) ** (-1 / len(s.logprobs[0])),
    "mean_token_entropy": lambda s: mean(s.token_entropies[0]),
    "token_sar": lambda s: mean(twin_token_sar(s)),
    "sentence_sar": lambda s: twin_sar(s, chances(s)),
    "sar": lambda s: twin_sar(s, [math.exp(-x) for x in twin_token_sar(s)]),
    "degree": twin_degree,
    "eccentricity": twin_eccentricity,
    "eigenvalue_sum": twin_eigenvalue_sum,
    "eigenscore": twin_eigenscore,
    "lexical_similarity": twin_lexical,
    "probability_not_true": lambda s: 1 - s.p_true,
    "clustered_self_assessment": lambda s: 1 - s.assessment[sum(c < s.clusters[0] for c in set(s.clusters))],
    "cocoa_log_likelihood": lambda s: -math.log(chances(s)[0]) * twin_disagreement(s),
    "cocoa_log_perplexity": lambda s: -math.log(chances(s, True)[0]) * twin_disagreement(s),
    "aleatoric_semantic_uncertainty": lambda s: entropy(cluster_shares(s, chances(s))),
    "epistemic_semantic_uncertainty": twin_epistemic,
    "total_semantic_uncertainty": twin_total,
}


def test_every_measure_has_a_twin():
    assert TWINS.keys() == OF_SAMPLES.keys()


@often
@given(any_samples)
def test_every_measure_equals_its_twin(samples):
    found = values_of(samples)
    for name, twin in TWINS.items():
        if len(samples) > 1 or name not in PAIRED:
            assert found[name] == same(twin(samples)), name


# -- invariants of the whole table ------------------------------------------------------------------------------


@often
@given(any_samples, st.randoms())
def test_the_order_of_the_other_answers_does_not_matter(samples, random):
    order = list(range(1, len(samples)))
    random.shuffle(order)
    assert_same(values_of(samples), values_of(reordered(samples, [0, *order])))


ENTROPIES = (
    "semantic_entropy_sdlg_normalised",
    "semantic_entropy_branch_mass",
    "discrete_semantic_entropy",
    "semantic_entropy_proper_normalised",
    "coverage_adjusted_entropy",
    "aleatoric_semantic_uncertainty",
)  # those that are at least 0, and 0 for one meaning
ABOUT_THE_ANSWER = {
    "greedy_negative_log_likelihood",
    "perplexity",
    "mean_token_entropy",
    "clustered_self_assessment",
    "cocoa_log_likelihood",
    "cocoa_log_perplexity",
    "disagreement",
}


@often
@given(any_samples, st.randoms())
def test_no_order_matters_to_measures_of_all_answers(samples, random):
    order = list(range(len(samples)))
    random.shuffle(order)
    assert_same(values_of(samples), values_of(reordered(samples, order)), OF_SAMPLES.keys() - ABOUT_THE_ANSWER)


@often
@given(any_samples)
def test_relabelled_clusters_do_not_matter(samples):
    relabelled = replace(
        samples, clusters=tuple(9 - c for c in samples.clusters), assessment=tuple(reversed(samples.assessment))
    )
    assert_same(values_of(samples), values_of(relabelled))


@often
@given(st.one_of(any_samples, deep_samples))
def test_values_are_within_their_declared_range(samples):
    for name, found in measure_all(samples).estimates.items():
        assert MEASURES[name].low - 1e-9 <= found.value <= MEASURES[name].high + 1e-9, name


@often
@given(deep_samples)
def test_very_unlikely_answers_have_finite_measures(samples):
    reasons = measure_all(samples, OF_SAMPLES).reasons
    assert reasons.keys() <= (PAIRED if len(samples) == 1 else set()) | {"perplexity"}
    assert reasons.get("perplexity", "infinite: ").startswith("infinite: ")


def test_likelihoods_of_exp_minus_5000_keep_their_differences():
    apart = math.log(3)
    deep = replace(
        make(1, [0, 1]), logprobs=((-5000.0,), (-5000.0 - apart,)), relevance=((0.5,), (0.2,)), branchings=None
    )
    shallow = replace(deep, logprobs=((-1.0,), (-1.0 - apart,)))
    for name in ("semantic_entropy_proper_normalised", "aleatoric_semantic_uncertainty"):
        assert value_of(name, deep) == close(value_of(name, shallow))
    for name in ("SE_MS", "SE*_MS", "PE", "G-NLL", "sentence_sar", "sar", "tokenSAR"):
        assert value_of(name, deep) == close(value_of(name, shallow) + 4999)


@often
@given(st.builds(make, seeds, st.just([0])))
def test_one_answer_alone(samples):
    found = values_of(samples)
    for name in PAIRED:
        assert found[name] == "undefined: one answer has no other to compare with"
    for name in ENTROPIES:
        assert found[name] == close(0.0), name
    assert found["number_of_clusters"] == found["semantic_alphabet_size"] == close(1.0)
    assert found["sar"] == close(found["token_sar"])
    assert found["sentence_sar"] == found["greedy_negative_log_likelihood"] == close(found["predictive_entropy"])
    assert [found[name] for name in ("degree", "eccentricity", "eigenvalue_sum")] == close([0.0, 0.0, 1.0])
    assert found["mass_beyond_answer"] == close(1 - found["coverage"])


@often
@given(any_samples)
def test_declared_needs_are_enough(samples):
    everything = values_of(samples)
    for name, each in OF_SAMPLES.items():
        assert_same(everything, values_of(only(samples, each.needs), [name]), [name])


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_each_declared_need_is_needed(name):
    samples, measure = make(3, [0, 1, 1]), MEASURES[name]
    assert measure.needs
    for need in measure.needs:
        assert values_of(only(samples, measure.needs - {need}), [name]) == {name: f"needs {FIELDS[need]}"}
        with pytest.raises((AssertionError, TypeError)):
            measure(only(samples, measure.needs - {need}))


@often
@given(any_samples)
def test_total_is_aleatoric_plus_epistemic(samples):
    parts = [value_of(f"{name}_semantic_uncertainty", samples) for name in ("aleatoric", "epistemic", "total")]
    assert parts[0] + parts[1] == pytest.approx(parts[2], rel=1e-12, abs=1e-12)
    assert parts[1] >= -1e-12


@often
@given(any_samples)
def test_a_model_compared_with_itself_adds_nothing(samples):
    alike = replace(samples, other_logprobs=(tuple(sum(row) for row in samples.logprobs),))
    assert value_of("epistemic_semantic_uncertainty", alike) == close(0.0)


@often
@given(any_samples, seeds)
def test_a_duplicate_changes_nothing_where_answers_count_once(samples, which):
    order = [*range(len(samples)), which % len(samples)]
    once = {name for name in MEASURES if name.endswith("_semantic_uncertainty")}
    assert_same(values_of(samples), values_of(reordered(samples, order)), {*once, "number_of_clusters"})
    if which % len(samples):  # the answer itself has no duplicate among its branches
        assert_same(values_of(samples), values_of(reordered(samples, order)), ["coverage", "mass_beyond_answer"])


# -- what has no value ------------------------------------------------------------------------------------------


def test_what_is_missing_is_said_in_words():
    found = measure_all(MeasureInputs(clusters=(0, 1)))
    assert found.estimates.keys() == {name for name, measure in MEASURES.items() if measure.needs == {"clusters"}}
    assert found.reasons["predictive_entropy"] == "needs log-probabilities of the answers' tokens"
    assert found.reasons["sar"] == (
        "needs log-probabilities of the answers' tokens and the relevance of each token"
        " and similarities between the answers"
    )


def test_why_something_could_not_be_computed_is_said_beside_what_is_missing():
    asked = MeasureInputs(texts=("Paris", "Lyon"))
    found = measure(asked, Question("Where?"), ["EigV", "CSA"], InputModels())
    assert found.reasons["EigV"] == f"needs {FIELDS['entailment']}; no NLI model was named (--nli)"
    assert found.reasons["CSA"].endswith("the answers' clusters are not known; no NLI model was named (--nli)")
    assert measure_all(found.inputs.first(1), ["EigV"]).reasons == {"EigV": found.reasons["EigV"]}


def test_needed_fields_are_those_of_the_measures_and_what_computing_them_takes():
    assert needed_fields(["PE", "EigV"]) == {"logprobs", "entailment"}
    assert needed_fields(["CSA"]) == {"assessment", "clusters"}
    assert needed_fields([]) == frozenset()


def test_every_field_has_words():
    assert {field.name for field in fields(MeasureInputs)} == {*FIELDS, "unavailable"}


def test_branch_measures_are_undefined_for_answers_that_are_no_branches():
    found = values_of(replace(make(2, [0, 1, 1]), branchings=(None, None, None)))
    for name, each in MEASURES.items():
        if "branchings" in each.needs:
            assert found[name] == "undefined: the answers are not one answer and its branches", name


def test_mass_beyond_answer_by_hand():
    """p(y¹) = 0.5; branches of 0.2 (same meaning, twice the same), 0.1 (another) and 0.05 (same)."""
    branches = [Branching(math.log(0.8), math.log(0.25), 0.25), Branching(0.0, math.log(0.1), 0.1),
                Branching(math.log(0.5), math.log(0.1), 0.1)]  # fmt: skip
    samples = MeasureInputs(
        logprobs=((math.log(0.5),), (-1.0,), (-1.0,), (-2.0,), (-3.0,)),
        identities=("a", "b", "b", "c", "d"),
        clusters=(4, 4, 4, 0, 4),
        branchings=(None, branches[0], branches[0], branches[1], branches[2]),
    )
    assert value_of("mass_beyond_answer", samples) == close(1 - (0.5 + 0.2 + 0.05))
    assert find_measure("own mass").of_answer


def test_another_model_that_rules_an_answer_out_is_infinitely_different():
    samples = MeasureInputs(
        logprobs=((-1.0,), (-1.0,)), identities=(0, 1), clusters=(0, 1), other_logprobs=((-1.0, -math.inf),)
    )
    found = values_of(samples)
    assert found["aleatoric_semantic_uncertainty"] == close(math.log(2))
    assert found["epistemic_semantic_uncertainty"].startswith("infinite: ")
    nobody = replace(samples, other_logprobs=((-math.inf, -math.inf),))
    assert values_of(nobody)["total_semantic_uncertainty"].startswith("undefined: there is no other model, or")
    nothing = replace(samples, other_logprobs=())
    assert values_of(nothing)["total_semantic_uncertainty"].startswith("undefined: there is no other model")


def test_an_impossible_answer_is_not_a_number():
    found = values_of(MeasureInputs(logprobs=((-math.inf,), (-1.0,)), clusters=(0, 1)))
    assert found["predictive_entropy"].startswith("infinite: ")
    assert found["semantic_entropy_proper_normalised"] == close(0.0)


def test_irrelevant_tokens_all_count_alike():
    samples = MeasureInputs(logprobs=((-1.0, -2.0),), relevance=((0.0, -1e-12),))
    assert value_of("token_sar", samples) == close(1.5)


def test_relevance_of_another_length_is_refused():
    with pytest.raises(ValueError):
        measure_all(MeasureInputs(logprobs=((-1.0, -2.0),), relevance=((0.5,),)), ["tokenSAR"])


# -- what other implementations get wrong -----------------------------------------------------------------------


def repeated(times):
    """One answer, several times."""
    return reordered(make(5, [0], duplicated=False), [0] * times)


def test_five_identical_answers_are_as_certain_as_one():
    found = values_of(replace(repeated(5), similarity=np.ones((5, 5)), entailment=np.ones((5, 5)), branchings=None))
    for name in set(ENTROPIES) - {"semantic_entropy_sdlg_normalised", "semantic_entropy_branch_mass"}:
        assert found[name] == close(0.0)
    assert found["lexical_similarity"] == 1.0
    assert found["degree"] == found["cocoa_log_likelihood"] == close(0.0)
    assert found["eigenvalue_sum"] == found["semantic_alphabet_size"] == close(1.0)


def test_disagreement_is_with_the_first_answer():
    assert value_of("disagreement", MeasureInputs(clusters=(1, 0, 1, 2, 1))) == 0.5


def test_entropies_sum_over_clusters_not_over_answers():
    """Three answers in one cluster and one in another are two terms, not four."""
    samples = MeasureInputs(logprobs=((math.log(0.2),),) * 3 + ((math.log(0.4),),), clusters=(0, 0, 0, 1))
    assert value_of("discrete_semantic_entropy", samples) == close(entropy([3, 1]))
    assert value_of("semantic_entropy_proper_normalised", samples) == close(entropy([0.6, 0.4]))


def test_entailment_counts_in_both_directions():
    one_way = MeasureInputs(entailment=np.array([[1.0, 0.9], [0.0, 1.0]]))
    other_way = MeasureInputs(entailment=np.array([[1.0, 0.0], [0.9, 1.0]]))
    for name in ("degree", "eigenvalue_sum", "eccentricity"):
        assert value_of(name, one_way) == close(value_of(name, other_way))
    assert value_of("degree", one_way) == close((0.55 + 0.55) / 4)


def test_a_models_doubt_about_an_answer_and_itself_is_ignored():
    """NLI models do not always find that a text entails itself; vectors have 0 on the diagonal."""
    matrix = np.array([[0.2, 0.5], [0.5, 0.0]])
    clean = np.array([[1.0, 0.5], [0.5, 1.0]])
    for name in ("degree", "eigenvalue_sum", "sentence_sar"):
        one, other = (MeasureInputs(logprobs=((-1.0,), (-2.0,)), similarity=m, entailment=m) for m in (matrix, clean))
        assert value_of(name, one) == close(value_of(name, other))


def test_unconnected_and_identical_answers_are_counted_by_the_spectrum():
    apart, alike = MeasureInputs(entailment=np.eye(4)), MeasureInputs(entailment=np.ones((4, 4)))
    assert value_of("eigenvalue_sum", apart) == close(4.0)
    assert value_of("eigenvalue_sum", alike) == close(1.0)


# -- words ------------------------------------------------------------------------------------------------------

some_words = st.lists(st.sampled_from("abc"), max_size=7)


@given(some_words, some_words)
def test_longest_common_subsequence_equals_trying_all(one, other):
    assert longest_common_subsequence(one, other) == slow_subsequence(one, other)


def test_rouge_l_by_hand():
    assert rouge_l(words("police killed the gunman"), words("police kill the gunman")) == 0.75
    assert rouge_l(words("The capital is Paris."), words("the Capital is paris")) == 1.0
    assert rouge_l(words("東京"), words("京都")) == 0.0
    assert rouge_l(words("東京"), words("東京")) == rouge_l([], []) == 1.0
    assert rouge_l([], ["a"]) == 0.0


# -- names ------------------------------------------------------------------------------------------------------


def test_an_alias_finds_its_measure_and_says_which_it_is():
    found = measure_all(vector_samples("sdlg"), ["SE*_SDLG", "PE"]).estimates
    assert list(found) == ["SE*_SDLG", "PE"]
    assert found["SE*_SDLG"].options == {"variant": "semantic_entropy_sdlg"}
    assert find_measure("SE*_MS") is find_measure("SE*_DBS") is MEASURES["semantic_entropy_proper"]


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(UnknownName, match=r"unknown measure 'entropie'; `sdlg list measures` shows all"):
        measure_all(MeasureInputs(clusters=(0,)), ["entropie"])


def test_every_measure_is_described():
    names = [*MEASURES, *(alias for measure in MEASURES.values() for alias in measure.aliases)]
    assert len(names) == len(set(names))
    for name, each in MEASURES.items():
        assert name == each.name == each.function.__name__
        assert all((each.summary, each.equation, each.unit, each.cost, each.reference))
        assert each.low < each.high
        assert each.needs <= FIELDS.keys()


def test_the_listing_has_every_measure_once_and_where_to_start():
    listed = [measure.name for group in grouped_measures().values() for measure in group]
    assert sorted(listed) == sorted(all_measures())
    assert set(START_WITH) <= set(listed)
    assert all(GROUPS.values())


def test_the_listing_is_one_line_per_measure(capsys):
    assert main(["list", "measures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:] if line.startswith("*")] == [
        name for name in MEASURES if name in START_WITH
    ]
    assert all(sum(line.split()[:1] == [name] for line in lines) == 1 for name in MEASURES.keys() - START_WITH)
    assert max(map(len, lines)) <= 120


# -- plug-ins and their documentation ---------------------------------------------------------------------------


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Pretend that packages with these entry points are installed."""
    monkeypatch.syspath_prepend(tmp_path)

    def forget():
        table._plugins.cache_clear()
        table._by_any_name.cache_clear()

    def add(module, source, attribute="MEASURE"):
        (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
        entry = EntryPoint(module, f"{module}:{attribute}", table.PLUGINS)
        monkeypatch.setattr(table, "entry_points", lambda group: [entry] if group == table.PLUGINS else [])
        forget()

    yield add
    forget()


def test_the_documented_plug_in_works(install):
    source = DOCS.read_text(encoding="utf-8").rsplit("```python\n", 1)[1].split("```")[0]
    assert len([line for line in source.splitlines() if line.strip()]) <= 10
    install("documented_measures", source, "longest_answer")
    found = measure_all(MeasureInputs(texts=("Paris", "It is Paris")), ["longest_answer"]).estimates
    assert found == {"longest_answer": Estimate(3.0, "words", True, {})}
    assert [measure.name for measure in grouped_measures()["Plug-ins"]] == ["longest_answer"]
    assert measure_all(MeasureInputs(clusters=(0,))).reasons["longest_answer"] == "needs the answers' texts"


TWO = """
from sdlg.measures import as_measure
def make(name, needs=("texts",)):
    def one(samples):
        return 1.0
    one.__name__ = name
    return as_measure(needs=set(needs))(one)
MEASURE = [make("first"), make("second")]
TAKEN = make("predictive_entropy")
STRANGE = make("strange", ("moon",))
"""


def test_a_plug_in_may_bring_several(install):
    install("two_measures", TWO)
    assert isinstance(find_measure("first"), Measure)
    assert isinstance(find_measure("second"), Measure)


@pytest.mark.parametrize(
    ("source", "attribute", "why"),
    [
        ("raise ValueError('no luck')", "MEASURE", "ValueError: no luck"),
        ("OTHER = 1", "MEASURE", "AttributeError"),
        ("MEASURE = 3", "MEASURE", "it is int, not a Measure or a list of them"),
        (TWO, "TAKEN", "there already is a measure predictive_entropy"),
        (TWO, "STRANGE", "strange needs moon; there is samples"),
    ],
)
def test_a_broken_plug_in_is_named(install, source, attribute, why):
    install("broken_measures", source, attribute)
    with pytest.raises(RunError, match=rf"plug-in broken_measures = broken_measures:{attribute} .*{why}"):
        all_measures()


def test_a_broken_plug_in_costs_nobody_who_does_not_ask_for_it(install):
    install("broken_measures", "raise ValueError('no luck')")
    assert find_measure("PE").name == "predictive_entropy"
    assert fake_pipeline().ask("What?").semantic_entropy >= 0
    with pytest.raises(RunError, match="no luck"):
        find_measure("unknown")


FAILING = """
from sdlg.measures import as_measure
@as_measure(needs={"texts"})
def failing(samples):
    return 1 / 0
MEASURE = failing
"""


def test_a_plug_in_that_fails_is_a_reason_beside_the_other_measures(install):
    install("failing_measures", FAILING)
    result = fake_pipeline(measures=["failing", "PPL"]).ask("What?")
    assert result.estimates["PPL"].value > 0
    assert "ZeroDivisionError" in result.unavailable["failing"]


def row_of(measure):
    """A measure's line in docs/reference/measures.md."""
    also = "".join(f" `{alias}`" for alias in measure.aliases)
    direction = "" if measure.higher_is_less_certain else "; higher is more certain"
    needs = ", ".join(field for field in FIELDS if field in measure.needs)
    cells = (f"`{measure.name}`{also}", measure.equation, needs, f"{measure.unit}{direction}", measure.reference)
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", MEASURES)
def test_the_documentation_has_every_measure_as_it_is(name):
    assert row_of(MEASURES[name]) in DOCS.read_text(encoding="utf-8").splitlines()


def test_the_documentation_has_no_other_measures():
    named = re.findall(r"^\| `(\w+)`", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(MEASURES)
