"""`sdlg score`: the vectors through the command, what is missing, what is broken."""

from __future__ import annotations

import io
import json

import pytest

from conftest import embedded_pipeline, vectors
from sdlg.cli import main
from sdlg.errors import BadQuestion
from sdlg.formats.answers import parse_row, read_rows
from sdlg.records import Question

V = vectors("estimator")


def vector_row(case):
    given = V[case]["input"]
    positions = given.get("subst_pos", [None] * len(given["token_logprobs"]))
    answers = [
        {
            "text": str(name),
            "logprobs": steps,
            "cluster": cluster,
            **({"substitution": {"position": t}} if t is not None else {}),
        }
        for name, steps, cluster, t in zip(
            given["sequence_ids"], given["token_logprobs"], given["cluster_ids"], positions, strict=True
        )
    ]
    return {"question": "q?", "answers": answers}


def scored(tmp_path, rows, *flags):
    file, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    file.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    code = main(["score", str(file), "-o", str(out), *flags])
    return code, [json.loads(line) for line in out.read_text().splitlines()]


ARITHMETIC = ("--nli", "none", "--similarity-model", "none")


@pytest.mark.parametrize("case", ["ms_duplicates", "ms_distinct", "single", "identical"])
def test_the_vectors_through_the_command(tmp_path, case):
    code, (row,) = scored(tmp_path, [vector_row(case)], *ARITHMETIC)
    assert code == 0
    out, found = V[case]["output"], {name: m["value"] for name, m in row["measures"].items()}
    close = lambda value: pytest.approx(value, abs=1e-9)  # noqa: E731
    assert found["predictive_entropy"] == close(out["PE"])
    assert found["length_normalised_predictive_entropy"] == close(out["LN_PE"])
    assert found["discrete_semantic_entropy"] == close(out["SE_mc"])
    assert found["semantic_entropy_improper"] == close(out["ln"]["SE_kuhn_improper"])
    assert found["semantic_entropy_proper"] == close(out["ln"]["SE_norm_outside_dup"])
    assert found["semantic_entropy_proper_normalised"] == close(out["ln"]["SE_proper_dup"])


def test_the_sdlg_vectors_through_the_command(tmp_path):
    _, (row,) = scored(tmp_path, [vector_row("sdlg")], *ARITHMETIC)
    out, found = V["sdlg"]["output"]["sdlg"], {name: m["value"] for name, m in row["measures"].items()}
    wanted = {
        "coverage": out["branch"]["coverage"],
        "semantic_entropy_branch_mass": out["branch"]["SE_proper"],
        "semantic_entropy_sdlg": out["ln"]["SE_norm_outside"],
        "semantic_entropy_sdlg_normalised": out["ln"]["SE_proper"],
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-9)
    assert row["clusters"] == [0, 1, 0, 2, 1]


def test_aliases_are_reported_under_the_name_that_was_asked_for(tmp_path):
    _, (row,) = scored(tmp_path, [vector_row("sdlg")], *ARITHMETIC, "--measures", "SE*_SDLG,SE_MS")
    assert list(row["measures"]) == ["SE*_SDLG", "SE_MS"]
    assert row["measures"]["SE*_SDLG"]["value"] == pytest.approx(
        V["sdlg"]["output"]["sdlg"]["ln"]["SE_norm_outside"], abs=1e-9
    )


def test_bad_rows_are_told_with_file_and_line_and_the_others_are_scored(tmp_path, capsys):
    good = {"question": "q", "answers": [{"text": "a", "logprobs": [-1.0], "cluster": 0}]}
    bad = [
        "{broken",
        {"question": "q"},
        {"question": "q", "answers": []},
        {"question": "q", "answers": [{"logprobs": [-1]}]},
        '{"question": "q", "answers": [{"text": "a", "logprobs": [NaN]}]}',
        {"question": "q", "answers": [{"text": "a", "logprobs": [0.5]}]},
        {"question": "q", "answers": [{"text": "a", "logprobs": [-1, -2], "tokens": ["a"]}]},
        {"question": "q", "answers": [{"text": "a", "logprobs": [-1], "substitution": {"position": 7}}]},
        {"question": 3, "answers": [{"text": "a"}]},
        "[1]",
        {"answers": [{"text": "a"}]},
        '{"question": "q", "answers": [{"text": "a\\ud800"}]}',
        '{"question": "q\\ud800", "answers": [{"text": "a"}]}',
        '{"question": "q", "answers": [{"text": "a", "logprobs": [-1' + "0" * 400 + "]}]}",
        {"question": "q", "answers": [{"text": "a", "logprobs": [-1], "entropies": [1, 2]}]},
        {"question": "q", "answers": [{"text": "a", "logprobs": [-1], "stop_logprob": "x"}]},
        {"question": "q", "answers": [{"text": "a"}], "evidence": {"similarity": [[1, 0], [0, 1]]}},
        {"question": "q", "answers": [{"text": "a"}], "evidence": {"magic": 1}},
    ]
    code, rows = scored(tmp_path, [good, *bad, "", good], *ARITHMETIC)
    assert code == 1
    assert [row["line"] for row in rows] == [*range(1, len(bad) + 2), len(bad) + 3]  # none for the empty line
    assert ["measures" in row for row in rows] == [True, *[False] * len(bad), True]
    assert all(row["format"] == "sdlg.error/1" and row["error"] for row in rows[1:-1])
    told = [line for line in capsys.readouterr().err.splitlines() if "only one answer" not in line]
    assert [line.split(":")[1] for line in told[:-1]] == [str(k + 2) for k in range(len(bad))]
    assert told[-1] == f"sdlg: {len(bad)} of {len(bad) + 2} rows could not be scored; see their error lines"


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    "evidence",
    [
        '{"embeddings": [1, 2]}',
        '{"embeddings": [[[1, 2]], [[1, 2]]]}',
        '{"embeddings": [[], []]}',
        f'{{"embeddings": [[{HUGE}], [1]]}}',
        '{"embeddings": [[1e308, -1e308], [1, 2]]}',
        '{"similarity": [[1e308, -1e308], [1, 2]]}',
        f'{{"relevance": [[{HUGE}], [1]]}}',
        '{"relevance": [["1"], [1]]}',
        '{"assessment": 1}',
        '{"p_true": true}',
        '{"p_true": NaN}',
    ],
)
def test_numbers_that_are_none_are_told_of_their_row_alone(tmp_path, capsys, evidence):
    good = {"question": "q", "answers": [{"text": "a", "logprobs": [-1.0]}, {"text": "b", "logprobs": [-1.0]}]}
    bad = json.dumps(good)[:-1] + f', "evidence": {evidence}}}'
    code, (first, error, last) = scored(tmp_path, [good, bad, good], *ARITHMETIC)
    assert (code, first["measures"]) == (1, last["measures"])
    assert next(iter(json.loads(evidence))) in error["error"]


def test_entropies_beyond_any_float_are_told_of_their_row_alone(tmp_path, capsys):
    bad = f'{{"question": "q", "answers": [{{"text": "a", "logprobs": [-1], "entropies": [{HUGE}]}}]}}'
    code, (row,) = scored(tmp_path, [bad], *ARITHMETIC)
    assert (code, "entropies" in row["error"]) == (1, True)


def test_no_row_ends_a_file_whatever_the_arithmetic_makes_of_it(tmp_path, monkeypatch, capsys):
    from sdlg.measures import measuring

    plain = measuring.measure

    def measure_or_fail(inputs, question, *rest):
        if question.text == "bad":
            raise ZeroDivisionError("of a measure")
        return plain(inputs, question, *rest)

    monkeypatch.setattr(measuring, "measure", measure_or_fail)
    rows = [{"question": text, "answers": [{"text": "a"}, {"text": "b"}]} for text in ("good", "bad", "good")]
    code, (first, error, last) = scored(tmp_path, rows, *ARITHMETIC)
    assert (code, first["measures"]) == (1, last["measures"])
    assert error["error"] == "cannot be measured: ZeroDivisionError: of a measure"


@pytest.mark.parametrize(
    "answers",
    [
        [{"text": "a" * 4_000_000}, {"text": "b" * 4_000_001}],
        [{"text": "a"}] * 1001,
        [{"text": "a " * 50_001}],
        [{"text": "a", "logprobs": [-1] * 100_001}],
    ],
    ids=["row", "answers", "text", "logprobs"],
)
def test_rows_have_limits_and_they_are_told(tmp_path, capsys, answers):
    code, (row,) = scored(tmp_path, [{"question": "q", "answers": answers}], *ARITHMETIC)
    assert code == 1
    assert "at most 8,000,000 characters, 1,000 answers, 100,000 characters or tokens in each" in row["error"]
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    assert "at most 8,000,000 characters, 1,000 answers, 100,000 characters" in capsys.readouterr().out


def test_the_sar_vectors_through_the_command(tmp_path):
    """Relevance and similarity may be brought, too."""
    given, out = V["sar"]["input"], V["sar"]["output"]
    answers = [{"text": str(k), "logprobs": [-nll for nll in steps]} for k, steps in enumerate(given["token_nll"])]
    row = {"question": "q", "answers": answers, "evidence": {n: given[n] for n in ("relevance", "similarity")}}
    _, (found,) = scored(tmp_path, [row], *ARITHMETIC, "--measures", "tokenSAR,SAR")
    assert found["measures"]["tokenSAR"]["value"] == pytest.approx(out["tokenSAR"], abs=1e-9)
    assert found["measures"]["SAR"]["value"] == pytest.approx(out["SAR"], abs=1e-9)


def test_the_underflow_vectors_through_the_command(tmp_path):
    _, (row,) = scored(tmp_path, [vector_row("underflow")], *ARITHMETIC)
    out = V["underflow"]["output"]
    assert row["measures"]["predictive_entropy"]["value"] == pytest.approx(out["PE"], abs=1e-9)


def test_measures_of_a_result_can_be_computed_again_from_its_json_alone(tmp_path):
    base = embedded_pipeline()
    names = ("SAR", "EigV", "EigenScore", "CoCoA_MSP", "P(True)", "CSA", "MTE")
    result = base.__class__(base.model, base.nli, samples=4, max_tokens=8, measures=names).ask(
        "What is the capital of France?"
    )
    assert set(names) <= set(result.estimates)
    _, (row,) = scored(tmp_path, [result.to_json()], *ARITHMETIC, "--measures", ",".join(names))
    for name in names:
        assert row["measures"][name]["value"] == pytest.approx(result.estimates[name].value, abs=1e-9)
    assert result.cost.nli_pairs > 0


def test_the_output_may_not_be_the_input(tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "q", "answers": [{"text": "a"}]}\n')
    assert main(["score", str(file), "-o", str(file), *ARITHMETIC]) == 2
    assert file.read_text()


def test_an_empty_file_and_an_unknown_measure_are_usage_errors(tmp_path, capsys):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    assert main(["score", str(empty)]) == 2
    assert main(["score", str(empty), "--measures", "magic"]) == 2
    assert main(["score", str(tmp_path / "missing.jsonl")]) == 2
    assert "choose from" in capsys.readouterr().err


def test_what_is_missing_is_told_as_a_reason_not_as_a_number(tmp_path):
    row = {"question": "q", "answers": [{"text": "a"}, {"text": "b"}]}
    code, (found,) = scored(tmp_path, [row], *ARITHMETIC)
    assert code == 0
    for name in ("predictive_entropy", "discrete_semantic_entropy", "number_of_clusters"):
        assert found["measures"][name]["value"] is None
        assert found["measures"][name]["reason"]
    assert "--model" in found["measures"]["predictive_entropy"]["reason"]
    assert "--nli" in found["measures"]["number_of_clusters"]["reason"]


def test_results_of_sdlg_ask_are_rows_too(tmp_path, monkeypatch):
    from fakes import fake_pipeline

    result = fake_pipeline().ask("What is the capital of France?")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(result.to_json().encode())))
    out = tmp_path / "o.jsonl"
    assert main(["score", "-", "-o", str(out), *ARITHMETIC, "--measures", "semantic_entropy_sdlg,coverage"]) == 0
    found = json.loads(out.read_text())["measures"]
    assert found["semantic_entropy_sdlg"]["value"] == pytest.approx(result.semantic_entropy)
    assert found["coverage"]["value"] == pytest.approx(result.coverage)


def test_rows_are_read_line_by_line():
    rows = list(read_rows(['{"question": "q", "answers": [{"text": "a"}]}', "", "nonsense"]))
    assert [r.line for r in rows] == [1, 3]
    assert rows[1].error.startswith("not valid JSON")
    with pytest.raises(BadQuestion):
        parse_row('{"question": "q", "answers": [{"text": "a", "cluster": [1]}]}')


# -- similarity models ------------------------------------------------------------------------------------------


def test_the_embedded_encoder_finds_paraphrases_alike():
    from sdlg.similarity import load_similarity

    encoder = load_similarity("minilm")
    same, other, equal = encoder.similarity(
        [("The cat sleeps.", "A cat is sleeping."), ("The cat sleeps.", "Stocks fell."), ("x", "x")]
    )
    assert other < 0.4 < same < 1.0
    assert equal == 1.0
    rows = encoder.embed(["a", "b", "a"])
    assert (rows[0] == rows[2]).all()
    assert (rows**2).sum(axis=1) == pytest.approx(1.0)


def test_cross_encoders_and_sentence_encoders_load_by_name(tmp_path):
    import transformers as t

    from conftest import minilm_tokenizer
    from sdlg.errors import ModelNotFound, NotSupported
    from sdlg.similarity import load_similarity
    from sdlg.similarity.encoders import CrossEncoder, SentenceEncoder

    small = {
        "vocab_size": len(minilm_tokenizer()),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    for name, model in (
        ("cross", t.BertForSequenceClassification(t.BertConfig(**small, num_labels=1))),
        ("bi", t.BertModel(t.BertConfig(**small))),
        ("three", t.BertForSequenceClassification(t.BertConfig(**small, num_labels=3))),
    ):
        model.save_pretrained(tmp_path / name)
        minilm_tokenizer().save_pretrained(tmp_path / name)
    cross, both = load_similarity(str(tmp_path / "cross")), load_similarity(str(tmp_path / "bi"))
    assert isinstance(cross, CrossEncoder)
    assert isinstance(both, SentenceEncoder)
    assert 0 < cross.similarity([("a", "b")])[0] < 1
    assert cross.similarity([("a", "a")])[0] == 1
    with pytest.raises(NotSupported, match="embeddings"):
        cross.embed(["a"])
    with pytest.raises(NotSupported, match="3 outputs"):
        load_similarity(str(tmp_path / "three"))
    with pytest.raises(ModelNotFound):
        load_similarity("/nowhere/at-all")


def test_lists_describe_what_there_is(capsys):
    assert main(["list", "measures", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name", "aliases", "unit", "higher_is_less_certain", "range", "needs", "equation", "cost"} <= set(rows[0])
    aliases = {alias for found in rows for alias in found["aliases"]}
    assert {"SE_MS", "SE*_MS", "SE*_DBS", "SE*_SDLG"} <= aliases
    assert main(["list", "methods"]) == 0
    assert "diverse_beam" in capsys.readouterr().out
    assert main(["list", "presets"]) == 0
    assert "paper" in capsys.readouterr().out


def test_questions_with_context_are_scored_with_it():
    question, _ = parse_row('{"question": "q", "context": "c", "answers": [{"text": "a"}]}')
    assert question == Question("q", "c")
