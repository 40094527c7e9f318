"""Where two rooms meet: what one writes the other reads, what interrupts is passed on, numbers keep their meaning."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
from sdlg.formats.answers import parse_row
from sdlg.formats.files import one_writer

from fakes import CAPITAL, MEANINGS, FakeNli, fake_pipeline
from sdlg import Pipeline, ScriptedModel
from sdlg.cli import main
from sdlg.errors import Cancelled, InputUnavailable, NotSupported, ServerFailed, TimedOut, UsageError
from sdlg.measures import MeasureInputs, inputs_of
from sdlg.measures.inputs import InputModels, compute_inputs
from sdlg.measures.measuring import chosen_measures, measure
from sdlg.models.base import Capabilities
from sdlg.options import STRATEGIES
from sdlg.records import Question

QUESTION = "What is the capital of France?"


# -- a stop string that begins before the changed token ---------------------------------------------------------

# The changed word " Q" makes " A Q:" with what stood before it: the branch's text ends before the change.
ENDS_EARLY = {
    "": {"Paris": 1.0},
    "Paris": {" A": 1.0},
    "Paris A": {" B": 0.6, " Q": 0.4},
    "Paris A B": {"<end>": 1.0},
    "Paris A Q": {":": 1.0},
}
STOPS = {"stop_strings": (" A Q:",), "samples": 3}


def test_a_line_of_ask_is_a_row_of_score_wherever_its_ending_began():
    result = fake_pipeline(ENDS_EARLY, **STOPS).ask(QUESTION)
    branch = next(sample for sample in result.samples if sample.substitution)
    assert branch.substitution.position > len(branch.generation.token_ids)
    _, inputs = parse_row(result.to_json())
    assert inputs.branchings == tuple(sample.branching for sample in result.samples)
    assert inputs.logprobs == inputs_of(result.samples).logprobs


def test_lines_of_the_format_before_are_still_read():
    result = json.loads(fake_pipeline().ask(QUESTION).to_json())
    old = json.loads(json.dumps(result))
    for sample in old["samples"]:
        del sample["branching"]
        ending = sample.pop("ending_logprobs")
        sample["stop_logprob"] = sum(ending) if ending else None
    _, new_inputs = parse_row(json.dumps(result))
    _, old_inputs = parse_row(json.dumps(old))
    assert old_inputs.branchings == new_inputs.branchings
    assert [sum(steps) for steps in old_inputs.logprobs] == pytest.approx([sum(s) for s in new_inputs.logprobs])


# -- what interrupts is passed on -------------------------------------------------------------------------------


class Failing(FakeNli):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def judge(self, question, pairs):
        raise self.error


@pytest.mark.parametrize(
    "error", [TimedOut("late"), Cancelled("no"), ServerFailed("gone")], ids=lambda e: type(e).__name__
)
def test_what_interrupts_is_no_reason_for_a_missing_measure(error):
    inputs = MeasureInputs(texts=("a", "b"))
    with pytest.raises(type(error)):
        compute_inputs(inputs, Question("q"), frozenset({"clusters"}), InputModels(nli=Failing(error)))


@pytest.mark.parametrize(
    "error", [InputUnavailable("not here"), NotSupported("cannot")], ids=lambda e: type(e).__name__
)
def test_what_one_measure_cannot_have_is_a_reason_beside_the_others(error):
    inputs = MeasureInputs(texts=("a", "b"), logprobs=((-1.0,), (-2.0,)))
    models = InputModels(nli=Failing(error))
    measured = measure(inputs, Question("q"), chosen_measures(["DSE", "PE"]), models)
    assert measured.estimates["PE"].value == 1.5
    assert str(error) in measured.reasons["DSE"]


# -- the model's opinion of itself ------------------------------------------------------------------------------


def test_p_true_of_a_model_without_log_probabilities_is_unavailable_in_words():
    class Silent(ScriptedModel):
        def decode(self, request):
            decoded = super().decode(request)
            return replace(decoded, continuations=tuple(replace(c, alternatives=()) for c in decoded.continuations))

    able = Capabilities(frozenset(STRATEGIES), continues_prefixes=True, alternatives=0)
    model = Silent(CAPITAL)
    model.capabilities = able
    measured = measure(MeasureInputs(texts=("a", "b")), Question("q"), chosen_measures(["P(True)"]), InputModels(model))
    assert "does not tell what else it could have said" in measured.reasons["P(True)"]


# -- numbers that keep their meaning ----------------------------------------------------------------------------


def test_an_ending_of_several_tokens_counts_each_of_them():
    """The length-normalised likelihood of "Paris Q:" is (.6 · .9 · .8) ** (1/3), not ** (1/2)."""
    script = {"": {"Paris": 0.6, "Lyon": 0.4}, "Paris": {" Q": 0.9, "<end>": 0.1}, "Paris Q": {":": 0.8, "x": 0.2}}
    result = Pipeline(ScriptedModel(script, stops=(" Q:",)), FakeNli({}), samples=1).ask(QUESTION)
    assert (result.answer.text, result.answer.stop_reason) == ("Paris", "stop_string")
    assert result.answer.ending_logprobs == pytest.approx((math.log(0.9), math.log(0.8)))
    mean = result.estimates["length_normalised_predictive_entropy"].value
    assert math.exp(-mean) == pytest.approx((0.6 * 0.9 * 0.8) ** (1 / 3))


def test_the_papers_measure_weighs_by_the_very_token_also_where_candidates_were_merged():
    """Eq. 13: w = p(y_t). " paris" was merged into " Paris": only our own measure counts it."""
    script = {"": {"It": 0.5, "Paris": 0.3, "paris": 0.1, "Lyon": 0.1}, "It": {"<end>": 1.0}}
    result = fake_pipeline(
        script,
        {},
        samples=4,
        draws=0,
        merging="same_word",
        measures=["SE*_SDLG", "semantic_entropy_merged_importance_l1_length_normalised_unnormalised_log"],
    ).ask(QUESTION)
    (merged,) = [s for s in result.samples if s.branching and s.branching.mass > math.exp(s.branching.logprob) + 1e-9]
    assert (math.exp(merged.branching.logprob), merged.branching.mass) == pytest.approx((0.3, 0.4))

    def by_hand(weigh):
        weights = [1.0 if s.branching is None else weigh(s.branching) for s in result.samples]
        masses = {}
        for weight, sample in zip(weights, result.samples, strict=True):
            steps = sample.generation.decision_logprobs
            mass = weight / sum(weights) * math.exp(sum(steps) / len(steps))
            masses[sample.cluster] = masses.get(sample.cluster, 0.0) + mass
        whole = sum(masses.values())
        return -sum(mass / whole * math.log(mass) for mass in masses.values())

    own, ours = (result.estimates[name].value for name in result.setup.measures)
    assert own == pytest.approx(by_hand(lambda branching: math.exp(branching.logprob)))
    assert ours == pytest.approx(by_hand(lambda branching: branching.mass))
    assert own == pytest.approx(result.semantic_entropy)


def test_the_headline_of_drawn_answers_is_the_papers_measure_of_them():
    result = fake_pipeline(method="multinomial", samples=6, draws=0, measures=["SE*_MS"]).ask(QUESTION)
    assert result.semantic_entropy == pytest.approx(result.estimates["SE*_MS"].value)
    assert result.estimates["semantic_entropy"].options["weighting"] == "uniform"


# -- resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--measures", "MSP"], "--measures"),
        (["--dtype", "bfloat16"], "--dtype"),
        (["--other-models", "m"], "--other-models"),
    ],
)
def test_results_of_another_setup_are_not_mixed_into_a_file(tmp_path, monkeypatch, capsys, flags, named):
    monkeypatch.setattr("sdlg.pipeline.load_model", lambda name, **_: ScriptedModel(CAPITAL, name="smollm2"))
    monkeypatch.setattr("sdlg.pipeline.load_nli", lambda name, **_: FakeNli(MEANINGS, name="nli-minilm"))
    out = tmp_path / "results.jsonl"
    assert main(["ask", QUESTION, "--out", str(out)]) == 0
    before = out.read_bytes()
    assert main(["ask", QUESTION, "--out", str(out), *flags]) == UsageError.exit_code
    assert named in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr("sdlg.pipeline.load_model", lambda name, **_: ScriptedModel(CAPITAL, name="smollm2"))
    monkeypatch.setattr("sdlg.pipeline.load_nli", lambda name, **_: FakeNli(MEANINGS, name="nli-minilm"))


def test_two_writers_of_one_file_are_one_too_many(tmp_path, scripted, capsys):
    out = tmp_path / "results.jsonl"
    with one_writer(out, "sdlg ask"):
        assert main(["ask", QUESTION, "--out", str(out)]) == UsageError.exit_code
    assert "another sdlg ask is writing" in capsys.readouterr().err
    assert main(["ask", QUESTION, "--out", str(out)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]  # no lock is left behind


@pytest.mark.parametrize(
    "garbage", ["Où est Paris ?".encode("utf-16"), bytes(range(128, 256))], ids=["utf-16", "bytes"]
)
def test_a_pipe_is_read_by_the_rules_of_a_file(tmp_path, scripted, monkeypatch, capsys, garbage):
    file = tmp_path / "questions.txt"
    file.write_bytes(garbage)
    assert main(["ask", "--file", str(file)]) == UsageError.exit_code
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(garbage)))
    assert main(["ask"]) == UsageError.exit_code
    assert "must be UTF-8" in capsys.readouterr().err
