"""Results as JSON: they come back as they were, and an independent program can recompute what they say."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdlg
from fakes import CAPITAL, MEANINGS, FakeNli, fake_pipeline
from results import RESULTS, made
from sdlg.errors import BadQuestion, UsageError
from sdlg.records import Cost, Setup
from sdlg.schema import read_record, result_from_json, result_schema

QUESTION = "What is the capital of France?"

# Branches that meet again: the same sequence by two ways is one sample; one meaning in two spellings is one cluster.
LONG = {
    "": {"In": 0.5, "On": 0.3, "<end>": 0.2},
    "In": {" July": 0.6, " May": 0.4},
    "On": {" July": 0.5, " 4": 0.5},
    "In July": {" 1776": 0.9, "<end>": 0.1},
    "On July": {" 4": 1.0},
    "In May": {" 1776": 1.0},
}
TOKYO = {"": {"東": 0.6, "京": 0.3, "🗼": 0.1}, "東": {"京": 0.8, "北": 0.2}}
EMPTY = {"": {"<end>": 0.8, "Paris": 0.2}}
CERTAIN = {"": {"Paris": 1.0}}
SCRIPTS = {"capital": CAPITAL, "long": LONG, "tokyo": TOKYO, "empty": EMPTY, "certain": CERTAIN}


def asked(script: str = "capital", **options) -> dict:
    """The JSON form, and only that."""
    return json.loads(fake_pipeline(SCRIPTS[script], **options).ask(QUESTION).to_json())


# -- an independent program that has only the JSON --------------------------------------------------------------


def decisions(sample: dict) -> list[float]:
    return sample["generation"]["logprobs"] + sample["generation"]["ending_logprobs"]


def branch_mass(sample: dict) -> float:
    branching = sample["branching"]
    if branching is None:
        return math.exp(sum(decisions(sample)))
    return math.exp(branching["shared_logprob"]) * branching["mass"]


def importance(sample: dict) -> float:
    return 1.0 if sample["branching"] is None else math.exp(sample["branching"]["logprob"])


def cluster_masses(samples: list[dict], terms: list[float]) -> list[float]:
    numbers = sorted({sample["cluster"] for sample in samples})
    return [sum(t for t, s in zip(terms, samples, strict=True) if s["cluster"] == number) for number in numbers]


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_number_can_be_recomputed_from_the_json_alone(script):
    names = ["semantic_entropy_branch_mass", "DSE", "PE", "NumSets", "coverage"]
    result = asked(script, draws=0, measures=names)
    samples, near = result["samples"], {"rel": 1e-9, "abs": 1e-9}
    weights = [importance(sample) / sum(map(importance, samples)) for sample in samples]
    means = [math.exp(sum(decisions(sample)) / len(decisions(sample))) for sample in samples]
    masses = cluster_masses(samples, [w * mean for w, mean in zip(weights, means, strict=True)])
    shares = [mass / sum(masses) for mass in masses]
    counts = cluster_masses(samples, [1 / len(samples)] * len(samples))
    branches = cluster_masses(samples, [branch_mass(sample) for sample in samples])
    whole = sum(branches)
    assert {name: found["value"] for name, found in result["estimates"].items()} == pytest.approx(
        {
            "semantic_entropy": -sum(share * math.log(mass) for share, mass in zip(shares, masses, strict=True)),
            "semantic_entropy_branch_mass": -sum(m / whole * math.log(m / whole) for m in branches),
            "DSE": -sum(share * math.log(share) for share in counts),
            "PE": -sum(sum(decisions(sample)) for sample in samples) / len(samples),
            "NumSets": len(counts),
            "coverage": min(whole, 1.0),
        },
        **near,
    )
    assert result["semantic_entropy"] == result["estimates"]["semantic_entropy"]["value"]
    assert [sample["weight"] for sample in samples] == pytest.approx(weights, **near)
    assert [cluster["score_share"] for cluster in result["clusters"]] == pytest.approx(shares, **near)
    assert {cluster["probability"] for cluster in result["clusters"]} == {None}  # nothing was drawn
    assert result["coverage"] == pytest.approx(min(whole, 1.0), **near)


@pytest.mark.parametrize(
    "options", [{}, {"samples": 1}, {"samples": 2, "draws": 20}, {"method": "multinomial"}, {"method": "arithmetic"}]
)
def test_the_documented_program_recomputes_the_headline(options):
    document = Path(__file__).parents[1] / "docs" / "reference" / "result-format.md"
    program = document.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    given = fake_pipeline(**options).ask(QUESTION).to_json()
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, check=True)
    found, expected = map(float, done.stdout.split())
    assert found == pytest.approx(expected, abs=1e-9)


# -- shape ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("options", [{}, {"samples": 1}, {"samples": 3}, {"max_tokens": 1}, {"positions": "all"}])
def test_the_json_is_valid_and_its_parts_agree(script, options):
    result = asked(script, **options)
    jsonschema.validate(result, result_schema())
    samples = result["samples"]
    assert len(samples) <= result["options"]["samples"]
    assert result["answer"] == samples[0]["generation"]["text"]
    assert [sample["substitution"] is None for sample in samples] == [True] + [False] * (len(samples) - 1)
    for sample in samples:
        assert len(sample["generation"]["token_ids"]) == len(sample["generation"]["logprobs"]) == len(sample["tokens"])
    assert math.fsum(sample["weight"] for sample in samples) == pytest.approx(1)
    assert math.fsum(cluster["probability"] for cluster in result["clusters"]) == pytest.approx(1)


@pytest.mark.parametrize("script", SCRIPTS)
def test_clusters_partition_the_samples(script):
    result = asked(script)
    assert [cluster["id"] for cluster in result["clusters"]] == list(range(len(result["clusters"])))
    assert sorted(n for cluster in result["clusters"] for n in cluster["members"]) == list(
        range(len(result["samples"]))
    )
    for cluster in result["clusters"]:
        assert all(result["samples"][n]["cluster"] == cluster["id"] for n in cluster["members"])
    assert 0 in result["clusters"][0]["members"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_spans_of_words_slice_the_text(script):
    result = asked(script)
    words, answer = result["words"], result["answer"]
    assert [answer[word["start"] : word["end"]] for word in words] == [word["text"] for word in words]
    assert "".join(answer.split()) == "".join(word["text"] for word in words)


def test_a_samples_substitution_is_what_its_tokens_say():
    first, *branches = asked()["samples"]
    for sample in branches:
        change, own = sample["substitution"], sample["generation"]
        position = change["position"]
        assert own["token_ids"][:position] == first["generation"]["token_ids"][:position]
        assert own["token_ids"][position] == change["token_id"]
        assert own["logprobs"][position] == change["logprob"]
        assert change["original"] in first["tokens"][position]
        assert change["replacement"] in own["text"]
        assert change["importance"] >= math.exp(change["logprob"]) - 1e-12


def test_an_answer_that_may_end_early_has_a_branch_that_ends():
    ends = [
        sample
        for sample in asked("long")["samples"]
        if sample["substitution"] and sample["substitution"]["ends_answer"]
    ]
    assert [sample["generation"]["text"] for sample in ends] == ["In July"]
    assert ends[0]["generation"]["ending_logprobs"] == pytest.approx([math.log(0.1)])


def test_the_same_question_gives_the_same_json_but_for_seconds():
    first, second = asked(), asked()
    assert first["cost"].pop("seconds").keys() == second["cost"].pop("seconds").keys()
    assert first == second


def test_cost_counts_what_the_nli_model_did():
    pipeline = fake_pipeline()
    nli = pipeline.models.nli
    for _ in range(2):  # the second question is not charged for the first
        cost = pipeline.ask(QUESTION).cost
        assert (cost.nli_gradients, cost.nli_pairs) == (1, nli.pairs_run // nli.gradients_run)
        assert cost.nli_pairs > 0


def test_json_keeps_characters_as_they_are():
    result = fake_pipeline(TOKYO).ask("🗼?")
    assert "東京" in result.to_json()
    assert json.loads(result.to_json().encode("utf-8"))["question"]["text"] == "🗼?"
    assert json.loads(result.to_json(indent=2)) == json.loads(result.to_json())


# -- for people -------------------------------------------------------------------------------------------------


def test_repr_has_the_answer_the_entropy_and_the_meanings_by_their_shares():
    result = fake_pipeline().ask(QUESTION)
    first, headline, *meanings = repr(result).splitlines()
    assert first == "'It is Paris'"
    assert f"{result.semantic_entropy:.3f} nats, {len(result.clusters)} meanings" in headline
    assert [cluster.text in line for cluster, line in zip(result.meanings, meanings, strict=True)] == [True] * 4
    assert [cluster.share for cluster in result.meanings] == sorted((c.share for c in result.clusters), reverse=True)
    assert result.clusters[0].text == result.answer.text


def test_loaded_models_are_accepted_by_ask():
    result = sdlg.ask(QUESTION, model=sdlg.ScriptedModel(CAPITAL), nli=FakeNli(MEANINGS), samples=3, seed=5)
    assert (result.answer.text, len(result.samples), result.options.seed) == ("It is Paris", 3, 5)


# -- back from JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"draws": 0},
        {"samples": 1},
        {"method": "multinomial"},
        {"preset": "paper", "strategy": "greedy", "branch_strategy": "greedy"},
        {"stop_strings": ("x", "y"), "measures": ["G-NLL", "EigV", "P(True)"]},
    ],
)
def test_a_result_comes_back_from_its_json_as_it_was(options):
    result = fake_pipeline(**options).ask(QUESTION)
    again = result_from_json(result.to_json())
    assert again == result
    assert again.to_json() == result.to_json()
    assert repr(again) == repr(result)


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "undefined"])  # NaN equals nothing
def test_results_made_by_hand_come_back_as_they_were(name):
    result = RESULTS[name]
    assert result_from_json(result.to_json()) == result
    jsonschema.validate(json.loads(result.to_json()), result_schema())


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SHARES = st.none() | st.tuples(*[st.floats(0, 1)] * 3)


@given(
    meanings=st.lists(st.tuples(st.lists(TEXTS, min_size=1, max_size=3), SHARES), min_size=1, max_size=4),
    question=TEXTS,
    context=st.none() | TEXTS,
    notes=st.lists(TEXTS, max_size=2),
    coverage=st.none() | st.floats(0, 1),
    samples=st.integers(1, 1000),
    stops=st.lists(TEXTS.filter(bool), max_size=2),
    seconds=st.dictionaries(TEXTS, st.floats(0, 1e6), max_size=3),
)
def test_any_result_comes_back_from_its_json_as_it_was(
    meanings, question, context, notes, coverage, samples, stops, seconds
):
    result = made(
        meanings, question=question, context=context, notes=tuple(notes), coverage=coverage,
        options={"samples": samples, "stop_strings": tuple(stops)}, cost=Cost(seconds=seconds),
        setup=Setup(measures=tuple(notes), dtype=context),
    )  # fmt: skip
    assert result_from_json(result.to_json()) == result
    assert result_from_json(result.to_json(indent=1)) == result


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "sdlg.result/0"}', '{"format": "sdlg.result/1"}', "null"])
def test_what_is_no_result_is_an_error(text):
    with pytest.raises(BadQuestion):
        result_from_json(text)


@pytest.mark.parametrize("field", [field.name for field in fields(sdlg.Result)])
def test_a_result_with_one_wrong_field_is_an_error_that_names_it(field):
    document = {**RESULTS["leans"].to_dict(), field: [[5]]}
    with pytest.raises(BadQuestion, match=field):
        result_from_json(json.dumps(document))


def test_faults_name_the_place_what_was_expected_and_what_stood_there():
    document = RESULTS["leans"].to_dict()
    document["samples"][1]["generation"]["logprobs"][0] = "x"
    with pytest.raises(BadQuestion, match=r"samples\[1\]\.generation\.logprobs\[0\]: .*number.*, not 'x'"):
        result_from_json(json.dumps(document))
    with pytest.raises(UsageError, match=r"^here: options\.samples"):
        read_record(sdlg.Result, replace(RESULTS["leans"]).to_dict() | {"options": {"samples": "many"}}, "here")
