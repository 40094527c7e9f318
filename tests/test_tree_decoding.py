"""Every layout decodes what decoding from scratch decodes, token for token."""

from __future__ import annotations

import copy
import os
import shutil

import pytest
import torch

from conftest import tiny_lm, tiny_model, word_tokenizer
from reference import decode_from_scratch, next_logprobs
from sdlg.models import load_model
from sdlg.models.base import DecodeRequest
from sdlg.models.decoding.paths import score_paths
from sdlg.models.transformers import layouts
from sdlg.models.transformers.layouts import LAYOUTS, choose_layout
from sdlg.models.transformers.masked_tree import MaskedTree
from sdlg.models.transformers.model import TransformersModel
from sdlg.models.transformers.network import Network
from sdlg.models.transformers.prefix_cache import PrefixKV
from sdlg.models.transformers.separate_caches import SeparateCaches
from sdlg.options import Decoding
from sdlg.records import Prompt, StopRule

FAMILIES = ("llama", "opt", "gpt2", "qwen2", "qwen3", "gemma3", "mistral", "gpt_neo", "bloom", "mamba")
EXPECTED_LAYOUT = {
    "bloom": "separate",  # no position ids
    "mamba": "separate",  # a state instead of keys and values
    "gpt_neo": "separate",  # local attention of a kind we build no masks for
}
ALLOWED = [(f, "tree") for f in FAMILIES if f not in EXPECTED_LAYOUT]
ALLOWED += [(f, "separate") for f in FAMILIES]

PROMPT = Prompt((5, 9, 17, 33, 21, 40, 8, 60, 11, 72), StopRule(frozenset({2})))
GREEDY = Decoding(max_tokens=14)


def branch_prefixes(answer):
    """Branches everywhere, one and several tokens long, one twice."""
    return [
        (50,),
        (*answer[:1], 61),
        (*answer[:3], 70),
        (*answer[:6], 71),
        (*answer[:3], 70),
        (30, 31, 32),
        (*answer[:2], 7, 6),
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_layout_is_detected_on_the_model_itself(family):
    assert choose_layout(Network(tiny_model(family))) == EXPECTED_LAYOUT.get(family, "tree")


HALF = (torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_layout_is_the_same_in_half_precision(family, dtype):
    model = copy.deepcopy(tiny_model(family)).to(dtype)
    assert choose_layout(Network(model)) == EXPECTED_LAYOUT.get(family, "tree")


class MaskBlind(Network):
    """A model that takes a mask and sees everything all the same."""

    def _mask(self, visible, positions, columns, window):
        return super()._mask(torch.ones_like(visible), positions, columns, window)

    def rows(self, cache, tokens, positions, visible):
        return super().rows(cache, tokens, positions, torch.ones_like(visible))


class PositionBlind(Network):
    """A model that takes positions and counts columns all the same."""

    def _call(self, cache, ids, positions, mask, keep_last=False):
        start = cache.get_seq_length()
        columns = torch.arange(start, start + ids.shape[1])[None].expand(len(ids), -1)
        return super()._call(cache, ids, columns, mask, keep_last)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("family", ["llama", "opt", "gpt2", "qwen2", "qwen3", "gemma3", "mistral", "bloom"])
def test_a_model_that_ignores_masks_decodes_each_path_on_its_own(family, dtype):
    assert choose_layout(MaskBlind(copy.deepcopy(tiny_model(family)).to(dtype))) == "separate"


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("family", ["llama", "opt", "gpt2", "qwen2", "qwen3", "gemma3", "mistral"])
def test_a_model_that_ignores_positions_decodes_each_path_on_its_own(family, dtype):
    assert choose_layout(PositionBlind(copy.deepcopy(tiny_model(family)).to(dtype))) == "separate"


@pytest.mark.parametrize(("family", "layout"), ALLOWED)
def test_branches_equal_decoding_from_scratch(family, layout):
    lm = tiny_lm(family, layout)
    first = lm.decode(DecodeRequest(PROMPT, [()], GREEDY)).continuations[0]
    assert_same(lm, (), first)
    prefixes = branch_prefixes(first.token_ids)
    for prefix, branch in zip(prefixes, lm.decode(DecodeRequest(PROMPT, prefixes, GREEDY)).continuations, strict=True):
        assert_same(lm, prefix, branch)
    # The trunk is unharmed: asking again gives the same.
    assert lm.decode(DecodeRequest(PROMPT, [()], GREEDY)).continuations[0].token_ids == first.token_ids


def assert_same(lm, prefix, continuation):
    ids, logprobs = decode_from_scratch(lm, PROMPT, prefix, GREEDY.max_tokens)
    ended = ids[-1] == 2
    assert continuation.token_ids == tuple(ids[:-1] if ended else ids)
    found = [*continuation.logprobs, *([continuation.stop_logprob] if ended else [])]
    assert found == pytest.approx(logprobs, abs=1e-4)
    assert continuation.decisions == len(ids)


@pytest.mark.parametrize("tree", [MaskedTree, SeparateCaches])
def test_forked_paths_see_only_their_own_tokens(tree):
    network = Network(tiny_model("llama"))
    prefix_kv = PrefixKV(network, native=tree is SeparateCaches)
    prefix_kv.extend([5, 9, 17, 33])
    paths = tree(prefix_kv)
    (a, b), _ = paths.grow([3, 1], [40, 41])
    nodes, logits = paths.grow([a, a, b], [50, 51, 52])  # a forks
    wanted = [
        next_logprobs(network.model, ids) for ids in ([5, 9, 17, 33, 40, 50], [5, 9, 17, 33, 40, 51], [5, 9, 41, 52])
    ]
    assert torch.allclose(torch.log_softmax(logits, -1), torch.stack(wanted), atol=1e-4)
    assert len(set(nodes)) == 3


def test_a_path_that_was_adopted_is_the_trunk():
    network = Network(tiny_model("llama"))
    prefix_kv = PrefixKV(network, native=False)
    prefix_kv.extend([5, 9, 17])
    tree = MaskedTree(prefix_kv)
    (_, b), _ = tree.grow([2, 1], [40, 41])
    (c,), _ = tree.grow([b], [42])
    assert tree.keep_path(c)
    assert prefix_kv.ids == [5, 9, 41, 42]
    logits = prefix_kv.extend([43])
    assert torch.allclose(torch.log_softmax(logits[0], -1), next_logprobs(network.model, [5, 9, 41, 42, 43]), atol=1e-4)


def test_a_tree_may_grow_several_levels_in_one_call():
    network = Network(tiny_model("llama"))
    prefix_kv = PrefixKV(network, native=False)
    prefix_kv.extend([5, 9, 17])
    _, logits = MaskedTree(prefix_kv).grow([2, 3, 4], [40, 41, 42])  # a chain: each token is the next one's parent
    assert torch.allclose(
        torch.log_softmax(logits[2], -1), next_logprobs(network.model, [5, 9, 17, 40, 41, 42]), atol=1e-4
    )


@pytest.mark.parametrize("family", ["llama", "opt", "gemma3"])
def test_forward_tokens_meet_the_bound_exactly(family):
    """P + (T−1) + Σ(T_n − t_n − 1), T counting every decision."""
    lm = tiny_lm(family)
    prompt = Prompt((3, *PROMPT.token_ids[1:], 44), PROMPT.stop)
    first = lm.decode(DecodeRequest(prompt, [()], GREEDY))
    answer = first.continuations[0]
    assert first.cost.forward_tokens + first.cost.reused_tokens == len(prompt.token_ids) + answer.decisions - 1
    prefixes = [(50,), (*answer.token_ids[:1], 61), (*answer.token_ids[:4], 70)]
    branches = lm.decode(DecodeRequest(prompt, prefixes, GREEDY))
    assert branches.cost.forward_tokens == sum(branch.decisions for branch in branches.continuations)


def test_the_first_token_can_end_the_answer():
    lm = tiny_lm("llama")
    free = lm.decode(DecodeRequest(PROMPT, [()], GREEDY)).continuations[0]
    ending = Prompt(PROMPT.token_ids, StopRule(frozenset({free.token_ids[0]})))
    found = lm.decode(DecodeRequest(ending, [()], GREEDY)).continuations[0]
    assert (found.token_ids, found.stop_reason, found.decisions) == ((), "eos", 1)
    assert found.stop_logprob == pytest.approx(free.logprobs[0], abs=1e-5)


def test_one_token_answers_are_cut_by_length():
    found = tiny_lm("llama").decode(DecodeRequest(PROMPT, [()], Decoding(max_tokens=1))).continuations[0]
    assert (len(found.token_ids), found.stop_reason, found.stop_logprob) == (1, "length", None)


def test_alternatives_are_all_tokens_above_the_threshold_likeliest_first():
    lm = tiny_lm("llama")
    found = lm.decode(DecodeRequest(PROMPT, [()], GREEDY, alternatives_above=0.01)).continuations[0]
    for step, options in enumerate(found.alternatives):
        wanted = next_logprobs(lm.model, (*PROMPT.token_ids, *found.token_ids[:step])).exp()
        assert {option.token_id for option in options} == set((wanted > 0.01).nonzero()[:, 0].tolist())
        assert [option.logprob for option in options] == sorted((o.logprob for o in options), reverse=True)


def test_real_model_tree_equals_from_scratch(smollm2):
    from sdlg.records import Question

    prompt = smollm2.prompt(Question("When was the Declaration of Independence signed?"), "auto")
    decoding = Decoding(max_tokens=12)
    answer = smollm2.decode(DecodeRequest(prompt, [()], decoding, alternatives_above=0.02)).continuations[0]
    prefixes = [
        (*answer.token_ids[:i], options[1].token_id)
        for i, options in enumerate(answer.alternatives[:-1])
        if len(options) > 1
    ]
    found = smollm2.decode(DecodeRequest(prompt, prefixes[:3], decoding)).continuations
    for prefix, branch in zip(prefixes[:3], found, strict=True):
        ids, logprobs = decode_from_scratch(smollm2, prompt, prefix, decoding.max_tokens)
        assert list(branch.token_ids) == ids[: len(branch.token_ids)]
        assert list(branch.logprobs) == pytest.approx(logprobs[: len(branch.logprobs)], abs=1e-4)
        assert branch.decisions == len(ids)


def test_a_prefix_as_long_as_an_answer_may_be_stays_as_it_is():
    found = tiny_lm("llama").decode(DecodeRequest(PROMPT, [(7, 8, 9, 10), (7,)], Decoding(max_tokens=4))).continuations
    assert (found[0].token_ids, found[0].stop_reason, found[0].decisions) == ((), "length", 0)
    assert len(found[1].token_ids) <= 3


@pytest.mark.parametrize("strategy", ["greedy", "multinomial", "beam"])
def test_every_prefix_comes_to_its_end_also_one_as_long_as_an_answer_may_be(strategy):
    decoding, ended = Decoding(strategy=strategy, max_tokens=4), {}
    prefixes = [(7, 8, 9, 10), (7,), (8, 9, 10, 11)]
    decoded = tiny_lm("llama").decode(DecodeRequest(PROMPT, prefixes, decoding, ended=ended.__setitem__))
    assert ended == dict(enumerate(decoded.continuations))
    assert len(ended) == 3


def test_more_paths_than_fit_at_once_take_turns_and_stay_the_same(monkeypatch):
    from sdlg.models.decoding import tree_model as transformers_lm

    decoding = Decoding(strategy="multinomial", max_tokens=5)
    together = tiny_lm("llama").decode(DecodeRequest(PROMPT, [()] * 11, decoding, seed=3))
    monkeypatch.setattr(transformers_lm, "_MOST_PATHS", 4)
    in_turns = tiny_lm("llama").decode(DecodeRequest(PROMPT, [()] * 11, decoding, seed=3))
    assert [c.token_ids for c in in_turns.continuations] == [c.token_ids for c in together.continuations]


# -- given texts ------------------------------------------------------------------------------------------------

TEXTS = [(50, 51, 52, 53, 54, 55, 56), (61,), (), (30, 31, 32), (50, 51, 52, 53, 54, 55, 56), (7, 6, 2, 9, 8)]


def score_by_steps(lm, texts, endings):
    """From scratch: the log-probability of each token, and of the likeliest ending."""
    rows = []
    for text in texts:
        ids = (*PROMPT.token_ids, *text)
        steps = [next_logprobs(lm.model, ids[: len(PROMPT.token_ids) + k]) for k in range(len(text) + 1)]
        rows.append([*(float(steps[k][token]) for k, token in enumerate(text)), float(steps[-1][endings].max())])
    return rows


def score_texts(lm, texts, endings):
    prefix_kv, tip, _ = lm._kept_prefix(PROMPT, at_tip=False)
    tree = LAYOUTS[lm.layout](prefix_kv)
    starts = lm._starts(tree, prefix_kv, PROMPT.token_ids, [()] * len(texts), tip)
    rows = score_paths(tree, starts, texts, [endings] * len(texts))
    tree.close()
    lm._store.keep(prefix_kv)
    return rows


@pytest.mark.parametrize(("family", "layout"), ALLOWED)
def test_given_texts_are_scored_as_from_scratch(family, layout, monkeypatch):
    lm = TransformersModel(tiny_model(family), word_tokenizer(), layout=layout)
    lm.decode(DecodeRequest(PROMPT, [()], GREEDY))  # the prefix is longer than the prompt
    wanted = score_by_steps(lm, TEXTS, [2, 40])
    for tokens in (128, 3):  # at once, and in pieces
        monkeypatch.setattr("sdlg.models.decoding.trees._PASS_TOKENS", tokens)
        for found, row in zip(score_texts(lm, TEXTS, [2, 40]), wanted, strict=True):
            assert found == pytest.approx(row, abs=1e-4)
        for found, row in zip(score_texts(lm, TEXTS, []), wanted, strict=True):
            assert found == pytest.approx(row[:-1], abs=1e-4)


@pytest.mark.parametrize(("family", "passes"), [("llama", 1), ("gpt_neo", len(TEXTS) - 1)])
def test_a_given_text_takes_one_pass(family, passes):
    lm = TransformersModel(tiny_model(family), word_tokenizer())
    lm.decode(DecodeRequest(PROMPT, [()], GREEDY))
    before = lm._network.steps
    score_texts(lm, TEXTS, [2])
    assert lm._network.steps - before == passes


@pytest.mark.parametrize(("family", "layout"), [("llama", "tree"), ("llama", "separate")])
def test_scoring_many_texts_holds_the_logits_and_columns_of_one_pass(family, layout, monkeypatch):
    lm = TransformersModel(tiny_model(family), word_tokenizer(), layout=layout)
    call, rows, columns = lm._network._call, [], []

    def watched(cache, *args, **named):
        logits = call(cache, *args, **named)
        rows.append(logits.shape[0] * logits.shape[1])
        columns.append(cache.get_seq_length())
        return logits

    monkeypatch.setattr(lm._network, "_call", watched)
    texts = [tuple(range(10, 10 + length)) for length in (40, 1, 1, 40, 60, 3, 2, 60, 60)]
    score_texts(lm, texts, [2])
    assert max(rows) <= 128
    assert max(columns) <= len(PROMPT.token_ids) + 128


# -- memory -----------------------------------------------------------------------------------------------------


def test_a_path_that_nobody_else_continues_is_not_copied(monkeypatch):
    forks = []
    fork = PrefixKV.fork
    monkeypatch.setattr(PrefixKV, "fork", lambda self, length: (forks.append(length), fork(self, length))[-1])
    prefix_kv = PrefixKV(Network(tiny_model("gpt_neo")), native=True)
    prefix_kv.extend([5, 9, 17])
    paths = SeparateCaches(prefix_kv)
    (a, b), _ = paths.grow([2, 1], [40, 41])
    assert len(forks) == 2  # of the prefix, which stays
    (c, d, e), _ = paths.grow([a, a, b], [50, 51, 52])
    assert len(forks) == 3  # a forks, and one of the two has it
    _, logits = paths.grow([c, d, e], [60, 60, 60])
    assert len(forks) == 3
    wanted = [[5, 9, 17, 40, 50, 60], [5, 9, 17, 40, 51, 60], [5, 9, 41, 52, 60]]
    assert torch.allclose(
        torch.log_softmax(logits, -1),
        torch.stack([next_logprobs(prefix_kv.network.model, ids) for ids in wanted]),
        atol=1e-4,
    )


def watch_trees(monkeypatch):
    """The columns of every step, and how many of them each of its tokens looks at."""
    columns, looked_at = [], []
    run = Network.tree

    def watched(self, cache, tokens, positions, visible, *others, **named):
        columns.append(cache.get_seq_length() + len(tokens))
        looked_at.append(visible.shape[1])
        return run(self, cache, tokens, positions, visible, *others, **named)

    monkeypatch.setattr(Network, "tree", watched)
    return columns, looked_at


@pytest.mark.parametrize("family", ["llama", "gemma3", "mistral", "qwen3", "opt", "gpt2"])
def test_long_paths_look_at_their_own_lanes_only(family, monkeypatch):
    """Seven paths that leave the prefix at different places and end at different times, each as from scratch."""
    monkeypatch.setattr("sdlg.models.transformers.masked_tree._MANY_COLUMNS", 20)
    prefix_kv = PrefixKV(Network(tiny_model(family)), native=False)
    prefix = [5, 9, 17, 33, 21, 40]
    prefix_kv.extend(prefix)
    columns, looked_at = watch_trees(monkeypatch)
    tree, nodes = MaskedTree(prefix_kv), [5, 2, 2, 0, 5, 4, 3]
    paths = [prefix[: node + 1] for node in nodes]
    ends_after = {4: 3, 11: 0, 12: 4, 19: 1}  # step → which of the paths that are left
    for step in range(30):
        tokens = [(13 * step + 7 * k) % 80 + 3 for k in range(len(nodes))]
        tree.prune(nodes)
        nodes, logits = tree.grow(nodes, tokens)
        paths = [[*path, token] for path, token in zip(paths, tokens, strict=True)]
        wanted = torch.stack([next_logprobs(prefix_kv.network.model, path) for path in paths])
        assert torch.allclose(torch.log_softmax(logits, -1), wanted, atol=1e-4)
        if (ended := ends_after.get(step)) is not None:
            del nodes[ended], paths[ended]
    assert columns[-1] == 6 + 3 * 30  # of those that are left
    most_before_lanes = 6 + 7 * 5  # all that there was when the first of them ended
    assert max(looked_at) <= most_before_lanes + 25
    assert tree.keep_path(nodes[1])
    assert prefix_kv.ids == paths[1]
    wanted = next_logprobs(prefix_kv.network.model, [*paths[1], 43])
    assert torch.allclose(torch.log_softmax(prefix_kv.extend([43])[0], -1), wanted, atol=1e-4)


def test_an_ended_path_that_is_kept_does_not_lead_the_others_astray(monkeypatch):
    """As in a search that remembers its best hypothesis: then the columns that are left are no grid."""
    monkeypatch.setattr("sdlg.models.transformers.masked_tree._MANY_COLUMNS", 20)
    prefix_kv = PrefixKV(Network(tiny_model("llama")), native=False)
    prefix_kv.extend([5, 9, 17])
    tree, nodes = MaskedTree(prefix_kv), [2, 2, 1, 0]
    paths = [[5, 9, 17][: node + 1] for node in nodes]
    ended, ended_path = [], []
    for step in range(30):
        tokens = [(13 * step + 7 * k) % 80 + 3 for k in range(len(nodes))]
        tree.prune([*nodes, *ended])
        nodes, logits = tree.grow(nodes, tokens)
        paths = [[*path, token] for path, token in zip(paths, tokens, strict=True)]
        wanted = torch.stack([next_logprobs(prefix_kv.network.model, path) for path in paths])
        assert torch.allclose(torch.log_softmax(logits, -1), wanted, atol=1e-4)
        if step == 9:  # ends here, and goes on in another way
            ended, ended_path = [nodes[1]], paths[1]
        if step == 15:
            del nodes[1], paths[1]
    assert tree.keep_path(ended[0])
    assert prefix_kv.ids == ended_path
    wanted = next_logprobs(prefix_kv.network.model, [*ended_path, 43])
    assert torch.allclose(torch.log_softmax(prefix_kv.extend([43])[0], -1), wanted, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_paths_that_have_ended_leave_no_columns(family, monkeypatch):
    """Twelve paths of which one goes on."""
    monkeypatch.setattr("sdlg.models.transformers.masked_tree._MANY_COLUMNS", 16)
    prefix_kv = PrefixKV(Network(tiny_model(family)), native=False)
    prefix_kv.extend([5, 9, 17])
    columns, looked_at = watch_trees(monkeypatch)
    tree, path = MaskedTree(prefix_kv), [5, 9, 17]
    nodes, tokens = [2] * 12, list(range(30, 42))
    for step in range(40):
        tree.prune(nodes)
        nodes, logits = tree.grow(nodes, tokens)
        path.append(tokens[0])
        assert torch.allclose(torch.log_softmax(logits[0], -1), next_logprobs(prefix_kv.network.model, path), atol=1e-4)
        if step == 10:
            nodes = nodes[:1]
        tokens = [(7 * token + step) % 90 + 3 for token in tokens[: len(nodes)]]
    assert max(columns) == 3 + 12 * 11
    assert columns[-1] == 3 + 40  # its own path
    assert max(looked_at) <= 3 + 12 + 40  # the prefix, the first tokens, its own
    assert tree.keep_path(nodes[0])
    assert prefix_kv.ids == path
    logits = prefix_kv.extend([43])
    assert torch.allclose(
        torch.log_softmax(logits[0], -1), next_logprobs(prefix_kv.network.model, [*path, 43]), atol=1e-4
    )


def test_long_answers_and_short_ones_share_memory_that_only_the_long_ones_need(monkeypatch):
    """And decode what they decode without that."""
    decoding = Decoding(strategy="multinomial", max_tokens=60, temperature=2.0)
    request = DecodeRequest(Prompt(PROMPT.token_ids, StopRule(frozenset(range(2, 12)))), [()] * 24, decoding, seed=5)
    columns, _ = watch_trees(monkeypatch)
    wanted = TransformersModel(tiny_model("llama"), word_tokenizer()).decode(request).continuations
    most = max(columns)
    monkeypatch.setattr("sdlg.models.transformers.masked_tree._MANY_COLUMNS", 16)
    columns.clear()
    found = TransformersModel(tiny_model("llama"), word_tokenizer()).decode(request).continuations
    assert [one.token_ids for one in found] == [one.token_ids for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert max(columns) < 0.8 * most


@pytest.mark.parametrize("strategy", ["beam", "diverse_beam"])
def test_a_search_keeps_the_columns_of_its_best_hypothesis(strategy, monkeypatch):
    decoding = Decoding(strategy=strategy, max_tokens=30, beams=4)
    request = DecodeRequest(PROMPT, [()], decoding)
    wanted = TransformersModel(tiny_model("llama"), word_tokenizer()).decode(request).continuations[0]
    monkeypatch.setattr("sdlg.models.transformers.masked_tree._MANY_COLUMNS", 8)
    columns, _ = watch_trees(monkeypatch)
    lm = TransformersModel(tiny_model("llama"), word_tokenizer())
    assert lm.decode(request).continuations[0].token_ids == wanted.token_ids
    assert max(columns) < 80
    branch = lm.decode(DecodeRequest(PROMPT, [(*wanted.token_ids[:3], 71)], GREEDY))
    assert branch.cost.forward_tokens == branch.continuations[0].decisions


def test_a_layout_is_tried_once_for_the_same_files(tiny_folders, tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path / "home"))
    folder = tmp_path / "model"
    shutil.copytree(tiny_folders[0], folder)
    tried, choose = [], layouts.choose_layout
    monkeypatch.setattr(layouts, "choose_layout", lambda network: tried.append(network) or choose(network))
    assert [load_model(str(folder)).layout for _ in range(2)] == ["tree", "tree"]
    assert len(tried) == 1
    os.utime(folder / "model.safetensors", (1, 1))  # other weights, perhaps
    load_model(str(folder))
    assert len(tried) == 2
    for path in (tmp_path / "home" / "layouts").iterdir():
        path.write_text("nonsense")
    assert load_model(str(folder)).layout == "tree"
    assert len(tried) == 3
