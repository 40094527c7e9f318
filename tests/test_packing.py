"""Several questions on one local model: their passes are packed, and the numbers stay those of each alone."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from itertools import product

import pytest
import torch

from conftest import VOCABULARY, tiny_model, word_tokenizer
from sdlg.concurrency import shared_passes
from sdlg.concurrency.in_flight import run_in_flight
from sdlg.concurrency.limits import Limit, limited, pausing
from sdlg.concurrency.shared_passes import SharedPasses
from sdlg.errors import TimedOut
from sdlg.models.base import DecodeRequest
from sdlg.models.transformers import packing
from sdlg.models.transformers.model import TransformersModel
from sdlg.models.transformers.network import Network
from sdlg.models.transformers.packing import Pass, pass_groups
from sdlg.models.transformers.prefix_cache import PrefixKV
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule

PROMPTS = [Prompt(tuple(range(3, 3 + size)), StopRule()) for size in (1, 4, 9, 17, 40)]
FORKED = [(), (7,), (7, 8), (9, 10, 11)]


def decoded(lm, prompt, strategy="greedy", prefixes=FORKED):
    decoding = Decoding(strategy=strategy, max_tokens=12)
    return lm.decode(DecodeRequest(prompt, prefixes, decoding, seed=5)).continuations


def together(work, items):
    """All at once, each in a thread of its own."""
    return [done.result() for _, done in run_in_flight(work, items, len(items))]


def fresh_lm(family, model=None):
    """With no prefix kept: prompts are read."""
    return TransformersModel(model or tiny_model(family), word_tokenizer(), name=family)


def close_to(one, other):
    assert [branch.token_ids for branch in one] == [branch.token_ids for branch in other]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


@pytest.fixture
def patient(monkeypatch):
    """Late threads are waited for, however slow this machine is."""
    monkeypatch.setattr(shared_passes, "_PATIENCE_SECONDS", 5.0)


# -- the numbers ------------------------------------------------------------------------------------------------


STRATEGIES = ("greedy", "multinomial", "arithmetic", "beam", "diverse_beam")


@pytest.mark.parametrize(
    ("family", "strategy"),
    [*product(("llama", "gemma3", "gpt2", "mistral"), STRATEGIES), ("bloom", "greedy"), ("mamba", "greedy")],
)
def test_questions_decoded_together_are_those_decoded_alone(family, strategy):
    alone = [decoded(fresh_lm(family), prompt, strategy) for prompt in PROMPTS]
    lm = fresh_lm(family)
    for one, other in zip(alone, together(lambda prompt: decoded(lm, prompt, strategy), PROMPTS), strict=True):
        close_to(other, one)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_long_answers_beside_others_are_those_alone(family, monkeypatch, patient):
    """Tokens that look at lanes in one pass with tokens that do not."""
    alone = [decoded(fresh_lm(family), prompt, "multinomial") for prompt in PROMPTS]
    monkeypatch.setattr("sdlg.models.transformers.masked_tree._MANY_COLUMNS", 10)
    lm = fresh_lm(family)
    for one, other in zip(alone, together(lambda prompt: decoded(lm, prompt, "multinomial"), PROMPTS), strict=True):
        close_to(other, one)


@pytest.mark.parametrize("family", ["llama", "gemma3", "mistral"])
def test_together_they_take_fewer_passes(family, patient):
    one, other = fresh_lm(family), fresh_lm(family)
    assert other._network.packs
    before, began = other._network.passes, one._network.passes
    for prompt in PROMPTS:
        decoded(one, prompt)
    all_there = threading.Barrier(len(PROMPTS))

    def beside_the_others(prompt):
        with other._network.decoding():
            all_there.wait(60)
            return decoded(other, prompt)

    together(beside_the_others, PROMPTS)
    assert other._network.passes - before < 0.5 * (one._network.passes - began)


def test_what_each_has_run_is_its_own(patient):
    """Costs do not tell of the others."""
    one, other = fresh_lm("llama"), fresh_lm("llama")
    alone = [one.decode(_request(prompt)).cost for prompt in PROMPTS]
    assert [found.cost for found in together(lambda prompt: other.decode(_request(prompt)), PROMPTS)] == alone


def _request(prompt):
    return DecodeRequest(prompt, FORKED, Decoding(max_tokens=12))


def test_scores_beside_decoding_are_those_alone(patient):
    one, other, texts = fresh_lm("llama"), fresh_lm("llama"), ["w5 w6 w7", "w9"]
    alone = [one.score(prompt, texts).generations for prompt in PROMPTS]
    work = [lambda prompt=prompt: other.score(prompt, texts).generations for prompt in PROMPTS]
    work += [lambda prompt=prompt: decoded(other, prompt) for prompt in PROMPTS]
    for mine, theirs in zip(together(lambda one: one(), work)[: len(PROMPTS)], alone, strict=True):
        close_to(mine, theirs)


@pytest.mark.parametrize("family", ["llama", "gemma3", "mistral", "qwen3", "opt", "gpt2"])
def test_a_prompt_beside_a_tree_beside_one_token(family):
    """Each sees its own, also where windows slide; logits of as many as are wanted."""
    network = Network(tiny_model(family))
    if not network.packs:
        pytest.skip("runs one by one")

    def passes():
        chains = [PrefixKV(network, native=False) for _ in range(3)]
        for chain, size in zip(chains, (0, 9, 20), strict=True):
            if size:
                chain.extend([k % VOCABULARY for k in range(size)])
        caches = [chain.cache for chain in chains]
        visible = torch.zeros(2, 11, dtype=torch.bool)
        visible[0, [*range(4), 9]] = visible[1, [*range(9), 10]] = True
        columns, positions = torch.tensor([*range(9), 4, 9]), torch.tensor([4, 9])
        masks = network._masks(visible, positions, columns)
        ids = torch.tensor([[7, 8]])
        tree = Pass(caches[1], ids, positions[None], network._given(masks), 2, lambda: masks)
        prompt = network._chain(caches[0], [k % VOCABULARY for k in range(3, 60)], 0, 5)
        return [prompt, tree, network._chain(caches[2], [9], 20, 1)]

    for one, other in zip(network._packed(passes()), map(network._alone, passes()), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_what_must_not_be_packed_is_not(monkeypatch):
    network = Network(tiny_model("llama"))
    monkeypatch.setattr(network.model.config, "_attn_implementation", "eager")
    assert not network.packs
    monkeypatch.undo()
    for kind in ("longrope", "dynamic"):  # the longest question of a pass would turn the keys of all others
        other = Network(tiny_model("llama"))
        monkeypatch.setattr(other._config, "rope_parameters", {"rope_type": kind})
        assert not other.packs


def test_one_that_fails_fails_alone(patient):
    """A token that there is not, beside a good question: of a network that packs, and of one that does not."""
    for family in ("llama", "mamba"):
        lm = fresh_lm(family)
        good = decoded(fresh_lm(family), PROMPTS[3], prefixes=[()])
        bad = Prompt((VOCABULARY + 5,), StopRule())
        work = [lambda lm=lm: decoded(lm, PROMPTS[3], prefixes=[()]), lambda lm=lm, bad=bad: decoded(lm, bad)]
        found = [done for _, done in run_in_flight(lambda one: one(), work, 2)]
        close_to(found[0].result(), good)
        assert isinstance(found[1].exception(), IndexError)
        close_to(decoded(lm, PROMPTS[3], prefixes=[()]), good)


def test_a_pass_that_fails_half_way_leaves_nothing_behind(monkeypatch):
    """In the second layer, with the first one's keys in every cache already: all are run alone, as if nothing was."""
    network = Network(tiny_model("llama"))
    assert network.packs

    def passes():
        caches = [network.new_cache(native=False) for _ in range(2)]
        network.chain(caches[1], [5, 6, 7], 0)
        return [network._chain(caches[0], [3, 4], 0, 1), network._chain(caches[1], [9], 3, 1)]

    calls, attend = [], packing._attend

    def failing(*given, **named):
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError
        return attend(*given, **named)

    monkeypatch.setattr(packing, "_attend", failing)
    broken = passes()
    for one, other in zip(network.run_all(broken), map(network._alone, passes()), strict=True):
        assert torch.equal(one, other)
    assert len(calls) == 2
    assert [one.columns() for one in broken] == [[2, 2], [4, 4]]


def test_two_models_around_one_network_do_not_disturb_each_other():
    network = tiny_model("llama")
    alone = [decoded(fresh_lm("llama", network), prompt) for prompt in PROMPTS]
    models = [fresh_lm("llama", network) for _ in range(2)]
    work = [(lm, prompt) for prompt in PROMPTS for lm in models]
    found = together(lambda one: decoded(*one), work)
    for place, (_, prompt) in enumerate(work):
        close_to(found[place], alone[PROMPTS.index(prompt)])
    assert network.config._attn_implementation == "sdpa"


def test_one_prompt_of_many_threads_is_kept_once():
    lm = fresh_lm("llama")
    together(lambda _: decoded(lm, PROMPTS[3]), range(6))
    assert len(lm._store._kept) == 1


def test_alone_nothing_changes_to_the_bit():
    """One thread's passes go through the network as they are."""
    one, other = (decoded(fresh_lm("llama"), PROMPTS[2]) for _ in range(2))
    assert [branch.logprobs for branch in one] == [branch.logprobs for branch in other]


def test_large_passes_are_not_packed_into_larger_ones():
    network = Network(tiny_model("llama"))
    passes = [network._chain(network.new_cache(native=False), [1] * size, 0, 1) for size in (1000, 20, 10, 1024, 3)]
    alone = replace(passes[0], masks=None)
    assert list(pass_groups([*passes, alone])) == [[0, 1], [2], [3], [5], [4]]


# -- who waits for whom -----------------------------------------------------------------------------------------


def test_all_who_decode_are_run_at_once(patient):
    seen = []
    meeting = SharedPasses(lambda batch: seen.append(len(batch)) or [10 * one for one in batch])
    entered = threading.Barrier(4)

    def work(number):
        with meeting.decoding():
            entered.wait()
            return [meeting.run(number + 100 * step) for step in range(5)]

    assert together(work, range(4)) == [[10 * (k + 100 * step) for step in range(5)] for k in range(4)]
    assert seen == [4] * 5


def test_one_who_leaves_is_not_waited_for(patient):
    meeting = SharedPasses(list)
    entered = threading.Barrier(2)

    def work(steps):
        with meeting.decoding():
            entered.wait()
            return [meeting.run(step) for step in range(steps)]

    began = time.monotonic()
    together(work, [1, 4])
    assert time.monotonic() - began < 4.0


def test_one_who_is_late_holds_nobody_up_for_long():
    meeting, entered = SharedPasses(list), threading.Event()

    def late():
        with meeting.decoding():
            entered.set()
            time.sleep(1.0)

    thread = threading.Thread(target=late)
    thread.start()
    entered.wait()
    began = time.monotonic()
    with meeting.decoding():
        assert meeting.run(1) == 1
    assert time.monotonic() - began < 0.9
    thread.join()


def test_nobody_waits_for_one_who_does_something_else(monkeypatch):
    monkeypatch.setattr(shared_passes, "_PATIENCE_SECONDS", 600.0)
    meeting, aside, done, found = SharedPasses(list), threading.Event(), threading.Event(), []

    def other():
        with meeting.decoding():
            with meeting.aside():
                aside.set()
                found.append(done.wait(60))
            found.append(meeting.run(2))

    thread = threading.Thread(target=other)
    thread.start()
    assert aside.wait(60)
    with meeting.decoding():
        assert meeting.run(1) == 1
    done.set()
    thread.join()
    assert found == [True, 2]


def test_an_error_is_ones_own_and_a_failure_of_all_is_told_to_all(patient):
    def run_all(batch):
        if "worst" in batch:
            raise RuntimeError("no memory")
        return [ValueError("bad") if one == "bad" else one for one in batch]

    meeting = SharedPasses(run_all)
    for batch, kinds in ((["good", "bad"], [None, ValueError]), (["good", "worst"], [RuntimeError, RuntimeError])):
        entered = threading.Barrier(2)

        def work(wanted, entered=entered):
            with meeting.decoding():
                entered.wait()
                return meeting.run(wanted)

        found = [done.exception() for _, done in run_in_flight(work, batch, 2)]
        assert [type(error) if error else None for error in found] == kinds
    assert meeting.run("good") == "good"


def test_those_who_come_during_a_long_pass_are_joined_by_the_others():
    """Patience begins when the network is free: else two groups would take turns for ever."""
    sizes = []

    def run_all(batch):
        sizes.append(len(batch))
        time.sleep(0.12)  # more than anybody's patience
        return batch

    meeting = SharedPasses(run_all)

    def work(number):
        with meeting.decoding():
            time.sleep(0.03 * number)
            return [meeting.run(step) for step in range(6)]

    together(work, range(3))
    assert sizes.count(3) >= 4


def test_one_that_gives_way_to_others_is_not_waited_for():
    meeting = SharedPasses(list)
    with pausing(lambda: None), meeting.decoding():
        assert not meeting._decoding
    with meeting.decoding():
        assert meeting._decoding == {threading.get_ident()}
        with meeting.decoding():
            pass
        assert meeting._decoding == {threading.get_ident()}
    assert not meeting._decoding


def test_who_gives_up_takes_its_pass_back():
    running, released, seen = threading.Event(), threading.Event(), []

    def run_all(batch):
        seen.append(list(batch))
        running.set()
        released.wait(5)
        return batch

    meeting = SharedPasses(run_all)
    thread = threading.Thread(target=meeting.run, args=("first",))
    thread.start()
    running.wait()
    with limited(Limit(0.1)), pytest.raises(TimedOut):
        meeting.run("given up")
    released.set()
    thread.join()
    assert meeting.run("last") == "last"
    assert seen == [["first"], ["last"]]


def test_trying_whether_a_network_packs_leaves_its_attention_as_it_was_whoever_else_is_in_a_pass(monkeypatch):
    """Who tries need not be the one whose turn it is: it waits for a pass of another, also of another network."""
    model = tiny_model("llama")
    one, other = Network(model), Network(model)
    inside, goes_on = threading.Event(), threading.Event()
    probe = Network._probe

    def slow(self, run):
        inside.set()
        assert goes_on.wait(5) or self is not one
        return probe(self, run)

    monkeypatch.setattr(Network, "_probe", slow)
    trying = threading.Thread(target=lambda: one.packs)
    trying.start()
    inside.wait(5)
    also = threading.Thread(target=lambda: other.packs)
    also.start()
    also.join(0.2)
    assert "packs" not in other.__dict__
    goes_on.set()
    trying.join(10)
    also.join(10)
    assert (one.packs, other.packs) == (True, True)
    assert model.config._attn_implementation == "sdpa"


def test_values_may_be_narrower_than_keys():
    from sdlg.models.transformers.packing import _attend_in_lanes

    lanes, steps, begin = 3, 4, 5
    query, keys = torch.randn(1, 4, lanes, 16), torch.randn(1, 2, begin + steps * lanes, 16)
    values, mask = torch.randn(1, 2, begin + steps * lanes, 8), torch.ones(1, 1, lanes, begin + steps, dtype=torch.bool)
    found = _attend_in_lanes(query, keys, values, mask, steps, None)
    for lane in range(lanes):
        own = [*range(begin), *range(begin + lane, begin + steps * lanes, lanes)]
        wanted = torch.nn.functional.scaled_dot_product_attention(
            query[:, :, lane : lane + 1], keys[:, :, own], values[:, :, own], enable_gqa=True
        )
        assert torch.allclose(found[:, lane], wanted[:, :, 0], atol=1e-5)


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (4, 2), (9, 3), (4, 1)])
@pytest.mark.parametrize("width_of_values", [16, 8])
def test_heads_that_share_keys_find_what_each_finds_alone(heads, groups, width_of_values):
    query, keys, values = (
        torch.randn(1, heads, 5, 16),
        torch.randn(1, groups, 7, 16),
        torch.randn(1, groups, 7, width_of_values),
    )
    visible = torch.rand(1, 1, 5, 7) > 0.5
    visible[..., 0] = True
    additive = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    for mask, scaling in product((visible, additive), (None, 0.5)):
        found = packing._attend_in_groups(query, keys, values, mask, scaling)
        assert found.shape == (1, 5, heads, width_of_values)
        for head, token in product(range(heads), range(5)):
            group = head // (heads // groups)
            seen = visible[0, 0, token]
            weights = (keys[0, group, seen] @ query[0, head, token] * (0.25 if scaling is None else scaling)).softmax(0)
            assert torch.allclose(found[0, token, head], weights @ values[0, group, seen], atol=1e-5)


def test_a_tree_alone_copies_no_keys(monkeypatch):
    """Of a network whose heads share keys, and with the logits that the network's own attention gives."""
    seen, attend = [], packing._attend_in_groups
    monkeypatch.setattr(packing, "_attend_in_groups", lambda *given: seen.append(given[1].shape) or attend(*given))
    network = Network(tiny_model("llama"))
    request = (torch.tensor([2, 2]), torch.tensor([[True, True, True, False], [True, True, False, True]]))
    found = []
    for packs in (True, False):
        network.__dict__["packs"] = packs
        cache = network.new_cache(native=False)
        network.chain(cache, [3, 4], 0)
        found.append(network.tree(cache, [5, 6], request[0], request[1], torch.tensor([0, 1, 2, 2])))
    assert torch.allclose(*found, atol=1e-5)
    config = network.model.config
    assert seen == [(1, config.num_key_value_heads, 4, config.head_dim)] * config.num_hidden_layers
    assert config.num_key_value_heads < config.num_attention_heads


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_kernels_may_lay_out_what_they_find_in_their_own_way(family, monkeypatch):
    """As CUDA's do: (1, q, heads, width) in memory."""
    attend = torch.nn.functional.scaled_dot_product_attention

    def other_layout(*given, **named):
        return attend(*given, **named).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", other_layout)
    assert Network(tiny_model(family)).packs


@pytest.mark.parametrize("name", ["position_bias", "softcap"])
def test_a_network_whose_attention_does_more_is_not_packed(name, monkeypatch):
    attend = packing._attend
    monkeypatch.setattr(packing, "_attend", lambda *given, **named: attend(*given, **{**named, name: torch.ones(1)}))
    assert not Network(tiny_model("llama")).packs
