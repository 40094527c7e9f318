"""GGUF files on a llama-server of our own, the fallback: how it lives, what it can do, and that it ends with us."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import sdlg
from sdlg.errors import ModelNotFound, NotSupported, ServerFailed
from sdlg.models.base import DecodeRequest
from sdlg.models.fetching import fetched
from sdlg.models.llama import served as llama
from sdlg.models.llama.header import read_header
from sdlg.models.server.capabilities import probe_server
from sdlg.options import Decoding, Loading
from sdlg.records import Question
from tiny_gguf import CONTEXT, TOKENS, write_tiny_gguf

SMALL = Loading(threads=1)


def load(file, loading=SMALL):
    return llama.serve_llama(Path(file), loading, name=str(file), reason="a test asked for it")


TEMPLATE = "{{ bos_token }}Q: {{ messages[0].content }}"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", bos=True, template=TEMPLATE, byte_tokens=True)


@pytest.fixture(scope="module")
def model(file):
    model = load(file)
    yield model
    model.close()


def is_running(process_id: int) -> bool:
    """Not gone, and not only waiting to be asked how it ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process_id}/status").read_text()
    except FileNotFoundError:
        return False


def wait_until(true, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


# -- the model --------------------------------------------------------------------------------------------------


def test_a_gguf_file_runs_on_llama_cpp_as_it_is(model, file):
    assert model.name == str(file)
    assert model.server.kind == "llama.cpp"
    assert model.capabilities.context_tokens == CONTEXT  # as the file says, not what a slot could have
    prompt = model.prompt(Question("the cat"), "raw")
    assert [TOKENS[token] for token in prompt.token_ids][:2] == ["<s>", "▁the"]
    answer = model.decode(DecodeRequest(prompt, [()], Decoding(max_tokens=5), alternatives_above=0.001))
    assert 1 <= len(answer.continuations[0].token_ids) <= 5
    assert answer.continuations[0].alternatives[0]


def test_it_answers_as_the_widened_file_does(model, file, tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path))
    widened = sdlg.load_model(str(file), Loading(engine="transformers"))
    told = []
    for one in (model, widened):
        request = DecodeRequest(
            one.prompt(Question("the"), "raw"), [()], Decoding(max_tokens=1), alternatives_above=1e-3
        )
        told.append({tried.token_id: tried.logprob for tried in one.decode(request).continuations[0].alternatives[0]})
    common = told[0].keys() & told[1].keys()
    assert len(common) > 0.9 * len(told[0])
    assert [told[0][token] for token in common] == pytest.approx([told[1][token] for token in common], abs=0.02)


def test_what_is_known_of_it_is_what_asking_it_would_find():
    model = load(fetched("smollm2"))
    found = model.connection.run(probe_server(model.connection))
    assert model.server == found
    model.close()


def test_results_say_what_ran_the_file(model):
    from conftest import tiny_nli

    result = sdlg.Pipeline(model, tiny_nli(), samples=2, draws=0, max_tokens=4, prompt="raw").ask("the cat")
    assert result.setup.engine == "llama.cpp"
    assert result.model == model.name


def test_a_file_without_a_template_is_not_given_one(tmp_path):
    assert read_header(write_tiny_gguf(tmp_path / "with.gguf", template=TEMPLATE)).has_template
    assert not read_header(write_tiny_gguf(tmp_path / "without.gguf")).has_template


# -- its server -------------------------------------------------------------------------------------------------


def test_calls_of_one_process_share_a_server_that_ends_with_its_last_model(file):
    size = Loading(threads=1, context_tokens=64)
    models = [load(file, size) for _ in range(2)]
    (server,) = {one.process_id for one in models}
    models[0].close()
    assert is_running(server)
    assert models[1].prompt(Question("the cat"), "raw").token_ids
    del models
    gc.collect()
    assert wait_until(lambda: not is_running(server))


def test_only_this_process_has_the_key(model):
    url = model.connection.address.root
    key = model.connection.address.key.reveal()
    assert url.startswith("http://127.0.0.1:")
    with pytest.raises(HTTPError, match="401"):
        urlopen(Request(f"{url}/v1/completions", b"{}", {"Content-Type": "application/json"}), timeout=10)
    assert key not in repr(model.connection.address)
    assert key not in Path(f"/proc/{model.process_id}/cmdline").read_text()
    assert key not in Path(f"/proc/{model.process_id}/environ").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, None])
def test_it_is_gone_when_its_process_is_gone(file, sent):
    code = (
        "import sys, time, threading\nfrom pathlib import Path\nfrom sdlg import Loading\n"
        "from sdlg.models.llama.served import serve_llama\n"
        f"def load(): global model; model = serve_llama(Path({str(file)!r}), Loading(), name='x', reason='a test')\n"
        "thread = threading.Thread(target=load); thread.start(); thread.join()\n"  # outlives the thread that started it
        "print(model.process_id, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        server = int(parent.stdout.readline())
        assert is_running(server)
        if sent is not None:
            parent.send_signal(sent)
    assert wait_until(lambda: not is_running(server))


@pytest.mark.skipif(sys.platform != "linux", reason="only there while a model is loaded")
def test_it_is_gone_although_nothing_of_it_can_run_when_its_process_ends():
    """xllamacpp holds Python's lock while it loads a model. Here a process that stopped its threads stands for it."""
    folder = Path(llama.__file__).parent
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import child, re\n"
        "child.end_with_parent(); print('ready', flush=True)\n"
        "re.match(r'(a|aa)+$', 'a' * 60 + 'b')"  # hours, without letting any other thread run
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        process.stdin.close()
        assert process.wait(timeout=20) == -signal.SIGIO


def test_a_server_that_was_killed_is_told_at_once_and_the_next_one_is_new(file):
    size = Loading(threads=1, context_tokens=32)
    model = load(file, size)
    os.kill(model.process_id, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(ServerFailed, match="was ended by signal 9"):
        model.prompt(Question("the cat"), "raw")
    assert time.monotonic() - started < 20
    again = load(file, size)
    assert again.process_id != model.process_id
    assert again.prompt(Question("the cat"), "raw").token_ids
    again.close()


def test_threads_that_ask_together_start_one_server(file):
    size, models = Loading(threads=1, context_tokens=48), []
    threads = [threading.Thread(target=lambda: models.append(load(file, size))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.process_id for one in models}) == 1
    for one in models:
        one.close()


# -- what is wrong is told --------------------------------------------------------------------------------------


def test_results_say_why_the_file_is_not_in_this_process(model):
    assert any("a test asked for it" in note for note in model.capabilities.shortcomings)


def test_a_file_that_cannot_be_loaded_is_an_error(file, tmp_path):
    (tmp_path / "broken.gguf").write_bytes(file.read_bytes()[:-4000])
    with pytest.raises(ModelNotFound, match="cannot load"):
        load(tmp_path / "broken.gguf")


def test_given_texts_are_refused(model):
    with pytest.raises(NotSupported):
        model.score(model.prompt(Question("the cat"), "raw"), ["sat"])


def test_the_server_has_what_was_asked_for_or_what_suits_the_machine():
    usual = llama.server_size(Loading(), 32_768, cores=16)
    assert (usual.context_tokens, usual.slots, usual.threads, usual.gpu) == (4096, 4, 16, True)
    asked = llama.server_size(Loading(threads=3, context_tokens=9000, device="cpu"), 8192, cores=2)
    assert (asked.context_tokens, asked.slots, asked.threads, asked.gpu) == (8192, 1, 3, False)
