"""Where two rooms meet: what one writes the other reads, what interrupts is passed on, numbers keep their meaning."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest

from fakes import CAPITAL, FakeNli, fake_models, fake_pipeline
from sdlg import Pipeline, ScriptedModel
from sdlg.cli import main
from sdlg.errors import Cancelled, InputUnavailable, NotSupported, ServerFailed, TimedOut, UsageError
from sdlg.measures import MeasureInputs, inputs_of
from sdlg.measures.inputs import InputModels, compute_inputs
from sdlg.measures.measuring import measure
from sdlg.models.base import Capabilities
from sdlg.options import STRATEGIES
from sdlg.records import Question
from sdlg.schema import read_given_row

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
    inputs = inputs_of(read_given_row(result.to_json()).samples)
    assert inputs.branchings == tuple(sample.branching for sample in result.samples)
    assert inputs.logprobs == inputs_of(result.samples).logprobs


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
    measured = measure(inputs, Question("q"), ["DSE", "PE"], models)
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
    measured = measure(MeasureInputs(texts=("a", "b")), Question("q"), ["P(True)"], InputModels(model))
    assert "no log-probabilities of other tokens" in measured.reasons["P(True)"]


# -- numbers that keep their meaning ----------------------------------------------------------------------------


def test_an_ending_of_several_tokens_counts_each_of_them():
    """The length-normalised likelihood of "Paris Q:" is (.6 · .9 · .8) ** (1/3), not ** (1/2)."""
    script = {"": {"Paris": 0.6, "Lyon": 0.4}, "Paris": {" Q": 0.9, "<end>": 0.1}, "Paris Q": {":": 0.8, "x": 0.2}}
    result = Pipeline(ScriptedModel(script, stops=(" Q:",)), FakeNli({}), samples=1, measures=["LN-PE"]).ask(QUESTION)
    assert (result.answer.text, result.answer.stop_reason) == ("Paris", "stop_string")
    assert result.answer.ending_logprobs == pytest.approx((math.log(0.9), math.log(0.8)))
    mean = result.estimates["LN-PE"].value
    assert math.exp(-mean) == pytest.approx((0.6 * 0.9 * 0.8) ** (1 / 3))


def test_the_headline_of_drawn_answers_is_the_papers_measure_of_them():
    result = fake_pipeline(method="multinomial", samples=6, draws=0, measures=["SE*_MS"]).ask(QUESTION)
    assert result.semantic_entropy == pytest.approx(result.estimates["SE*_MS"].value)


@pytest.mark.parametrize(
    "garbage", ["Où est Paris ?".encode("utf-16"), bytes(range(128, 256))], ids=["utf-16", "bytes"]
)
def test_a_pipe_is_read_by_the_rules_of_a_file(tmp_path, monkeypatch, capsys, garbage):
    file = tmp_path / "questions.txt"
    file.write_bytes(garbage)
    assert main(["ask", "--file", str(file)], fake_models) == UsageError.exit_code
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(garbage)))
    assert main(["ask"], fake_models) == UsageError.exit_code
    assert "must be UTF-8" in capsys.readouterr().err
