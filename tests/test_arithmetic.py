"""Arithmetic sampling: draws that are even together and unbiased each."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fakes import FakeNli
from sdlg.errors import NotSupported
from sdlg.models.base import DecodeRequest
from sdlg.models.codes import BELOW_ONE, Code, choose_by_code, even_codes, nucleus, spread_order
from sdlg.models.scripted import END, ScriptedModel
from sdlg.options import Decoding, Options
from sdlg.records import Question, StopRule
from sdlg.sampling import SAMPLERS, SamplingRequest

SCRIPT = {
    "": {"a": 0.5, "b": 0.3, END: 0.2},
    "a": {END: 0.6, "x": 0.4},
    "b": {"x": 0.5, "y": 0.5},
}
ANSWERS = {"a": 0.3, "ax": 0.2, "bx": 0.15, "by": 0.15, "": 0.2}
MODEL = ScriptedModel(SCRIPT)
CODES = Decoding(strategy="arithmetic")


def texts(
    count: int, seed: int | tuple[int, ...], model: ScriptedModel = MODEL, draws: int = 0, **more: float
) -> list[str]:
    prompt = model.prompt(Question("q"), "plain", StopRule())
    decoding = Decoding() if draws else CODES
    decoded = model.decode(DecodeRequest(prompt, [()] * count, decoding, seed, draws=draws, **more))  # type: ignore[arg-type]
    return [model.text(one.token_ids) for one in decoded.continuations]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("seed", range(5))
def test_every_answer_comes_as_often_as_its_probability_says_rounded_up_or_down(count: int, seed: int) -> None:
    counts = Counter(texts(count, seed))
    assert sum(counts.values()) == count
    for answer, probability in ANSWERS.items():
        assert counts[answer] in (np.floor(count * probability + 1e-9), np.ceil(count * probability - 1e-9))


def test_frequencies_are_unbiased_exactly() -> None:
    """A thousand codes at equal distances are the integral over all offsets of N = 1, to a thousandth."""
    codes = [Code((k + 0.5) / 1000, np.random.default_rng(0)) for k in range(1000)]
    counts: Counter[str] = Counter()
    for code in codes:
        text = ""
        while True:
            options = MODEL.next_tokens(text)
            token = options[choose_by_code(np.exp([one.logprob for one in options]), code)].token_id
            if token == 0:
                break
            text += MODEL.text([token])
        counts[text] += 1
    assert counts == {answer: round(1000 * probability) for answer, probability in ANSWERS.items()}


def test_first_of_many_codes_is_uniform() -> None:
    firsts = np.array([even_codes(10, seed)[0].value for seed in range(2000)])
    assert np.histogram(firsts, bins=10, range=(0, 1))[0] == pytest.approx(np.full(10, 200), abs=60)


def test_every_beginning_of_the_order_is_spread() -> None:
    assert spread_order(8).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
    assert sorted(spread_order(10).tolist()) == list(range(10))
    assert spread_order(1).tolist() == [0]


def test_same_seed_same_draws() -> None:
    assert texts(10, 1) == texts(10, 1)
    assert len({tuple(texts(7, seed)) for seed in range(10)}) > 1


def test_draws_beside_others_are_those_from_scratch() -> None:
    """The last prefixes of a greedy request, in one call with branches, or alone: the same codes, the same answers."""
    prompt, a = MODEL.prompt(Question("q"), "plain", StopRule()), MODEL.token_id("a")
    beside = MODEL.decode(DecodeRequest(prompt, [(a,), *[()] * 5], Decoding(), 7, draws=5)).continuations[1:]
    alone = MODEL.decode(DecodeRequest(prompt, [()] * 5, Decoding(), 7, draws=5)).continuations
    assert beside == alone


def test_draws_outside_of_the_greedy_answer_never_are_it_and_stay_unbiased() -> None:
    counts: Counter[str] = Counter()
    for seed in range(400):
        counts.update(texts(5, seed, draws=5, excluded_mass=0.3))
    assert counts["a"] == 0
    shares = {answer: count / 2000 for answer, count in counts.items()}
    assert shares == pytest.approx({answer: p / 0.7 for answer, p in ANSWERS.items() if answer != "a"}, abs=0.02)


def test_one_token_and_empty_answers_are_drawn() -> None:
    model = ScriptedModel({"": {END: 0.5, "yes": 0.5}})
    assert sorted(texts(4, 0, model)) == ["", "", "yes", "yes"]


def test_a_token_of_probability_one_takes_nothing_from_the_code() -> None:
    code = Code(0.3, np.random.default_rng(0))
    assert choose_by_code(np.array([0.0, 1.0, 0.0]), code) == 1
    assert (code.value, code.mass) == (0.3, 1.0)


def test_ties_go_to_the_lower_id_first() -> None:
    quarters = np.full(4, 0.25)
    chosen = [choose_by_code(quarters, Code(value, np.random.default_rng(0))) for value in (0.0, 0.25, 0.5, 0.99)]
    assert chosen == [0, 1, 2, 3]


def test_impossible_tokens_are_never_chosen_even_at_the_upper_end() -> None:
    for value in (0.0, BELOW_ONE):
        assert choose_by_code(np.array([0.0, 0.1, 0.2, 0.7, 0.0]), Code(value, np.random.default_rng(0))) in (1, 2, 3)


def test_rare_tokens_are_found_where_all_of_them_stand() -> None:
    """Only likely tokens are sorted at first: what lies beyond them must come out as if all had been."""
    rare = np.concatenate([[0.5, 0.4], np.full(10_000, 0.1 / 10_000)])
    assert choose_by_code(rare, Code(0.9 + 0.1 * 0.50005, np.random.default_rng(0))) == 2 + 5000


def test_top_p_keeps_the_likeliest() -> None:
    shares = np.array([0.1, 0.6, 0.3])
    assert nucleus(shares, 0.5).tolist() == [0.0, 0.6, 0.0]
    assert nucleus(shares, 0.7).tolist() == [0.0, 0.6, 0.3]
    assert nucleus(shares, 0.0).tolist() == [0.0, 0.6, 0.0]
    assert choose_by_code(shares, Code(0.95, np.random.default_rng(0)), top_p=0.5) == 1


def test_long_answers_stay_uniform_after_the_code_has_run_out_of_bits() -> None:
    """200 fair coins need 200 bits; a code of 400 says nine. Late coins must be as fair as early ones, and differ."""
    coins = np.array([[choose_by_code(np.array([0.5, 0.5]), code) for _ in range(200)] for code in even_codes(400, 5)])
    assert coins[:, :60].mean() == pytest.approx(0.5, abs=0.02)
    assert coins[:, 60:].mean() == pytest.approx(0.5, abs=0.01)
    assert len({tuple(row) for row in coins[:, 60:].tolist()}) == 400
    assert abs(np.corrcoef(coins[:, 10], coins[:, 150])[0, 1]) < 0.2


def test_a_code_that_is_alone_in_its_piece_is_drawn_anew() -> None:
    code = Code(0.75, np.random.default_rng(0), spacing=0.3)
    code.enter(0.5, 0.5)
    assert code.value == 0.5
    places = []
    for _ in range(2000):
        code.enter(0.4, 0.5)
        places.append(code.value)
    assert np.histogram(places, bins=4, range=(0, 1))[0] == pytest.approx(np.full(4, 500), abs=80)


def test_a_code_that_is_drawn_anew_stays_outside() -> None:
    """What is excluded is the beginning of [0, 1), also of the pieces that hold it: the greedy answer's own path."""
    shares = np.array([0.9, 0.1])
    for seed in range(300):
        for code in even_codes(5, seed, outside=0.9**8):
            assert any(choose_by_code(shares, code) for _ in range(8))


def test_rounding_does_not_change_what_is_drawn() -> None:
    """Float32 probabilities are known to some 1e-7, and a hundred tokens later the draws must still be the same."""
    rng = np.random.default_rng(0)
    steps = rng.dirichlet(np.ones(50), size=100)
    rounded = steps * (1 + 1e-7 * rng.standard_normal(steps.shape))
    one, other = (
        [[choose_by_code(step, code) for step in table] for code in even_codes(10, 3)] for table in (steps, rounded)
    )
    assert one == other


def test_arithmetic_is_a_method_of_its_own() -> None:
    options = Options().updated(samples=10, seed=3)
    sampled = SAMPLERS["arithmetic"](SamplingRequest(Question("q"), MODEL, FakeNli(), options))
    assert Counter(sampled.texts)["a"] == 3
    assert len(sampled.samples) == 10


def test_models_without_whole_distributions_refuse_it_in_words() -> None:
    model = ScriptedModel(SCRIPT)
    model.capabilities = type(model.capabilities)(frozenset({"greedy", "multinomial"}), True, 5)
    with pytest.raises(NotSupported, match="cannot decode by arithmetic; it can: greedy, multinomial"):
        SAMPLERS["arithmetic"](SamplingRequest(Question("q"), model, FakeNli(), Options()))
