"""GGUF files on llama.cpp in this process: the same answers as one by one, one probability for one sequence."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

import sdlg
from conftest import tiny_nli
from sdlg.errors import BadOption, ModelNotFound, RunError, TimedOut, UsageError
from sdlg.models import chosen_engine
from sdlg.models.base import DecodeRequest
from sdlg.models.fetching import fetched
from sdlg.models.llama import library
from sdlg.models.llama import model as llama
from sdlg.models.llama.library import LibraryUnusable, open_library
from sdlg.models.llama.sequences import LlamaContext
from sdlg.options import Decoding, Loading
from sdlg.records import Question
from tiny_gguf import CONTEXT, TOKENS, write_tiny_gguf

SMALL = Loading(threads=1)
TEMPLATE = "{{ bos_token }}Q: {{ messages[0].content }}"
QUESTIONS = ("What is the capital of Australia?", "Who wrote Hamlet?")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", bos=True, template=TEMPLATE, byte_tokens=True)


@pytest.fixture(scope="module")
def tiny(file):
    model = sdlg.load_model(str(file), SMALL)
    yield model
    model.close()


@pytest.fixture(scope="module")
def smollm2():
    model = sdlg.load_model("smollm2", SMALL)
    yield model
    model.close()


def decode(model, prompt, prefixes, **named):
    request = DecodeRequest(prompt, prefixes, Decoding(**{"max_tokens": 12, **named}), 3, alternatives_above=0.01)
    return model.decode(request).continuations


# -- the model --------------------------------------------------------------------------------------------------


def test_a_gguf_file_runs_as_it_is(tiny, file):
    assert (tiny.name, tiny.engine) == (str(file), "llama.cpp")
    assert tiny.capabilities.context_tokens == CONTEXT
    assert tiny.capabilities.alternatives is None  # whole distributions
    prompt = tiny.prompt(Question("the cat"), "raw")
    assert [TOKENS[token] for token in prompt.token_ids][:2] == ["<s>", "▁the"]
    (answer,) = decode(tiny, prompt, [()], max_tokens=5)
    assert 1 <= len(answer.token_ids) <= 5


def test_it_answers_as_the_widened_file_does(tiny, file, tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    widened = sdlg.load_model(str(file), Loading(engine="transformers"))
    found = []
    for one in (tiny, widened):
        (step,) = decode(one, one.prompt(Question("the"), "raw"), [()], max_tokens=1)
        found.append({tried.token_id: tried.logprob for tried in step.alternatives[0]})
    common = found[0].keys() & found[1].keys()
    assert len(common) > 0.9 * len(found[0])
    assert [found[0][token] for token in common] == pytest.approx([found[1][token] for token in common], abs=0.02)


def test_prompts_are_those_of_the_models_own_tokenizer(smollm2):
    widened = sdlg.load_model("smollm2", Loading(engine="transformers"))
    for question in (
        Question(QUESTIONS[0]),
        Question("Grüße, 你好 🙂?", system="Be brief."),
        Question("And now?", shots=(("Who?", "He."),), context="A story."),
    ):
        for style in ("chat", "plain", "raw"):
            assert smollm2.prompt(question, style).token_ids == widened.prompt(question, style).token_ids
    ids = smollm2.prompt(Question("Grüße 🙂"), "raw").token_ids
    assert smollm2.text(ids) == widened.text(ids) == "Grüße 🙂"
    ends = [one.prompt(Question("a"), "chat").stop.token_ids for one in (smollm2, widened)]
    assert ends[1] <= ends[0]
    assert all(map(smollm2.is_special, ends[0]))


# -- decoding ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", QUESTIONS)
def test_branches_together_are_those_decoded_alone(smollm2, question):
    prompt = smollm2.prompt(Question(question), "chat")
    (answer,) = decode(smollm2, prompt, [()])
    places = [(k, option.token_id) for k, step in enumerate(answer.alternatives) for option in step[1:3]]
    prefixes = [(*answer.token_ids[:k], token) for k, token in places if k < len(answer.token_ids)][:9]
    together = decode(smollm2, prompt, prefixes)
    alone = [decode(smollm2, prompt, [prefix])[0] for prefix in prefixes]
    assert [one.token_ids for one in together] == [one.token_ids for one in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


@pytest.mark.parametrize("strategy", ["multinomial", "arithmetic", "beam", "diverse_beam"])
def test_every_strategy_works_and_repeats_by_its_seed(smollm2, strategy):
    prompt = smollm2.prompt(Question(QUESTIONS[1]), "chat")
    first, second = (decode(smollm2, prompt, [()] * 4, strategy=strategy, beams=4, max_tokens=6) for _ in range(2))
    assert [one.token_ids for one in first] == [one.token_ids for one in second]
    assert len(first) == 4


def test_the_likelihood_of_a_given_answer_is_that_of_decoding_it(smollm2):
    prompt = smollm2.prompt(Question(QUESTIONS[0]), "chat")
    (answer,) = decode(smollm2, prompt, [()], max_tokens=24)
    (scored,) = smollm2.score(prompt, [smollm2.text(answer.token_ids)]).generations
    assert scored.token_ids == answer.token_ids
    assert scored.logprobs == pytest.approx(answer.logprobs, abs=1e-3)


def test_one_sequence_has_one_probability_cold_warm_alone_and_beside_others():
    cold = sdlg.load_model("smollm2", SMALL)
    prompts = [cold.prompt(Question(question), "chat") for question in QUESTIONS]
    first = [decode(cold, prompt, [()])[0] for prompt in prompts]
    warm = [decode(cold, prompt, [()])[0] for prompt in prompts]
    found = {}

    def ask(k):
        found[k] = decode(cold, prompts[k], [()])[0]

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cold.close()
    for k, one in enumerate(first):
        for other in (warm[k], found[k]):
            assert other.token_ids == one.token_ids
            assert other.logprobs == pytest.approx(one.logprobs, abs=1e-3)


def test_no_earlier_answer_holds_cells_while_another_is_given(tiny):
    """Several threads add up attention in parts, by cells: elsewhere in memory an answer would have other last bits."""
    prompt, held = tiny.prompt(Question("the cat"), "raw"), []
    for _ in range(2):
        tiny.decode(DecodeRequest(prompt, [()], Decoding(), watch=lambda *_: held.append(len(tiny._context._dead))))
    assert len(held) > 2
    assert not any(held)


def test_more_paths_than_have_room_take_turns_and_stay_the_same(tiny, monkeypatch):
    prompt = tiny.prompt(Question("the cat"), "raw")
    together = decode(tiny, prompt, [()] * 9, strategy="multinomial", max_tokens=5)
    monkeypatch.setattr(llama, "_MOST_PATHS", 2)
    assert [one.token_ids for one in decode(tiny, prompt, [()] * 9, strategy="multinomial", max_tokens=5)] == [
        one.token_ids for one in together
    ]


def test_all_sequences_are_free_again_when_the_work_is_done(file):
    model = sdlg.load_model(str(file), SMALL)
    free = len(model._context._free)
    for strategy in ("greedy", "multinomial", "beam"):
        decode(model, model.prompt(Question("the cat"), "raw"), [()] * 3, strategy=strategy, max_tokens=4)
    model.score(model.prompt(Question("the"), "raw"), ["cat", "the cat"])
    model._last.drop_all()
    assert len(model._context._free) == free
    model.close()


def test_work_that_is_broken_off_leaves_nothing_behind(file):
    """A client that leaves, or a deadline, in the middle of decoding: its sequences are free again, however often."""
    model = sdlg.load_model(str(file), SMALL)
    free, prompt = len(model._context._free), model.prompt(Question("the cat"), "raw")

    def leave(*_):
        raise TimedOut("the client left")

    for _ in range(20):
        for prefixes in ([()], [()] * 9):
            request = DecodeRequest(prompt, prefixes, Decoding(strategy="multinomial", max_tokens=6), watch=leave)
            with pytest.raises(TimedOut):
                model.decode(request)
    assert len(decode(model, prompt, [()] * 9, strategy="multinomial", max_tokens=5)) == 9
    model._last.drop_all()
    gc.collect()
    model._context.free_dead()
    assert len(model._context._free) == free
    model.close()


def test_a_prompt_that_leaves_no_room_drops_what_was_kept(file):
    model = sdlg.load_model(str(file), SMALL)
    context = model._context
    for k in range(60):  # more than all cells, if each were kept
        decode(model, model.prompt(Question("the cat " * (10 + k % 5)), "raw"), [()], max_tokens=3)
    assert model._store.size <= context.cells
    model.close()


# -- results ----------------------------------------------------------------------------------------------------


def test_results_record_what_ran_the_file(tiny):
    result = sdlg.Pipeline(tiny, tiny_nli(), samples=2, draws=0, max_tokens=4, prompt="raw").ask("the cat")
    assert (result.setup.engine, result.model) == ("llama.cpp", tiny.name)
    assert torch.isfinite(torch.tensor(result.semantic_entropy))


def test_more_than_there_is_room_for_is_an_error_that_leaves_the_model_as_it_was(tiny):
    prompt = tiny.prompt(Question("the cat"), "raw")
    for _ in range(2):
        with pytest.raises(RunError, match="fewer samples"):
            decode(tiny, prompt, [()] * 130, strategy="diverse_beam")
        assert len(decode(tiny, prompt, [(k,) for k in range(5, 9)])) == 4
    whole = tiny.score(prompt, ["a"]).generations[0].logprobs
    many = tiny.score(prompt, ["a"] * 300).generations
    assert {one.logprobs for one in many} == {whole}


def test_a_model_that_nobody_holds_is_freed(file):
    freed = []
    model = sdlg.load_model(str(file), SMALL)
    weakref.finalize(model._context, freed.append, True)
    finalizer = model._context._free_memory
    prompt = model.prompt(Question("the cat"), "raw")
    decode(model, prompt, [()])
    del model
    gc.collect()
    assert freed == [True]
    assert not finalizer.alive


def test_a_closed_model_says_so(file):
    model = sdlg.load_model(str(file), SMALL)
    prompt = model.prompt(Question("the cat"), "raw")
    model.close()
    model.close()
    with pytest.raises(UsageError, match="closed"):
        decode(model, prompt, [()])
    for use in (lambda: model.prompt(Question("a dog"), "raw"), lambda: model.score(prompt, ["a dog"])):
        with pytest.raises(UsageError, match="closed"):  # llama.cpp would end the process
            use()


# -- what is wrong ----------------------------------------------------------------------------------------------


def test_a_file_that_is_none_or_not_whole_is_an_error(file, tmp_path):
    whole = file.read_bytes()
    for content in (b"nothing of the kind", whole[:900], whole[:-4000]):
        (tmp_path / "broken.gguf").write_bytes(content)
        with pytest.raises(ModelNotFound, match=r"broken\.gguf"):
            sdlg.load_model(str(tmp_path / "broken.gguf"), SMALL)


def test_another_build_of_the_library_is_refused_before_anything_is_loaded(monkeypatch):
    monkeypatch.setitem(library._CONTEXT_DEFAULTS, "n_ctx", 513)
    open_library.cache_clear()
    with pytest.raises(LibraryUnusable, match="n_ctx"):
        open_library()
    open_library.cache_clear()


def test_a_build_of_ones_own_is_used_or_refused_by_name(monkeypatch, tmp_path):
    wheels = library._file_of_the_wheel()
    own = tmp_path / "libllama.so"
    own.symlink_to(wheels)
    monkeypatch.setenv("SDLG_LLAMA_LIBRARY", str(own))
    open_library.cache_clear()
    assert open_library().c.llama_context_default_params().n_ctx == 512
    other = tmp_path / "other.so"
    other.write_bytes(b"no library")
    for broken in (other, tmp_path / "missing.so"):
        monkeypatch.setenv("SDLG_LLAMA_LIBRARY", str(broken))
        open_library.cache_clear()
        with pytest.raises(BadOption, match=f"SDLG_LLAMA_LIBRARY is {broken}"):
            open_library()
    monkeypatch.delenv("SDLG_LLAMA_LIBRARY")
    open_library.cache_clear()


def test_more_rows_a_call_are_the_same_answers_in_fewer_calls(file, monkeypatch):
    calls, run = [], LlamaContext._decode
    monkeypatch.setattr(LlamaContext, "_decode", lambda self, tokens: calls.append(len(tokens)) or run(self, tokens))
    found = []
    for rows in (0, 32):
        model = sdlg.load_model(str(file), Loading(threads=1, batch_rows=rows))
        prompt = model.prompt(Question("the cat"), "raw")
        model.decode(DecodeRequest(prompt, [()], Decoding(max_tokens=1), 3))  # the prompt is there
        calls.clear()
        found.append([one.token_ids for one in decode(model, prompt, [(k,) for k in range(5, 13)])])
        assert max(calls) == (8 if rows else 3)
        model.close()
    assert found[0] == found[1]


def test_options_of_the_other_engine_are_refused(file):
    with pytest.raises(BadOption, match="dtype"):
        sdlg.load_model(str(file), Loading(dtype="float16"))
    with pytest.raises(BadOption, match="llama"):
        sdlg.load_model("some/hub-name", Loading(engine="llama.cpp"))


@pytest.mark.parametrize(
    ("name", "engine", "chosen"),
    [
        ("x.gguf", "auto", "llama.cpp"),
        ("x.gguf", "transformers", "transformers"),
        ("smollm2", "auto", "llama.cpp"),
        ("some/hub-name", "auto", None),
    ],
)
def test_the_engine_follows_from_the_model_and_the_option(name, engine, chosen):
    assert chosen_engine(name, engine) == chosen


def test_the_embedded_model_is_not_copied_nor_converted(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    sdlg.load_model("smollm2", SMALL).close()
    assert not list(tmp_path.rglob("*.safetensors"))
    assert fetched("smollm2").suffix == ".gguf"
