"""Lines with a checksum, one writer at a time, files that are there whole or as they were."""

from __future__ import annotations

import json

import pytest

from sdlg.errors import BadOption, RunError, UsageError
from sdlg.files import in_ascii, is_intact, one_writer, seal, write_whole


def test_every_flipped_byte_of_a_line_is_told_or_leaves_no_json():
    line = seal(json.dumps({"id": "q1", "values": [0.125, -3], "text": "Où?"}, ensure_ascii=False)).encode()
    assert is_intact(line)
    assert json.loads(line)["values"] == [0.125, -3]
    for place in range(len(line)):
        for bit in range(8):
            flipped = bytes([*line[:place], line[place] ^ 1 << bit, *line[place + 1 :]])
            assert not is_intact(flipped) or not is_json(flipped)


def is_json(line):
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_lines_that_were_never_sealed_are_taken_as_they_are():
    assert is_intact(b'{"id": "q1"}\n')
    assert is_intact(b"")
    assert is_intact(json.dumps({"id": "x" * 100, "hash": "0123abcd"}).encode())


def test_half_a_surrogate_pair_can_be_sealed():
    assert is_intact(seal('{"text": "\ud800"}').encode())


def test_a_line_in_ascii_keeps_what_it_says_and_its_checksum():
    line = in_ascii(seal('{"text": "Où? 🗼"}'))
    assert line.isascii()
    assert is_intact(line.encode())
    assert json.loads(line)["text"] == "Où? 🗼"
    assert in_ascii('{"text": "Où?"}') == '{"text": "O\\u00f9?"}'


def test_a_second_writer_is_refused_and_the_lock_goes_with_the_first(tmp_path):
    out = tmp_path / "out.jsonl"
    with (
        one_writer(out, "sdlg ask"),
        pytest.raises(UsageError, match="another sdlg score"),
        one_writer(out, "sdlg score"),
    ):
        pass
    with one_writer(out, "sdlg ask"):
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadOption, match="no folder"), one_writer(tmp_path / "no" / "out", "sdlg ask"):
        pass


def test_a_file_is_written_whole_or_left_as_it_was(tmp_path):
    target, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, b"one")
    assert (target.read_bytes(), link.is_symlink()) == (b"one", True)
    with pytest.raises(RunError, match="cannot write"):
        write_whole(tmp_path / "no" / "file", b"two")
    with pytest.raises(RunError, match="cannot write"):
        write_whole(tmp_path, b"two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
