"""One process at a time writes to a folder."""

import errno
import fcntl
import os
import sys
from types import SimpleNamespace

import pytest

from synib.files.atomic import LOCK, locked


def test_a_lock_names_its_holder_and_is_free_again_however_the_block_ends(tmp_path):
    def interrupted():
        with locked(tmp_path) as has_locks:
            assert has_locks
            with pytest.raises(ValueError, match=f"another run .process {os.getpid()} on"), locked(tmp_path):
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
    with locked(tmp_path), pytest.raises(ValueError, match="another run"), locked(tmp_path):
        pass


def test_a_file_system_without_locks_is_reported(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path) as has_locks:
        assert not has_locks


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
