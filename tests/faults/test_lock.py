"""Two runs cannot write to one folder at the same time."""

import errno
import fcntl
import os
import platform
import sys
import time
from types import SimpleNamespace

import pytest

from synib.files.lock import LOCK, locked
from synib.report import build
from synib.studies import run
from synib.training.folder import Folder

HOLDER = """
    from synib.training.folder import Folder
    with Folder(OUT, SpuriousXOR(**OPTIONS).config()).locked():
        open(OUT + "/../held", "w").close()
        time.sleep(600)
"""


@pytest.fixture
def held(child, tmp_path, small):
    """A folder that another process writes to, and that process."""
    options = {"seeds": small.seeds, "beta": small.beta, "methods": small.methods, "epochs": small.epochs}
    process = child(HOLDER, OUT=str(tmp_path / "run"), OPTIONS=options)
    while not (tmp_path / "held").exists():
        assert process.is_alive()
        time.sleep(0.02)
    return tmp_path / "run", process


def test_a_second_run_is_refused_with_the_firsts_process_and_host_until_that_has_died(held, small, whole, tables):
    path, process = held
    before = sorted(p.name for p in path.rglob("*"))
    with pytest.raises(
        ValueError, match=r"another run .*; nothing was touched\. Wait until it ends, or choose"
    ) as said:
        run(small, path, device="cpu")
    assert f"process {process.pid} on {platform.node()}" in str(said.value)
    assert sorted(p.name for p in path.rglob("*")) == before

    process.kill()
    process.join()
    run(small, path, device="cpu", together=1)
    assert tables(path) == tables(whole)
    assert not (path / LOCK).exists()


def test_the_command_says_so_in_a_sentence(held, small, synib_command):
    path, _ = held
    options = ["--seeds", "3", "--beta", "1.0", "--method", "vanilla", "--epochs", "2", "--device", "cpu"]
    code, _, err = synib_command("reproduce", "spurious-xor", *options, "--out", path)
    assert code == 2
    assert err.startswith("synib: ")
    assert "another run" in err
    assert len(err.strip().splitlines()) == 1


def test_a_report_may_be_made_while_a_run_goes_on(whole, tmp_path):
    with locked(whole):
        assert build(whole, interactive=False)


def test_a_folder_is_free_again_after_its_run_however_that_ended(tmp_path):
    folder = Folder(tmp_path, {"a": 1})

    def interrupted():
        with folder.locked():
            assert (tmp_path / LOCK).exists()
            with folder.locked():  # a part of the same run
                pass
            with pytest.raises(ValueError, match=f"process {os.getpid()} on"):
                Folder(tmp_path, {"a": 1})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not (tmp_path / LOCK).exists()
    Folder(tmp_path, {"a": 1})


def test_whoever_waits_at_a_lock_that_is_removed_takes_the_new_one(tmp_path, monkeypatch):
    """The first run ends, and a third begins, between the second's opening of the file and its locking."""
    real, meanwhile = fcntl.flock, iter([True])

    def flock(handle, how):
        if next(meanwhile, False):
            (tmp_path / LOCK).unlink()
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path), pytest.raises(ValueError, match="another run"), locked(tmp_path):
        pass


def test_a_file_system_without_locks_is_said_and_the_run_goes_on(small, whole, tables, tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    said = []
    monkeypatch.setattr(fcntl, "flock", flock)
    run(small, tmp_path / "run", device="cpu", together=1, say=said.append)
    assert any("has no locks: make sure that no other run writes there" in sentence for sentence in said)
    assert tables(tmp_path / "run") == tables(whole)


def test_where_there_is_no_fcntl_the_other_systems_locks_serve(tmp_path, monkeypatch):
    taken = set()

    def locking(handle, how, size):
        place = os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR)
        if place in taken:
            raise PermissionError(errno.EACCES, "Permission denied")
        taken.add(place)

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    with locked(tmp_path) as has_locks:
        assert has_locks
        with pytest.raises(ValueError, match=f"process {os.getpid()} on"), locked(tmp_path):
            pass
