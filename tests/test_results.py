"""Results: the JSON is valid, and everything in it can be recomputed from it alone, as docs/result-format.md says."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html import unescape
from itertools import product
from pathlib import Path

import jsonschema
import pytest

import sdlg
from fakes import CAPITAL, MEANINGS, FakeNli, fake_pipeline
from sdlg.errors import BadQuestion
from sdlg.formats.result_reading import result_from_json

SCHEMA = json.loads((Path(sdlg.__file__).parent / "formats" / "result.schema.json").read_text())
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
MERGED = {"": {"It": 0.5, "Paris": 0.3, "paris": 0.1, "Lyon": 0.1}}
SCRIPTS = {"capital": CAPITAL, "long": LONG, "tokyo": TOKYO, "empty": EMPTY, "certain": CERTAIN, "merged": MERGED}

WEIGHTINGS, LIKELIHOODS = ("importance", "merged_importance", "branch_mass", "uniform"), ("length_normalised", "total")
VARIANTS = list(product(SCRIPTS, WEIGHTINGS, LIKELIHOODS, ("normalised", "unnormalised")))


def asked(script: str = "capital", **options) -> dict:
    """The JSON form, and only that."""
    return json.loads(fake_pipeline(SCRIPTS[script], **options).ask(QUESTION).to_json())


# -- an independent program that has only the JSON --------------------------------------------------------------


def decisions(sample: dict) -> list[float]:
    return sample["logprobs"] + sample["ending_logprobs"]


def likelihood(sample: dict, kind: str) -> float:
    steps = decisions(sample)
    return math.exp(sum(steps) / (len(steps) if kind == "length_normalised" else 1))


def branch_mass(sample: dict) -> float:
    branching = sample["branching"]
    if branching is None:
        return math.exp(sum(decisions(sample)))
    return math.exp(branching["shared_logprob"]) * branching["mass"]


def importance(sample: dict) -> float:
    return 1.0 if sample["branching"] is None else math.exp(sample["branching"]["logprob"])


def merged_importance(sample: dict) -> float:
    return 1.0 if sample["branching"] is None else sample["branching"]["mass"]


def weights(samples: list[dict], weighting: str) -> list[float]:
    weigh = {
        "importance": importance,
        "merged_importance": merged_importance,
        "branch_mass": branch_mass,
        "uniform": lambda sample: 1.0,
    }[weighting]
    return [weigh(sample) / sum(map(weigh, samples)) for sample in samples]


def cluster_masses(samples: list[dict], terms: list[float]) -> list[float]:
    numbers = sorted({sample["cluster"] for sample in samples})
    return [sum(t for t, s in zip(terms, samples, strict=True) if s["cluster"] == number) for number in numbers]


def headline_masses(samples: list[dict], options: dict) -> list[float]:
    if options["weighting"] == "branch_mass":
        return cluster_masses(samples, [branch_mass(sample) for sample in samples])
    if options["weighting"] == "uniform":
        return cluster_masses(samples, [likelihood(sample, options["likelihood"]) for sample in samples])
    terms = zip(weights(samples, options["weighting"]), samples, strict=True)
    return cluster_masses(samples, [weight * likelihood(sample, options["likelihood"]) for weight, sample in terms])


def entropy(masses: list[float], logarithm: str = "normalised") -> float:
    whole = sum(masses)
    return -sum(m / whole * math.log(m / whole if logarithm == "normalised" else m) for m in masses)


def recomputed(result: dict) -> dict[str, float]:
    samples, options = result["samples"], result["options"]["estimation"]
    frequencies = cluster_masses(samples, [1.0] * len(samples))
    unweighted = cluster_masses(samples, [likelihood(sample, "length_normalised") for sample in samples])
    steps = [decisions(sample) for sample in samples]
    return {
        "semantic_entropy": entropy(headline_masses(samples, options), options["logarithm"]),
        "semantic_entropy_branch_mass": entropy(cluster_masses(samples, [branch_mass(s) for s in samples])),
        "semantic_entropy_improper_length_normalised": -sum(map(math.log, unweighted)) / len(unweighted),
        "semantic_entropy_frequency": entropy(frequencies),
        "predictive_entropy": -sum(map(sum, steps)) / len(steps),
        "length_normalised_predictive_entropy": -sum(sum(one) / len(one) for one in steps) / len(steps),
        "number_of_clusters": len(frequencies),
    }


@pytest.mark.parametrize(("script", "weighting", "likelihood", "logarithm"), VARIANTS)
def test_every_number_can_be_recomputed_from_the_json_alone(script, weighting, likelihood, logarithm):
    estimation = {"weighting": weighting, "likelihood": likelihood, "logarithm": logarithm}
    result = asked(script, **estimation, draws=0, merging="same_word")
    samples, options = result["samples"], result["options"]["estimation"]
    assert options == estimation
    near = {"rel": 1e-9, "abs": 1e-9}
    assert {name: found["value"] for name, found in result["estimates"].items()} == pytest.approx(
        recomputed(result), **near
    )
    assert [sample["weight"] for sample in samples] == pytest.approx(weights(samples, weighting), **near)
    masses = headline_masses(samples, options)
    shares = [mass / sum(masses) for mass in masses]
    assert [cluster["score_share"] for cluster in result["clusters"]] == pytest.approx(shares, **near)
    assert {cluster["probability"] for cluster in result["clusters"]} == {None}  # nothing was drawn
    assert result["coverage"] == pytest.approx(sum(map(branch_mass, samples)), **near)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_headline_says_which_variant_it_is(weighting):
    options = asked(weighting=weighting, likelihood="total", draws=0)["estimates"]["semantic_entropy"]["options"]
    assert options["weighting"] == weighting
    assert options.get("likelihood") == (None if weighting == "branch_mass" else "total")


# -- shape ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("options", [{}, {"samples": 1}, {"samples": 3}, {"max_tokens": 1}, {"positions": "all"}])
def test_the_json_is_valid_and_its_parts_agree(script, options):
    result = asked(script, **options)
    jsonschema.validate(result, SCHEMA)
    samples, answer = result["samples"], result["answer"]
    assert len(samples) <= result["options"]["samples"]
    assert all(
        samples[0][name] == answer[name] for name in ("text", "token_ids", "logprobs", "stop_reason", "ending_logprobs")
    )
    assert [sample["substitution"] is None for sample in samples] == [True] + [False] * (len(samples) - 1)
    assert all(len(sample["token_ids"]) == len(sample["logprobs"]) for sample in samples)
    assert len(answer["tokens"]) == len(answer["token_ids"])
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
    answer = asked(script)["answer"]
    assert [answer["text"][word["start"] : word["end"]] for word in answer["words"]] == [
        w["text"] for w in answer["words"]
    ]
    assert "".join(answer["text"].split()) == "".join(word["text"] for word in answer["words"])


def test_a_samples_substitution_is_what_its_tokens_say():
    result = asked()
    for sample in result["samples"][1:]:
        change = sample["substitution"]
        position = change["position"]
        assert sample["token_ids"][:position] == result["answer"]["token_ids"][:position]
        assert sample["token_ids"][position] == change["token_id"]
        assert sample["logprobs"][position] == change["logprob"]
        assert change["original"] in result["answer"]["tokens"][position]
        assert change["replacement"] in sample["text"]
        assert change["importance"] >= math.exp(change["logprob"]) - 1e-12


def test_merged_candidates_carry_their_whole_mass():
    script = {"": {"I": 0.6, "It": 0.25, "it": 0.1, "<end>": 0.05}}
    change = fake_pipeline(script, merging="same_word").ask(QUESTION).samples[1].substitution
    assert (change.replacement, change.importance) == ("It", pytest.approx(0.35))
    assert change.logprob == pytest.approx(math.log(0.25))


def test_an_answer_that_may_end_early_has_a_branch_that_ends():
    ends = [
        sample
        for sample in asked("long")["samples"]
        if sample["substitution"] and sample["substitution"]["ends_answer"]
    ]
    assert [sample["text"] for sample in ends] == ["In July"]
    assert ends[0]["ending_logprobs"] == pytest.approx([math.log(0.1)])


def test_the_same_question_gives_the_same_json_but_for_seconds():
    first, second = asked(), asked()
    assert first["cost"].pop("seconds").keys() == second["cost"].pop("seconds").keys()
    assert first == second


def test_cost_counts_what_the_nli_model_did():
    pipeline = fake_pipeline()
    for _ in range(2):  # the second question is not charged for the first
        cost = pipeline.ask(QUESTION).cost
        assert (cost.nli_gradients, cost.nli_pairs) == (1, pipeline.nli.pairs_run // pipeline.nli.gradients_run)
        assert cost.nli_pairs > 0


def test_json_keeps_characters_as_they_are():
    result = fake_pipeline(TOKYO).ask("🗼?")
    assert "東京" in result.to_json()
    assert json.loads(result.to_json().encode("utf-8"))["question"] == "🗼?"
    assert json.loads(result.to_json(indent=2)) == json.loads(result.to_json())


# -- for people -------------------------------------------------------------------------------------------------


def test_repr_tells_the_answer_the_entropy_and_the_meanings():
    result = fake_pipeline().ask(QUESTION)
    lines = repr(result).splitlines()
    assert lines[0] == "'It is Paris'"
    assert lines[1] == f"  score {result.score:.3f}, semantic entropy {result.semantic_entropy:.3f} nats, 4 meanings"
    own = result.clusters[0]
    times = len(own.members) + len(own.draws)
    assert lines[2] == f"  {own.probability:6.1%} ({own.low:.0%}–{own.high:.0%})  'It is Paris' ×{times}"
    assert len(lines) == 2 + len(result.clusters)
    assert result.answer.text == "It is Paris"


def framed(result) -> str:
    """The document inside the notebook's frame."""
    return unescape(re.search(r'srcdoc="([^"]*)"', result._repr_html_()).group(1))


def test_html_shows_words_and_meanings():
    html = framed(fake_pipeline().ask(QUESTION))
    for part in ("It is Paris", "It is Lyon", "semantic entropy 1.04 nats", "between 57% and 68%"):
        assert part in html


def test_html_never_holds_model_text_as_html():
    evil = "<script>alert('&')</script>"
    script = {"": {evil: 0.7, f"{evil}<b>": 0.3}}
    result = fake_pipeline(script, {}).ask(f"{evil}?")
    for other in (result, fake_pipeline({"": {"x": 0.5, evil: 0.5}}, {}).ask(evil)):
        assert other._repr_html_().count("<script") == 1  # ours, which fits the frame
        assert "&lt;script&gt;" in framed(other)
        assert "<script>alert" not in framed(other)
        assert "<b>" not in framed(other)
    assert "<script>" in repr(result)  # plain text stays as it is


def test_html_says_when_the_answer_is_empty():
    assert "<p>(an empty answer)</p>" in framed(fake_pipeline(EMPTY).ask(QUESTION))


def test_loaded_models_are_accepted_by_ask():
    result = sdlg.ask(QUESTION, model=sdlg.ScriptedModel(CAPITAL), nli=FakeNli(MEANINGS), samples=3, seed=5)
    assert (result.answer.text, len(result.samples), result.options.seed) == ("It is Paris", 3, 5)


@pytest.mark.parametrize(
    "options", [{}, {"samples": 2, "draws": 20}, {"method": "multinomial"}, {"method": "arithmetic"}]
)
def test_the_documented_program_recomputes_the_headline(options):
    document = Path(__file__).parents[1] / "docs" / "result-format.md"
    program = document.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    given = fake_pipeline(**options).ask(QUESTION).to_json()
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, check=True)
    found, expected = map(float, done.stdout.split())
    assert found == pytest.approx(expected, abs=1e-9)


# -- back from JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"draws": 0},
        {"samples": 1},
        {"method": "multinomial"},
        {"method": "steered"},
        {"preset": "paper", "strategy": "greedy", "branch_strategy": "greedy"},
        {"stop_strings": ("x", "y"), "measures": ["G-NLL"]},
    ],
)
def test_a_result_comes_back_from_its_json_as_it_was(options):
    result = fake_pipeline(**options).ask(QUESTION)
    again = result_from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert str(again) == str(result)
    assert again.options == result.options
    assert (again.samples[1:], again.draws, again.clusters) == (result.samples[1:], result.draws, result.clusters)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "sdlg.result/3"}', '{"format": "sdlg.result/1"}', "null"])
def test_what_is_no_result_is_told(text):
    with pytest.raises(BadQuestion, match=r"this is no result of the format sdlg.result/3"):
        result_from_json(text)
