"""Reading and writing for the commands: clear errors, nothing lost."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TextIO

from ..errors import BadOption, RunError
from ..files import in_ascii, one_writer


class ClosedOutput(io.TextIOBase):
    """Standard output that was closed (`>&-`): what is written to it is an error, as on any closed file."""

    def write(self, _: str) -> int:
        """Raise: there is nowhere to write to."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def open_missing_streams() -> None:
    """Open the streams that the shell closed: their numbers would go to the next file that is opened."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or ClosedOutput()
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for the whole process)


def check_output(path: str | None) -> None:
    """Raise if there is nowhere to write to, before anything is made."""
    if path is None and isinstance(sys.stdout, ClosedOutput):
        raise BadOption("standard output is closed, so there is nowhere to write to; open it, or name a file (--out)")


def quiet_transformers() -> None:
    """Keep transformers from printing: our own progress line says what is loaded. Call it before the import."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def names_in(value: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name.strip() for name in value.split(",") if name.strip()]


def read_text(path: Path) -> str:
    """Return the content of a text file, which must be UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadOption(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadOption(f"cannot read {path}: {error}; it must be UTF-8") from error


def read_pipe() -> str:
    """Return standard input, by the same rules."""
    if sys.stdin is None:
        raise BadOption("standard input is closed; name a file, or pipe something in")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadOption(f"cannot read standard input: {error}; it must be UTF-8") from error


def is_plain_file(path: Path) -> bool:
    """Return whether results can be read again from it: it is no pipe and no device."""
    return path.is_file() or not path.exists()


def alone(path: str | None, writer: str) -> AbstractContextManager[None]:
    """Return a lock on an output file: two processes that write to one would mix their rows."""
    return one_writer(Path(path), writer) if path and is_plain_file(Path(path)) else nullcontext()


@contextmanager
def open_output(path: str | None) -> Iterator[TextIO]:
    """Open a file to append to, or standard output."""
    check_output(path)
    if path is None:
        yield sys.stdout
        return
    try:
        file = open(path, "a", encoding="utf-8", newline="\n")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise BadOption(f"cannot write {path}: {error.strerror or error}") from error
    try:
        yield file
    finally:
        with suppress(OSError):  # every line was flushed; what could not be written was an error then
            file.close()


def write_line(output: TextIO, line: str) -> None:
    """Write one line of JSON, which is there when this returns."""
    try:
        output.write(f"{line}\n")
        output.flush()
    except UnicodeEncodeError:  # not UTF-8, or half a surrogate pair: JSON can say it in ASCII
        write_line(output, in_ascii(line))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(
            f"cannot write the result: {error}. Free some space and start again with --out to go on"
        ) from error
