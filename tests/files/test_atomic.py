"""Files appear complete or not at all, tables and JSON come back as they went, and one process at a time writes to a folder."""

import errno
import fcntl
import os
import sys
from types import SimpleNamespace

import pytest

from synib.files import atomic_file, check_writable, read_csv, read_json, write_csv, write_json, write_text
from synib.files.atomic import LOCK, locked, remove_unfinished


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
                assert f"Cannot write {tmp_path / name}: No space left on device. Finished results" in str(raised.value)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"table.csv": "old"}


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


def test_a_table_comes_back_as_it_went_and_what_is_missing_stays_missing(tmp_path):
    path = tmp_path / "t.csv"
    rows = [
        {"method": "vanilla", "beta": 0.2, "n": 3, "mean": 1 / 3, "se": None, "note": 'a, "b"\nc'},
        {"method": "synib-random", "beta": 1.0, "n": 0, "mean": float("nan"), "extra": True},
    ]
    write_csv(path, rows)
    assert path.read_text().splitlines()[0] == "method,beta,n,mean,se,note,extra"
    assert path.read_text().endswith("synib-random,1.0,0,,,,True\n")
    assert read_csv(path) == [
        {"method": "vanilla", "beta": 0.2, "n": 3, "mean": 0.333333, "se": None, "note": 'a, "b"\nc', "extra": None},
        {"method": "synib-random", "beta": 1.0, "n": 0, "mean": None, "se": None, "note": None, "extra": "True"},
    ]
    assert [type(read_csv(path)[0][name]) for name in ("beta", "n")] == [float, int]


def test_an_identifier_that_looks_like_a_number_stays_text(tmp_path):
    write_csv(tmp_path / "t.csv", [{"cell": "4187e11980634979", "seed": 1}, {"cell": "0068478113948176", "seed": 2}])
    assert [row["cell"] for row in read_csv(tmp_path / "t.csv")] == ["4187e11980634979", "0068478113948176"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no table"), (b"\xff\xfe", "no table"), (b"a,b\n1\n", "line 2 has 1 fields, expected 2")],
)
def test_a_damaged_table_is_named(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"t\.csv is damaged: .*{message}"):
        read_csv(tmp_path / "t.csv")


def test_a_table_that_is_not_there_is_said_with_its_folder(tmp_path):
    with pytest.raises(ValueError, match=rf"There is no results.csv in {tmp_path}: is it the folder of a finished run"):
        read_csv(tmp_path / "results.csv")


def test_json_comes_back_as_it_went_and_a_missing_file_is_nothing(tmp_path):
    assert read_json(tmp_path / "none.json") is None
    write_json(tmp_path / "some.json", {"β": [1, None]})
    assert read_json(tmp_path / "some.json") == {"β": [1, None]}


@pytest.mark.parametrize("content", [b"", b'{"a": [', b"\xff\xfe\x00", b"[" * 10**5])
def test_a_damaged_json_file_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json is damaged .*remove it and run again"):
        read_json(tmp_path / "a.json")


def test_a_lock_names_its_holder_and_is_free_again_however_the_block_ends(tmp_path):
    def interrupted():
        with locked(tmp_path) as has_locks:
            assert has_locks
            with pytest.raises(ValueError, match=f"Another run .process {os.getpid()} on"), locked(tmp_path):
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not (tmp_path / LOCK).exists()
    with locked(tmp_path):
        pass


def test_a_process_that_waits_at_a_lock_that_is_removed_takes_the_new_one(tmp_path, monkeypatch):
    """The first process ends, and a third begins, between the second's opening of the file and its locking."""
    real, first = fcntl.flock, iter([True])

    def flock(handle, how):
        if next(first, False):
            (tmp_path / LOCK).unlink()
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path), pytest.raises(ValueError, match="Another run"), locked(tmp_path):
        pass


def test_where_there_is_no_fcntl_the_locks_of_windows_serve(tmp_path, monkeypatch):
    taken = set()

    def locking(handle, how, size):
        place = os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR)
        if place in taken:
            raise PermissionError(errno.EACCES, "Permission denied")
        taken.add(place)

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    with (
        locked(tmp_path) as has_locks,
        pytest.raises(ValueError, match=f"process {os.getpid()} on"),
        locked(tmp_path),
    ):
        pass
    assert has_locks


def test_no_text_of_a_table_is_a_formula_or_a_command_to_a_terminal(tmp_path):
    path = tmp_path / "t.csv"
    wicked = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", " =1", "\x1b[31mred", "\u202eback"]
    write_csv(
        path, [{"=name": text, "n": -1.5} for text in wicked] + [{"=name": text} for text in ("-1", "+0.5", "a-b", "=")]
    )
    text = path.read_text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    rows = read_csv(path)
    assert list(rows[0]) == ["'=name", "n"]
    assert [row["'=name"] for row in rows[:5]] == [f"'{text}" for text in wicked[:5]]
    assert [row["'=name"] for row in rows[5:]] == ["\\x1b[31mred", "\\u202eback", -1, 0.5, "a-b", "'="]
    assert [row["n"] for row in rows[:2]] == [-1.5, -1.5]
