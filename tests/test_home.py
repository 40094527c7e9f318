"""The cache folder: whole or not there, whatever is killed, and clear words when it cannot be written."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sdlg.errors import CacheUnavailable
from sdlg.loading.cache_folder import home_folder, make_folder_once

# Says "filling" when it is inside `fill`, then waits for a line on stdin before it goes on.
_MAKER = """
import sys
from pathlib import Path
from sdlg.loading.cache_folder import make_folder_once

def fill(folder):
    (folder / "half").write_text(sys.argv[2])
    print("filling", flush=True)
    sys.stdin.readline()
    (folder / "whole").write_text(sys.argv[2])

print(make_folder_once(Path(sys.argv[1]), fill))
"""


def start_maker(target: Path, content: str = "x") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _MAKER, str(target), content], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "filling\n"
    return process


def write_whole(folder: Path) -> None:
    (folder / "whole").write_text("mine")


def raiser(error: Exception):
    def fill(folder: Path) -> None:
        (folder / "half").write_text("")
        raise error

    return fill


def raiser_of(error: Exception):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_folder_is_made_once(tmp_path):
    target = tmp_path / "cache" / "model"
    assert make_folder_once(target, write_whole) == target
    assert make_folder_once(target, raiser(AssertionError("it is there already"))) == target
    assert [path.name for path in target.parent.iterdir()] == ["model"]
    assert {path.name for path in target.iterdir()} == {"whole", "sdlg-files.json"}


def test_a_killed_process_leaves_no_target_and_the_next_call_sweeps_its_leftovers(tmp_path):
    target = tmp_path / "model"
    with start_maker(target) as process:
        process.send_signal(signal.SIGKILL)
    assert not target.exists()
    assert len(list(tmp_path.iterdir())) == 2  # what it left: a folder and its lock
    make_folder_once(target, write_whole)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (target / "whole").read_text() == "mine"


def test_two_processes_at_once_both_succeed(tmp_path):
    target = tmp_path / "model"
    with start_maker(target, "first") as first, start_maker(target, "second") as second:
        outputs = [process.communicate("go\n")[0] for process in (second, first)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert outputs == [f"{target}\n"] * 2
    assert {name: (target / name).read_text() for name in ("half", "whole")} == {"half": "second", "whole": "second"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_a_running_process_is_filling_is_not_swept(tmp_path):
    target = tmp_path / "model"
    with start_maker(target) as process:
        make_folder_once(target, write_whole)
        process.communicate("go\n")
    assert process.returncode == 0
    assert (target / "whole").read_text() == "mine"


def test_what_another_machine_is_filling_is_not_swept(tmp_path, monkeypatch):
    """In another container or on another node its process id means nothing, or means another process."""
    monkeypatch.setattr("os.kill", raiser_of(ProcessLookupError()))  # as if no process were to be seen
    target = tmp_path / "model"
    with start_maker(target) as process:
        make_folder_once(target, write_whole)
        (partial,) = (path for path in tmp_path.iterdir() if path.is_dir() and path != target)
        assert (partial / "half").exists()
        process.communicate("go\n")
    assert process.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_leftovers_are_swept_without_a_word_to_any_process(tmp_path, monkeypatch):
    monkeypatch.setattr("os.kill", raiser_of(AssertionError("os.kill ends processes on Windows")))
    (tmp_path / "model.partial-1-old").mkdir()
    make_folder_once(tmp_path / "model", write_whole)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_where_locks_do_not_work_folders_are_made_and_nothing_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", raiser_of(OSError(errno.ENOLCK, "No locks available")))
    (tmp_path / "model.partial-other").mkdir()
    make_folder_once(tmp_path / "model", write_whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.partial-other"]


def test_only_the_targets_own_leftovers_are_swept(tmp_path):
    (tmp_path / "model1.partial-x").mkdir()
    make_folder_once(tmp_path / "model[1]", write_whole)
    make_folder_once(tmp_path / "model", write_whole)
    assert (tmp_path / "model1.partial-x").is_dir()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EROFS, "Read-only file system"),
        RuntimeError("I/O error: No space left on device (os error 28)"),  # as safetensors says it
        RuntimeError("I/O error: File too large (os error 27)"),  # a file system's or a user's limit
        OSError(errno.EFBIG, "File too large"),
        OSError(errno.EIO, "Input/output error"),
    ],
)
def test_a_disk_that_cannot_be_written_is_told_with_what_to_do(tmp_path, error):
    with pytest.raises(CacheUnavailable, match="SDLG_HOME") as caught:
        make_folder_once(tmp_path / "model", raiser(error))
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_path_that_cannot_be_looked_at_is_told_with_what_to_do(tmp_path, monkeypatch):
    def denied(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", denied)
    with pytest.raises(CacheUnavailable, match="SDLG_HOME"):
        make_folder_once(tmp_path / "model", write_whole)


@pytest.mark.parametrize("below", ["model", "models/model"])
def test_a_file_where_the_cache_folder_should_be_is_told_with_what_to_do(tmp_path, below):
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(CacheUnavailable, match=r"a file is in the way.*SDLG_HOME"):
        make_folder_once(tmp_path / "cache" / below, write_whole)


def test_a_file_where_the_target_should_be_is_told_and_kept(tmp_path):
    (tmp_path / "model").write_text("not a folder")
    with pytest.raises(CacheUnavailable, match=r"a file is in the way.*SDLG_HOME"):
        make_folder_once(tmp_path / "model", write_whole)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_other_errors_while_filling_are_passed_on_and_leave_nothing(tmp_path):
    with pytest.raises(KeyError):
        make_folder_once(tmp_path / "model", raiser(KeyError("a bug")))
    assert list(tmp_path.iterdir()) == []


def test_sdlg_home_is_honoured(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", str(tmp_path / "mine"))
    assert home_folder() == tmp_path / "mine"
    monkeypatch.setenv("SDLG_HOME", "~/mine")
    assert home_folder() == Path.home() / "mine"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the cache folder of other systems")
def test_without_sdlg_home_it_is_under_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLG_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert home_folder() == tmp_path / "sdlg"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert home_folder() == Path.home() / ".cache" / "sdlg"
