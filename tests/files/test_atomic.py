"""Files appear complete or not at all."""

import errno
import os
import resource

import pytest

from synib.files import atomic_file, check_writable, write_text
from synib.files.atomic import remove_unfinished


def test_a_file_takes_the_place_of_the_one_before_which_may_be_kept(tmp_path):
    path, previous = tmp_path / "a.txt", tmp_path / "a.txt.before"
    write_text(path, "old")
    write_text(path, "new β\n")
    assert path.read_bytes() == "new β\n".encode()
    for text in (b"newer", b"newest"):
        with atomic_file(path, previous) as file:
            file.write(text)
    assert (path.read_text(), previous.read_text()) == ("newest", "newer")
    assert oct(path.stat().st_mode)[-3:] == "644"


@pytest.mark.parametrize("step", ["tempfile.mkstemp", "os.fsync", "os.replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_whatever_interrupts_a_write_leaves_the_file_before_and_nothing_else(tmp_path, monkeypatch, step, error):
    write_text(tmp_path / "table.csv", "old")

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(step, fail)
        for name in ("table.csv", "fresh.csv"):
            with pytest.raises(type(error)) as raised:
                write_text(tmp_path / name, "new and longer")
            if isinstance(error, OSError):
                assert f"Cannot write {tmp_path / name}: No space left on device. What was finished" in str(
                    raised.value
                )
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"table.csv": "old"}


def test_a_file_that_becomes_too_large_for_the_system_leaves_the_one_before(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match=r"Cannot write .*table\.csv: File too large"):
            write_text(path, "x" * 10**6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"table.csv": "old"}


def test_what_killed_processes_left_is_removed_and_other_files_are_not(tmp_path):
    left = [tmp_path / ".results.csv.ab12_xyz", tmp_path / ".0123456789abcdef.json.abcdefgh"]
    others = [tmp_path / ".notes", tmp_path / "my.results.csv.ab12_xyz", tmp_path / ".results.csv.backup"]
    for path in (*left, *others):
        path.write_text("")
    remove_unfinished(tmp_path)
    remove_unfinished(tmp_path / "none")
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_a_folder_that_can_be_written_to_need_not_exist_and_is_not_made(tmp_path, monkeypatch):
    check_writable(tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=r"file is not a folder\. Choose another folder"):
            check_writable(path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="it is read-only, or you have no permission"):
        check_writable(tmp_path)
