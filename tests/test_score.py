"""`sdlg score`: texts alone, the vectors through the command, what is missing, what is broken."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest

from conftest import embedded_pipeline, tiny_lm, vectors
from fakes import FakeNli, NeverLoaded, fake_models, fake_pipeline
from sdlg import GivenAnswer, Models, Pipeline, Question
from sdlg.cli import main
from sdlg.errors import BadQuestion
from sdlg.measures.table import all_measures
from sdlg.pipeline import NOT_COMPARED

V = vectors("estimator")
ARITHMETIC = ("--nli", "none", "--set", "similarity_model=none")
CASES = ("ms_duplicates", "ms_distinct", "single", "identical")


def vector_row(case):
    given = V[case]["input"]
    positions = given.get("subst_pos", [None] * len(given["token_logprobs"]))
    answers = [
        {"text": str(name), "logprobs": steps, "cluster": cluster, **({} if t is None else {"position": t})}
        for name, steps, cluster, t in zip(
            given["sequence_ids"], given["token_logprobs"], given["cluster_ids"], positions, strict=True
        )
    ]
    return {"question": "q?", "answers": answers}


@pytest.fixture
def scored(tmp_path):
    """Score rows: the exit code, and what was written."""

    def score(rows, *flags, load=fake_models):
        file, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        code = main(["score", str(file), "-o", str(out), *flags], load=load)
        return code, [json.loads(line) for line in out.read_text().splitlines()]

    return score


def close(value):
    return pytest.approx(value, abs=1e-9)


# -- what is written --------------------------------------------------------------------------------------------


def test_texts_alone_give_meanings_and_their_entropy(scored):
    row = {"question": "Where?", "answers": ["It is Paris", "Lyon", "Paris"]}
    code, (found,) = scored([row], "--set", "equivalence=strict")
    assert code == 0
    assert found == {
        "format": "sdlg.score/1",
        "line": 1,
        "question": "Where?",
        "answer": "It is Paris",
        "semantic_entropy": close(-(2 / 3) * math.log(2 / 3) - math.log(1 / 3) / 3),
        "clusters": [
            {"text": "It is Paris", "share": close(2 / 3), "members": [0, 2]},
            {"text": "Lyon", "share": close(1 / 3), "members": [1]},
        ],
        "measures": {},
        "unavailable": {},
    }


@pytest.mark.parametrize("case", CASES)
def test_the_vectors_through_the_command(scored, case):
    code, (row,) = scored([vector_row(case)], *ARITHMETIC, "--measures", "all")
    out, found = V[case]["output"], row["measures"]
    assert code == 0
    assert found["predictive_entropy"] == close(out["PE"])
    assert found["length_normalised_predictive_entropy"] == close(out["LN_PE"])
    assert found["discrete_semantic_entropy"] == close(out["SE_mc"])
    assert found["semantic_entropy_improper"] == close(out["ln"]["SE_kuhn_improper"])
    assert found["semantic_entropy_proper"] == close(out["ln"]["SE_norm_outside_dup"])
    assert row["semantic_entropy"] == close(out["ln"]["SE_norm_outside_dup"])
    assert not set(found) & set(row["unavailable"])
    assert set(found) | set(row["unavailable"]) == set(all_measures())


def test_the_sdlg_vectors_through_the_command(scored):
    names = "SE*_SDLG,semantic_entropy_sdlg_normalised,semantic_entropy_branch_mass,coverage"
    _, (row,) = scored([vector_row("sdlg")], *ARITHMETIC, "--measures", names)
    out = V["sdlg"]["output"]["sdlg"]
    assert row["semantic_entropy"] == close(out["ln"]["SE_norm_outside"])
    assert row["measures"] == close(
        {
            "SE*_SDLG": out["ln"]["SE_norm_outside"],
            "semantic_entropy_sdlg_normalised": out["ln"]["SE_proper"],
            "semantic_entropy_branch_mass": out["branch"]["SE_proper"],
            "coverage": out["branch"]["coverage"],
        }
    )
    assert [cluster["members"] for cluster in row["clusters"]] == [[0, 2], [1, 4], [3]]


def test_the_sar_vectors_with_evidence():
    given, out = V["sar"]["input"], V["sar"]["output"]
    answers = [GivenAnswer(str(k), tuple(-nll for nll in steps)) for k, steps in enumerate(given["token_nll"])]
    pipeline = fake_pipeline(measures=("tokenSAR", "SAR"))
    result = pipeline.score("q", answers, evidence={name: given[name] for name in ("relevance", "similarity")})
    assert result.estimates["tokenSAR"].value == close(out["tokenSAR"])
    assert result.estimates["SAR"].value == close(out["SAR"])


def test_no_number_is_made_up_where_nothing_compares_the_answers(scored):
    row = {"question": "q", "answers": ["a", "b"]}
    code, (found,) = scored([row], *ARITHMETIC, "--measures", "PE,NumSets,SAR")
    assert (code, found["semantic_entropy"], found["clusters"], found["measures"]) == (0, None, [], {})
    assert set(found["unavailable"]) == {"semantic_entropy", "PE", "NumSets", "SAR"}
    assert "--model" in found["unavailable"]["PE"]
    assert "--nli" in found["unavailable"]["NumSets"]
    assert NOT_COMPARED in Pipeline(models=Models(None, None)).score("q", ["a", "b"]).notes


def test_only_what_is_needed_is_loaded(scored):
    row = {"question": "q", "answers": [{"text": "a", "logprobs": [-1.0], "cluster": n} for n in (0, 1)]}
    code, (found,) = scored([row], "--measures", "PE", load=NeverLoaded)
    assert (code, found["measures"]) == (0, {"PE": close(1.0)})


def test_a_named_model_fills_in_likelihoods(scored):
    def tiny(model, nli, loading):
        return Models(tiny_lm("llama"), FakeNli(name=nli), loading)

    row = {"question": "who?", "answers": ["the cat sat", {"text": "the dog ran", "logprobs": [-1.0]}]}
    code, (found,) = scored([row], "--model", "tiny", "--measures", "PE,perplexity", load=tiny)
    assert (code, found["unavailable"]) == (0, {})
    pipeline = Pipeline(models=Models(tiny_lm("llama"), FakeNli(name="nli-minilm")))
    samples = pipeline.with_likelihoods(Question("who?"), ["the cat sat", "the dog ran"])
    assert found["measures"]["PE"] == close(-sum(sample.generation.logprob for sample in samples) / 2)
    assert found["semantic_entropy"] == close(pipeline.score("who?", samples).semantic_entropy)


# -- rows that are results --------------------------------------------------------------------------------------


def test_measures_of_a_result_can_be_computed_again_from_its_json_alone(scored):
    names = ("SAR", "EigV", "EigenScore", "CoCoA_MSP", "P(True)", "CSA", "MTE")
    result = embedded_pipeline().changed(samples=4, max_tokens=8, measures=names).ask("What is the capital of France?")
    assert set(names) <= set(result.estimates)
    _, (row,) = scored([result.to_json()], *ARITHMETIC, "--measures", ",".join(names))
    assert row["measures"] == close({name: result.estimates[name].value for name in names})
    assert row["semantic_entropy"] == close(result.semantic_entropy)
    assert result.cost.nli_pairs > 0


def test_every_measure_is_a_number_when_everything_can_be_asked():
    base = embedded_pipeline()
    models = Models(base.models.language_model, base.models.nli, others=(base.models.language_model,))
    pipeline = Pipeline(models=models, samples=4, max_tokens=8, measures=tuple(all_measures()))
    result = pipeline.ask("What is the capital of France?")
    assert result.unavailable == {}
    assert all(math.isfinite(estimate.value) for estimate in result.estimates.values())
    assert set(all_measures()) <= set(result.estimates)


def test_results_come_from_a_pipe(tmp_path, monkeypatch):
    result = fake_pipeline().ask("What is the capital of France?")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(result.to_json().encode())))
    out = tmp_path / "o.jsonl"
    assert main(["score", "-", "-o", str(out), *ARITHMETIC, "--measures", "coverage"], load=fake_models) == 0
    found = json.loads(out.read_text())
    assert found["measures"]["coverage"] == close(result.coverage)
    assert found["semantic_entropy"] == close(result.semantic_entropy)


def test_one_failing_measure_does_not_lose_the_answer():
    """The frame of P(True) does not fit a context of 128 tokens; the answer does."""
    models = Models(tiny_lm("llama"), FakeNli({}))
    result = Pipeline(models=models, samples=1, max_tokens=4, measures=("P(True)", "PPL")).ask("who?")
    assert "PPL" in result.estimates
    assert "128" in result.unavailable["P(True)"]


# -- rows that cannot be scored ---------------------------------------------------------------------------------

HUGE = "1" + "0" * 400


def test_bad_rows_are_errors_with_file_and_line_and_the_others_are_scored(scored, capsys):
    good = {"question": "q", "answers": [{"text": "a", "logprobs": [-1.0], "cluster": 0}]}
    answer = {"text": "a", "logprobs": [-1]}
    bad = [
        "{broken",
        "[1]",
        {"question": "q"},
        {"answers": ["a"]},
        {"question": 3, "answers": ["a"]},
        {"question": " ", "answers": ["a"]},
        {"question": "q", "answers": []},
        {"question": "q", "answers": [{"logprobs": [-1]}]},
        {"question": "q", "answers": [{**answer, "logprobs": [0.5]}]},
        {"question": "q", "answers": [{**answer, "tokens": ["a", "b"]}]},
        {"question": "q", "answers": [{**answer, "position": 7}]},
        {"question": "q", "answers": [{**answer, "entropies": [1, 2]}]},
        {"question": "q", "answers": [{**answer, "ending_logprobs": "x"}]},
        {"question": "q", "answers": [{**answer, "cluster": [1]}]},
        {"question": "q", "answers": [{**answer, "clutser": 1}]},
        '{"question": "q", "answers": [{"text": "a", "logprobs": [NaN]}]}',
        '{"question": "q", "answers": ["a\\ud800"]}',
        '{"question": "q\\ud800", "answers": ["a"]}',
        f'{{"question": "q", "answers": [{{"text": "a", "logprobs": [-{HUGE}]}}]}}',
        f'{{"question": "q", "answers": [{{"text": "a", "logprobs": [-1], "entropies": [{HUGE}]}}]}}',
    ]
    code, rows = scored([good, *bad, "", good], *ARITHMETIC)
    assert code == 1
    assert [row["line"] for row in rows] == [*range(1, len(bad) + 2), len(bad) + 3]  # none for the empty line
    assert ["measures" in row for row in rows] == [True, *[False] * len(bad), True]
    assert all(row["format"] == "sdlg.error/1" and row["error"] for row in rows[1:-1])
    said = [line for line in capsys.readouterr().err.splitlines() if "only one answer" not in line]
    assert [line.split(":")[1] for line in said[:-1]] == [str(k + 2) for k in range(len(bad))]
    assert said[-1] == f"sdlg: {len(bad)} of {len(bad) + 2} rows could not be scored; see their error lines"


@pytest.mark.parametrize(
    "evidence",
    [
        {"embeddings": [1, 2]},
        {"embeddings": [[[1, 2]], [[1, 2]]]},
        {"embeddings": [[float("inf")], [1]]},
        {"similarity": [[1, 0, 0], [0, 1, 0]]},
        {"relevance": [["x"], [1]]},
        {"assessment": 1},
        {"magic": 1},
    ],
)
def test_evidence_that_does_not_fit_is_an_error_of_its_row_alone(scored, evidence):
    result = fake_pipeline(samples=2, draws=0).ask("Where?")
    good, bad = result.to_json(), replace(result, evidence=evidence).to_json()
    code, (first, error, last) = scored([good, bad, good], *ARITHMETIC, "--measures", "PE")
    assert (code, first["measures"]) == (1, last["measures"])
    assert "evidence" in error["error"]


def test_no_row_ends_a_file_whatever_the_arithmetic_makes_of_it(scored):
    def judge(first, second):
        if "bad" in (first, second):
            raise ZeroDivisionError("of a measure")
        return FakeNli()._judge(first, second)

    def failing(model, nli, loading):
        return Models(None, FakeNli(judge, name=nli), loading)

    rows = [{"question": "q", "answers": ["a", other]} for other in ("b", "bad", "b")]
    code, (first, error, last) = scored(rows, load=failing)
    assert (code, first["clusters"]) == (1, last["clusters"])
    assert error["error"].endswith("cannot be measured: ZeroDivisionError: of a measure")


@pytest.mark.parametrize(
    "answers",
    [
        ["a" * 4_000_000, "b" * 4_000_001],
        ["a"] * 1001,
        ["a " * 50_001],
        [{"text": "a", "logprobs": [-1] * 100_001}],
    ],
    ids=["row", "answers", "text", "logprobs"],
)
def test_rows_have_limits(scored, answers):
    code, (row,) = scored([{"question": "q", "answers": answers}], *ARITHMETIC)
    assert code == 1
    assert "at most" in row["error"]
    assert len(row["error"]) < 300


def test_answers_may_be_given_in_python_as_texts_mappings_or_records():
    texts = fake_pipeline().score("q", ["Paris", "Lyon"])
    others = fake_pipeline().score("q", [{"text": "Paris"}, GivenAnswer("Lyon")])
    assert [c.members for c in texts.clusters] == [c.members for c in others.clusters]
    assert (texts.model, texts.method, texts.semantic_entropy) == (None, "given", close(math.log(2)))
    with pytest.raises(BadQuestion, match="answers"):
        fake_pipeline().score("q", [])


# -- files ------------------------------------------------------------------------------------------------------


def test_the_output_may_not_be_the_input(tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "q", "answers": ["a"]}\n')
    assert main(["score", str(file), "-o", str(file), *ARITHMETIC]) == 2
    assert file.read_text()


def test_scores_replace_earlier_ones_but_not_before_the_models_are_there(scored, tmp_path):
    row = {"question": "q", "answers": ["a", "b"]}
    scored([row, row])
    assert len(scored([row])[1]) == 1
    before = (tmp_path / "out.jsonl").read_text()
    code = main(["score", str(tmp_path / "rows.jsonl"), "-o", str(tmp_path / "out.jsonl"), "--nli", "/nowhere/at-all"])
    assert (code, (tmp_path / "out.jsonl").read_text()) == (1, before)


def test_an_empty_file_and_an_unknown_measure_are_usage_errors(tmp_path, capsys):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    assert main(["score", str(empty)]) == 2
    assert main(["score", str(empty), "--measures", "magic"]) == 2
    assert main(["score", str(tmp_path / "missing.jsonl")]) == 2
    assert "unknown measure 'magic'; `sdlg list measures` shows all" in capsys.readouterr().err
